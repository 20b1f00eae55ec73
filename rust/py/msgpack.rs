//! The binding of `msgpack`: straight from Python objects to bytes and back, with nothing in between.

mod atoms;
mod buffer;
mod collide;
mod containers;
mod decode;
mod decoder;
mod encode;
mod entries;
mod keys;
mod loaded;
mod log;
mod nesting;
mod path;
mod rare;
mod read_only;
mod shapes;
mod shared_keys;
mod small_read;
mod small_write;
mod state;
mod str_header;
mod text;
mod unread;

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyTuple};

/// The kinds of entries, as `kinds` and `_order` have them.
const IS_MESSAGE: u8 = 0;
const IS_RESULT: u8 = 1;

/// What `holdall.state.values` lends: the read-only containers, and the two functions for what is rare.
struct Lent {
    read_only: read_only::ReadOnly,
    pack_extra: Py<PyAny>,
    unpack_extra: Py<PyAny>,
    /// Where the interpreter's objects are laid out as is known: what is read ahead needs it.
    layout: Option<shared_keys::Layout>,
}

impl Lent {
    fn get(py: Python<'_>) -> PyResult<&'static Self> {
        static LENT: PyOnceLock<Lent> = PyOnceLock::new();
        LENT.get_or_try_init(py, || {
            let values = py.import("holdall.state.values")?;
            Ok(Self {
                read_only: read_only::ReadOnly::of(&values)?,
                pack_extra: values.getattr("pack_extra")?.unbind(),
                unpack_extra: values.getattr("unpack_extra")?.unbind(),
                layout: shared_keys::Layout::found(py),
            })
        })
    }
}

/// See `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (value, *, path = "", depth = 0))]
fn msgpack_encode<'py>(value: &Bound<'py, PyAny>, path: &str, depth: usize) -> PyResult<Bound<'py, PyBytes>> {
    encode::encode(value, path, depth, Lent::get(value.py())?)
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
    let frozen_keys: Vec<_> = frozen_keys.iter().map(String::as_str).collect();
    decode::decode(py, data, start, frozen, &frozen_keys, Lent::get(py)?)
}

/// See `_native.pyi`.
#[pyfunction]
#[pyo3(signature = (state, fields, names, schema, messages, step_results, kinds))]
fn msgpack_encode_state<'py>(
    state: &Bound<'py, PyAny>,
    fields: &Bound<'py, PyDict>,
    names: &Bound<'py, PyTuple>,
    schema: i64,
    messages: &Bound<'py, PyAny>,
    step_results: &Bound<'py, PyAny>,
    kinds: Option<&Bound<'py, PyAny>>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let lent = Lent::get(state.py())?;
    state::encode(state, fields, names, schema, [messages, step_results], kinds, lent)
}

/// See `_native.pyi`.
#[pyfunction]
fn msgpack_decode_log<'py>(
    entries: &Bound<'py, PyAny>,
    header: Option<&[u8]>,
    other: &Bound<'py, PyAny>,
) -> PyResult<log::Log<'py>> {
    log::decode(entries, header, other, Lent::get(entries.py())?)
}

/// See `_native.pyi`.
#[pyfunction]
fn keys_collide(keys: &Bound<'_, PyAny>) -> PyResult<bool> {
    Ok(collide::collide(keys.try_iter()?.flatten()))
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
    module.add_function(wrap_pyfunction!(keys_collide, module)?)?;
    module.add_function(wrap_pyfunction!(msgpack_encode, module)?)?;
    module.add_class::<unread::Unread>()?;
    module.add_class::<entries::Entries>()?;
    module.add_function(wrap_pyfunction!(msgpack_encode_state, module)?)?;
    module.add_function(wrap_pyfunction!(msgpack_decode_log, module)?)?;
    module.add_class::<loaded::LastLog>()?;
    module.add_class::<loaded::LogView>()?;
    module.add_class::<loaded::StateReader>()?;
    module.add_function(wrap_pyfunction!(msgpack_decode, module)?)
}
