//! A bounded store of entries by fingerprint.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use super::entry::Entry;

/// Keys are hashes already.
#[derive(Default)]
pub(super) struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
}

type Map = HashMap<u128, Arc<Entry>, BuildHasherDefault<AsIs>>;

/// Two generations: what was asked for since the last turn-over, and what was before. When the young one is full, the
/// old one is forgotten; so an entry in use is never lost, and a lookup costs one or two probes.
#[derive(Debug)]
pub struct Cache {
    young: Map,
    old: Map,
    young_bytes: usize,
    limit_bytes: usize,
}

impl Cache {
    /// Holds entries of about `limit_bytes`.
    #[must_use]
    pub fn new(limit_bytes: usize) -> Self {
        Self { young: Map::default(), old: Map::default(), young_bytes: 0, limit_bytes }
    }

    /// The entry of `key`.
    pub fn get(&mut self, key: u128) -> Option<Arc<Entry>> {
        if let Some(entry) = self.young.get(&key) {
            return Some(Arc::clone(entry));
        }
        let entry = self.old.remove(&key)?;
        self.put(key, Arc::clone(&entry));
        Some(entry)
    }

    /// Keep an entry.
    pub fn put(&mut self, key: u128, entry: Arc<Entry>) {
        let bytes = entry.heap_bytes();
        if self.young_bytes + bytes > self.limit_bytes / 2 && !self.young.is_empty() {
            self.old = std::mem::take(&mut self.young);
            self.young_bytes = 0;
        }
        self.young_bytes += bytes;
        self.young.insert(key, entry);
    }

    /// How many entries are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Whether nothing is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
