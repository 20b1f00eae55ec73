//! What is given with the messages of a conversation.

use pyo3::prelude::*;
use pyo3::types::PyString;

/// What was given with the messages.
pub(super) struct Request<'a, 'py> {
    pub(super) messages: &'a Bound<'py, PyAny>,
    pub(super) system: Option<&'a Bound<'py, PyAny>>,
    pub(super) tools: Option<&'a Bound<'py, PyAny>>,
    pub(super) documents: Option<&'a Bound<'py, PyAny>>,
    pub(super) summary: Option<&'a Bound<'py, PyString>>,
    pub(super) query: Option<&'a Bound<'py, PyString>>,
    pub(super) relevance: Option<Vec<f64>>,
    pub(super) previous: Option<&'a Bound<'py, PyAny>>,
    pub(super) start_on_user: bool,
    pub(super) format: Option<String>,
    pub(super) used_tools: Vec<String>,
}
