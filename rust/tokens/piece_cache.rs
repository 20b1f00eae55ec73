//! A bounded memory of how many tokens recent short pieces had.

use std::sync::{Mutex, PoisonError};

/// Sets of two slots; with 16 bytes a slot the table stays inside a second-level cache. Found by measurement.
const SETS: usize = 1 << 13;
/// Longest piece that is kept, in bytes: a key holds 15 and their number.
pub(super) const LONGEST: usize = 15;

/// A piece goes into the first slot of its set and moves what was there to the second. The count (at most 15) is in the
/// top 4 bits.
pub(super) struct PieceCache {
    sets: Vec<[u128; 2]>,
}

impl PieceCache {
    fn new() -> Self {
        Self { sets: vec![[0; 2]; SETS] }
    }

    /// Tokens of the piece with this key, if it is here.
    #[inline]
    pub(super) fn get(&self, key: u128, hash: u64) -> Option<u64> {
        let [first, second] = self.sets[set_of(hash)];
        // No key is 0: it holds the length of the piece.
        if (first ^ key) << 4 == 0 {
            Some((first >> 124) as u64)
        } else if (second ^ key) << 4 == 0 {
            Some((second >> 124) as u64)
        } else {
            None
        }
    }

    /// Keep the tokens of a piece.
    #[inline]
    pub(super) fn put(&mut self, key: u128, hash: u64, count: u64) {
        let set = &mut self.sets[set_of(hash)];
        *set = [key | u128::from(count) << 124, set[0]];
    }
}

#[inline]
fn set_of(hash: u64) -> usize {
    (hash >> 40) as usize % SETS
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
