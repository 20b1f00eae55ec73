//! The keys that were read or written last: a session says "role" and "content" some thousand times.
#![allow(unsafe_code, reason = "comparing with the bytes of a str in place is the point of the cache")]

use std::cell::UnsafeCell;

use pyo3::ffi;

use crate::msgpack::ascii::is_ascii;

/// Longer keys are rare and not worth the comparison.
pub(super) const MAX_KEY_BYTES: usize = 32;
const SLOTS: usize = 1024;

/// Keys that were read: one `str` per slot, replaced on collision.
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
                if same(text, key) {
                    ffi::Py_INCREF(*cached);
                    return Some(*cached);
                }
            }
            if !is_ascii(key) {
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

/// Longer values of maps are mostly said once: roles, types and names of tools are not.
pub(super) const MAX_VALUE_BYTES: usize = 10;
const VALUE_SLOTS: usize = 512;

#[derive(Clone, Copy)]
struct Value {
    /// Its bytes, and above them their number; 0 is that of no text, which the slot of an empty `made` is not asked for.
    low: u64,
    high: u64,
    made: *mut ffi::PyObject,
}

/// Short values of maps that were read, found and told by their bytes in two words.
pub(super) struct ValueCache(UnsafeCell<[Value; VALUE_SLOTS]>);

// SAFETY: as for `KeyCache`.
unsafe impl Sync for ValueCache {}

pub(super) static VALUES: ValueCache =
    ValueCache(UnsafeCell::new([Value { low: 0, high: 0, made: std::ptr::null_mut() }; VALUE_SLOTS]));

impl ValueCache {
    /// A new reference to the `str` of the first `n` bytes, at most [`MAX_VALUE_BYTES`], that a text begins with; None where they
    /// are not ASCII, null, with the exception set, where memory is short.
    ///
    /// # Safety
    ///
    /// The GIL is held.
    #[inline]
    pub(super) unsafe fn get(&self, rest: &[u8], n: usize) -> Option<*mut ffi::PyObject> {
        let bytes = rest.first_chunk::<16>().map_or_else(|| padded(rest), |bytes| u128::from_le_bytes(*bytes));
        let bytes = bytes & ((1_u128 << (8 * n)) - 1);
        let (low, high) = (bytes as u64, (bytes >> 64) as u64 | (n as u64) << 56);
        let mixed = (low ^ high.rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // SAFETY: the GIL is held, and nothing below runs Python code or comes back here.
        unsafe {
            let value = (*self.0.get()).get_mut((mixed >> 55) as usize % VALUE_SLOTS)?;
            if value.low == low && value.high == high && !value.made.is_null() {
                ffi::Py_INCREF(value.made);
                return Some(value.made);
            }
            value.learn(low, high, rest.get(..n)?)
        }
    }
}

impl Value {
    #[inline(never)]
    unsafe fn learn(&mut self, low: u64, high: u64, text: &[u8]) -> Option<*mut ffi::PyObject> {
        if !is_ascii(text) {
            return None;
        }
        // SAFETY: the GIL is held; what ends here is a `str`, which runs no code.
        unsafe {
            let made = ascii(text);
            if !made.is_null() {
                ffi::Py_INCREF(made);
                ffi::Py_XDECREF(self.made);
                *self = Self { low, high, made };
            }
            Some(made)
        }
    }
}

#[cold]
fn padded(rest: &[u8]) -> u128 {
    rest.iter().rev().fold(0_u128, |word, byte| word << 8 | u128::from(*byte))
}

/// Compare short texts, without a call: two chunks that overlap take any length up to twice their own.
#[inline]
fn same(a: &[u8], b: &[u8]) -> bool {
    #[inline]
    fn ends<const N: usize>(a: &[u8], b: &[u8]) -> bool {
        a.first_chunk::<N>() == b.first_chunk::<N>() && a.last_chunk::<N>() == b.last_chunk::<N>()
    }
    a.len() == b.len()
        && match a.len() {
            16..=32 => ends::<16>(a, b),
            8..16 => ends::<8>(a, b),
            4..8 => ends::<4>(a, b),
            _ => a == b,
        }
}

/// Longest encoded key that is kept: its one byte of header and its text.
const MAX_WRITTEN_BYTES: usize = 32;
const WRITTEN_SLOTS: usize = 128;

#[derive(Clone, Copy)]
struct Written {
    /// A reference of our own, so that no other object can come to have this address; null where the slot is empty.
    key: *mut ffi::PyObject,
    encoded: [u8; MAX_WRITTEN_BYTES],
    len: usize,
}

/// Keys that were written, as they were encoded, found by the address of the `str`.
pub(super) struct WrittenKeys(UnsafeCell<[Written; WRITTEN_SLOTS]>);

// SAFETY: as for `KeyCache`.
unsafe impl Sync for WrittenKeys {}

pub(super) static WRITTEN: WrittenKeys = WrittenKeys(UnsafeCell::new(
    [Written { key: std::ptr::null_mut(), encoded: [0; MAX_WRITTEN_BYTES], len: 0 }; WRITTEN_SLOTS],
));

#[inline]
fn written_slot(key: *mut ffi::PyObject) -> usize {
    // Objects stand at multiples of 16.
    ((key.addr() >> 4) ^ (key.addr() >> 11)) % WRITTEN_SLOTS
}

impl WrittenKeys {
    /// What was kept for this very object, in the first bytes of the array.
    ///
    /// # Safety
    ///
    /// The GIL is held, and what comes back is no longer used when `keep` is called.
    #[inline]
    pub(super) unsafe fn get(&self, key: *mut ffi::PyObject) -> Option<(&[u8; MAX_WRITTEN_BYTES], usize)> {
        // SAFETY: nobody writes to the slots meanwhile, by what is said above.
        let written = unsafe { (*self.0.get()).get(written_slot(key))? };
        (written.key == key).then_some((&written.encoded, written.len))
    }

    /// Keep the encoded form of a key if it is short.
    ///
    /// # Safety
    ///
    /// The GIL is held, and `key` is a live, exact `str`: it never changes, and ends without running any code.
    pub(super) unsafe fn keep(&self, key: *mut ffi::PyObject, encoded: &[u8]) {
        if encoded.len() > MAX_WRITTEN_BYTES {
            return;
        }
        // SAFETY: the GIL is held, and nothing below runs Python code or comes back here.
        unsafe {
            let Some(written) = (*self.0.get()).get_mut(written_slot(key)) else { return };
            if let Some(place) = written.encoded.get_mut(..encoded.len()) {
                place.copy_from_slice(encoded);
            }
            written.len = encoded.len();
            ffi::Py_INCREF(key);
            ffi::Py_XDECREF(std::mem::replace(&mut written.key, key));
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
