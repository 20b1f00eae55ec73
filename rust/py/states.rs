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

/// Note the state of a dict of exact dicts and lists, and of those in it, each after what holds it; only where versions
/// are told.
pub(super) fn note(states: &mut Vec<u64>, dict: &Bound<'_, PyDict>) {
    states.push(version(dict.as_ptr()).unwrap_or(NONE));
    for (_, value) in dict {
        note_inner(states, &value);
    }
}

/// Note a list or a dict, with where it lies; nothing if the value is neither.
fn note_inner(states: &mut Vec<u64>, value: &Bound<'_, PyAny>) {
    if let Ok(dict) = value.cast_exact::<PyDict>() {
        states.push(value.as_ptr() as u64 | DICT);
        note(states, dict);
    } else if let Ok(list) = value.cast_exact::<PyList>() {
        states.extend([value.as_ptr() as u64 | LIST, list.len() as u64]);
        states.extend(list.iter().map(|item| item.as_ptr() as u64));
        for item in list {
            note_inner(states, &item);
        }
    }
}

/// Whether a value is a dict in the state that was noted. Runs none of the caller's code.
pub(super) fn is_still(states: &[u64], value: &Bound<'_, PyAny>) -> bool {
    let Some((noted, inner)) = states.split_first() else { return false };
    value.is_exact_instance_of::<PyDict>() && version(value.as_ptr()) == Some(*noted) && are_inner_still(inner)
}

/// Whether all that lies where these states say is in its state, given that what holds the first of them is.
#[allow(unsafe_code, reason = "the addresses of what an unchanged dict holds, without looking them up in it")]
fn are_inner_still(mut states: &[u64]) -> bool {
    while let [at, told, rest @ ..] = states {
        let object = (at & !TAGS) as usize as *mut ffi::PyObject;
        // SAFETY: the dict or list that held this address when it was noted comes before it and was found to hold it now,
        // so what lies there is alive; in a list it may be another object than it was, hence the looks at types. The
        // interpreter is attached, and none of this runs Python code, so everything stays as it is between these reads.
        let n = unsafe {
            if at & TAGS == DICT {
                if ffi::PyDict_CheckExact(object) == 0 || version(object) != Some(*told) {
                    return false;
                }
                0
            } else {
                if ffi::PyList_CheckExact(object) == 0 || ffi::PyList_GET_SIZE(object) as u64 != *told {
                    return false;
                }
                *told as usize
            }
        };
        let Some((items, others)) = rest.split_at_checked(n) else { return false };
        // SAFETY: an exact list of `n` items, as before.
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

/// The version of a dict; none where it may change without a new one.
#[allow(unsafe_code, reason = "the version of a dict has no accessor")]
#[inline]
fn version(dict: *mut ffi::PyObject) -> Option<u64> {
    // SAFETY: an exact dict that is alive, of an interpreter whose dicts begin so: `are_told` was asked before any state
    // was noted, and without noted states nothing is compared.
    unsafe {
        let head = &*dict.cast::<Head>();
        let is_of_object =
            !head.values.is_null() && OF_OBJECTS.load(Ordering::Relaxed) && (*head.values).is_of_object != 0;
        (!is_of_object).then_some(head.version)
    }
}
