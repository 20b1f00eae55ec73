//! A bounded memory of how many tokens recent short pieces had.

use std::sync::{Mutex, PoisonError};

/// Slots; with 16 bytes each the table stays inside a second-level cache. Found by measurement.
const SLOTS: usize = 1 << 14;
/// Longest piece that is kept, in bytes: a key holds 15 and their number.
pub(super) const LONGEST: usize = 15;

/// Direct-mapped: a piece replaces whatever was in its slot. The count (at most 15) is in the top 4 bits.
pub(super) struct PieceCache {
    slots: Vec<u128>,
}

impl PieceCache {
    fn new() -> Self {
        Self { slots: vec![0; SLOTS] }
    }

    /// Tokens of the piece with this key, if it is here.
    #[inline]
    pub(super) fn get(&self, key: u128, hash: u64) -> Option<u64> {
        let slot = self.slots[slot_of(hash)];
        ((slot ^ key) << 4 == 0 && slot != 0).then_some((slot >> 124) as u64)
    }

    /// Keep the tokens of a piece.
    #[inline]
    pub(super) fn put(&mut self, key: u128, hash: u64, count: u64) {
        self.slots[slot_of(hash)] = key | u128::from(count) << 124;
    }
}

#[inline]
fn slot_of(hash: u64) -> usize {
    (hash >> 40) as usize % SLOTS
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
