//! Dicts that share their keys, as those of instances do: one block of values each, and no table of their own.
//!
//! Of `CPython` 3.11 to 3.14 alone, whose layouts are written down here, and only where they are found to be so (`Layout::found`);
//! every other interpreter goes the way of `containers`. A key that is added or a `popitem` turns such a dict into a usual one, by
//! the interpreter's own means.
#![allow(unsafe_code, reason = "a dict of known keys is made in a quarter of the instructions")]

use pyo3::ffi;
use pyo3::prelude::*;

use super::str_header::Header;

/// Keys of one dict, at most.
pub(super) const MAX_PAIRS: usize = 10;

#[repr(C)]
struct Dict {
    base: ffi::PyObject,
    used: isize,
    version: u64,
    keys: *mut Keys,
    /// Null where the values stand beside the keys; where else they are, [`Order`] says.
    values: *mut u8,
}

/// The head of a table of keys; indices of one byte each follow, then the entries.
#[repr(C)]
struct Keys {
    references: isize,
    log2_size: u8,
    log2_index_bytes: u8,
    kind: u8,
    version: u32,
    usable: isize,
    n_entries: isize,
}

#[repr(C)]
struct Entry {
    key: *mut ffi::PyObject,
    value: *mut ffi::PyObject,
}

/// All keys are exact `str`, and the values stand beside them.
const OWN: u8 = 1;
/// All keys are exact `str`, and each dict has its values elsewhere.
const SHARED: u8 = 2;

/// What is known of this interpreter's objects.
pub(super) struct Layout {
    pub(super) header: Header,
    order: Order,
    /// Whether references to the table of no keys, which all empty dicts share, are counted: from 3.12 on it never ends.
    counts_empty: bool,
    /// Whether the collector knows every dict from its beginning: from 3.14 on.
    pub(super) tracks_all: bool,
}

/// Where a dict of shared keys has the order in which they were added.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    /// In front of the values, from its end to its beginning, behind the number of keys and the size of both: up to 3.12.
    InFront,
    /// Behind the values, in front of which are the numbers of places and of keys: from 3.13 on.
    Behind,
}

/// Bytes in front of the values where their order is behind them.
const NUMBERS: usize = 8;

impl Layout {
    /// The layout, where it is that of this file.
    pub(super) fn found(py: Python<'_>) -> Option<Self> {
        let version = py.version_info();
        // In a debug build two more words stand in front of every object.
        let sizes = (size_of::<usize>(), size_of::<ffi::PyObject>());
        let order = match (version.major, version.minor) {
            (3, 11 | 12) => Order::InFront,
            (3, 13 | 14) => Order::Behind,
            _ => return None,
        };
        if sizes != (8, 16) {
            return None;
        }
        // SAFETY: the GIL is held, and the layout is that of the version.
        unsafe {
            let (counts_empty, tracks_all) = of_empty()?;
            let layout = Self { header: Header::found()?, order, counts_empty, tracks_all };
            is_as_written(&layout).then_some(layout)
        }
    }

    /// The pairs of a dict whose keys are all `str`; None where they are not known to be.
    ///
    /// # Safety
    ///
    /// The GIL is held, and `dict` is a live dict that does not change while the pairs are used.
    #[inline]
    pub(super) unsafe fn pairs(&self, dict: *mut ffi::PyObject) -> Option<Pairs> {
        // SAFETY: by what is said above; the entries follow the indices.
        unsafe {
            let dict = &*dict.cast::<Dict>();
            let table = &*dict.keys;
            if table.kind != OWN && table.kind != SHARED {
                return None;
            }
            let entries = std::ptr::from_ref(table).add(1).cast::<u8>().add(1 << table.log2_index_bytes).cast();
            let n = if dict.values.is_null() { table.n_entries } else { dict.used };
            let pairs = Pairs {
                entries,
                values: dict.values.cast(),
                order: dict.values,
                step: 0,
                next: 0,
                n: n.cast_unsigned(),
            };
            if dict.values.is_null() {
                return Some(pairs);
            }
            Some(match self.order {
                Order::InFront => Pairs { order: dict.values.sub(3), step: -1, ..pairs },
                Order::Behind => {
                    let values = dict.values.add(NUMBERS);
                    let order = values.add(usize::from(dict.values.read()) * size_of::<usize>());
                    Pairs { values: values.cast(), order, step: 1, ..pairs }
                }
            })
        }
    }

    /// Memory for `n` values, 1 to [`MAX_PAIRS`] of them; None where it is short.
    ///
    /// # Safety
    ///
    /// The GIL is held.
    #[inline]
    pub(super) unsafe fn block(&self, n: usize) -> Option<Block<'_>> {
        let (before, after) = match self.order {
            // The size of what is in front, the order, and the number of keys.
            Order::InFront => ((n + 9) & !7, 0),
            Order::Behind => (NUMBERS, (n + 7) & !7),
        };
        // SAFETY: the GIL is held.
        let memory = unsafe { ffi::PyMem_Malloc(before + n * size_of::<usize>() + after).cast::<u8>() };
        (!memory.is_null()).then(|| Block { memory, values: memory.wrapping_add(before).cast(), n, layout: self })
    }
}

/// The pairs of a dict, in order.
pub(super) struct Pairs {
    entries: *const Entry,
    /// Null where the values stand beside the keys.
    values: *mut *mut ffi::PyObject,
    /// The place of the first key, and how far on that of the next is.
    order: *const u8,
    step: isize,
    next: usize,
    n: usize,
}

impl Iterator for Pairs {
    type Item = (*mut ffi::PyObject, *mut ffi::PyObject);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        // SAFETY: there are `n` entries, or places in the order.
        unsafe {
            while self.next < self.n {
                let at = self.next;
                self.next += 1;
                if !self.values.is_null() {
                    let at = usize::from(self.order.offset(self.step * at.cast_signed()).read());
                    return Some(((*self.entries.add(at)).key, self.values.add(at).read()));
                }
                let entry = &*self.entries.add(at);
                if !entry.value.is_null() {
                    return Some((entry.key, entry.value));
                }
            }
        }
        None
    }
}

/// Whether the table that all empty dicts share counts them, and whether the collector knows them; None where none can be made.
unsafe fn of_empty() -> Option<(bool, bool)> {
    // SAFETY: the GIL is held, and what is looked at was just made.
    unsafe {
        let [one, other] = [(); 2].map(|()| {
            let made = ffi::PyDict_New();
            (made, if made.is_null() { 0 } else { (*(*made.cast::<Dict>()).keys).references })
        });
        let found = if one.0.is_null() || other.0.is_null() {
            ffi::PyErr_Clear();
            None
        } else {
            Some((other.1 != one.1, ffi::PyObject_GC_IsTracked(one.0) != 0))
        };
        ffi::Py_XDECREF(one.0);
        ffi::Py_XDECREF(other.0);
        found
    }
}

/// Make a dict of shared keys and see whether the interpreter finds in it what was put there.
unsafe fn is_as_written(layout: &Layout) -> bool {
    // SAFETY: the GIL is held; every reference that is made is given up.
    unsafe {
        let keys = [c"b", c"a"].map(|key| ffi::PyUnicode_FromString(key.as_ptr()));
        let values = [ffi::Py_True(), ffi::Py_False()];
        let is_right = !keys.contains(&std::ptr::null_mut()) && is_found(layout, keys, values);
        ffi::PyErr_Clear();
        for key in keys {
            ffi::Py_XDECREF(key);
        }
        is_right
    }
}

/// Whether a dict that is made here of two keys has these values, in that order, for the interpreter and for [`Layout::pairs`].
unsafe fn is_found(layout: &Layout, keys: [*mut ffi::PyObject; 2], values: [*mut ffi::PyObject; 2]) -> bool {
    // SAFETY: the GIL is held, and the dicts are made here.
    unsafe {
        let template = template(layout, &keys);
        if template.is_null() {
            return false;
        }
        let made = layout.block(2).map_or(std::ptr::null_mut(), |block| {
            for (at, value) in values.into_iter().enumerate() {
                block.put(at, ffi::Py_NewRef(value));
            }
            block.dict(template)
        });
        let mut is_right = false;
        if !made.is_null() {
            let (mut at, mut key, mut value) = (0, std::ptr::null_mut(), std::ptr::null_mut());
            let mut seen = Vec::new();
            while ffi::PyDict_Next(made, &raw mut at, &raw mut key, &raw mut value) != 0 {
                seen.push((key, value));
            }
            let pairs = layout.pairs(made).map(Iterator::collect::<Vec<_>>);
            is_right = seen.iter().copied().eq(keys.into_iter().zip(values))
                && pairs.as_ref() == Some(&seen)
                && ffi::PyDict_Size(made) == 2
                && keys.iter().zip(values).all(|(key, value)| ffi::PyDict_GetItem(made, *key) == value);
        }
        ffi::Py_XDECREF(made);
        ffi::Py_DECREF(template);
        is_right
    }
}

/// The values of a dict, and beside them the order of their keys.
pub(super) struct Block<'a> {
    memory: *mut u8,
    values: *mut *mut ffi::PyObject,
    n: usize,
    layout: &'a Layout,
}

impl Block<'_> {
    /// Put a new reference in a place.
    ///
    /// # Safety
    ///
    /// `at` is below the number of values.
    #[inline]
    pub(super) unsafe fn put(&self, at: usize, value: *mut ffi::PyObject) {
        // SAFETY: by what is said above.
        unsafe { self.values.add(at).write(value) };
    }

    /// Give up the first `done` values, and the memory.
    ///
    /// # Safety
    ///
    /// The GIL is held, and so many are put.
    #[cold]
    pub(super) unsafe fn give_up(self, done: usize) {
        // SAFETY: by what is said above.
        unsafe {
            for at in 0..done {
                ffi::Py_DECREF(self.values.add(at).read());
            }
            ffi::PyMem_Free(self.memory.cast());
        }
    }

    /// Write that `done` keys are there, in the order of the table; what a dict is to have for its values.
    #[inline]
    unsafe fn ordered(&self, done: u8) -> *mut u8 {
        // SAFETY: the order has one word for up to 6 values in front of them, or 8 behind, and two for more.
        unsafe {
            match self.layout.order {
                Order::InFront => {
                    let in_front = self.values.addr() - self.memory.addr();
                    let last = self.values.cast::<[u8; 8]>().sub(1);
                    last.write([5, 4, 3, 2, 1, 0, done, in_front as u8]);
                    if in_front > 8 {
                        last.sub(1).write([13, 12, 11, 10, 9, 8, 7, 6]);
                    }
                    self.values.cast()
                }
                Order::Behind => {
                    // Places, keys, none of them inside an instance, and that they are of use.
                    self.memory.cast::<[u8; NUMBERS]>().write([self.n as u8, done, 0, 1, 0, 0, 0, 0]);
                    let order = self.values.add(self.n).cast::<[u8; 8]>();
                    order.write([0, 1, 2, 3, 4, 5, 6, 7]);
                    if self.n > 8 {
                        order.add(1).write([8, 9, 10, 11, 12, 13, 14, 15]);
                    }
                    self.memory
                }
            }
        }
    }

    /// A dict of these values, known to the collector where every dict is; null, with no exception set and everything given up, where memory is
    /// short.
    ///
    /// # Safety
    ///
    /// The GIL is held, all values are put, and `template` is one of as many keys.
    #[inline]
    pub(super) unsafe fn dict(self, template: *mut ffi::PyObject) -> *mut ffi::PyObject {
        // SAFETY: by what is said above. The new dict is empty, and nobody else has seen it: it gives up its reference to
        // the table that all empty dicts share, and takes one to that of the template.
        unsafe {
            let made = ffi::PyDict_New();
            if made.is_null() {
                ffi::PyErr_Clear();
                let n = self.n;
                self.give_up(n);
                return made;
            }
            let (dict, shared) = (made.cast::<Dict>(), (*template.cast::<Dict>()).keys);
            if self.layout.counts_empty {
                (*(*dict).keys).references -= 1;
            }
            (*shared).references += 1;
            (*dict).keys = shared;
            (*dict).values = self.ordered(self.n as u8);
            (*dict).used = self.n.cast_signed();
            made
        }
    }
}

/// An empty dict whose table has these keys, for others to share; null, with no exception set, where a key stands twice or the
/// interpreter makes no such table of them.
///
/// # Safety
///
/// The GIL is held; the keys are live, exact `str`.
pub(super) unsafe fn template(layout: &Layout, keys: &[*mut ffi::PyObject]) -> *mut ffi::PyObject {
    // SAFETY: a dict that was just made of so few keys has a table of its own, whose entries are those that were set.
    unsafe {
        let made = ffi::PyDict_New();
        if made.is_null() || keys.iter().any(|key| ffi::PyDict_SetItem(made, *key, ffi::Py_None()) < 0) {
            ffi::PyErr_Clear();
            ffi::Py_XDECREF(made);
            return std::ptr::null_mut();
        }
        let (dict, n) = (made.cast::<Dict>(), keys.len().cast_signed());
        let table = (*dict).keys;
        let entries: *mut Entry = table.add(1).cast::<u8>().add(1 << (*table).log2_index_bytes).cast();
        let is_expected = (*dict).used == n
            && (*dict).values.is_null()
            && (*table).references == 1
            && (*table).kind == OWN
            && (*table).log2_size == (*table).log2_index_bytes
            && (*table).n_entries == n
            && keys.iter().enumerate().all(|(at, key)| (*entries.add(at)).key == *key);
        let block = if is_expected { layout.block(keys.len()) } else { None };
        let Some(block) = block else {
            ffi::Py_DECREF(made);
            return std::ptr::null_mut();
        };
        for at in 0..keys.len() {
            ffi::Py_DECREF(std::mem::replace(&mut (*entries.add(at)).value, std::ptr::null_mut()));
            block.put(at, std::ptr::null_mut());
        }
        // No room for more keys: who adds one gets a table of its own.
        ((*table).kind, (*table).version, (*table).usable) = (SHARED, 0, 0);
        (*dict).values = block.ordered(0);
        (*dict).used = 0;
        made
    }
}
