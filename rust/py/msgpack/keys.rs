//! The keys that were seen last: a session says "role" and "content" some thousand times.
#![allow(unsafe_code, reason = "comparing with the bytes of a str in place is the point of the cache")]

use std::cell::UnsafeCell;

use pyo3::ffi;

/// Longer keys are rare and not worth the comparison.
pub(super) const MAX_KEY_BYTES: usize = 32;
const SLOTS: usize = 1024;

/// One `str` per slot, replaced on collision.
pub(super) struct KeyCache(UnsafeCell<[*mut ffi::PyObject; SLOTS]>);

// SAFETY: touched with the GIL held only, by functions that run no Python code.
unsafe impl Sync for KeyCache {}

pub(super) static KEYS: KeyCache = KeyCache(UnsafeCell::new([std::ptr::null_mut(); SLOTS]));

/// A hash of length, first and last bytes: keys that agree in all three share a slot, which costs a miss and no more.
#[inline]
fn slot(key: &[u8]) -> usize {
    let (head, tail) = if let (Some(head), Some(tail)) = (key.first_chunk::<8>(), key.last_chunk::<8>()) {
        (u64::from_le_bytes(*head), u64::from_le_bytes(*tail))
    } else if let (Some(head), Some(tail)) = (key.first_chunk::<4>(), key.last_chunk::<4>()) {
        (u64::from(u32::from_le_bytes(*head)), u64::from(u32::from_le_bytes(*tail)))
    } else {
        (key.iter().fold(0, |word, byte| (word << 8) | u64::from(*byte)), 0)
    };
    let mixed = (head ^ tail.rotate_left(29) ^ key.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 54) as usize % SLOTS
}

impl KeyCache {
    /// A new reference to the `str` of a short key; None where the key is not ASCII, null, with the exception set, where
    /// memory is short.
    ///
    /// # Safety
    ///
    /// The GIL is held.
    #[inline]
    pub(super) unsafe fn get(&self, key: &[u8]) -> Option<*mut ffi::PyObject> {
        // SAFETY: the GIL is held, and nothing below runs Python code or comes back here.
        unsafe {
            let cached = (*self.0.get()).get_mut(slot(key))?;
            if !cached.is_null() {
                let data = ffi::PyUnicode_DATA(*cached).cast::<u8>();
                let text = std::slice::from_raw_parts(data, ffi::PyUnicode_GET_LENGTH(*cached) as usize);
                if text == key {
                    ffi::Py_INCREF(*cached);
                    return Some(*cached);
                }
            }
            if !key.is_ascii() {
                return None;
            }
            let made = ascii(key);
            if !made.is_null() {
                ffi::Py_XDECREF(*cached);
                ffi::Py_INCREF(made);
                *cached = made;
            }
            Some(made)
        }
    }
}

/// A new `str`; null, with the exception set, where memory is short.
///
/// # Safety
///
/// The GIL is held, and `text` is ASCII.
#[inline]
pub(super) unsafe fn ascii(text: &[u8]) -> *mut ffi::PyObject {
    // SAFETY: a str made for this length and largest character has one byte for each, which no one else sees yet.
    unsafe {
        let made = ffi::PyUnicode_New(text.len().cast_signed(), 127);
        if !made.is_null() && !text.is_empty() {
            std::ptr::copy_nonoverlapping(text.as_ptr(), ffi::PyUnicode_DATA(made).cast::<u8>(), text.len());
        }
        made
    }
}
