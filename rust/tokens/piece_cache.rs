//! A bounded memory of how many tokens recent short pieces had.

use std::sync::{Mutex, PoisonError};

use super::ends::Ends;
use super::vocab::{Key, hash_of};

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
    /// Bytes of the pieces that were counted and are not one token.
    pub(super) merged: usize,
}

/// Keys with their counts (at most 15) in the top 4 bits, the newest first.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Set([Key; 4]);

/// A longer piece.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Long {
    length: u8,
    count: u8,
    bytes: [u8; LONGEST],
}

/// What the keys of two pieces differ in, their counts aside; 0 for the same piece.
#[inline]
fn difference(one: Key, other: Key) -> u64 {
    one.low ^ other.low | (one.high ^ other.high) << 4
}

#[inline]
fn count_in(key: Key) -> u64 {
    key.high >> 60
}

#[inline]
fn set_of(key: Key) -> usize {
    (hash_of(key) >> 40) as usize % SETS
}

impl PieceCache {
    fn new() -> Self {
        let none = Long { length: 0, count: 0, bytes: [0; LONGEST] };
        Self { sets: vec![Set([Key { low: 0, high: 0 }; 4]); SETS], long: vec![none; N_LONG], merged: 0 }
    }

    /// Tokens of the piece with this key, if it is one of the two newest of its set.
    #[inline]
    pub(super) fn get(&self, key: Key) -> Option<u64> {
        let Set([first, second, ..]) = *self.sets.get(set_of(key))?;
        // No key is 0: it holds the length of the piece.
        let (from_first, from_second) = (difference(first, key), difference(second, key));
        // One branch, which is hardly ever taken.
        (from_first.min(from_second) == 0).then(|| count_in(if from_first == 0 { first } else { second }))
    }

    /// As `get`, from all of the set, or else what `count` says.
    pub(super) fn get_or(&mut self, key: Key, count: impl FnOnce() -> u64) -> u64 {
        let Set(set) = &mut self.sets[set_of(key)];
        if let Some(at) = set.iter().position(|&known| difference(known, key) == 0) {
            set.swap(at, 1);
            return count_in(set[1]);
        }
        let tokens = count();
        self.merged += if tokens > 1 { (key.high >> 56) as usize } else { 0 };
        *set = [Key { high: key.high | tokens << 60, ..key }, set[0], set[1], set[2]];
        tokens
    }

    /// Tokens of a piece that is longer than a key holds, if it is here, or else what `count` says.
    pub(super) fn get_long_or(&mut self, piece: &[u8], count: impl FnOnce() -> u64) -> u64 {
        let (Some(head), Some(tail), true) =
            (piece.first_chunk::<8>(), piece.last_chunk::<8>(), piece.len() <= LONGEST)
        else {
            self.merged += piece.len();
            return count();
        };
        let ends = u64::from_le_bytes(*head).rotate_left(31) ^ u64::from_le_bytes(*tail);
        let hash = (ends ^ piece.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slot = &mut self.long[(hash >> 40) as usize % N_LONG];
        if usize::from(slot.length) == piece.len() && slot.bytes[..piece.len()] == *piece {
            return u64::from(slot.count);
        }
        let tokens = count();
        self.merged += if tokens > 1 { piece.len() } else { 0 };
        slot.bytes[..piece.len()].copy_from_slice(piece);
        (slot.length, slot.count) = (piece.len() as u8, tokens as u8);
        tokens
    }
}

/// What a count needs beside the text: the cache, and room for the ends of pieces.
pub(super) struct Room {
    pub(super) cache: PieceCache,
    pub(super) ends: Ends,
}

/// As many rooms as there were counts at one time, each used by one of them.
#[allow(clippy::vec_box, reason = "a room is kilobytes, and is moved in and out at every count")]
pub(super) struct Pool {
    idle: Mutex<Vec<Box<Room>>>,
}

impl Pool {
    pub(super) const fn new() -> Self {
        Self { idle: Mutex::new(Vec::new()) }
    }

    /// Call `count` with a room that nobody else uses meanwhile.
    pub(super) fn with<T>(&self, count: impl FnOnce(&mut Room) -> T) -> T {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut room = idle.unwrap_or_else(|| Box::new(Room { cache: PieceCache::new(), ends: Ends::new() }));
        let counted = count(&mut room);
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(room);
        counted
    }
}
