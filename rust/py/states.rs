//! What a dict was like, told by its version: `CPython` gives every dict a number that no dict has had before, when it is
//! made and whenever it changes (PEP 509), up to Python 3.13.
//!
//! A dict of the version that was noted is the very dict that was noted, unchanged since. So it still holds the lists and
//! dicts that it held then, and they are alive; lists have no version, and their items are compared.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

/// Objects are aligned to more than two bits.
const DICT: u64 = 1;
const LIST: u64 = 2;
const TAGS: u64 = 3;

/// How a dict begins in the versions of `CPython` that have versions of dicts.
#[repr(C)]
struct Head {
    base: ffi::PyObject,
    used: ffi::Py_ssize_t,
    version: u64,
    keys: *const u8,
    /// Null for most dicts.
    values: *const Values,
}

/// How the values of a dict begin that shares its keys, in 3.13.
#[repr(C)]
struct Values {
    capacity: u8,
    size: u8,
    /// They lie in an object, whose attributes change without a new version of the dict.
    is_of_object: u8,
}

/// Whether values may lie in an object: in 3.13.
static OF_OBJECTS: AtomicBool = AtomicBool::new(false);

/// Whether dicts of this interpreter have versions: they end with 3.13.
pub(super) fn are_told(py: Python<'_>) -> bool {
    static TOLD: OnceLock<bool> = OnceLock::new();
    *TOLD.get_or_init(|| {
        let implementation = || py.import("sys")?.getattr("implementation")?.getattr("name")?.extract::<String>();
        OF_OBJECTS.store(py.version_info() >= (3, 13), Ordering::Relaxed);
        py.version_info() < (3, 14) && implementation().is_ok_and(|name| name == "cpython")
    })
}

/// Note the state of a dict of exact dicts and lists: its version, how much follows, and the states of those in it, each after
/// what holds it. Of another value that there is none. Only where versions are told.
pub(super) fn note(states: &mut Vec<u64>, value: &Bound<'_, PyAny>) {
    let Ok(dict) = value.cast_exact::<PyDict>() else {
        states.extend([NONE, 0]);
        return;
    };
    states.extend([version(dict.as_ptr()), 0]);
    let start = states.len();
    note_values(states, dict);
    let n = (states.len() - start) as u64;
    if let Some(place) = states.get_mut(start - 1) {
        *place = n;
    }
}

fn note_values(states: &mut Vec<u64>, dict: &Bound<'_, PyDict>) {
    for (_, value) in dict {
        note_inner(states, &value);
    }
}

/// Note a list or a dict, with where it lies; nothing if the value is neither.
fn note_inner(states: &mut Vec<u64>, value: &Bound<'_, PyAny>) {
    if let Ok(dict) = value.cast_exact::<PyDict>() {
        states.extend([value.as_ptr() as u64 | DICT, version(dict.as_ptr())]);
        note_values(states, dict);
    } else if let Ok(list) = value.cast_exact::<PyList>() {
        states.extend([value.as_ptr() as u64 | LIST, list.len() as u64]);
        states.extend(list.iter().map(|item| item.as_ptr() as u64));
        for item in list {
            note_inner(states, &item);
        }
    }
}

/// The states after the first, if a value is a dict in the state that was noted first. Runs none of the caller's code.
#[inline]
pub(super) fn after_still<'a>(states: &'a [u64], value: &Bound<'_, PyAny>) -> Option<&'a [u64]> {
    let [told, n, rest @ ..] = states else { return None };
    if !value.is_exact_instance_of::<PyDict>() || !is_of_version(value.as_ptr(), *told) {
        return None;
    }
    if *n == 0 {
        return Some(rest);
    }
    let (inner, rest) = rest.split_at_checked(*n as usize)?;
    are_inner_still(inner).then_some(rest)
}

/// Whether all that lies where these states say is in its state, given that what holds the first of them is.
#[allow(unsafe_code, reason = "the addresses of what an unchanged dict holds, without looking them up in it")]
fn are_inner_still(mut states: &[u64]) -> bool {
    while let [at, told, rest @ ..] = states {
        let object = (at & !TAGS) as usize as *mut ffi::PyObject;
        // SAFETY: the dict or list that held this address when it was noted comes before it and was found to hold it now,
        // so what lies there is alive; in a list it may be another object than it was, hence the looks at types. The
        // interpreter is attached, and none of this runs Python code, so everything stays as it is between these reads.
        unsafe {
            if at & TAGS == DICT {
                if ffi::PyDict_CheckExact(object) == 0 || !is_of_version(object, *told) {
                    return false;
                }
                states = rest;
                continue;
            }
            if ffi::PyList_CheckExact(object) == 0 || ffi::PyList_GET_SIZE(object) as u64 != *told {
                return false;
            }
        }
        let Some((items, others)) = rest.split_at_checked(*told as usize) else { return false };
        // SAFETY: an exact list of that many items, as before.
        let item = |k: usize| unsafe { ffi::PyList_GET_ITEM(object, k.cast_signed()) } as u64;
        if !items.iter().enumerate().all(|(k, noted)| item(k) == *noted) {
            return false;
        }
        states = others;
    }
    states.is_empty()
}

/// No dict has this version.
const NONE: u64 = 0;

/// The version of a dict; `NONE` where it may change without a new one.
fn version(dict: *mut ffi::PyObject) -> u64 {
    let version = head(dict).version;
    if is_of_version(dict, version) { version } else { NONE }
}

/// Whether a dict is of this version, and of no other without a new one.
#[allow(unsafe_code, reason = "as of `head`")]
#[inline]
fn is_of_version(dict: *mut ffi::PyObject, version: u64) -> bool {
    let head = head(dict);
    // SAFETY: values that are not null are those of the dict.
    let is_of_object = || OF_OBJECTS.load(Ordering::Relaxed) && unsafe { (*head.values).is_of_object } != 0;
    head.version == version && (head.values.is_null() || !is_of_object())
}

#[allow(unsafe_code, reason = "the version of a dict has no accessor")]
#[inline]
fn head<'a>(dict: *mut ffi::PyObject) -> &'a Head {
    // SAFETY: an exact dict that is alive, of an interpreter whose dicts begin so: `are_told` was asked before any state
    // was noted, and without noted states nothing is compared.
    unsafe { &*dict.cast::<Head>() }
}
