//! The tokens of one text, as each counter has counted them.

use std::sync::{Mutex, OnceLock, PoisonError};

use pyo3::prelude::*;

use crate::tokens::Counter;

/// Counts by counter: the first lock-free, since nearly every item meets one tokenizer in its life.
#[derive(Default)]
pub(super) struct Counts {
    first: OnceLock<(u64, u64)>,
    others: Mutex<Vec<(u64, u64)>>,
}

impl Counts {
    pub(super) fn get(&self, counter: &dyn Counter, count: impl FnOnce() -> PyResult<u64>) -> PyResult<u64> {
        let id = counter.id();
        if let Some(tokens) = self.known(id) {
            return Ok(tokens);
        }
        let tokens = count()?;
        self.keep(id, tokens);
        Ok(tokens)
    }

    #[inline]
    pub(super) fn known(&self, id: u64) -> Option<u64> {
        if let Some((known, tokens)) = self.first.get()
            && *known == id
        {
            return Some(*tokens);
        }
        let others = self.others.lock().unwrap_or_else(PoisonError::into_inner);
        others.iter().find(|(known, _)| *known == id).map(|(_, tokens)| *tokens)
    }

    pub(super) fn keep(&self, id: u64, tokens: u64) {
        if self.first.set((id, tokens)).is_err() {
            self.others.lock().unwrap_or_else(PoisonError::into_inner).push((id, tokens));
        }
    }
}
