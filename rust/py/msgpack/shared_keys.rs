//! Dicts that share their keys, as those of instances do: one block of values each, and no table of their own.
//!
//! Of `CPython` 3.11 alone, whose layout is written down here, and only where it is found to be so (`Layout::found`); every other
//! interpreter goes the way of `containers`. A key that is added or a `popitem` turns such a dict into a usual one, by the
//! interpreter's own means.
#![allow(unsafe_code, reason = "a dict of known keys is made in a quarter of the instructions")]

use pyo3::ffi;
use pyo3::prelude::*;

/// Keys of one dict, at most.
pub(super) const MAX_PAIRS: usize = 10;

#[repr(C)]
struct Dict {
    base: ffi::PyObject,
    used: isize,
    version: u64,
    keys: *mut Keys,
    values: *mut *mut ffi::PyObject,
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

/// What stands in front of the characters of an ASCII `str`.
pub(super) const HEADER_WORDS: usize = 6;

/// What is known of this interpreter's objects.
pub(super) struct Layout {
    /// The header of a `str` of ASCII characters.
    header: [usize; HEADER_WORDS],
}

/// Where length and state stand in the header.
const LENGTH: usize = 2;
const STATE: usize = 4;
/// The bits of the state that say how the characters are kept, without those that say whether the `str` is interned.
const KEPT: usize = 0xfc;

impl Layout {
    /// The layout, where it is that of this file.
    pub(super) fn found(py: Python<'_>) -> Option<Self> {
        let version = py.version_info();
        // In a debug build two more words stand in front of every object.
        let sizes = (size_of::<usize>(), size_of::<ffi::PyObject>());
        if (version.major, version.minor) != (3, 11) || sizes != (8, 16) {
            return None;
        }
        // SAFETY: the GIL is held, and the layout is that of the version.
        unsafe { header().filter(|_| is_as_written().is_some()).map(|header| Self { header }) }
    }

    /// A new `str`; null where memory is short, with no exception set.
    ///
    /// # Safety
    ///
    /// The GIL is held; `text` is ASCII of at least two characters and at most `u16::MAX`.
    #[inline]
    pub(super) unsafe fn ascii(&self, text: &[u8]) -> *mut ffi::PyObject {
        // SAFETY: the memory is as large as `PyUnicode_New` takes for so many characters and the NUL behind them.
        unsafe {
            let made = ffi::PyObject_Malloc(size_of_val(&self.header) + text.len() + 1).cast::<[usize; HEADER_WORDS]>();
            if !made.is_null() {
                made.write(self.header);
                made.cast::<usize>().add(LENGTH).write(text.len());
                let to = made.add(1).cast::<u8>();
                std::ptr::copy_nonoverlapping(text.as_ptr(), to, text.len());
                to.add(text.len()).write(0);
            }
            made.cast()
        }
    }

    /// The characters of a `str` that are ASCII and stand right behind its header; None where they are others, or elsewhere.
    ///
    /// # Safety
    ///
    /// The GIL is held; `text` is a live `str`, which outlives what comes back.
    #[inline]
    pub(super) unsafe fn ascii_of<'a>(&self, text: *mut ffi::PyObject) -> Option<&'a [u8]> {
        let header = text.cast::<[usize; HEADER_WORDS]>();
        // SAFETY: every `str` has these words; where the state is that of a `str` of ASCII, the characters follow them.
        unsafe {
            let is_ascii = ((*header)[STATE] ^ self.header[STATE]) & KEPT == 0;
            is_ascii.then(|| std::slice::from_raw_parts(header.add(1).cast(), (*header)[LENGTH]))
        }
    }

    /// The pairs of a dict whose keys are all `str`; None where they are not known to be.
    ///
    /// # Safety
    ///
    /// The GIL is held, and `dict` is a live dict that does not change while the pairs are used.
    #[inline]
    #[allow(clippy::unused_self, reason = "who has a layout may look")]
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
            Some(Pairs { entries, values: dict.values, next: 0, n: n.cast_unsigned() })
        }
    }
}

/// The pairs of a dict, in order.
pub(super) struct Pairs {
    entries: *const Entry,
    /// Null where the values stand beside the keys.
    values: *mut *mut ffi::PyObject,
    next: usize,
    n: usize,
}

impl Iterator for Pairs {
    type Item = (*mut ffi::PyObject, *mut ffi::PyObject);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        // SAFETY: there are `n` entries, or places in the order, which stands in front of the values from its end to its
        // beginning, behind two bytes of sizes.
        unsafe {
            while self.next < self.n {
                let at = self.next;
                self.next += 1;
                if !self.values.is_null() {
                    let at = usize::from(self.values.cast::<u8>().sub(3 + at).read());
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

/// The header of a new ASCII `str`, if it is as expected.
unsafe fn header() -> Option<[usize; HEADER_WORDS]> {
    // SAFETY: the GIL is held; the str has a header of at least so many words.
    unsafe {
        let sample = ffi::PyUnicode_New(2, 127);
        if sample.is_null() {
            ffi::PyErr_Clear();
            return None;
        }
        let header = sample.cast::<[usize; HEADER_WORDS]>().read();
        let in_front = ffi::PyUnicode_DATA(sample).addr() - sample.addr();
        ffi::Py_DECREF(sample);
        // A reference, the type, the length, no hash yet, the state, and no wide characters.
        let [references, _, length, hash, _, wide] = header;
        let is_expected = references == 1 && length == 2 && hash == usize::MAX && wide == 0;
        (is_expected && in_front == size_of_val(&header)).then_some(header)
    }
}

/// Make a dict of shared keys and see whether the interpreter finds in it what was put there.
unsafe fn is_as_written() -> Option<()> {
    // SAFETY: the GIL is held; every reference that is made is given up.
    unsafe {
        let keys = [c"b".as_ptr(), c"a".as_ptr()].map(|key| ffi::PyUnicode_FromString(key));
        if keys.contains(&std::ptr::null_mut()) {
            return None;
        }
        let template = template(&keys);
        let block = Block::new(2);
        if template.is_null() || block.is_none() {
            return None;
        }
        let block = block?;
        for (at, value) in [ffi::Py_True(), ffi::Py_False()].into_iter().enumerate() {
            block.put(at, ffi::Py_NewRef(value));
        }
        let made = block.dict(template);
        if made.is_null() {
            return None;
        }
        let (mut at, mut key, mut value) = (0, std::ptr::null_mut(), std::ptr::null_mut());
        let mut seen = Vec::new();
        while ffi::PyDict_Next(made, &raw mut at, &raw mut key, &raw mut value) != 0 {
            seen.push((key, value));
        }
        let [b, a] = keys;
        let is_found =
            ffi::PyDict_GetItem(made, a) == ffi::Py_False() && ffi::PyDict_GetItem(made, b) == ffi::Py_True();
        let pairs = Layout { header: header()? }.pairs(made).map(Iterator::collect::<Vec<_>>);
        let is_right = pairs.as_ref() == Some(&seen)
            && seen == [(b, ffi::Py_True()), (a, ffi::Py_False())]
            && ffi::PyDict_Size(made) == 2
            && is_found;
        for made in [made, template, a, b] {
            ffi::Py_DECREF(made);
        }
        is_right.then_some(())
    }
}

/// The values of a dict, in front of which stands the order of their keys.
pub(super) struct Block {
    memory: *mut u8,
    n: usize,
}

impl Block {
    /// Bytes in front of the values: the number of them, the order, and the number of keys.
    #[inline]
    fn prefix(n: usize) -> usize {
        (n + 9) & !7
    }

    /// Memory for `n` values, 1 to [`MAX_PAIRS`] of them; None where it is short.
    ///
    /// # Safety
    ///
    /// The GIL is held.
    #[inline]
    pub(super) unsafe fn new(n: usize) -> Option<Self> {
        // SAFETY: the GIL is held.
        let memory = unsafe { ffi::PyMem_Malloc(Self::prefix(n) + n * size_of::<usize>()).cast::<u8>() };
        (!memory.is_null()).then_some(Self { memory, n })
    }

    #[inline]
    fn values(&self) -> *mut *mut ffi::PyObject {
        self.memory.wrapping_add(Self::prefix(self.n)).cast()
    }

    /// Put a new reference in a place.
    ///
    /// # Safety
    ///
    /// `at` is below the number of values.
    #[inline]
    pub(super) unsafe fn put(&self, at: usize, value: *mut ffi::PyObject) {
        // SAFETY: by what is said above.
        unsafe { self.values().add(at).write(value) };
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
                ffi::Py_DECREF(self.values().add(at).read());
            }
            ffi::PyMem_Free(self.memory.cast());
        }
    }

    /// Write that `done` keys are there, in the order of the table.
    #[inline]
    unsafe fn order(&self, done: u8) {
        // SAFETY: the prefix has one word for up to 6 values and two for up to 14.
        unsafe {
            let prefix = Self::prefix(self.n) as u8;
            let last = self.values().cast::<[u8; 8]>().sub(1);
            last.write([5, 4, 3, 2, 1, 0, done, prefix]);
            if prefix > 8 {
                last.sub(1).write([13, 12, 11, 10, 9, 8, 7, 6]);
            }
        }
    }

    /// A dict of these values, not known to the collector; null, with no exception set and everything given up, where memory is
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
            self.order(self.n as u8);
            let (dict, shared) = (made.cast::<Dict>(), (*template.cast::<Dict>()).keys);
            (*(*dict).keys).references -= 1;
            (*shared).references += 1;
            (*dict).keys = shared;
            (*dict).values = self.values();
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
pub(super) unsafe fn template(keys: &[*mut ffi::PyObject]) -> *mut ffi::PyObject {
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
        let block = if is_expected { Block::new(keys.len()) } else { None };
        let Some(block) = block else {
            ffi::Py_DECREF(made);
            return std::ptr::null_mut();
        };
        block.order(0);
        for at in 0..keys.len() {
            ffi::Py_DECREF(std::mem::replace(&mut (*entries.add(at)).value, std::ptr::null_mut()));
            block.put(at, std::ptr::null_mut());
        }
        // No room for more keys: who adds one gets a table of its own.
        ((*table).kind, (*table).version, (*table).usable) = (SHARED, 0, 0);
        (*dict).values = block.values();
        (*dict).used = 0;
        made
    }
}
