//! Words that were split lately, so that a text's common words are not stemmed and hashed again.

use std::cell::RefCell;
use std::sync::{Mutex, PoisonError};

use super::index::term_of;
use super::split::{Scratch, finish};
use crate::tokens::masks::padded;

/// 256 KB: within a core's second cache, with room for the common words of a long conversation or 500 tools.
const BITS: u32 = 12;
/// Bytes of the longest word that is kept.
const LONGEST: usize = size_of::<u128>();

/// The word in its bytes, and its term (0 for a stop word).
type Known = (u128, u64);

/// Of the words that fall on one place the latest two stay, the latest first.
pub(super) struct Memo {
    known: Box<[[Known; 2]]>,
    word: Vec<u8>,
}

impl Default for Memo {
    fn default() -> Self {
        Self { known: vec![[(0, 0); 2]; 1 << BITS].into_boxed_slice(), word: Vec::new() }
    }
}

/// What a thread has while it splits.
type Room = Box<(Memo, Scratch)>;

/// Rooms of threads that are gone, for those that come: they find the words of the others known.
static IDLE: Mutex<Vec<Room>> = Mutex::new(Vec::new());
/// Rooms kept, at most.
const ROOMS_KEPT: usize = 8;

/// A room that goes back when its thread ends.
struct Lent(Option<Room>);

impl Default for Lent {
    fn default() -> Self {
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Self(Some(idle.unwrap_or_default()))
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < ROOMS_KEPT {
            idle.extend(self.0.take());
        }
    }
}

thread_local! {
    static LENT: RefCell<Lent> = RefCell::default();
}

/// Do this with the memo and the scratch of this thread.
pub(super) fn with(act: impl FnOnce(&mut Memo, &mut Scratch)) {
    LENT.with_borrow_mut(|Lent(room)| {
        let (memo, scratch) = &mut **room.get_or_insert_default();
        act(memo, scratch);
    });
}

impl Memo {
    /// The term of a word, or `None` for a stop word.
    pub(super) fn term(&mut self, word: &[u8]) -> Option<u64> {
        if word.len() <= LONGEST { self.kept(key_of(word), word) } else { self.work_out(word) }
    }

    /// As `term`, of the word `text[from..to]` in lower case: ASCII letters and digits.
    #[inline]
    pub(super) fn plain_term(&mut self, text: &[u8], from: usize, to: usize) -> Option<u64> {
        let rest = text.get(from..).unwrap_or_default();
        let n = to.wrapping_sub(from);
        let Some(kept) = MASKS.get(n) else { return self.work_out(rest.get(..n).unwrap_or_default()) };
        let chunk = rest.first_chunk().copied().unwrap_or_else(|| padded(rest));
        // The bit that makes a letter lower is set in all digits.
        let key = (u128::from_le_bytes(chunk) | LOWER) & kept;
        self.kept(key, &key.to_le_bytes()[..n])
    }

    #[inline]
    fn kept(&mut self, key: u128, word: &[u8]) -> Option<u64> {
        let mixed = ((key as u64) ^ ((key >> 64) as u64).rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let at = (mixed >> (u64::BITS - BITS)) as usize;
        let [latest, before] = self.known.get(at)?;
        let term = if latest.0 == key {
            latest.1
        } else {
            let term = if before.0 == key { before.1 } else { self.work_out(word).unwrap_or(0) };
            let place = self.known.get_mut(at)?;
            *place = [(key, term), place[0]];
            term
        };
        (term != 0).then_some(term)
    }

    #[inline(never)]
    fn work_out(&mut self, word: &[u8]) -> Option<u64> {
        self.word.clear();
        self.word.extend(word.iter().map(u8::to_ascii_lowercase));
        finish(&mut self.word).then(|| term_of(&self.word))
    }
}

/// What is kept of 16 bytes for a word of each length.
const MASKS: [u128; LONGEST + 1] = {
    let mut masks = [u128::MAX; LONGEST + 1];
    let mut n = 0;
    while n < LONGEST {
        masks[n] = (1 << (8 * n)) - 1;
        n += 1;
    }
    masks
};
/// The bit in each byte that tells lower case from upper.
const LOWER: u128 = u128::MAX / 0xff * 0x20;

/// The first 16 bytes of a word as a number. From loads that overlap, since a loop over its bytes costs more than all the rest
/// of looking it up.
fn key_of(word: &[u8]) -> u128 {
    let shift = |by: usize| 8 * (word.len() - by);
    if let (Some(first), Some(last)) = (word.first_chunk::<8>(), word.last_chunk::<8>()) {
        u128::from(u64::from_le_bytes(*first)) | u128::from(u64::from_le_bytes(*last)) << shift(8)
    } else if let (Some(first), Some(last)) = (word.first_chunk::<4>(), word.last_chunk::<4>()) {
        u128::from(u32::from_le_bytes(*first)) | u128::from(u32::from_le_bytes(*last)) << shift(4)
    } else {
        word.iter().rev().fold(0, |key, byte| key << 8 | u128::from(*byte))
    }
}
