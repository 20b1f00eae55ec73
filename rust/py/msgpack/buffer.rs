//! Where encoded bytes go: small documents into memory that is kept, and warm, and copied once; large ones straight into
//! the `bytes` object, at the size that the last large one had.
#![allow(unsafe_code, reason = "a bounds check and a memcpy call for every few bytes are half of the time")]

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::exceptions::PyMemoryError;
use pyo3::ffi;
use pyo3::ffi::compat;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::msgpack::encode::Sink;
use crate::msgpack::marker;

/// Above this a second copy costs more than it saves.
const SCRATCH_BYTES: usize = 64 << 10;

/// The memory of the last call. A call that comes while another is under way takes new memory.
static SCRATCH: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// What the last large document took: the next is likely to be a little larger. A guess, so that no order is needed.
static LAST_LARGE: AtomicUsize = AtomicUsize::new(0);

pub(super) struct Buffer {
    scratch: Vec<u8>,
    /// Null while the scratch memory is large enough.
    writer: *mut compat::PyBytesWriter,
    data: *mut u8,
    len: usize,
    capacity: usize,
    /// There was no memory to grow into: what was to be written is lost, and `finish` says so.
    failed: bool,
}

impl Buffer {
    pub(super) fn new() -> Self {
        let mut scratch = SCRATCH.try_lock().map(|mut kept| std::mem::take(&mut *kept)).unwrap_or_default();
        scratch.reserve(SCRATCH_BYTES);
        let (data, capacity) = (scratch.as_mut_ptr(), scratch.capacity());
        Self { scratch, writer: std::ptr::null_mut(), data, len: 0, capacity, failed: false }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn has_failed(&self) -> bool {
        self.failed
    }

    #[cold]
    #[inline(never)]
    fn grow(&mut self, n: usize) -> bool {
        let wanted = self.len.saturating_add(n).max(self.capacity.saturating_mul(2));
        let is_grown = self.grow_to(wanted);
        self.failed |= !is_grown;
        is_grown
    }

    /// Move to a `bytes` object of at least `wanted` bytes; false, and nothing has changed, where there is no memory.
    fn grow_to(&mut self, wanted: usize) -> bool {
        if ffi::Py_ssize_t::try_from(wanted).is_err() {
            return false;
        }
        let last = LAST_LARGE.load(Ordering::Relaxed);
        let wanted = wanted.max(last.saturating_add(last / 16));
        // SAFETY: the GIL is held. The new writer has room for `wanted` bytes, which are more than the `len` that are
        // copied; `data` points into the scratch memory or the old writer, which lives until then. A new one and not
        // `PyBytesWriter_Resize`, which panics where memory is short.
        unsafe {
            let writer = compat::PyBytesWriter_Create(wanted.cast_signed());
            if writer.is_null() {
                ffi::PyErr_Clear();
                return false;
            }
            let data = compat::PyBytesWriter_GetData(writer).cast();
            std::ptr::copy_nonoverlapping(self.data, data, self.len);
            compat::PyBytesWriter_Discard(std::mem::replace(&mut self.writer, writer));
            (self.data, self.capacity) = (data, wanted);
        }
        true
    }

    /// Make room for `n` bytes; false where there is none, and nothing may be written.
    #[inline]
    fn reserve(&mut self, n: usize) -> bool {
        self.capacity - self.len >= n || self.grow(n)
    }

    /// Take back what was written from byte `start` on.
    pub(super) fn take_back(&mut self, start: usize) {
        self.len = self.len.min(start);
    }

    /// Overwrite four bytes that were reserved at `at` for a length.
    pub(super) fn patch(&mut self, at: usize, length: u32) {
        if at.saturating_add(4) <= self.len {
            // SAFETY: the four bytes lie within what was written.
            unsafe { std::ptr::copy_nonoverlapping(length.to_be_bytes().as_ptr(), self.data.add(at), 4) };
        }
    }

    /// Append the first `n` of some bytes, by copying them all.
    #[inline]
    pub(super) fn first<const N: usize>(&mut self, bytes: &[u8; N], n: usize) {
        if self.reserve(N) {
            // SAFETY: there is room for all of them behind what is written; they lie elsewhere.
            unsafe { self.data.add(self.len).cast::<[u8; N]>().write_unaligned(*bytes) };
            self.len += n.min(N);
        }
    }

    /// What was written from byte `start` on.
    pub(super) fn since(&self, start: usize) -> &[u8] {
        // SAFETY: `len` bytes are written.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }.get(start..).unwrap_or_default()
    }

    /// Append a string of up to 2^16 bytes, with one check for its header and its text; false where it is longer.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "called for every other value")]
    pub(super) fn text(&mut self, text: &[u8]) -> bool {
        let n = text.len();
        if n > usize::from(u16::MAX) {
            return false;
        }
        if !self.reserve(3 + n) {
            return true;
        }
        // SAFETY: there is room for the longest of these headers and the text behind what is written, and `text` lies
        // elsewhere.
        unsafe {
            let end = self.data.add(self.len);
            if n < 32 {
                *end = marker::FIXSTR | n as u8;
                copy_short(text, end.add(1));
                self.len += 1 + n;
            } else if n < 256 {
                *end = marker::STR8;
                *end.add(1) = n as u8;
                std::ptr::copy_nonoverlapping(text.as_ptr(), end.add(2), n);
                self.len += 2 + n;
            } else {
                *end = marker::STR16;
                end.add(1).cast::<[u8; 2]>().write((n as u16).to_be_bytes());
                std::ptr::copy_nonoverlapping(text.as_ptr(), end.add(3), n);
                self.len += 3 + n;
            }
        }
        true
    }

    pub(super) fn finish(mut self, py: Python<'_>) -> PyResult<Bound<'_, PyBytes>> {
        if self.failed {
            return Err(PyMemoryError::new_err("no memory for the encoded document"));
        }
        if self.writer.is_null() {
            // SAFETY: `len` bytes of the scratch memory are written; null comes with the exception set.
            let bytes = unsafe {
                let bytes = ffi::PyBytes_FromStringAndSize(self.data.cast(), self.len.cast_signed());
                Bound::from_owned_ptr_or_err(py, bytes)?
            };
            return Ok(bytes.cast_into()?);
        }
        LAST_LARGE.store(self.len, Ordering::Relaxed);
        let writer = std::mem::replace(&mut self.writer, std::ptr::null_mut());
        // SAFETY: the writer is live, `len` bytes of it are written, and it is not used again.
        let bytes = unsafe {
            let bytes = compat::PyBytesWriter_FinishWithSize(writer, self.len.cast_signed());
            Bound::from_owned_ptr_or_err(py, bytes)?
        };
        Ok(bytes.cast_into()?)
    }
}

/// Copy a text, without a call where it is short: two loads that overlap take any length up to twice their own.
///
/// # Safety
///
/// `to` has room for the text and does not overlap it.
#[inline]
unsafe fn copy_short(text: &[u8], to: *mut u8) {
    /// Copy the first and the last bytes of `n`, which may overlap.
    #[inline]
    unsafe fn ends<T: Copy>(from: *const u8, to: *mut u8, n: usize) {
        let last = n - size_of::<T>();
        // SAFETY: both ends lie within the `n` bytes of each.
        unsafe {
            let (head, tail) = (from.cast::<T>().read_unaligned(), from.add(last).cast::<T>().read_unaligned());
            to.cast::<T>().write_unaligned(head);
            to.add(last).cast::<T>().write_unaligned(tail);
        }
    }
    let (from, n) = (text.as_ptr(), text.len());
    // SAFETY: each pair of copies lies within the `n` bytes of both.
    unsafe {
        match n {
            16..=32 => ends::<u128>(from, to, n),
            8..16 => ends::<u64>(from, to, n),
            4..8 => ends::<u32>(from, to, n),
            _ => std::ptr::copy_nonoverlapping(from, to, n),
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: null, or a live writer that nobody uses after this.
        unsafe { compat::PyBytesWriter_Discard(self.writer) };
        if let Ok(mut kept) = SCRATCH.try_lock() {
            *kept = std::mem::take(&mut self.scratch);
        }
    }
}

impl Sink for Buffer {
    #[inline]
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.extend(&bytes);
    }

    #[inline]
    fn extend(&mut self, bytes: &[u8]) {
        if !self.reserve(bytes.len()) {
            return;
        }
        // SAFETY: there is room for `bytes` behind `len`, and no slice borrows the buffer.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.data.add(self.len), bytes.len()) };
        self.len += bytes.len();
    }
}
