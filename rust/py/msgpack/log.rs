//! The entries of a stored log, decoded in one call.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyList, PyString, PyTuple};

use super::decode::{self, NoCollection};
use super::{IS_MESSAGE, IS_RESULT, Lent};

/// Messages, step results as pairs of step and result, and the kind of each entry.
pub(super) type Log<'py> = (Bound<'py, PyList>, Bound<'py, PyList>, Bound<'py, PyBytes>);

/// See `_native.pyi`.
pub(super) fn decode<'py>(
    entries: &Bound<'py, PyAny>,
    header: Option<&[u8]>,
    other: &Bound<'py, PyAny>,
    lent: &'static Lent,
) -> PyResult<Log<'py>> {
    let py = entries.py();
    let _no_collection = NoCollection::begin();
    let (messages, results, mut kinds) = (PyList::empty(py), PyList::empty(py), Vec::new());
    for (seq, entry) in entries.try_iter()?.enumerate() {
        let entry = entry?;
        let (kind, data) = match entry.cast::<PyTuple>() {
            Ok(entry) => (entry.get_item(0)?, entry.get_item(1)?),
            Err(_) => (entry.get_item(0)?, entry.get_item(1)?),
        };
        let kind_of = match kind.cast::<PyString>() {
            Ok(kind) if *kind == "message" => Some(IS_MESSAGE),
            Ok(kind) if *kind == "step_result" => Some(IS_RESULT),
            _ => None,
        };
        let is_result = kind_of != Some(IS_MESSAGE);
        let value = match (header, data.cast_exact::<PyBytes>(), kind_of) {
            (Some(header), Ok(data), Some(_)) if data.as_bytes().starts_with(header) => {
                Some(decode::decode(py, data.as_bytes(), header.len(), true, &[], lent, None)?)
            }
            _ => None,
        };
        let value = match value {
            Some(value) if !is_result || is_pair(&value) => value,
            // What is rare, and what is wrong.
            _ => other.call1((kind, data, seq))?,
        };
        if is_result {
            results.append(value)?;
        } else {
            messages.append(value)?;
        }
        kinds.push(if is_result { IS_RESULT } else { IS_MESSAGE });
    }
    Ok((messages, results, PyBytes::new(py, &kinds)))
}

/// Whether a value is a step, an int or a str, and its result.
fn is_pair(value: &Bound<'_, PyAny>) -> bool {
    value.cast::<PyList>().is_ok_and(|pair| {
        let is_step =
            |step: Bound<'_, PyAny>| step.is_exact_instance_of::<PyInt>() || step.is_exact_instance_of::<PyString>();
        pair.len() == 2 && pair.get_item(0).is_ok_and(is_step)
    })
}
