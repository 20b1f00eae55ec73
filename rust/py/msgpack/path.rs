//! Where in a value something is wrong, as a Python expression would say it.

use std::fmt::Write as _;

use pyo3::prelude::*;
use pyo3::types::{PyInt, PyString};

/// Append `[index]`.
pub(super) fn index(path: &mut String, index: usize) {
    let _ = write!(path, "[{index}]");
}

/// Append `.key`, or `[key]` where it is not a name; of keys that are neither str nor int their type.
pub(super) fn step(path: &mut String, key: &Bound<'_, PyAny>, is_key: bool) {
    let text = key.cast_exact::<PyString>().ok().and_then(|text| text.to_str().ok());
    let _ = match (text, key.cast_exact::<PyInt>().ok().and_then(|key| key.extract::<i64>().ok())) {
        (Some(name), _) if !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_') => {
            if !path.is_empty() {
                path.push('.');
            }
            path.push_str(name);
            Ok(())
        }
        (Some(name), _) => write!(path, "[{:?}]", name.chars().take(40).collect::<String>()),
        (None, Some(number)) => write!(path, "[{number}]"),
        (None, None) => {
            let kind = key.get_type().name().map_or_else(|_| "key".into(), |name| name.to_string());
            write!(path, "[{kind}]")
        }
    };
    if is_key {
        path.push_str(" (the key)");
    }
}
