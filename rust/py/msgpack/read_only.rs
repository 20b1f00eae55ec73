//! New read-only containers.
//!
//! What is read-only holds only what was made before it, so that it is never part of a cycle: the collector is not told of
//! it, and a process that holds a hundred thousand messages does not pay for them at every collection.
#![allow(unsafe_code, reason = "a built-in container turned into its subclass is made in half the time")]

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

/// The read-only classes of `holdall.state.values`.
pub(super) struct ReadOnly {
    dict: Py<PyType>,
    list: Py<PyType>,
    set: Py<PyType>,
}

/// A class whose instances are built-in objects but for their class: same size, and nothing in front of them.
fn like<'py>(values: &Bound<'py, PyModule>, name: &str, base: *mut ffi::PyTypeObject) -> PyResult<Bound<'py, PyType>> {
    // Bits 3 and 4 of the flags: weak references or a `__dict__` are kept in front of the object.
    const IN_FRONT: std::ffi::c_ulong = 0b11 << 3;
    let class = values.getattr(name)?.cast_into::<PyType>()?;
    // SAFETY: both are types, of which only sizes and flags are read.
    let is_like = unsafe {
        let (own, base) = (&*class.as_type_ptr(), &*base);
        own.tp_base == std::ptr::from_ref(base).cast_mut()
            && own.tp_basicsize == base.tp_basicsize
            && own.tp_itemsize == base.tp_itemsize
            && ffi::PyType_GetFlags(class.as_type_ptr()) & IN_FRONT == 0
    };
    if is_like { Ok(class) } else { Err(PyTypeError::new_err(format!("{name} has fields of its own"))) }
}

/// End a read-only dict as a dict, without what a class written in Python may have to end besides.
unsafe extern "C" fn end_dict(obj: *mut ffi::PyObject) {
    // SAFETY: the object is one of a class that is like `dict`, or of a subclass.
    unsafe { end(obj, &raw mut ffi::PyDict_Type) }
}

/// End a read-only list as a list.
unsafe extern "C" fn end_list(obj: *mut ffi::PyObject) {
    // SAFETY: the object is one of a class that is like `list`, or of a subclass.
    unsafe { end(obj, &raw mut ffi::PyList_Type) }
}

/// # Safety
///
/// The GIL is held, and `obj`, whose last reference is gone, is of a class that is like `base`, or of a subclass, which
/// has ended what is its own.
#[inline]
unsafe fn end(obj: *mut ffi::PyObject, base: *mut ffi::PyTypeObject) {
    // SAFETY: an object of the class itself is one of `base` but for its class; what a subclass has in front of it makes
    // it one that only its own class frees. An instance holds a reference to its class.
    unsafe {
        let class = ffi::Py_TYPE(obj);
        if (*class).tp_base == base {
            (*obj).ob_type = base;
        }
        if let Some(dealloc) = (*base).tp_dealloc {
            dealloc(obj);
        }
        ffi::Py_DECREF(class.cast());
    }
}

impl ReadOnly {
    pub(super) fn of(values: &Bound<'_, PyModule>) -> PyResult<Self> {
        let dict = like(values, "ReadOnlyDict", &raw mut ffi::PyDict_Type)?;
        let list = like(values, "ReadOnlyList", &raw mut ffi::PyList_Type)?;
        // SAFETY: the GIL is held; every instance, made before or after, ends as `end` says.
        unsafe {
            (*dict.as_type_ptr()).tp_dealloc = Some(end_dict);
            (*list.as_type_ptr()).tp_dealloc = Some(end_list);
        }
        let set = like(values, "ReadOnlySet", &raw mut ffi::PySet_Type)?;
        Ok(Self { dict: dict.unbind(), list: list.unbind(), set: set.unbind() })
    }

    pub(super) fn is_dict(&self, kind: *mut ffi::PyTypeObject) -> bool {
        kind == self.dict.as_ptr().cast()
    }

    pub(super) fn is_list(&self, kind: *mut ffi::PyTypeObject) -> bool {
        kind == self.list.as_ptr().cast()
    }

    pub(super) fn is_set(&self, kind: *mut ffi::PyTypeObject) -> bool {
        kind == self.set.as_ptr().cast()
    }

    /// A new, empty dict; null, with the exception set, where memory is short.
    ///
    /// # Safety
    ///
    /// The GIL is held.
    #[inline]
    pub(super) unsafe fn dict(&self) -> *mut ffi::PyObject {
        // SAFETY: the GIL is held; the class is like that of the object.
        unsafe { turned(ffi::PyDict_New(), &self.dict) }
    }

    /// Turn a new dict that is not known to the collector into a read-only one.
    ///
    /// # Safety
    ///
    /// The GIL is held, and `made` is an exact dict that nobody else sees.
    #[inline]
    pub(super) unsafe fn turned_dict(&self, made: *mut ffi::PyObject) -> *mut ffi::PyObject {
        // SAFETY: by what is said above; the class is like that of the object.
        unsafe { turned(made, &self.dict) }
    }

    /// A new list of `n` places, to be filled before anybody sees it; null, with the exception set, where memory is short.
    ///
    /// # Safety
    ///
    /// The GIL is held.
    #[inline]
    pub(super) unsafe fn list(&self, n: usize) -> *mut ffi::PyObject {
        // SAFETY: the GIL is held; the class is like that of the object.
        unsafe {
            let made = ffi::PyList_New(n.cast_signed());
            if !made.is_null() {
                ffi::PyObject_GC_UnTrack(made.cast());
            }
            turned(made, &self.list)
        }
    }

    /// A new, empty set; null, with the exception set, where memory is short.
    ///
    /// # Safety
    ///
    /// The GIL is held.
    pub(super) unsafe fn set(&self) -> *mut ffi::PyObject {
        // SAFETY: the GIL is held; the class is like that of the object.
        unsafe { turned(ffi::PySet_New(std::ptr::null_mut()), &self.set) }
    }

    /// A dict is full. One that holds containers was made known to the collector when they were put in.
    #[inline]
    pub(super) fn filled(&self, dict: &Bound<'_, PyAny>) {
        // SAFETY: the object is a live dict.
        unsafe {
            if self.is_dict(ffi::Py_TYPE(dict.as_ptr())) {
                ffi::PyObject_GC_UnTrack(dict.as_ptr().cast());
            }
        }
    }
}

/// Turn a new object into an instance of a class that is like its own.
///
/// # Safety
///
/// The GIL is held, and `made` is null or an object that nobody else sees, of the type that `class` was compared with.
#[inline]
unsafe fn turned(made: *mut ffi::PyObject, class: &Py<PyType>) -> *mut ffi::PyObject {
    // SAFETY: an instance holds a reference to its class, which is taken here; size and layout are the same.
    unsafe {
        if !made.is_null() {
            ffi::Py_INCREF(class.as_ptr());
            (*made).ob_type = class.as_ptr().cast();
        }
        made
    }
}
