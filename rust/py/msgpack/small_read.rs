//! Whole values of the kinds that conversations are made of, read in one go: maps of a few short keys, strings, numbers, lists.
//!
//! Anything else, and anything wrong, is left to the other files: nothing is read then, and they say what it is. Within its few
//! levels this recurses, which is what makes it short.
#![allow(unsafe_code, reason = "objects are filled in place, as in `decode`")]

use pyo3::ffi;
use pyo3::prelude::*;

use super::Lent;
use super::decoder::Decoder;
use super::keys::{MAX_VALUE_BYTES, VALUES, ascii};
use super::shapes::{LEVELS, Place, SHAPES};
use super::shared_keys::{Layout, MAX_PAIRS};
use crate::msgpack::MAX_DEPTH;
use crate::msgpack::ascii::is_ascii;
use crate::msgpack::marker;

/// Longer lists are made step by step: here no more is allocated ahead than so many places at each level.
const MAX_ELEMENTS: usize = 256;

struct Ahead<'a> {
    rest: &'a [u8],
    frozen: bool,
    lent: &'static Lent,
    layout: &'static Layout,
    n_containers: usize,
}

impl<'py> Decoder<'py, '_> {
    /// Read the value that comes next if it is a small container of what is read here; None, and nothing is read, otherwise.
    #[inline]
    pub(super) fn ahead(&mut self) -> Option<Bound<'py, PyAny>> {
        let rest = self.reader.rest();
        let is_small = matches!(rest.first()?, 0x81..=0x8a | 0x91..=0x98);
        // The outermost map has fields that are read-only, and others.
        let is_outermost = self.outer.is_empty() && !self.frozen_keys.is_empty();
        if !is_small || is_outermost || self.reader.offset() < self.tried {
            return None;
        }
        self.container_ahead(rest)
    }

    #[inline]
    fn container_ahead(&mut self, rest: &[u8]) -> Option<Bound<'py, PyAny>> {
        let layout = self.lent.layout.as_ref()?;
        if self.outer.len() + self.depth + LEVELS > MAX_DEPTH {
            return None;
        }
        let mut ahead = Ahead { rest, frozen: self.frozen, lent: self.lent, layout, n_containers: 0 };
        // SAFETY: the GIL is held; what comes back is a new reference or null.
        let made = unsafe { Bound::from_owned_ptr_or_opt(self.py, ahead.value(LEVELS, false)) };
        let n = rest.len() - ahead.rest.len();
        if made.is_some() && self.reader.try_step_over(n) {
            return made;
        }
        // What was read in vain is not tried again, so that no byte is read more than twice.
        self.tried = self.reader.offset() + n.max(1);
        None
    }
}

impl<'a> Ahead<'a> {
    /// Read a value; null, with no exception set, where it is not of the kinds that are read here.
    ///
    /// # Safety
    ///
    /// The GIL is held.
    #[inline]
    unsafe fn value(&mut self, levels: usize, is_of_map: bool) -> *mut ffi::PyObject {
        let Some((&first, rest)) = self.rest.split_first() else { return std::ptr::null_mut() };
        // SAFETY: by what is said above, each call gives a new reference or null.
        unsafe {
            match first {
                0xa0..=0xbf => self.text(rest, usize::from(first & 0x1f), is_of_map),
                marker::STR16 => match rest.split_first_chunk() {
                    Some((n, rest)) => self.text(rest, usize::from(u16::from_be_bytes(*n)), false),
                    None => std::ptr::null_mut(),
                },
                marker::STR8 => match rest.split_first() {
                    Some((n, rest)) => self.text(rest, usize::from(*n), false),
                    None => std::ptr::null_mut(),
                },
                0x80..=0x8f => {
                    self.rest = rest;
                    self.map(usize::from(first & 0x0f), levels)
                }
                0x90..=0x9f => {
                    self.rest = rest;
                    self.array(usize::from(first & 0x0f), levels)
                }
                _ => self.scalar(levels),
            }
        }
    }

    #[inline]
    unsafe fn text(&mut self, rest: &'a [u8], n: usize, is_of_map: bool) -> *mut ffi::PyObject {
        let Some((text, after)) = rest.split_at_checked(n) else { return std::ptr::null_mut() };
        self.rest = after;
        // SAFETY: the GIL is held; the text is ASCII where that is asked for.
        unsafe {
            if is_of_map
                && n <= MAX_VALUE_BYTES
                && let Some(made) = VALUES.get(rest, n)
            {
                return made_or_none(made);
            }
            if !is_ascii(text) {
                return utf8(text);
            }
            if n >= 2 { self.layout.header.ascii(text) } else { made_or_none(ascii(text)) }
        }
    }

    unsafe fn map(&mut self, n: usize, levels: usize) -> *mut ffi::PyObject {
        // SAFETY: by what `value` says; `done` values of the block are put.
        unsafe {
            self.n_containers += 1;
            if n == 0 {
                let made = made_or_none(ffi::PyDict_New());
                return if self.frozen && !made.is_null() { self.read_only(made) } else { made };
            }
            if levels == 0 || n > MAX_PAIRS {
                return std::ptr::null_mut();
            }
            let Some(block) = self.layout.block(n) else { return std::ptr::null_mut() };
            let (mut place, mut slots) = (Place::start(n, levels), [0; MAX_PAIRS]);
            let (mut done, n_containers) = (0, self.n_containers);
            while done < n {
                let Some((next, read)) = SHAPES.follow(place, self.rest) else { break };
                place = next;
                if let Some(slot) = slots.get_mut(done) {
                    *slot = place.slot();
                }
                self.rest = self.rest.get(read..).unwrap_or_default();
                let value = self.value(levels - 1, true);
                if value.is_null() {
                    break;
                }
                block.put(done, value);
                done += 1;
            }
            let shared = || SHAPES.shared(self.layout, place, slots.get(..n).unwrap_or_default());
            let template = if done == n { shared() } else { None };
            let Some(template) = template else {
                block.give_up(done);
                return std::ptr::null_mut();
            };
            let made = block.dict(template);
            if made.is_null() {
                return made;
            }
            if self.frozen {
                return self.read_only(made);
            }
            if self.n_containers != n_containers && !self.layout.tracks_all {
                ffi::PyObject_GC_Track(made.cast());
            }
            made
        }
    }

    /// A new dict as a read-only one, which the collector does not know.
    ///
    /// # Safety
    ///
    /// The GIL is held, and nobody else sees the dict.
    #[inline]
    unsafe fn read_only(&self, made: *mut ffi::PyObject) -> *mut ffi::PyObject {
        // SAFETY: by what is said above.
        unsafe {
            if self.layout.tracks_all {
                ffi::PyObject_GC_UnTrack(made.cast());
            }
            self.lent.read_only.turned_dict(made)
        }
    }

    unsafe fn array(&mut self, n: usize, levels: usize) -> *mut ffi::PyObject {
        // SAFETY: by what `value` says; the list has `n` places, each filled once, and nobody else sees it.
        unsafe {
            self.n_containers += 1;
            if levels == 0 || n > self.rest.len().min(MAX_ELEMENTS) {
                return std::ptr::null_mut();
            }
            let list = if self.frozen { self.lent.read_only.list(n) } else { ffi::PyList_New(n.cast_signed()) };
            if list.is_null() {
                return made_or_none(list);
            }
            for at in 0..n {
                let value = self.value(levels - 1, false);
                if value.is_null() {
                    ffi::Py_DECREF(list);
                    return value;
                }
                ffi::PyList_SET_ITEM(list, at.cast_signed(), value);
            }
            list
        }
    }

    /// Read what is neither a short string nor a small container.
    #[inline(never)]
    unsafe fn scalar(&mut self, levels: usize) -> *mut ffi::PyObject {
        let Some((&first, rest)) = self.rest.split_first() else { return std::ptr::null_mut() };
        let word = rest.first_chunk::<8>().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        let size = match first {
            0x00..=0x7f | 0xe0..=0xff | marker::NIL | marker::FALSE | marker::TRUE => 0,
            marker::UINT8 | marker::INT8 => 1,
            marker::UINT16 | marker::INT16 | marker::ARRAY16 => 2,
            marker::UINT32 | marker::INT32 | marker::FLOAT32 => 4,
            marker::UINT64 | marker::INT64 | marker::FLOAT64 => 8,
            _ => return std::ptr::null_mut(),
        };
        // Near the end of a document there may be no whole word.
        if size > 0 && rest.len() < 8 {
            return std::ptr::null_mut();
        }
        let Some(rest) = rest.get(size..) else { return std::ptr::null_mut() };
        self.rest = rest;
        let narrow = word >> ((64 - 8 * size) % 64);
        // SAFETY: the GIL is held; each call gives a new reference or null.
        let made = unsafe {
            match first {
                0x00..=0x7f => ffi::PyLong_FromLong(first.into()),
                0xe0..=0xff => ffi::PyLong_FromLong(first.cast_signed().into()),
                marker::NIL => ffi::Py_NewRef(ffi::Py_None()),
                marker::FALSE => ffi::Py_NewRef(ffi::Py_False()),
                marker::TRUE => ffi::Py_NewRef(ffi::Py_True()),
                marker::UINT8 | marker::UINT16 | marker::UINT32 | marker::UINT64 => {
                    ffi::PyLong_FromUnsignedLongLong(narrow)
                }
                marker::INT8 => ffi::PyLong_FromLongLong((narrow as u8).cast_signed().into()),
                marker::INT16 => ffi::PyLong_FromLongLong((narrow as u16).cast_signed().into()),
                marker::INT32 => ffi::PyLong_FromLongLong((narrow as u32).cast_signed().into()),
                marker::INT64 => ffi::PyLong_FromLongLong(narrow.cast_signed()),
                marker::FLOAT32 => ffi::PyFloat_FromDouble(f32::from_bits(narrow as u32).into()),
                marker::FLOAT64 => ffi::PyFloat_FromDouble(f64::from_bits(narrow)),
                _ => return self.array(narrow as usize, levels),
            }
        };
        made_or_none(made)
    }
}

/// What a call made; null, without the exception it set, where it made nothing: whoever tries next says what is wrong.
#[inline]
fn made_or_none(made: *mut ffi::PyObject) -> *mut ffi::PyObject {
    #[cold]
    fn none() {
        // SAFETY: the GIL is held.
        unsafe { ffi::PyErr_Clear() }
    }
    if made.is_null() {
        none();
    }
    made
}

/// A `str` that is not ASCII.
#[inline(never)]
unsafe fn utf8(text: &[u8]) -> *mut ffi::PyObject {
    let n = text.len().cast_signed();
    // SAFETY: the GIL is held, and the pointer is to `n` bytes.
    made_or_none(unsafe { ffi::PyUnicode_DecodeUTF8(text.as_ptr().cast(), n, c"strict".as_ptr()) })
}
