//! What is wrong inside one message, before its index is known.

use std::fmt::Display;

use crate::Error;

/// Where inside a message, and what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) path: String,
    pub(crate) reason: String,
}

#[allow(clippy::needless_pass_by_value, reason = "paths are written at once, whether borrowed or built for it")]
impl Fault {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self { path: String::new(), reason: reason.into() }
    }

    pub(crate) fn at(path: impl Display, reason: impl Into<String>) -> Self {
        Self { path: format!("{path}"), reason: reason.into() }
    }

    /// Name the place, unless an inner one is named already.
    pub(crate) fn within(mut self, path: impl Display) -> Self {
        if self.path.is_empty() {
            self.path = format!("{path}");
        }
        self
    }

    /// The error for message `index`.
    pub(crate) fn of(self, index: usize) -> Error {
        Error::Message { index, path: self.path, reason: self.reason }
    }
}
