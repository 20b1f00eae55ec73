//! Exact token counting, behind one trait so that every counter is interchangeable.

mod backtrack;
mod bpe;
mod classes;
mod cut;
mod doubles;
mod encodings;
mod ends;
mod many;
pub(crate) mod masks;
mod memory;
mod merge;
mod models;
mod packed;
mod pairs;
mod pattern;
mod piece_cache;
mod split;
mod spread;
mod stretch;
mod vocab;
mod window;

pub use cut::by_counting as cut_by_counting;
pub use encodings::{NAMES, encoding, recognise};
pub use many::count_many;
pub use memory::{Figures, Remembering};
pub use models::encoding_of_model;
pub use pattern::PatternBpe;

use crate::Result;

/// Anything that can say how many tokens a text has.
///
/// Text is valid UTF-8 here: a lone surrogate of the caller has become U+FFFD at the boundary, as in tiktoken.
pub trait Counter: Send + Sync {
    /// Tokens of `text`, special-token text counted as plain text.
    ///
    /// # Errors
    /// `Error::Counter` when a caller's own counter failed.
    fn count(&self, text: &str) -> Result<u64>;

    /// Tokens of each text, in order. A counter that shares what it keeps with other threads asks for it once.
    ///
    /// # Errors
    /// As `count`: that of the first text that failed.
    fn count_all(&self, texts: &[&str]) -> Result<Vec<u64>> {
        texts.iter().map(|text| self.count(text)).collect()
    }

    /// Whether `text` has at most `limit` tokens; may stop early.
    ///
    /// # Errors
    /// As `count`.
    fn fits(&self, text: &str, limit: u64) -> Result<bool> {
        Ok(self.count(text)? <= limit)
    }

    /// Bytes of the longest prefix of `text` that ends at a character boundary and has at most `limit` tokens.
    ///
    /// # Errors
    /// As `count`.
    fn cut(&self, text: &str, limit: u64) -> Result<usize>;

    /// Distinguishes counters in caches: two counters with the same id give the same counts.
    fn id(&self) -> u64;

    /// Safety share for an inexact counter: the budget is divided by 1 + margin.
    fn margin(&self) -> f64 {
        0.0
    }

    /// Whether counting calls back into the interpreter, so that holding it off is of no use.
    fn calls_back(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_spread;
