//! The content of an item: text, None or a list of text parts.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::tokens::text_of;
use crate::Error;

/// Whether the content is empty; refused where it is neither text, None nor a list of text parts.
pub(super) fn check_content(content: &Bound<'_, PyAny>) -> PyResult<bool> {
    if content.is_none() {
        return Ok(true);
    }
    if let Ok(text) = content.cast::<PyString>() {
        return is_blank(text);
    }
    let Ok(parts) = content.cast::<PyList>() else {
        let kind = content.get_type().name()?;
        let text = format!("content must be a str, None or a list of text parts, not {kind}");
        return Err(Error::Argument(text).into());
    };
    let mut empty = true;
    for part in parts {
        empty &= part_text(&part)?.trim().is_empty();
    }
    Ok(empty)
}

pub(super) fn is_blank(text: &Bound<'_, PyString>) -> PyResult<bool> {
    match text.to_str() {
        Ok(valid) => Ok(valid.trim_start().is_empty()),
        Err(_) => Ok(text_of(text)?.trim_start().is_empty()),
    }
}

pub(super) fn part_text(part: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(text) = part.cast::<PyString>() {
        return Ok(text_of(text)?.into_owned());
    }
    if let Ok(fields) = part.cast::<PyDict>()
        && let Some(text) = fields.get_item("text")?
        && let Ok(text) = text.cast::<PyString>()
    {
        return Ok(text_of(text)?.into_owned());
    }
    let text = "a content part of an item must be a str or a mapping with a text; pack messages that carry media with \
                pack_messages";
    Err(Error::Argument(text.to_owned()).into())
}

/// The content; a list of parts as a copy, since the item is frozen and keeps its count.
pub(super) fn own_content(content: Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
    let Ok(parts) = content.cast::<PyList>() else { return Ok(content.unbind()) };
    let copy = PyList::empty(content.py());
    for part in parts {
        match part.cast::<PyDict>() {
            Ok(fields) => copy.append(fields.copy()?)?,
            Err(_) => copy.append(part)?,
        }
    }
    Ok(copy.into_any().unbind())
}

/// The repr of a value, cut where it is long.
pub(super) fn shown(value: &Bound<'_, PyAny>) -> PyResult<String> {
    const LONGEST: usize = 60;
    let text = value.repr()?.to_string_lossy().into_owned();
    if text.chars().count() <= LONGEST {
        return Ok(text);
    }
    let head: String = text.chars().take(LONGEST).collect();
    Ok(format!("{head}..."))
}
