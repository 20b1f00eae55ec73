//! What stands in front of the characters of an ASCII `str`: copied where one is made, looked at where one is read.
//!
//! Of `CPython` 3.11 to 3.14 alone, as [`super::shared_keys`], which asks for it.
#![allow(unsafe_code, reason = "`PyUnicode_New` works out in 41 instructions what is a copy here")]

use pyo3::ffi;

/// Up to 3.11 there are 6, from 3.12 on 5.
const WORDS: usize = size_of::<ffi::PyASCIIObject>() / size_of::<usize>();

/// Where length and state stand.
const LENGTH: usize = 2;
const STATE: usize = 4;
/// The bits of the state that say how the characters are kept, without those of how the `str` itself is.
const KEPT: usize = 0x7c;

/// The header of a `str` of ASCII characters.
pub(super) struct Header([usize; WORDS]);

impl Header {
    /// That of a new `str`, if it is as expected.
    ///
    /// # Safety
    ///
    /// The GIL is held, and the interpreter is one of those above.
    pub(super) unsafe fn found() -> Option<Self> {
        // SAFETY: the GIL is held; the str has a header of at least so many words.
        unsafe {
            let sample = ffi::PyUnicode_New(2, 127);
            if sample.is_null() {
                ffi::PyErr_Clear();
                return None;
            }
            let header = sample.cast::<[usize; WORDS]>().read();
            let in_front = ffi::PyUnicode_DATA(sample).addr() - sample.addr();
            ffi::Py_DECREF(sample);
            // A reference, the type, the length, no hash yet, the state, and no wide characters.
            let [references, _, length, hash, _, ref wide @ ..] = header;
            let is_expected =
                references == 1 && length == 2 && hash == usize::MAX && wide.iter().all(|word| *word == 0);
            (is_expected && in_front == size_of_val(&header)).then_some(Self(header))
        }
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
            let made = ffi::PyObject_Malloc(size_of_val(&self.0) + text.len() + 1).cast::<[usize; WORDS]>();
            if !made.is_null() {
                made.write(self.0);
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
        let header = text.cast::<[usize; WORDS]>();
        // SAFETY: every `str` has these words; where the state is that of a `str` of ASCII, the characters follow them.
        unsafe {
            let is_ascii = ((*header)[STATE] ^ self.0[STATE]) & KEPT == 0;
            is_ascii.then(|| std::slice::from_raw_parts(header.add(1).cast(), (*header)[LENGTH]))
        }
    }
}
