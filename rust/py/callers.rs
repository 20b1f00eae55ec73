//! Counters that a caller brings: an encoding of tiktoken's, or any callable.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyInt};

use super::tokens::kind_of;
use crate::tokens::{self, Counter, PatternBpe};
use crate::{Error, Result};

/// Counts as a `tiktoken.Encoding` does by `encode_ordinary`: natively where its parts are found.
pub(super) fn of_tiktoken(encoding: &Bound<'_, PyAny>) -> PyResult<Arc<dyn Counter>> {
    let count = encoding.getattr("encode_ordinary").map_err(|_| {
        PyTypeError::new_err(format!("encoding must be a tiktoken.Encoding, not {}", kind_of(encoding)))
    })?;
    let asked = Callback::new(count.unbind(), 0.0, Returns::Tokens);
    Ok(match parts_of(encoding) {
        Some((pattern, ranks)) => match tokens::recognise(&pattern, &ranks) {
            Some(name) => tokens::encoding(name)?,
            None => match PatternBpe::new(&pattern, ranks, next_id()) {
                Some(native) => Arc::new(NativeOrAsked { native, asked }),
                None => Arc::new(asked),
            },
        },
        None => Arc::new(asked),
    })
}

/// Counts with a function of the caller's.
pub(super) fn of_callable(count: &Bound<'_, PyAny>, margin: f64) -> PyResult<Arc<dyn Counter>> {
    if !count.is_callable() {
        return Err(PyTypeError::new_err(format!("count must be callable, not {}", kind_of(count))));
    }
    if !(margin.is_finite() && margin >= 0.0) {
        return Err(Error::Argument(format!("margin must be a finite number of at least 0, not {margin}")).into());
    }
    Ok(Arc::new(Callback::new(count.clone().unbind(), margin, Returns::Number)))
}

/// An id for a counter that is like no other.
fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 32);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Tokens with their ranks.
type Ranks = Vec<(Vec<u8>, u32)>;

/// The pattern and the ranks of a `tiktoken.Encoding`, which it has no public names for; `None` if it keeps them otherwise.
fn parts_of(encoding: &Bound<'_, PyAny>) -> Option<(String, Ranks)> {
    let pattern = encoding.getattr("_pat_str").ok()?.extract().ok()?;
    let ranks = encoding.getattr("_mergeable_ranks").ok()?.cast_into::<PyDict>().ok()?;
    let rank = |(token, rank): (Bound<'_, PyAny>, Bound<'_, PyAny>)| {
        Some((token.cast::<PyBytes>().ok()?.as_bytes().to_vec(), rank.extract().ok()?))
    };
    Some((pattern, ranks.iter().map(rank).collect::<Option<_>>()?))
}

/// Counts natively, and asks tiktoken itself where the regex engine gives up.
struct NativeOrAsked {
    native: PatternBpe,
    asked: Callback,
}

impl Counter for NativeOrAsked {
    fn count(&self, text: &str) -> Result<u64> {
        self.native.count(text).or_else(|_| self.asked.count(text))
    }

    fn cut(&self, text: &str, limit: u64) -> Result<usize> {
        tokens::cut_by_counting(self, text, limit)
    }

    fn id(&self) -> u64 {
        self.native.id()
    }
}

/// What a caller's function gives.
enum Returns {
    Number,
    Tokens,
}

/// Counts by calling into Python.
struct Callback {
    count: Py<PyAny>,
    margin: f64,
    returns: Returns,
    id: u64,
}

thread_local! {
    /// What the last failed callback raised, until `error.rs` raises it again.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// The exception behind the last `Error::Counter` of this thread.
pub(super) fn take_raised() -> Option<PyErr> {
    RAISED.take()
}

impl Callback {
    fn new(count: Py<PyAny>, margin: f64, returns: Returns) -> Self {
        Self { count, margin, returns, id: next_id() }
    }

    fn call(&self, py: Python<'_>, text: &str) -> PyResult<u64> {
        let given = self.count.bind(py).call1((text,))?;
        if matches!(self.returns, Returns::Tokens) {
            return Ok(given.len()? as u64);
        }
        if given.is_instance_of::<PyBool>() || !given.is_instance_of::<PyInt>() {
            return Err(PyTypeError::new_err(format!("a token counter must return an int, not {}", kind_of(&given))));
        }
        given.extract().map_err(|_| {
            Error::Argument(format!("a token counter must return an int from 0 to 2**64 - 1, not {given}")).into()
        })
    }
}

impl Counter for Callback {
    fn count(&self, text: &str) -> Result<u64> {
        Python::attach(|py| self.call(py, text)).map_err(|raised| {
            let shown = raised.to_string();
            RAISED.set(Some(raised));
            Error::Counter(shown)
        })
    }

    fn cut(&self, text: &str, limit: u64) -> Result<usize> {
        tokens::cut_by_counting(self, text, limit)
    }

    fn id(&self) -> u64 {
        self.id
    }

    fn margin(&self) -> f64 {
        self.margin
    }

    fn calls_back(&self) -> bool {
        true
    }
}
