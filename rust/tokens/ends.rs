//! Where many pieces end, found before any is looked up: then the processor waits for many look-ups at once.

use super::split::Split;

/// Ends found at a time, but for those of the last window.
const MANY: usize = 256;
/// Starts of one window that are written together, wanted or not.
const TOGETHER: usize = 8;

/// Ends of pieces that follow each other.
pub(super) struct Ends {
    ends: [usize; MANY + 64 + TOGETHER],
    n: usize,
}

impl Ends {
    pub(super) fn new() -> Self {
        Self { ends: [0; MANY + 64 + TOGETHER], n: 0 }
    }

    /// Ends of the pieces from `at` on, where one starts: as many as there is room for, or hardly more than `most`.
    #[inline]
    pub(super) fn find<S: Split>(&mut self, text: &[u8], mut at: usize, most: u64) -> &[usize] {
        let most = most.clamp(1, MANY as u64) as usize;
        self.n = 0;
        while at < text.len() && self.n < most {
            if text[at].is_ascii() {
                let starts = S::starts(text, at);
                if starts.bits != 0 {
                    self.put(at, starts.bits);
                    at += 63 - starts.bits.leading_zeros() as usize;
                    if !starts.is_cut || at == text.len() || self.n >= most {
                        continue;
                    }
                }
            }
            at = S::end(text, at);
            self.ends[self.n] = at;
            self.n += 1;
        }
        &self.ends[..self.n]
    }

    /// Keep `at` and each bit's place beyond it.
    #[inline]
    fn put(&mut self, at: usize, mut bits: u64) {
        let mut n = self.n;
        self.n += bits.count_ones() as usize;
        while n < self.n {
            let Some(room) = self.ends.get_mut(n..n + TOGETHER) else { return };
            for end in room {
                *end = at + bits.trailing_zeros() as usize;
                bits &= bits.wrapping_sub(1);
            }
            n += TOGETHER;
        }
    }
}
