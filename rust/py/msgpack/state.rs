//! A whole state, from its fields to a document in one call.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple};

use super::encode::Encoder;
use super::entries::Entries;
use super::unread::Unread;
use super::{IS_MESSAGE, Lent};
use crate::msgpack::encode::{self as wire, TooLong};

const MAX_ID_BYTES: usize = 4096;

/// Fields of a document that are none of the state: `_version`, `messages` and `step_results`.
pub(super) const OTHER_FIELDS: usize = 3;
/// Those of the log.
pub(super) const LOG_FIELDS: [&str; 2] = ["messages", "step_results"];

/// How a field is checked, as `holdall.state` does it, which says what is wrong with it.
#[derive(Clone, Copy)]
pub(super) enum Check {
    Id,
    Text,
    Dict,
    Int,
    Ttl,
    Nothing,
}

impl Check {
    pub(super) fn of(name: &str) -> Self {
        match name {
            "session_id" | "user_id" => Self::Id,
            "status" => Self::Text,
            "metadata" => Self::Dict,
            "version" => Self::Int,
            "ttl_seconds" => Self::Ttl,
            _ => Self::Nothing,
        }
    }

    /// Whether a value is as it must be.
    #[inline]
    pub(super) fn holds(self, value: &Bound<'_, PyAny>) -> bool {
        match self {
            Self::Id => value.cast_exact::<PyString>().is_ok_and(|id| {
                id.to_str().is_ok_and(|id| (1..=MAX_ID_BYTES).contains(&id.len()) && !id.as_bytes().contains(&0))
            }),
            Self::Text => value.is_exact_instance_of::<PyString>(),
            Self::Dict => value.is_exact_instance_of::<PyDict>(),
            Self::Int => value.is_exact_instance_of::<PyInt>(),
            Self::Ttl => {
                value.is_none() || value.is_exact_instance_of::<PyInt>() || value.is_exact_instance_of::<PyFloat>()
            }
            Self::Nothing => true,
        }
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
        if !Check::of(text).holds(&value) {
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
