//! Keys and strings.
#![allow(unsafe_code, reason = "filling str in place is what makes this as fast as its C peers")]

use pyo3::ffi;
use pyo3::prelude::*;

use super::decoder::{Decoder, Failed, Made};
use super::keys::{KEYS, MAX_KEY_BYTES, MAX_VALUE_BYTES, VALUES, ascii};
use crate::msgpack::ascii::is_ascii;

impl<'py> Decoder<'py, '_> {
    #[inline]
    pub(super) fn key(&mut self, start: usize, text: &[u8]) -> Made<'py> {
        if text.len() <= MAX_KEY_BYTES {
            // SAFETY: the GIL is held.
            if let Some(made) = unsafe { KEYS.get(text) } {
                return self.owned(made);
            }
        }
        self.text(start, text)
    }

    /// A value of a map: short ones, such as a role, come again.
    #[inline]
    pub(super) fn value(&mut self, start: usize, text: &[u8]) -> Made<'py> {
        if text.len() <= MAX_VALUE_BYTES {
            // SAFETY: the GIL is held.
            if let Some(made) = unsafe { VALUES.get(text, text.len()) } {
                return self.owned(made);
            }
        }
        self.text(start, text)
    }

    #[inline]
    pub(super) fn text(&mut self, start: usize, text: &[u8]) -> Made<'py> {
        if is_ascii(text) {
            // SAFETY: the GIL is held, and the text is ASCII.
            let made = unsafe { ascii(text) };
            return self.owned(made);
        }
        let n = text.len().cast_signed();
        // SAFETY: the GIL is held, and the pointer is to `n` bytes.
        let made = unsafe { ffi::PyUnicode_DecodeUTF8(text.as_ptr().cast(), n, c"strict".as_ptr()) };
        if made.is_null() { self.not_utf8(start, text) } else { self.owned(made) }
    }

    #[cold]
    fn not_utf8<T>(&mut self, start: usize, text: &[u8]) -> Result<T, Failed> {
        let error = PyErr::fetch(self.py);
        if let Err(fault) = std::str::from_utf8(text) {
            // The text stands right before where the reader is now.
            let offset = self.reader.offset().saturating_sub(text.len()).max(start);
            return self.bad(offset + fault.valid_up_to(), "a string that is not UTF-8");
        }
        self.error = Some(error);
        Err(Failed)
    }
}
