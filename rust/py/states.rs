//! What a dict was like, told by its version: CPython gives every dict a number that no dict has had before, when it is
//! made and whenever it changes (PEP 509), up to Python 3.11.
//!
//! A dict of the version that was noted is the very dict that was noted, unchanged since. So it still holds the lists and
//! dicts that it held then, and they are alive; lists have no version, and their items are compared.

use std::slice::Iter;
use std::sync::OnceLock;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// Objects are aligned to more than two bits.
const DICT: u64 = 1;
const LIST: u64 = 2;
const TAGS: u64 = 3;

/// How a dict begins in the versions of CPython that have versions of dicts.
#[repr(C)]
struct Head {
    base: ffi::PyObject,
    used: ffi::Py_ssize_t,
    version: u64,
}

/// Whether dicts of this interpreter have versions. Python 3.12 still has them, but announces their end.
pub(super) fn are_told(py: Python<'_>) -> bool {
    static TOLD: OnceLock<bool> = OnceLock::new();
    *TOLD.get_or_init(|| {
        let implementation = || py.import("sys")?.getattr("implementation")?.getattr("name")?.extract::<String>();
        py.version_info() < (3, 12) && implementation().is_ok_and(|name| name == "cpython")
    })
}

/// Note the state of a dict of exact dicts and lists; only where versions are told.
pub(super) fn note(states: &mut Vec<u64>, dict: &Bound<'_, PyDict>) {
    states.push(version(dict.as_ptr()));
    let count = states.len();
    states.push(0);
    let mut inner = 0;
    for (_, value) in dict {
        inner += note_inner(states, &value);
    }
    if let Some(place) = states.get_mut(count) {
        *place = inner;
    }
}

/// Note a list or a dict, with where it lies; 0 if the value is neither.
fn note_inner(states: &mut Vec<u64>, value: &Bound<'_, PyAny>) -> u64 {
    if let Ok(dict) = value.cast_exact::<PyDict>() {
        states.push(value.as_ptr() as u64 | DICT);
        note(states, dict);
    } else if let Ok(list) = value.cast_exact::<PyList>() {
        states.push(value.as_ptr() as u64 | LIST);
        states.push(list.len() as u64);
        states.extend(list.iter().map(|item| item.as_ptr() as u64));
        let count = states.len();
        states.push(0);
        let mut inner = 0;
        for item in list {
            inner += note_inner(states, &item);
        }
        if let Some(place) = states.get_mut(count) {
            *place = inner;
        }
    } else {
        return 0;
    }
    1
}

/// Whether a value is a dict in the state that was noted. Runs none of the caller's code.
pub(super) fn is_still(states: &[u64], value: &Bound<'_, PyAny>) -> bool {
    value.is_exact_instance_of::<PyDict>() && is_dict_still(&mut states.iter(), value.as_ptr())
}

fn is_dict_still(states: &mut Iter<'_, u64>, dict: *mut ffi::PyObject) -> bool {
    let (Some(&noted), Some(&inner)) = (states.next(), states.next()) else { return false };
    noted == version(dict) && (0..inner).all(|_| is_inner_still(states))
}

/// Whether what lies where the next state says is in that state, given that what holds it is.
#[allow(unsafe_code, reason = "the addresses of what an unchanged dict holds, without looking them up in it")]
fn is_inner_still(states: &mut Iter<'_, u64>) -> bool {
    let Some(&at) = states.next() else { return false };
    let object = (at & !TAGS) as usize as *mut ffi::PyObject;
    // SAFETY: the dict or list that held this address when it was noted has been found to hold it now, so what lies there
    // is alive; in a list it may be another object than it was, hence the looks at types. The interpreter is attached, and
    // none of this runs Python code, so everything stays as it is between these reads.
    unsafe {
        if at & TAGS == DICT {
            return ffi::PyDict_CheckExact(object) != 0 && is_dict_still(states, object);
        }
        let Some(&n) = states.next() else { return false };
        ffi::PyList_CheckExact(object) != 0
            && ffi::PyList_GET_SIZE(object) as u64 == n
            && (0..n).all(|k| states.next() == Some(&(ffi::PyList_GET_ITEM(object, k as ffi::Py_ssize_t) as u64)))
            && states.next().is_some_and(|inner| (0..*inner).all(|_| is_inner_still(states)))
    }
}

#[allow(unsafe_code, reason = "the version of a dict has no accessor")]
fn version(dict: *mut ffi::PyObject) -> u64 {
    // SAFETY: an exact dict that is alive, of an interpreter whose dicts begin so: `are_told` was asked before any state
    // was noted, and without noted states nothing is compared.
    unsafe { (*dict.cast::<Head>()).version }
}
