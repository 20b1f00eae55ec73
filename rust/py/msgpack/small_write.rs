//! Whole values of the kinds that conversations are made of, written in one go: small dicts of `str` keys, lists, strings, numbers.
//!
//! Anything else is left to `encode`: what was written of the value is taken back. Within its few levels this recurses.
#![allow(unsafe_code, reason = "dict and str are read in place, as in `encode`")]

use pyo3::ffi;
use pyo3::prelude::*;

use super::Lent;
use super::atoms::{plain, written_key};
use super::buffer::Buffer;
use super::encode::Encoder;
use super::shared_keys::Layout;
use crate::msgpack::MIN_PACKED_FLOATS;
use crate::msgpack::encode as wire;

/// Containers inside each other: messages as they are recorded have 4.
const LEVELS: usize = 8;

/// Larger ones are written step by step: what is taken back stays little.
const MAX_SIZE: usize = 16;
const MAX_INNER_SIZE: usize = 64;

/// After so many that were taken back, no more are tried.
const MAX_IN_VAIN: usize = 16;

struct Small<'a> {
    out: &'a mut Buffer,
    lent: &'static Lent,
    layout: &'static Layout,
}

impl Encoder<'_, '_> {
    /// Write a small container of what is written here; false, and nothing is written, otherwise.
    #[inline]
    pub(super) fn small(&mut self, obj: &Bound<'_, PyAny>) -> bool {
        let Some(layout) = &self.lent.layout else { return false };
        if self.n_in_vain >= MAX_IN_VAIN || self.stack.len() + LEVELS > self.depth_left {
            return false;
        }
        let start = self.out.len();
        let mut small = Small { out: &mut self.out, lent: self.lent, layout };
        // SAFETY: the GIL is held, the object is live, and no code of anybody's runs while it is read.
        let written = unsafe { small.container(obj.as_ptr(), LEVELS, MAX_SIZE) };
        if !written {
            self.n_in_vain += usize::from(self.out.len() > start);
            self.out.take_back(start);
        }
        written
    }
}

impl Small<'_> {
    /// Write a container; false where it is none of those that are written here, or holds others.
    ///
    /// # Safety
    ///
    /// The GIL is held, and `obj` is live.
    unsafe fn container(&mut self, obj: *mut ffi::PyObject, levels: usize, most: usize) -> bool {
        // SAFETY: each branch calls only what fits the exact type.
        unsafe {
            let kind = ffi::Py_TYPE(obj);
            if kind == &raw mut ffi::PyDict_Type || self.lent.read_only.is_dict(kind) {
                self.dict(obj, levels, most)
            } else if kind == &raw mut ffi::PyList_Type || self.lent.read_only.is_list(kind) {
                self.list(obj, levels, most)
            } else {
                false
            }
        }
    }

    unsafe fn dict(&mut self, obj: *mut ffi::PyObject, levels: usize, most: usize) -> bool {
        // SAFETY: the object is a dict, and stays as it is: nothing here runs any code of others.
        unsafe {
            let n = (*obj.cast::<ffi::PyDictObject>()).ma_used.cast_unsigned();
            if levels == 0 || n > most || wire::map(self.out, n).is_err() {
                return false;
            }
            let Some(pairs) = self.layout.pairs(obj) else { return false };
            let mut done = 0;
            for (key, value) in pairs {
                // A table of `str` may have those of subclasses: they are told elsewhere.
                if ffi::Py_TYPE(key) != &raw mut ffi::PyUnicode_Type
                    || !written_key(self.out, key)
                    || !self.value(value, levels)
                {
                    return false;
                }
                done += 1;
            }
            done == n
        }
    }

    unsafe fn list(&mut self, obj: *mut ffi::PyObject, levels: usize, most: usize) -> bool {
        // SAFETY: the object is a list, and stays as it is.
        unsafe {
            let n = ffi::PyList_GET_SIZE(obj).cast_unsigned();
            if levels == 0 || n > most {
                return false;
            }
            // These may be floats, which are packed.
            if n >= MIN_PACKED_FLOATS && ffi::Py_TYPE(ffi::PyList_GET_ITEM(obj, 0)) == &raw mut ffi::PyFloat_Type {
                return false;
            }
            wire::array(self.out, n).is_ok()
                && (0..n).all(|at| self.value(ffi::PyList_GET_ITEM(obj, at.cast_signed()), levels))
        }
    }

    #[inline]
    unsafe fn value(&mut self, value: *mut ffi::PyObject, levels: usize) -> bool {
        // SAFETY: the value is live as long as what holds it.
        unsafe {
            if ffi::Py_TYPE(value) == &raw mut ffi::PyUnicode_Type
                && let Some(text) = self.layout.header.ascii_of(value)
                && self.out.text(text)
            {
                return true;
            }
            plain(self.out, value) || self.container(value, levels - 1, MAX_INNER_SIZE)
        }
    }
}
