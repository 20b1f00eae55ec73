//! Documents as they are given: texts, items, or what retrievers call one.

use pyo3::prelude::*;
use pyo3::types::{PyMapping, PyString};

use super::item::ContextItem;
use super::tokens::text_of;
use crate::Error;
use crate::pack::Document;

/// Documents: texts, items, or mappings with a text and perhaps a relevance.
pub(super) fn read(given: &Bound<'_, PyAny>) -> PyResult<(Vec<Document>, Vec<Py<PyAny>>)> {
    if given.is_instance_of::<PyString>() {
        return Err(Error::Argument("documents must be a list, not one str".to_owned()).into());
    }
    let mut documents = Vec::new();
    let mut objects = Vec::new();
    for (index, object) in given.try_iter()?.enumerate() {
        let object = object?;
        let (text, relevance) = read_one(index, &object)?;
        if !(relevance.is_finite() && relevance >= 0.0) {
            let text = format!("the relevance of document {index} must be finite and at least 0, not {relevance}");
            return Err(Error::Argument(text).into());
        }
        documents.push(Document { text, relevance });
        objects.push(object.unbind());
    }
    Ok((documents, objects))
}

fn read_one(index: usize, object: &Bound<'_, PyAny>) -> PyResult<(String, f64)> {
    if let Ok(text) = object.cast::<PyString>() {
        return Ok((text_of(text)?.into_owned(), 1.0));
    }
    if let Ok(item) = object.cast::<ContextItem>() {
        return Ok((item.get().text(object.py())?, item.get().relevance_score));
    }
    if let Ok(fields) = object.cast::<PyMapping>() {
        let field = |name: &str| if fields.contains(name)? { fields.get_item(name).map(Some) } else { Ok(None) };
        let mut relevance = 1.0;
        for name in ["relevance_score", "score"] {
            if let Some(score) = field(name)? {
                relevance = score.extract().map_err(|_| {
                    let kind = score.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
                    Error::Argument(format!("the relevance of document {index} must be a number, not {kind}"))
                })?;
                break;
            }
        }
        for name in ["text", "content", "page_content"] {
            if let Some(text) = field(name)?
                && let Ok(text) = text.cast::<PyString>()
            {
                return Ok((text_of(text)?.into_owned(), relevance));
            }
        }
    }
    let kind = object.get_type().name()?;
    let text = format!("document {index} must be a str, a ContextItem, or a mapping with a text, not {kind}");
    Err(Error::Argument(text).into())
}
