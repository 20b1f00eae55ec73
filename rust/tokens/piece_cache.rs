//! A bounded memory of how many tokens recent short pieces had.

use std::sync::{Mutex, PoisonError};

use super::vocab::{hash_of, key_at};

/// Sets of four slots of 16 bytes, each set a line of the processor's cache. Found by measurement.
const SETS: usize = 1 << 13;
/// Longest piece that is kept as a key, in bytes: a key holds 15 and their number.
pub(super) const SHORT: usize = 15;
/// Longest piece that is kept at all.
const LONGEST: usize = 126;
/// Slots for pieces that are longer than a key.
const N_LONG: usize = 1 << 9;

/// Pieces and their counts.
pub(super) struct PieceCache {
    sets: Vec<Set>,
    long: Vec<Long>,
}

/// Keys with their counts (at most 15) in the top 4 bits, the newest first.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Set([u128; 4]);

/// A longer piece.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Long {
    length: u8,
    count: u8,
    bytes: [u8; LONGEST],
}

impl PieceCache {
    fn new() -> Self {
        let none = Long { length: 0, count: 0, bytes: [0; LONGEST] };
        Self { sets: vec![Set([0; 4]); SETS], long: vec![none; N_LONG] }
    }

    /// Tokens of the piece `text[from..to]`, if they are known or else as `count` says.
    #[inline]
    pub(super) fn count(&mut self, text: &[u8], from: usize, to: usize, count: impl FnOnce() -> u64) -> u64 {
        if to - from > SHORT {
            return self.count_long(&text[from..to], count);
        }
        let key = key_at(text, from, to);
        let at = (hash_of(key) >> 40) as usize % SETS;
        // No key is 0: it holds the length of the piece.
        if let Some(Set([first, second, ..])) = self.sets.get(at) {
            let (is_first, is_second) = ((first ^ key) << 4 == 0, (second ^ key) << 4 == 0);
            if is_first | is_second {
                return (if is_first { first >> 124 } else { second >> 124 }) as u64;
            }
        }
        self.count_short(at, key, count)
    }

    /// As `count`, of a piece that is not in the first two slots of its set.
    #[inline(never)]
    fn count_short(&mut self, at: usize, key: u128, count: impl FnOnce() -> u64) -> u64 {
        let Set(set) = &mut self.sets[at];
        for slot in 2..4 {
            if (set[slot] ^ key) << 4 == 0 {
                set.swap(slot, 1);
                return (set[1] >> 124) as u64;
            }
        }
        let tokens = count();
        *set = [key | u128::from(tokens) << 124, set[0], set[1], set[2]];
        tokens
    }

    #[inline(never)]
    fn count_long(&mut self, piece: &[u8], count: impl FnOnce() -> u64) -> u64 {
        let (Some(head), Some(tail), 16..=LONGEST) = (piece.first_chunk::<8>(), piece.last_chunk::<8>(), piece.len())
        else {
            return count();
        };
        let word = u64::from_le_bytes(*head).rotate_left(31) ^ u64::from_le_bytes(*tail);
        let hash = (word ^ piece.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = &mut self.long[(hash >> 40) as usize % N_LONG];
        if usize::from(slot.length) == piece.len() && slot.bytes[..piece.len()] == *piece {
            return u64::from(slot.count);
        }
        let tokens = count();
        slot.bytes[..piece.len()].copy_from_slice(piece);
        (slot.length, slot.count) = (piece.len() as u8, tokens as u8);
        tokens
    }
}

/// As many caches as there were counts at one time, each used by one of them.
pub(super) struct Pool {
    idle: Mutex<Vec<PieceCache>>,
}

impl Pool {
    pub(super) const fn new() -> Self {
        Self { idle: Mutex::new(Vec::new()) }
    }

    /// Call `count` with a cache that nobody else uses meanwhile.
    pub(super) fn with<T>(&self, count: impl FnOnce(&mut PieceCache) -> T) -> T {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut cache = idle.unwrap_or_else(PieceCache::new);
        let counted = count(&mut cache);
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(cache);
        counted
    }
}
