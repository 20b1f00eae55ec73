//! Where encoded bytes go: memory that is kept between calls, so that its pages are warm, copied once at the end.
#![allow(unsafe_code, reason = "a bounds check and a memcpy call for every few bytes are half of the time")]

use std::sync::Mutex;

use crate::msgpack::encode::Sink;

/// What is kept between calls at most; a larger document gives its memory back.
const KEPT_BYTES: usize = 4 << 20;

/// The memory of the last call. A call that comes while another is under way takes new memory.
static KEPT: Mutex<Vec<u8>> = Mutex::new(Vec::new());

pub(super) struct Buffer(Vec<u8>);

impl Buffer {
    pub(super) fn new() -> Self {
        let kept = KEPT.try_lock().map(|mut kept| std::mem::take(&mut *kept)).unwrap_or_default();
        Self(kept)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Overwrite four bytes that were reserved at `at` for a length.
    pub(super) fn patch(&mut self, at: usize, length: u32) {
        if let Some(place) = self.0.get_mut(at..at.saturating_add(4)) {
            place.copy_from_slice(&length.to_be_bytes());
        }
    }

    /// Append a header of up to 5 bytes and the text that it announces, with one check for both.
    #[inline]
    pub(super) fn short_text<const N: usize>(&mut self, header: [u8; N], text: &[u8]) {
        self.0.reserve(N + text.len());
        // SAFETY: there is room for both behind what is written, and `text` lies elsewhere.
        unsafe {
            let end = self.0.as_mut_ptr().add(self.0.len());
            std::ptr::copy_nonoverlapping(header.as_ptr(), end, N);
            copy_short(text, end.add(N));
            self.0.set_len(self.0.len() + N + text.len());
        }
    }
}

/// Copy a text, without a call where it is short: two loads that overlap take any length up to twice their own.
///
/// # Safety
///
/// `to` has room for the text and does not overlap it.
#[inline]
unsafe fn copy_short(text: &[u8], to: *mut u8) {
    let (from, n) = (text.as_ptr(), text.len());
    // SAFETY: each pair of copies lies within the `n` bytes of both.
    unsafe {
        match n {
            16..=32 => {
                let (head, tail) =
                    (from.cast::<u128>().read_unaligned(), from.add(n - 16).cast::<u128>().read_unaligned());
                to.cast::<u128>().write_unaligned(head);
                to.add(n - 16).cast::<u128>().write_unaligned(tail);
            }
            8..16 => {
                let (head, tail) =
                    (from.cast::<u64>().read_unaligned(), from.add(n - 8).cast::<u64>().read_unaligned());
                to.cast::<u64>().write_unaligned(head);
                to.add(n - 8).cast::<u64>().write_unaligned(tail);
            }
            4..8 => {
                let (head, tail) =
                    (from.cast::<u32>().read_unaligned(), from.add(n - 4).cast::<u32>().read_unaligned());
                to.cast::<u32>().write_unaligned(head);
                to.add(n - 4).cast::<u32>().write_unaligned(tail);
            }
            _ => std::ptr::copy_nonoverlapping(from, to, n),
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.0.capacity() <= KEPT_BYTES
            && let Ok(mut kept) = KEPT.try_lock()
        {
            self.0.clear();
            *kept = std::mem::take(&mut self.0);
        }
    }
}

impl Sink for Buffer {
    #[inline]
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.0.reserve(N);
        // SAFETY: there is room for N bytes behind what is written.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.0.as_mut_ptr().add(self.0.len()), N);
            self.0.set_len(self.0.len() + N);
        }
    }

    #[inline]
    fn extend(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
}
