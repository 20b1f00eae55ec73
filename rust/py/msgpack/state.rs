//! A whole state: from its fields to a document in one call, and back.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use super::decode::{self, Targets};
use super::encode::Encoder;
use super::entries::Entries;
use super::unread::Unread;
use super::{IS_MESSAGE, IS_RESULT, Lent};
use crate::msgpack::encode::{self as wire, TooLong};

const MAX_ID_BYTES: usize = 4096;

/// Fields of a document that are none of the state: `_version`, `messages` and `step_results`.
const OTHER_FIELDS: usize = 3;

/// The log of a document: its messages, its step results, and their order where they are interleaved.
pub(super) type Log<'py> = (Bound<'py, Unread>, Bound<'py, Unread>, Option<Bound<'py, PyBytes>>);

/// Whether a field is as `holdall.state` checks it; what is wrong with it is said there.
fn is_sound(name: &str, value: &Bound<'_, PyAny>) -> bool {
    match name {
        "session_id" | "user_id" => value.cast_exact::<PyString>().is_ok_and(|id| {
            id.to_str().is_ok_and(|id| (1..=MAX_ID_BYTES).contains(&id.len()) && !id.as_bytes().contains(&0))
        }),
        "status" => value.is_exact_instance_of::<PyString>(),
        "metadata" => value.is_exact_instance_of::<PyDict>(),
        "version" => value.is_exact_instance_of::<PyInt>(),
        "ttl_seconds" => {
            value.is_none() || value.is_exact_instance_of::<PyInt>() || value.is_exact_instance_of::<PyFloat>()
        }
        _ => true,
    }
}

/// The kinds of the entries; None where all messages come first, which needs no words.
fn order_of(kinds: Option<&Bound<'_, PyAny>>) -> PyResult<Option<Vec<u8>>> {
    let Some(kinds) = kinds else { return Ok(None) };
    let kinds = match kinds.cast::<PyByteArray>() {
        Ok(kinds) => kinds.to_vec(),
        Err(_) => kinds.cast::<PyBytes>()?.as_bytes().to_vec(),
    };
    let first = kinds.iter().position(|kind| *kind != IS_MESSAGE).unwrap_or(kinds.len());
    let is_apart = kinds.iter().skip(first).all(|kind| *kind != IS_MESSAGE);
    Ok((!is_apart).then_some(kinds))
}

/// See `_native.pyi`.
pub(super) fn encode<'py>(
    state: &Bound<'py, PyAny>,
    fields: &Bound<'py, PyDict>,
    names: &Bound<'py, PyTuple>,
    schema: i64,
    log: [&Bound<'py, PyAny>; 2],
    kinds: Option<&Bound<'py, PyAny>>,
    lent: &'static Lent,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let py = state.py();
    let names = names.iter().map(Bound::cast_into::<PyString>).collect::<Result<Vec<_>, _>>()?;
    let order = order_of(kinds)?;
    let mut encoder = Encoder::new(py, 1, lent);
    let n = names.len() + OTHER_FIELDS + usize::from(order.is_some());
    wire::map(&mut encoder.out, n).map_err(too_long)?;
    encoder.key(intern!(py, "_version"));
    wire::int(&mut encoder.out, schema);
    for name in &names {
        let value = match fields.get_item(name)? {
            Some(value) => value,
            None => state.getattr(name)?,
        };
        let text = name.to_str()?;
        if !is_sound(text, &value) {
            return Ok(None);
        }
        encoder.key(name);
        encoder.value(&value, text)?;
    }
    for (name, entries) in [intern!(py, "messages"), intern!(py, "step_results")].into_iter().zip(log) {
        encoder.key(name);
        if let Ok(unread) = entries.cast_exact::<Unread>() {
            unread.get().write(py, &mut encoder.out).map_err(too_long)?;
        } else if let Ok(kept) = entries.cast_exact::<Entries>() {
            if !kept.get().write(py, &mut encoder.out).map_err(too_long)? {
                return Ok(None);
            }
        } else {
            encoder.elements(entries.cast::<PyList>()?, "")?;
        }
    }
    if let Some(order) = order {
        encoder.key(intern!(py, "_order"));
        wire::bin(&mut encoder.out, &order).map_err(too_long)?;
    }
    encoder.finish().map(Some)
}

fn too_long(_: TooLong) -> PyErr {
    crate::Error::Encode { path: String::new(), reason: "has too many elements".into() }.into()
}

/// See `_native.pyi`.
pub(super) fn load<'py>(
    data: &Bound<'py, PyBytes>,
    names: &Bound<'py, PyTuple>,
    schema: i64,
    targets: Option<&Targets<'py>>,
    lent: &'static Lent,
) -> PyResult<(Bound<'py, PyAny>, Option<Log<'py>>)> {
    let document = decode::decode_state(data, targets, lent)?;
    let log = match document.cast_exact::<PyDict>() {
        Ok(document) => take_log(document, names, schema)?,
        Err(_) => None,
    };
    Ok((document, log))
}

/// Take the log out of a document, and leave the fields of a state; None, and nothing has changed, where it is no whole and
/// sound document of this version whose log is unread.
fn take_log<'py>(
    document: &Bound<'py, PyDict>,
    names: &Bound<'py, PyTuple>,
    schema: i64,
) -> PyResult<Option<Log<'py>>> {
    let py = document.py();
    let unread = |name| -> PyResult<Option<Bound<'py, Unread>>> {
        Ok(document.get_item(name)?.and_then(|value: Bound<'py, PyAny>| value.cast_into_exact().ok()))
    };
    let Some(messages) = unread(intern!(py, "messages"))? else { return Ok(None) };
    let Some(step_results) = unread(intern!(py, "step_results"))? else { return Ok(None) };
    let version = document.get_item(intern!(py, "_version"))?;
    if version.is_none_or(|found| !found.is_exact_instance_of::<PyInt>() || found.extract().ok() != Some(schema)) {
        return Ok(None);
    }
    for name in names.iter_borrowed() {
        let Some(value) = document.get_item(name)? else { return Ok(None) };
        if !name.cast::<PyString>()?.to_str().is_ok_and(|name| is_sound(name, &value)) {
            return Ok(None);
        }
    }
    let order = document.get_item(intern!(py, "_order"))?;
    if document.len() != names.len() + OTHER_FIELDS + usize::from(order.is_some()) {
        return Ok(None);
    }
    let order = match order.filter(|order| !order.is_none()) {
        None => None,
        Some(order) => match order.cast_into_exact::<PyBytes>() {
            Ok(order) if is_order(order.as_bytes(), messages.get().len, step_results.get().len) => Some(order),
            _ => return Ok(None),
        },
    };
    for name in [intern!(py, "messages"), intern!(py, "step_results"), intern!(py, "_version")] {
        document.del_item(name)?;
    }
    if order.is_some() {
        document.del_item(intern!(py, "_order"))?;
    }
    Ok(Some((messages, step_results, order)))
}

fn is_order(order: &[u8], n_messages: usize, n_results: usize) -> bool {
    let results = order.iter().map(|kind| usize::from(*kind)).sum::<usize>();
    order.len() == n_messages + n_results && results == n_results && order.iter().all(|kind| *kind <= IS_RESULT)
}
