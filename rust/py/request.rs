//! What is given with the messages of a conversation.

use pyo3::prelude::*;
use pyo3::types::PyString;

use super::tokens::text_of;

/// The arguments of a call, as they came.
pub(super) struct Arguments<'a, 'py> {
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
    pub(super) used_tools: Option<Vec<String>>,
}

impl<'a, 'py> Arguments<'a, 'py> {
    /// The request, its texts read.
    pub(super) fn read(self) -> PyResult<Request<'a, 'py>> {
        let text = |given: Option<&Bound<'_, PyString>>| -> PyResult<Option<String>> {
            given.map(|text| Ok(text_of(text)?.into_owned())).transpose()
        };
        let Self {
            messages,
            system,
            tools,
            documents,
            summary,
            query,
            relevance,
            previous,
            start_on_user,
            format,
            used_tools,
        } = self;
        Ok(Request {
            messages,
            system,
            tools,
            documents,
            summary: text(summary)?,
            query: text(query)?,
            relevance,
            previous,
            start_on_user,
            format,
            used_tools: used_tools.unwrap_or_default(),
        })
    }
}

/// What was given with the messages.
pub(super) struct Request<'a, 'py> {
    pub(super) messages: &'a Bound<'py, PyAny>,
    pub(super) system: Option<&'a Bound<'py, PyAny>>,
    pub(super) tools: Option<&'a Bound<'py, PyAny>>,
    pub(super) documents: Option<&'a Bound<'py, PyAny>>,
    pub(super) summary: Option<String>,
    pub(super) query: Option<String>,
    pub(super) relevance: Option<Vec<f64>>,
    pub(super) previous: Option<&'a Bound<'py, PyAny>>,
    pub(super) start_on_user: bool,
    pub(super) format: Option<String>,
    pub(super) used_tools: Vec<String>,
}
