//! What others ask of the decoder: a value, a document, the elements of an array.
#![allow(unsafe_code, reason = "the collector is held off by calls of the interpreter")]

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::Lent;
use super::decoder::{Decoder, Frame, Kind};
use crate::msgpack::decode::{Reader, Token};

/// Keeps the collector away while objects are made: none of them is garbage.
pub(super) struct NoCollection(bool);

impl NoCollection {
    pub(super) fn begin() -> Self {
        // SAFETY: the GIL is held.
        Self(unsafe { ffi::PyGC_Disable() } != 0)
    }
}

impl Drop for NoCollection {
    fn drop(&mut self) {
        if self.0 {
            // SAFETY: the GIL is held.
            unsafe { ffi::PyGC_Enable() };
        }
    }
}

/// Decode `data` from byte `start` on; what is `frozen`, or stands under one of `frozen_keys` of the outermost map, is
/// read-only.
pub(super) fn decode<'py>(
    py: Python<'py>,
    data: &[u8],
    start: usize,
    frozen: bool,
    frozen_keys: &[&str],
    lent: &'static Lent,
) -> PyResult<Bound<'py, PyAny>> {
    let _no_collection = NoCollection::begin();
    let mut decoder = Decoder::new(py, Reader::new(data, start), frozen, lent);
    decoder.frozen_keys = frozen_keys;
    let made = decoder.one();
    decoder.end(made)
}

/// Append the elements of the array at byte `start`, read-only, to a list.
pub(super) fn extend<'py>(
    list: &Bound<'py, PyList>,
    data: &[u8],
    start: usize,
    lent: &'static Lent,
) -> PyResult<Bound<'py, PyAny>> {
    elements(list.as_any(), Kind::Grown, data, start, lent)
}

/// Put the pairs of the array at byte `start`, their values read-only, into a dict.
pub(super) fn update<'py>(
    dict: &Bound<'py, PyDict>,
    data: &[u8],
    start: usize,
    lent: &'static Lent,
) -> PyResult<Bound<'py, PyAny>> {
    elements(dict.as_any(), Kind::Pairs, data, start, lent)
}

/// Append the value at byte `start`, read-only, to a list, which may have more elements after a fault too. `frames` is room that
/// calls in a row share.
pub(super) fn append<'py>(
    list: &Bound<'py, PyList>,
    data: &[u8],
    start: usize,
    frames: &mut Vec<Frame<'py>>,
    lent: &'static Lent,
) -> PyResult<()> {
    let mut decoder = Decoder::new(list.py(), Reader::new(data, start), true, lent);
    frames.clear();
    std::mem::swap(&mut decoder.outer, frames);
    let made = decoder.filled(Frame::new(Kind::Grown, list.clone().into_any(), 1, start));
    std::mem::swap(&mut decoder.outer, frames);
    decoder.end(made).map(drop)
}

fn elements<'py>(
    obj: &Bound<'py, PyAny>,
    kind: Kind,
    data: &[u8],
    start: usize,
    lent: &'static Lent,
) -> PyResult<Bound<'py, PyAny>> {
    let _no_collection = NoCollection::begin();
    let mut decoder = Decoder::new(obj.py(), Reader::new(data, start), true, lent);
    let made = match decoder.reader.token() {
        Ok(Token::Array(n)) => decoder.filled(Frame::new(kind, obj.clone(), n, start)),
        Ok(_) => decoder.bad(start, "no array"),
        Err(fault) => decoder.fault(fault),
    };
    decoder.end(made)
}
