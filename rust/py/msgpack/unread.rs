//! An array of a document that was stepped over, to be decoded when somebody asks for it.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use super::{Lent, decode};
use crate::msgpack::decode::Reader;
use crate::msgpack::skip;

/// See `_native.pyi`.
#[pyclass(frozen, module = "holdall._native")]
pub(super) struct Unread {
    data: Py<PyBytes>,
    #[pyo3(get)]
    start: usize,
    #[pyo3(get)]
    end: usize,
    len: usize,
}

#[pymethods]
impl Unread {
    /// The document that the array stands in.
    #[getter]
    fn data(&self, py: Python<'_>) -> Py<PyBytes> {
        self.data.clone_ref(py)
    }

    fn __len__(&self) -> usize {
        self.len
    }

    /// Decode the array, read-only.
    fn read<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let data = self.data.bind(py).as_bytes();
        decode::decode(py, data.get(..self.end).unwrap_or_default(), self.start, true, &[], Lent::get(py)?, None)
    }
}

/// Step over the array that stands under `key`, where its decoding cannot fail; None, and nothing is read, where it might.
pub(super) fn step_over<'py>(
    source: &Bound<'py, PyBytes>,
    reader: &mut Reader<'_>,
    key: &Bound<'py, PyAny>,
) -> Option<PyResult<Bound<'py, PyAny>>> {
    let pairs = key.cast_exact::<PyString>().is_ok_and(|key| key == "step_results");
    let start = reader.offset();
    let mut ahead = reader.clone();
    let len = skip::array(&mut ahead, pairs)?;
    let end = ahead.offset();
    *reader = ahead;
    Some(Bound::new(source.py(), Unread { data: source.clone().unbind(), start, end, len }).map(Bound::into_any))
}
