//! Smaller forms of a long text: its head and tail, or its weightiest sentences.
//!
//! Every form is made of the text's own words, in their order, with what was cut marked by its size. A form has at most
//! the tokens asked for and fewer than the text, is never blank, never ends inside a character, and keeps code as code:
//! whole lines where there are lines, fences closed before the mark and opened again after it.
//!
//! The sizes of `shortened` and `summary` follow from the text alone, never from a budget, so that what the solver may
//! choose from is fixed before it chooses.

mod extract;
mod fence;
mod head_tail;
mod seam;
#[cfg(test)]
mod tests;

pub use extract::summarise;
pub use head_tail::head_tail;

use crate::Result;
use crate::tokens::Counter;

/// A smaller form of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendition {
    /// What is shown.
    pub text: String,
    /// Its tokens.
    pub tokens: u64,
}

/// Texts below this stay whole or go: the mark of a cut is some 10 tokens, which a third of less would drown in.
pub const SHORTENED_FROM: u64 = 150;

/// Texts below this have no summary: a tenth of less is no more than a phrase.
pub const SUMMARY_FROM: u64 = 250;

/// A shortened form has a third of the text, but no more than what one screen of output says.
const SHORTENED_SHARE: u64 = 3;
const SHORTENED_MOST: u64 = 2_000;

/// A summary has a tenth of the text, at least two sentences and at most a page.
const SUMMARY_SHARE: u64 = 10;
const SUMMARY_LEAST: u64 = 40;
const SUMMARY_MOST: u64 = 400;

/// About a third of a long text of `tokens` tokens, its head and its tail; None for a short one.
///
/// # Errors
/// `Error::Counter` when the counter failed.
pub fn shortened(text: &str, tokens: u64, counter: &dyn Counter) -> Result<Option<Rendition>> {
    if tokens < SHORTENED_FROM {
        return Ok(None);
    }
    head_tail(text, tokens, (tokens / SHORTENED_SHARE).min(SHORTENED_MOST), counter)
}

/// About a tenth of a long text of `tokens` tokens: its weightiest sentences, or head and tail of what is no prose;
/// None for a short one.
///
/// # Errors
/// `Error::Counter` when the counter failed.
pub fn summary(text: &str, tokens: u64, counter: &dyn Counter) -> Result<Option<Rendition>> {
    if tokens < SUMMARY_FROM {
        return Ok(None);
    }
    let target = (tokens / SUMMARY_SHARE).clamp(SUMMARY_LEAST, SUMMARY_MOST);
    if !seam::is_structured(text) {
        let title = format!("[summary of {} tokens]\n", with_commas(tokens));
        let left = target.saturating_sub(counter.count(&title)? + 1);
        if let Some(body) = summarise(&[text], left, counter)? {
            let text = title + &body.text;
            let n = counter.count(&text)?;
            if n <= target && n < tokens {
                return Ok(Some(Rendition { text, tokens: n }));
            }
        }
    }
    head_tail(text, tokens, target, counter)
}

/// 1234567 as "1,234,567".
fn with_commas(n: u64) -> String {
    let digits = n.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
