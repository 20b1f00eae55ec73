//! The binding of `msgpack`.

use pyo3::prelude::*;

#[allow(clippy::unnecessary_wraps, reason = "every binding registers the same way")]
pub(super) fn register(_module: &Bound<'_, PyModule>) -> PyResult<()> {
    Ok(())
}
