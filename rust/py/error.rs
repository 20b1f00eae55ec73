//! The one place where errors become Python exceptions.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::Error;

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        Python::attach(|py| raise(py, &error).unwrap_or_else(|failed| failed))
    }
}

/// Build the exception of `holdall.errors` that `error` stands for, with its figures as attributes.
fn raise(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let figures = PyDict::new(py);
    let class = match error {
        Error::Argument(_) => "ArgumentError",
        Error::Summarizer(_) => "SummarizerError",
        Error::UnknownName { what, name, known } => {
            figures.set_item("what", what)?;
            figures.set_item("name", name)?;
            figures.set_item("known", known)?;
            "UnknownNameError"
        }
        Error::Message { index, path, reason } => {
            figures.set_item("index", index)?;
            figures.set_item("path", path)?;
            figures.set_item("reason", reason)?;
            "MessageError"
        }
        Error::RequiredOverflow { budget, total, items } => {
            figures.set_item("budget", budget)?;
            figures.set_item("total", total)?;
            figures.set_item("items", items)?;
            "RequiredOverflowError"
        }
        Error::ToolSchema { tool, path, reason } => {
            figures.set_item("tool", tool)?;
            figures.set_item("path", path)?;
            figures.set_item("reason", reason)?;
            "ToolSchemaError"
        }
        Error::Decode { offset, reason } => {
            figures.set_item("offset", offset)?;
            figures.set_item("reason", reason)?;
            "DecodeError"
        }
        Error::Encode { path, reason } => {
            figures.set_item("path", path)?;
            figures.set_item("reason", reason)?;
            "EncodeError"
        }
        Error::Counter(text) => {
            let raised = super::callers::take_raised();
            return Ok(raised.unwrap_or_else(|| PyRuntimeError::new_err(text.clone())));
        }
    };
    // One string for each name: CPython's cache of look-ups keeps every other that it has seen.
    let class = py.import("holdall.errors")?.getattr(PyString::intern(py, class))?;
    let exception = class.call((error.to_string(),), Some(&figures))?;
    Ok(PyErr::from_value(exception))
}
