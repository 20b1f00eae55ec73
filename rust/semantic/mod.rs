//! Similarity search over labelled texts and vectors: exact, in memory, one index for each namespace.
//!
//! ```
//! use holdall::semantic::{Memory, Metric};
//! let mut memory = Memory::new(Metric::Cosine);
//! memory.add(1, Some(&[1.0, 0.0]), "The rent is 900 euros.")?;
//! memory.add(2, Some(&[0.6, 0.8]), "I moved to Lisbon in May.")?;
//! assert_eq!(memory.nearest(&[0.0, 1.0], 1, None)?[0].label, 2);
//! assert_eq!(memory.matching("how much is the rent?", 1, None)[0].label, 1);
//! # Ok::<(), holdall::Error>(())
//! ```

mod codes;
mod dot;
mod flat;
mod top;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::HashMap;

use crate::Result;
use crate::relevance::{Bm25, Index, Terms};

pub use flat::{Flat, Metric};
pub use top::{Hit, Top};

/// Below this many texts the index is not made anew, however many were removed.
const LEAST_REMADE: usize = 1024;

/// Vectors and the terms of texts under the same labels. A label may have either or both.
#[derive(Debug)]
pub struct Memory {
    vectors: Flat,
    texts: Texts,
}

impl Memory {
    /// An empty memory.
    #[must_use]
    pub fn new(metric: Metric) -> Self {
        Self { vectors: Flat::new(metric), texts: Texts::default() }
    }

    /// The vectors.
    #[must_use]
    pub const fn vectors(&self) -> &Flat {
        &self.vectors
    }

    /// Add a text with its vector, in place of what has the same label.
    ///
    /// # Errors
    /// As `Flat::check`; nothing is changed then.
    pub fn add(&mut self, label: i64, vector: Option<&[f32]>, text: &str) -> Result<()> {
        self.add_terms(label, vector, Terms::of(text))
    }

    /// As `add`, with terms that were made before.
    ///
    /// # Errors
    /// As `Flat::check`; nothing is changed then.
    pub fn add_terms(&mut self, label: i64, vector: Option<&[f32]>, terms: Terms) -> Result<()> {
        match vector {
            Some(vector) => self.vectors.add(label, vector)?,
            None => {
                self.vectors.remove(label);
            }
        }
        self.texts.remove(label);
        self.texts.add(label, terms);
        Ok(())
    }

    /// Forget a label. Whether there was something.
    pub fn remove(&mut self, label: i64) -> bool {
        // Both must be asked.
        let had_vector = self.vectors.remove(label);
        self.texts.remove(label) || had_vector
    }

    /// Labels.
    #[must_use]
    pub fn len(&self) -> usize {
        self.texts.slots.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.texts.slots.is_empty()
    }

    /// The nearest vectors, nearest first.
    ///
    /// # Errors
    /// As `Flat::nearest`.
    pub fn nearest(&self, query: &[f32], k: usize, allowed: Option<&[i64]>) -> Result<Vec<Hit>> {
        if self.vectors.is_empty() {
            return Ok(Vec::new());
        }
        let allowed = allowed.map(distinct);
        self.vectors.nearest(query, k, allowed.as_deref())
    }

    /// The texts that BM25 scores above 0, best first.
    #[must_use]
    pub fn matching(&self, query: &str, k: usize, allowed: Option<&[i64]>) -> Vec<Hit> {
        let allowed = allowed.map(distinct);
        self.texts.matching(&Terms::of(query), k, allowed.as_deref())
    }
}

/// The labels, each once: one that counted twice would crowd others out.
fn distinct(labels: &[i64]) -> Cow<'_, [i64]> {
    if labels.is_sorted_by(|a, b| a < b) {
        return Cow::Borrowed(labels);
    }
    let mut labels = labels.to_vec();
    labels.sort_unstable();
    labels.dedup();
    Cow::Owned(labels)
}

/// An index of texts that can be removed: their slots stay empty until there are too many of them.
#[derive(Debug, Default)]
struct Texts {
    index: Index,
    /// Of each slot: its label and its terms, which the index needs to forget it; `None` where it was removed.
    held: Vec<Option<(i64, Terms)>>,
    slots: HashMap<i64, usize>,
}

impl Texts {
    fn add(&mut self, label: i64, terms: Terms) {
        self.slots.insert(label, self.held.len());
        self.index.push(&terms);
        self.held.push(Some((label, terms)));
    }

    fn remove(&mut self, label: i64) -> bool {
        let Some(slot) = self.slots.remove(&label) else { return false };
        if let Some((_, terms)) = self.held.get_mut(slot).and_then(Option::take) {
            self.index.remove(slot, &terms);
        }
        if self.held.len() >= LEAST_REMADE && self.held.len() > 2 * self.slots.len() {
            let held = std::mem::take(&mut self.held);
            self.index = Index::new(Bm25::default());
            self.slots.clear();
            for (label, terms) in held.into_iter().flatten() {
                self.add(label, terms);
            }
        }
        true
    }

    fn matching(&self, query: &Terms, k: usize, allowed: Option<&[i64]>) -> Vec<Hit> {
        let scores = self.index.scores(query);
        let mut top = Top::new(k);
        let mut offer = |label: i64, score: f64| {
            if score > 0.0 {
                top.offer(Hit { label, score });
            }
        };
        if let Some(allowed) = allowed {
            for (label, slot) in allowed.iter().filter_map(|label| Some((*label, *self.slots.get(label)?))) {
                offer(label, scores.get(slot).copied().unwrap_or_default());
            }
        } else {
            for (held, score) in self.held.iter().zip(scores) {
                if let Some((label, _)) = held {
                    offer(*label, score);
                }
            }
        }
        top.into_sorted()
    }
}
