//! Values that contain no others, written straight from the objects.
#![allow(unsafe_code, reason = "reading str, int and float in place is what makes this as fast as its C peers")]

use pyo3::ffi;

use super::buffer::Buffer;
use super::keys::WRITTEN;
use crate::msgpack::encode as wire;

/// Write a `str`; false where it is not Unicode text.
///
/// # Safety
///
/// The GIL is held, and `obj` is a live `str`.
#[inline(always)]
#[allow(clippy::inline_always, reason = "called for every other value")]
unsafe fn string(out: &mut Buffer, obj: *mut ffi::PyObject) -> bool {
    // SAFETY: as said above; the text lives as long as the str.
    unsafe {
        let mut n: ffi::Py_ssize_t = 0;
        let data = ffi::PyUnicode_AsUTF8AndSize(obj, &raw mut n);
        if data.is_null() {
            ffi::PyErr_Clear();
            return false;
        }
        let text = std::slice::from_raw_parts(data.cast::<u8>(), n.cast_unsigned());
        out.text(text) || wire::str(out, text).is_ok()
    }
}

/// Write a key that is a `str`; false where it is not Unicode text.
///
/// # Safety
///
/// The GIL is held, and `key` is a live, exact `str`.
#[inline(always)]
#[allow(clippy::inline_always, reason = "called for every key")]
pub(super) unsafe fn written_key(out: &mut Buffer, key: *mut ffi::PyObject) -> bool {
    // SAFETY: as said above; what `get` gives is copied before `keep` can be called.
    unsafe {
        if let Some((encoded, n)) = WRITTEN.get(key) {
            out.first(encoded, n);
            return true;
        }
        let start = out.len();
        let is_written = string(out, key);
        if is_written && !out.has_failed() {
            WRITTEN.keep(key, out.since(start));
        }
        is_written
    }
}

/// Write `obj` if it is a plain value; false where it is anything else, or not plain after all.
#[inline(always)]
#[allow(clippy::inline_always, reason = "half of all values are strings, which a call would hold up")]
pub(super) fn plain(out: &mut Buffer, obj: *mut ffi::PyObject) -> bool {
    // SAFETY: `obj` is live and the GIL is held.
    unsafe {
        let kind = ffi::Py_TYPE(obj);
        if kind == &raw mut ffi::PyUnicode_Type {
            return string(out, obj);
        }
        kind != &raw mut ffi::PyDict_Type && kind != &raw mut ffi::PyList_Type && scalar(out, obj)
    }
}

/// Write `obj` if it is a plain value and no `str`.
pub(super) fn scalar(out: &mut Buffer, obj: *mut ffi::PyObject) -> bool {
    // SAFETY: `obj` is live and the GIL is held; each branch calls only what fits the exact type.
    unsafe {
        let kind = ffi::Py_TYPE(obj);
        if kind == &raw mut ffi::PyLong_Type {
            let mut overflow = 0;
            let value = ffi::PyLong_AsLongLongAndOverflow(obj, &raw mut overflow);
            if overflow == 0 {
                wire::int(out, value);
                return true;
            }
            if overflow > 0 {
                let value = ffi::PyLong_AsUnsignedLongLong(obj);
                if value != u64::MAX || ffi::PyErr_Occurred().is_null() {
                    wire::uint(out, value);
                    return true;
                }
                ffi::PyErr_Clear();
            }
            false
        } else if obj == ffi::Py_None() {
            wire::nil(out);
            true
        } else if kind == &raw mut ffi::PyBool_Type {
            wire::boolean(out, obj == ffi::Py_True());
            true
        } else if kind == &raw mut ffi::PyFloat_Type {
            wire::float(out, ffi::PyFloat_AsDouble(obj));
            true
        } else if kind == &raw mut ffi::PyBytes_Type {
            let data = ffi::PyBytes_AsString(obj).cast::<u8>();
            wire::bin(out, std::slice::from_raw_parts(data, ffi::PyBytes_Size(obj) as usize)).is_ok()
        } else {
            false
        }
    }
}
