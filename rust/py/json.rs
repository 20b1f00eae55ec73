//! JSON of values of Python's own types, written straight from the objects.
#![allow(
    unsafe_code,
    reason = "half of the values of a tool are words of ten letters: counting references to each takes as long as reading it"
)]

use pyo3::ffi;
use pyo3::prelude::*;

use super::node::scalar_text;
use crate::chat::push_quoted;

/// Append a value as compact JSON; false, with any part of it in `out`, where it holds anything but exact dicts with text for
/// keys, lists and scalars that JSON knows, more than so many values, or is nested deeper than that.
pub(super) fn push_json(value: &Bound<'_, PyAny>, out: &mut String, most_values: usize, deepest: usize) -> bool {
    let mut writing = Writing { py: value.py(), out, left: most_values };
    // SAFETY: the interpreter is attached, and until something is refused nothing below makes an object that the collector knows,
    // so no Python code runs, finalizers included, and all that the value holds stays where it is.
    unsafe { writing.value(value.as_ptr(), deepest) }
}

struct Writing<'py, 'a> {
    py: Python<'py>,
    out: &'a mut String,
    left: usize,
}

impl Writing<'_, '_> {
    /// # Safety
    /// The interpreter is attached, and `object` and what it holds are alive and stay as they are.
    unsafe fn value(&mut self, object: *mut ffi::PyObject, levels: usize) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        // SAFETY: as said above; each branch does what fits the exact type.
        unsafe {
            let kind = ffi::Py_TYPE(object);
            if kind == &raw mut ffi::PyUnicode_Type {
                self.text(object)
            } else if kind == &raw mut ffi::PyDict_Type {
                levels > 0 && self.dict(object, levels - 1)
            } else if kind == &raw mut ffi::PyList_Type {
                levels > 0 && self.list(object, levels - 1)
            } else {
                self.scalar(object, kind)
            }
        }
    }

    /// # Safety
    /// As of `value`, and it is an exact dict.
    unsafe fn dict(&mut self, dict: *mut ffi::PyObject, levels: usize) -> bool {
        let (mut at, mut key, mut value) = (0, std::ptr::null_mut(), std::ptr::null_mut());
        let mut before = '{';
        // SAFETY: as said above; the dict lends what it holds.
        unsafe {
            while ffi::PyDict_Next(dict, &raw mut at, &raw mut key, &raw mut value) != 0 {
                self.out.push(before);
                before = ',';
                if ffi::Py_TYPE(key) != &raw mut ffi::PyUnicode_Type || !self.text(key) {
                    return false;
                }
                self.out.push(':');
                if !self.value(value, levels) {
                    return false;
                }
            }
        }
        self.out.push_str(if before == '{' { "{}" } else { "}" });
        true
    }

    /// # Safety
    /// As of `value`, and it is an exact list.
    unsafe fn list(&mut self, list: *mut ffi::PyObject, levels: usize) -> bool {
        self.out.push('[');
        // SAFETY: as said above; the list lends what it holds.
        unsafe {
            for at in 0..ffi::PyList_GET_SIZE(list) {
                if at > 0 {
                    self.out.push(',');
                }
                if !self.value(ffi::PyList_GET_ITEM(list, at), levels) {
                    return false;
                }
            }
        }
        self.out.push(']');
        true
    }

    /// # Safety
    /// As of `value`, and it is an exact str.
    unsafe fn text(&mut self, text: *mut ffi::PyObject) -> bool {
        let mut n: ffi::Py_ssize_t = 0;
        // SAFETY: as said above; the UTF-8 that the str gives lives as long as it does.
        unsafe {
            let data = ffi::PyUnicode_AsUTF8AndSize(text, &raw mut n);
            if data.is_null() {
                ffi::PyErr_Clear();
                return false;
            }
            let text = std::slice::from_raw_parts(data.cast::<u8>(), n.cast_unsigned());
            push_quoted(std::str::from_utf8_unchecked(text), self.out);
        }
        true
    }

    /// # Safety
    /// As of `value`, and `kind` is its type.
    unsafe fn scalar(&mut self, object: *mut ffi::PyObject, kind: *mut ffi::PyTypeObject) -> bool {
        // SAFETY: as said above.
        let object = unsafe { Borrowed::from_ptr(self.py, object) };
        if object.is_none() {
            self.out.push_str("null");
            return true;
        }
        let is_scalar = kind == &raw mut ffi::PyBool_Type
            || (kind == &raw mut ffi::PyLong_Type && object.extract::<i64>().is_ok())
            || (kind == &raw mut ffi::PyFloat_Type && object.extract::<f64>().is_ok_and(f64::is_finite));
        let text = if is_scalar { scalar_text(&object) } else { None };
        text.inspect(|text| self.out.push_str(text)).is_some()
    }
}
