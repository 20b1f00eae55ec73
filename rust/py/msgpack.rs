//! The binding of `msgpack`: straight from Python objects to bytes and back, with nothing in between.

mod buffer;
mod decode;
mod encode;
mod keys;
mod nesting;
mod unread;

use std::sync::LazyLock;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyType};

/// What `holdall.state.values` lends: the read-only containers, and the two functions for what is rare.
struct Lent {
    dict: Py<PyType>,
    list: Py<PyType>,
    set: Py<PyType>,
    pack_extra: Py<PyAny>,
    unpack_extra: Py<PyAny>,
}

impl Lent {
    fn get(py: Python<'_>) -> PyResult<&'static Self> {
        static LENT: PyOnceLock<Lent> = PyOnceLock::new();
        LENT.get_or_try_init(py, || {
            let values = py.import("holdall.state.values")?;
            Ok(Self {
                dict: values.getattr("ReadOnlyDict")?.cast_into::<PyType>()?.unbind(),
                list: values.getattr("ReadOnlyList")?.cast_into::<PyType>()?.unbind(),
                set: values.getattr("ReadOnlySet")?.cast_into::<PyType>()?.unbind(),
                pack_extra: values.getattr("pack_extra")?.unbind(),
                unpack_extra: values.getattr("unpack_extra")?.unbind(),
            })
        })
    }
}

/// See `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (value, *, path = ""))]
fn msgpack_encode<'py>(value: &Bound<'py, PyAny>, path: &str) -> PyResult<Bound<'py, PyBytes>> {
    encode::encode(value, path, Lent::get(value.py())?)
}

/// See `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (data, *, start = 0, frozen = false, frozen_keys = Vec::new()))]
#[allow(clippy::needless_pass_by_value, reason = "extracted arguments are owned")]
fn msgpack_decode<'py>(
    py: Python<'py>,
    data: &[u8],
    start: usize,
    frozen: bool,
    frozen_keys: Vec<String>,
) -> PyResult<Bound<'py, PyAny>> {
    decode::decode(py, data, start, frozen, &frozen_keys, Lent::get(py)?, None)
}

/// See `_native.pyi`.
#[pyfunction]
fn msgpack_decode_state<'py>(data: &Bound<'py, PyBytes>) -> PyResult<Bound<'py, PyAny>> {
    static LOG_FIELDS: LazyLock<[String; 2]> = LazyLock::new(|| ["messages".into(), "step_results".into()]);
    let py = data.py();
    decode::decode(py, data.as_bytes(), 0, false, LOG_FIELDS.as_slice(), Lent::get(py)?, Some(data))
}

/// See `_native.pyi`.
#[pyfunction]
fn json_depth(text: &[u8]) -> usize {
    nesting::of_json(text)
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("MSGPACK_MAX_DEPTH", crate::msgpack::MAX_DEPTH)?;
    module.add("MSGPACK_MAX_UNSALTED_KEYS", crate::msgpack::MAX_UNSALTED_KEYS)?;
    module.add("MSGPACK_MIN_PACKED_FLOATS", crate::msgpack::MIN_PACKED_FLOATS)?;
    module.add_function(wrap_pyfunction!(json_depth, module)?)?;
    module.add_function(wrap_pyfunction!(msgpack_encode, module)?)?;
    module.add_class::<unread::Unread>()?;
    module.add_function(wrap_pyfunction!(msgpack_decode_state, module)?)?;
    module.add_function(wrap_pyfunction!(msgpack_decode, module)?)
}
