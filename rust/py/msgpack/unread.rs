//! An array of a document that was stepped over, to be decoded when somebody asks for it.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use super::buffer::Buffer;
use super::{Lent, decode};
use crate::msgpack::decode::Reader;
use crate::msgpack::encode::{self as wire, Sink, TooLong};
use crate::msgpack::skip;

/// See `_native.pyi`.
#[pyclass(frozen, module = "holdall._native")]
pub(super) struct Unread {
    data: Py<PyBytes>,
    start: usize,
    /// Where its first element begins.
    elements: usize,
    end: usize,
    pub(super) len: usize,
}

#[pymethods]
impl Unread {
    fn __len__(&self) -> usize {
        self.len
    }

    /// Decode the array, read-only.
    pub(super) fn read<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        decode::decode(py, self.up_to_end(py), self.start, true, &[], Lent::get(py)?)
    }

    /// Append the elements, read-only, to a list.
    fn extend(&self, target: &Bound<'_, PyList>) -> PyResult<()> {
        let py = target.py();
        decode::extend(target, self.up_to_end(py), self.start, Lent::get(py)?).map(drop)
    }

    /// Put the elements, pairs of a key and a value, into a dict, the values read-only.
    fn update(&self, target: &Bound<'_, PyDict>) -> PyResult<()> {
        let py = target.py();
        decode::update(target, self.up_to_end(py), self.start, Lent::get(py)?).map(drop)
    }
}

impl Unread {
    fn up_to_end<'a>(&'a self, py: Python<'a>) -> &'a [u8] {
        self.data.bind(py).as_bytes().get(..self.end).unwrap_or_default()
    }

    /// Write the array as it was read, but for its header.
    pub(super) fn write(&self, py: Python<'_>, out: &mut Buffer) -> Result<(), TooLong> {
        wire::array(out, self.len)?;
        out.extend(self.elements(py));
        Ok(())
    }

    /// The elements, encoded.
    pub(super) fn elements<'a>(&'a self, py: Python<'a>) -> &'a [u8] {
        self.up_to_end(py).get(self.elements..).unwrap_or_default()
    }
}

/// An array whose decoding is known not to fail.
pub(super) fn made<'py>(
    source: &Bound<'py, PyBytes>,
    start: usize,
    elements: usize,
    end: usize,
    len: usize,
) -> PyResult<Bound<'py, Unread>> {
    let unread = Unread { data: source.clone().unbind(), start, elements, end, len };
    Bound::new(source.py(), unread)
}

/// Step over an array, of pairs or not, where its decoding cannot fail; None, and nothing is read, where it might.
pub(super) fn step_over<'py>(
    source: &Bound<'py, PyBytes>,
    reader: &mut Reader<'_>,
    pairs: bool,
) -> Option<PyResult<Bound<'py, Unread>>> {
    let start = reader.offset();
    let array = skip::array(reader.rest(), pairs)?;
    reader.step_over(array.size);
    Some(made(source, start, start + array.header, start + array.size, array.len))
}
