//! The entries of a stored log, decoded in one call, as a driver gave them.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyList, PyString, PyTuple};

use super::decode::{self, NoCollection};
use super::decoder::Frame;
use super::{IS_MESSAGE, IS_RESULT, Lent};
use crate::Error;

/// Messages, step results as pairs of step and result, and the kind of each entry.
pub(super) type Log<'py> = (Bound<'py, PyList>, Bound<'py, PyList>, Bound<'py, PyBytes>);

const MESSAGE: &str = "message";
const RESULT: &str = "step_result";
/// Between kind and bytes of an entry that is one run of bytes.
const NUL: u8 = 0;

/// An entry whose kind is known: the bytes it stands in, and where in them.
struct Known<'py> {
    kind: u8,
    data: Bound<'py, PyBytes>,
    start: usize,
}

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
    let mut frames = Vec::new();
    for (seq, entry) in entries.try_iter()?.enumerate() {
        let entry = entry?;
        if let (Some(header), Some(known)) = (header, known(&entry)) {
            let values = if known.kind == IS_MESSAGE { &messages } else { &results };
            if append(values, &known, header, &mut frames, lent)? {
                kinds.push(known.kind);
                continue;
            }
        }
        // What is rare, and what is wrong.
        let (kind, data) = parts(&entry)?;
        let is_message = kind.cast::<PyString>().is_ok_and(|kind| *kind == MESSAGE);
        let value = other.call1((kind, data, seq))?;
        if is_message { &messages } else { &results }.append(value)?;
        kinds.push(if is_message { IS_MESSAGE } else { IS_RESULT });
    }
    Ok((messages, results, PyBytes::new(py, &kinds)))
}

/// Append the value of an entry; false, and nothing is appended, where it is not one that everybody writes.
fn append<'py>(
    values: &Bound<'py, PyList>,
    known: &Known<'py>,
    header: &[u8],
    frames: &mut Vec<Frame<'py>>,
    lent: &'static Lent,
) -> PyResult<bool> {
    let data = known.data.as_bytes();
    if !data.get(known.start..).is_some_and(|data| data.starts_with(header)) {
        return Ok(false);
    }
    let n = values.len();
    let is_whole = decode::append(values, data, known.start + header.len(), frames, lent).is_ok()
        && (known.kind == IS_MESSAGE || values.get_item(n).is_ok_and(|value| is_pair(&value)));
    if !is_whole {
        values.del_slice(n, values.len())?;
    }
    Ok(is_whole)
}

fn known<'py>(entry: &Bound<'py, PyAny>) -> Option<Known<'py>> {
    if let Ok(run) = entry.cast_exact::<PyBytes>() {
        let starts =
            |kind: &str| run.as_bytes().strip_prefix(kind.as_bytes()).is_some_and(|rest| rest.first() == Some(&NUL));
        let (kind, start) = if starts(MESSAGE) {
            (IS_MESSAGE, MESSAGE.len() + 1)
        } else if starts(RESULT) {
            (IS_RESULT, RESULT.len() + 1)
        } else {
            return None;
        };
        return Some(Known { kind, data: run.clone(), start });
    }
    let (kind, data) = parts(entry).ok()?;
    let kind = match kind.cast::<PyString>().ok()?.to_str().ok()? {
        MESSAGE => IS_MESSAGE,
        RESULT => IS_RESULT,
        _ => return None,
    };
    Some(Known { kind, data: data.cast_into_exact().ok()?, start: 0 })
}

/// Kind and bytes of an entry.
fn parts<'py>(entry: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    if let Ok(entry) = entry.cast::<PyTuple>() {
        return Ok((entry.get_item(0)?, entry.get_item(1)?));
    }
    if let Ok(run) = entry.cast_exact::<PyBytes>() {
        let run = run.as_bytes();
        let end = run.iter().position(|byte| *byte == NUL).unwrap_or(run.len());
        let (kind, data) = run.split_at_checked(end).unwrap_or_default();
        let Ok(kind) = std::str::from_utf8(kind) else {
            return Err(Error::Decode { offset: 0, reason: "an entry whose kind is not UTF-8".into() }.into());
        };
        let data = data.get(1..).unwrap_or_default();
        return Ok((PyString::new(entry.py(), kind).into_any(), PyBytes::new(entry.py(), data).into_any()));
    }
    // A row of a driver, which may be no sequence by name.
    Ok((entry.get_item(0)?, entry.get_item(1)?))
}

/// Whether a value is a step, an int or a str, and its result.
fn is_pair(value: &Bound<'_, PyAny>) -> bool {
    value.cast::<PyList>().is_ok_and(|pair| {
        let is_step =
            |step: Bound<'_, PyAny>| step.is_exact_instance_of::<PyInt>() || step.is_exact_instance_of::<PyString>();
        pair.len() == 2 && pair.get_item(0).is_ok_and(is_step)
    })
}
