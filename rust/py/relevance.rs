//! The binding of `relevance`.
#![allow(clippy::needless_pass_by_value, reason = "arguments arrive from Python by value")]

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::relevance::{Bm25, Index, Spread, Terms, fuse_by_rank as fuse};
use crate::{Error, Result};

/// From here on splitting takes longer than giving the GIL up and back, about 50 ns against 3 us per KB.
const DETACH_BYTES: usize = 16 * 1024;

/// An inverted index over texts that grows with a conversation.
#[pyclass(module = "holdall._native", frozen)]
struct LexicalIndex {
    /// A lock rather than a mutable class, so that threads that share the index wait instead of raising.
    index: Mutex<Index>,
}

impl LexicalIndex {
    fn with<T>(&self, act: impl FnOnce(&mut Index) -> T) -> T {
        // A panic in the core leaves the index readable: each call changes it only after its own work is done.
        act(&mut self.index.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[pymethods]
impl LexicalIndex {
    #[new]
    #[pyo3(signature = (*, k1 = 1.2, b = 0.5))]
    fn new(k1: f64, b: f64) -> PyResult<Self> {
        if !(k1.is_finite() && k1 >= 0.0 && (0.0..=1.0).contains(&b)) {
            let reason = format!("k1 is {k1} and b is {b}; k1 must be at least 0 and b between 0 and 1");
            return Err(Error::Argument(reason).into());
        }
        Ok(Self { index: Mutex::new(Index::new(Bm25 { k1, b })) })
    }

    /// Add a text at the end, in microseconds per message.
    fn add(&self, py: Python<'_>, text: &Bound<'_, PyString>) {
        let text = text.to_string_lossy();
        let terms = if text.len() < DETACH_BYTES { Terms::of(&text) } else { py.detach(|| Terms::of(&text)) };
        self.with(|index| index.push(&terms));
    }

    /// Add texts at the end, in order, with the GIL released while they are split.
    fn add_many(&self, py: Python<'_>, texts: Vec<Bound<'_, PyString>>) {
        let texts: Vec<_> = texts.iter().map(|text| text.to_string_lossy()).collect();
        let terms: Vec<Terms> = py.detach(|| texts.iter().map(|text| Terms::of(text)).collect());
        self.with(|index| terms.iter().for_each(|terms| index.push(terms)));
    }

    /// Forget all texts from the nth on.
    fn truncate(&self, n: usize) {
        self.with(|index| index.truncate(n));
    }

    /// One score per text, in the order they were added; 0 where no term of the query occurs.
    fn scores(&self, query: &Bound<'_, PyString>) -> Vec<f64> {
        let query = Terms::of(&query.to_string_lossy());
        self.with(|index| index.scores(&query))
    }

    fn __len__(&self) -> usize {
        self.with(|index| index.len())
    }
}

/// Raise scores to a power and share them with their neighbours.
#[pyfunction]
#[pyo3(
    signature = (scores, *, power = 2.0, kernel = [0.5, 0.3, 0.2, 0.1], tail = 0.04, reach = 20),
    text_signature = "(scores, *, power=2.0, kernel=(0.5, 0.3, 0.2, 0.1), tail=0.04, reach=20)"
)]
fn sharpen_and_spread(scores: Vec<f64>, power: f64, kernel: [f64; 4], tail: f64, reach: usize) -> Result<Vec<f64>> {
    let is_share = |share: &f64| share.is_finite() && *share >= 0.0;
    let is_power = power.is_finite() && power > 0.0;
    if !(is_power && kernel.iter().all(is_share) && is_share(&tail)) {
        return Err(Error::Argument(format!(
            "power is {power}, kernel {kernel:?} and tail {tail}; power must be above 0 and each share at least 0"
        )));
    }
    Ok(Spread { power, kernel, tail, reach }.apply(&scores))
}

/// Combine lexical and semantic scores by reciprocal rank.
#[pyfunction]
#[pyo3(signature = (lexical, semantic, *, k = 60.0))]
fn fuse_by_rank(lexical: Vec<f64>, semantic: Vec<f64>, k: f64) -> Result<Vec<f64>> {
    fuse(&lexical, &semantic, k)
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<LexicalIndex>()?;
    module.add_function(wrap_pyfunction!(sharpen_and_spread, module)?)?;
    module.add_function(wrap_pyfunction!(fuse_by_rank, module)?)
}
