//! The binding of `semantic`.
#![allow(clippy::needless_pass_by_value, reason = "arguments arrive from Python by value")]

use std::sync::{PoisonError, RwLock};

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyString;

use crate::relevance::Terms;
use crate::semantic::{Hit, Memory, Metric};
use crate::{Error, Result};

/// Exact search over labelled vectors and texts.
#[pyclass(module = "holdall._native", frozen)]
struct MemoryIndex {
    /// Searches run beside each other and wait for changes only.
    memory: RwLock<Memory>,
}

type Found = Vec<(i64, f64)>;

impl MemoryIndex {
    fn read<T>(&self, act: impl FnOnce(&Memory) -> T) -> T {
        act(&self.memory.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, act: impl FnOnce(&mut Memory) -> T) -> T {
        act(&mut self.memory.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Floats from their bytes, little-endian.
fn floats(bytes: &[u8]) -> Result<Vec<f32>> {
    let (floats, rest) = bytes.as_chunks::<4>();
    if rest.is_empty() {
        return Ok(floats.iter().map(|float| f32::from_le_bytes(*float)).collect());
    }
    Err(Error::Argument(format!("a vector has {} bytes, which are no whole floats of 4", bytes.len())))
}

fn pairs(hits: Vec<Hit>) -> Found {
    hits.into_iter().map(|hit| (hit.label, hit.score)).collect()
}

#[pymethods]
impl MemoryIndex {
    #[new]
    #[pyo3(signature = (metric = "cosine"))]
    fn new(metric: &str) -> PyResult<Self> {
        let metric = match metric {
            "cosine" => Metric::Cosine,
            "dot" => Metric::Dot,
            name => {
                let known = ["cosine", "dot"].map(String::from).to_vec();
                return Err(Error::UnknownName { what: "metric", name: name.to_owned(), known }.into());
            }
        };
        Ok(Self { memory: RwLock::new(Memory::new(metric)) })
    }

    /// Add entries, each in place of the one with its label.
    fn add_many(
        &self,
        py: Python<'_>,
        labels: Vec<i64>,
        vectors: Vec<Option<PyBackedBytes>>,
        texts: Vec<Bound<'_, PyString>>,
    ) -> PyResult<()> {
        if labels.len() != vectors.len() || labels.len() != texts.len() {
            let (n, vectors, texts) = (labels.len(), vectors.len(), texts.len());
            let text = format!("{n} labels, {vectors} vectors and {texts} texts; give one of each per entry");
            return Err(Error::Argument(text).into());
        }
        let texts: Vec<_> = texts.iter().map(|text| text.to_string_lossy()).collect();
        Ok(py.detach(|| -> Result<()> {
            // Texts are split before the lock is taken: they are what takes time.
            let terms: Vec<Terms> = texts.iter().map(|text| Terms::of(text)).collect();
            let vectors = vectors.iter().map(|bytes| bytes.as_deref().map(floats).transpose());
            let vectors = vectors.collect::<Result<Vec<_>>>()?;
            self.write(|memory| {
                let rows = labels.iter().zip(vectors).zip(terms);
                rows.into_iter()
                    .try_for_each(|((label, vector), terms)| memory.add_terms(*label, vector.as_deref(), terms))
            })
        })?)
    }

    /// Forget labels; return how many of them there were.
    fn remove_many(&self, py: Python<'_>, labels: Vec<i64>) -> usize {
        py.detach(|| self.write(|memory| labels.iter().filter(|label| memory.remove(**label)).count()))
    }

    /// The labels and scores of the nearest, nearest first and equal ones by label; among `allowed`, if it is given.
    #[pyo3(signature = (vector, k, allowed = None))]
    fn nearest(&self, py: Python<'_>, vector: &[u8], k: usize, allowed: Option<Vec<i64>>) -> PyResult<Found> {
        let vector = floats(vector)?;
        Ok(pairs(py.detach(|| self.read(|memory| memory.nearest(&vector, k, allowed.as_deref())))?))
    }

    /// The labels and BM25 scores of the texts with a word of the query, best first; among `allowed`, if it is given.
    #[pyo3(signature = (query, k, allowed = None))]
    fn matching(&self, py: Python<'_>, query: &Bound<'_, PyString>, k: usize, allowed: Option<Vec<i64>>) -> Found {
        let query = query.to_string_lossy();
        pairs(py.detach(|| self.read(|memory| memory.matching(&query, k, allowed.as_deref()))))
    }

    /// Floats in each vector; 0 where there is none.
    #[getter]
    fn dims(&self) -> usize {
        self.read(|memory| memory.vectors().dims())
    }

    fn __len__(&self) -> usize {
        self.read(Memory::len)
    }
}

/// The stemmed terms of a text, as an index elsewhere may hold them.
#[pyfunction]
fn text_terms(text: &Bound<'_, PyString>) -> (Vec<u64>, Vec<u64>, usize) {
    let terms = Terms::of(&text.to_string_lossy());
    let (hashes, counts) = terms.pairs().unzip();
    (hashes, counts, terms.len())
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<MemoryIndex>()?;
    module.add_function(wrap_pyfunction!(text_terms, module)?)
}
