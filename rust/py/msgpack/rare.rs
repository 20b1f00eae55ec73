//! Extension values: packed floats are read here, what is rarer by `holdall.state.values`.
#![allow(unsafe_code, reason = "filling a list of floats in place")]

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::decode::{Decoder, Failed, Made};
use crate::msgpack::marker::ext;

impl<'py> Decoder<'py, '_> {
    pub(super) fn extra(&mut self, start: usize, code: i8, body: &[u8]) -> Made<'py> {
        match code {
            ext::FLOATS64 => {
                self.floats(start, body, 8, |bytes| bytes.first_chunk().map_or(0.0, |bytes| f64::from_le_bytes(*bytes)))
            }
            ext::FLOATS32 => self.floats(start, body, 4, |bytes| {
                bytes.first_chunk().map_or(0.0, |bytes| f64::from(f32::from_le_bytes(*bytes)))
            }),
            _ => {
                let body = PyBytes::new(self.py, body);
                match self.lent.unpack_extra.bind(self.py).call1((code, body, self.frozen)) {
                    Ok(value) => Ok(value),
                    Err(error) if is_refusal(self.py, &error) => self.bad(start, error.value(self.py).to_string()),
                    Err(error) => {
                        self.error = Some(error);
                        Err(Failed)
                    }
                }
            }
        }
    }

    fn floats(&mut self, start: usize, body: &[u8], width: usize, read: impl Fn(&[u8]) -> f64) -> Made<'py> {
        if !body.len().is_multiple_of(width) {
            return self.bad(start, "a list of floats of uneven length");
        }
        let (n, frozen) = (body.len() / width, self.frozen);
        // SAFETY: the GIL is held; the list has `n` places, each filled once with a new reference, and nobody else sees it.
        unsafe {
            let made = if frozen { self.lent.read_only.list(n) } else { ffi::PyList_New(n.cast_signed()) };
            let list = self.owned(made)?;
            for (index, bytes) in body.chunks_exact(width).enumerate() {
                let value = self.owned(ffi::PyFloat_FromDouble(read(bytes)))?;
                ffi::PyList_SET_ITEM(list.as_ptr(), index.cast_signed(), value.into_ptr());
            }
            Ok(list)
        }
    }
}

/// Whether `unpack_extra` said that the bytes are wrong.
fn is_refusal(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyTypeError>(py) || error.is_instance_of::<PyValueError>(py)
}
