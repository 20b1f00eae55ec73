//! Extension values: packed floats and sets are read and written here, what is rarer by `holdall.state.values`.
#![allow(unsafe_code, reason = "filling a list of floats in place")]

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::collide;
use super::decoder::{Decoder, Failed, Made};
use super::encode::{Encoder, Kind, unsalted};
use crate::msgpack::MAX_UNSALTED_KEYS;
use crate::msgpack::encode::{self as wire, Sink};
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

impl<'py> Encoder<'py, '_> {
    /// Write a list of floats as one array, in 32 bits each where that loses nothing; false where it holds others.
    pub(super) fn pack_floats(&mut self, obj: &Bound<'py, PyAny>, n: usize) -> PyResult<bool> {
        let mut narrow = true;
        let mut floats = Vec::new();
        for index in 0..n {
            // SAFETY: nothing runs between the elements, so that the list keeps its length `n`.
            let value = unsafe {
                let item = ffi::PyList_GET_ITEM(obj.as_ptr(), index.cast_signed());
                if ffi::Py_TYPE(item) != &raw mut ffi::PyFloat_Type {
                    return Ok(false);
                }
                ffi::PyFloat_AsDouble(item)
            };
            if floats.is_empty() {
                floats.reserve_exact(n);
            }
            narrow = narrow && f64::from(value as f32).to_bits() == value.to_bits();
            floats.push(value);
        }
        let code = if narrow { ext::FLOATS32 } else { ext::FLOATS64 };
        let width = if narrow { 4 } else { 8 };
        wire::ext(&mut self.out, code, n.saturating_mul(width)).or_else(|_| self.fail("is too long"))?;
        for value in floats {
            if narrow {
                self.out.put((value as f32).to_le_bytes());
            } else {
                self.out.put(value.to_le_bytes());
            }
        }
        Ok(true)
    }

    pub(super) fn open_set(&mut self, code: i8, obj: &Bound<'py, PyAny>) -> PyResult<()> {
        // SAFETY: the object is a set or frozenset; the new tuple holds its elements, so that they stay as they are.
        let elements = unsafe { Bound::from_owned_ptr_or_err(self.py, ffi::PySequence_Tuple(obj.as_ptr()))? };
        let n = elements.len()?;
        if n > MAX_UNSALTED_KEYS {
            let salted = elements.try_iter()?.flatten().filter(collide::is_salted);
            if n - salted.count() > MAX_UNSALTED_KEYS {
                return self.fail(&unsalted());
            }
        }
        if collide::is_many(n) && collide::collide(elements.try_iter()?.flatten()) {
            return self.fail(&collide::said());
        }
        self.open_ext(code, Kind::Tuple, elements, n)
    }

    pub(super) fn extra(&mut self, obj: &Bound<'py, PyAny>) -> PyResult<()> {
        match self.lent.pack_extra.bind(self.py).call1((obj,)) {
            Ok(packed) => {
                let (code, body): (i8, Bound<'py, PyBytes>) = packed.extract()?;
                let body = body.as_bytes();
                wire::ext(&mut self.out, code, body.len()).or_else(|_| self.fail("is too long"))?;
                self.out.extend(body);
                Ok(())
            }
            Err(error)
                if error.is_instance_of::<PyTypeError>(self.py) || error.is_instance_of::<PyValueError>(self.py) =>
            {
                self.fail(&error.value(self.py).to_string())
            }
            Err(error) => Err(error),
        }
    }
}

/// Whether `unpack_extra` said that the bytes are wrong.
fn is_refusal(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyTypeError>(py) || error.is_instance_of::<PyValueError>(py)
}
