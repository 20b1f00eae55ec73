//! A bounded memory of the counts of whole texts, so that re-packing a history costs only what is new.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::Counter;
use crate::Result;

/// Texts shorter than this are counted each time: that is as quick as looking them up. Found by measurement.
const SHORTEST_BYTES: usize = 64;
/// Counts kept in each of two generations.
const GENERATION: usize = 1 << 15;

/// How a memory of counts has served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Counts that were remembered.
    pub hits: u64,
    /// Counts that had to be made.
    pub misses: u64,
    /// Texts remembered.
    pub entries: u64,
    /// Bytes that the memory holds.
    pub bytes: u64,
}

/// A counter that remembers the counts of texts, by a 128-bit hash with a seed of this process.
///
/// The newer half of what it holds is never dropped; the older half goes when the newer is full.
pub struct Remembering {
    inner: Arc<dyn Counter>,
    seed: u64,
    counts: Mutex<Counts>,
}

/// The hash is a hash already.
#[derive(Default, Clone, Copy)]
struct Already(u64);

impl Hasher for Already {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            self.0 = chunk.iter().fold(self.0, |hash, byte| hash << 8 | u64::from(*byte));
        }
    }

    fn write_u128(&mut self, value: u128) {
        self.0 = value as u64;
    }
}

impl BuildHasher for Already {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        *self
    }
}

#[derive(Default)]
struct Counts {
    newer: HashMap<u128, u64, Already>,
    older: HashMap<u128, u64, Already>,
    hits: u64,
    misses: u64,
}

impl Counts {
    fn get(&mut self, key: u128) -> Option<u64> {
        let found = match self.newer.get(&key) {
            Some(&count) => Some(count),
            None => self.older.remove(&key).inspect(|&count| self.put(key, count)),
        };
        match found {
            Some(_) => self.hits += 1,
            None => self.misses += 1,
        }
        found
    }

    fn put(&mut self, key: u128, count: u64) {
        if self.newer.len() >= GENERATION {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(key, count);
    }
}

impl Remembering {
    /// Remember what `inner` counts.
    #[must_use]
    pub fn new(inner: Arc<dyn Counter>) -> Self {
        let seed = RandomState::new().hash_one(inner.id());
        Self { inner, seed, counts: Mutex::default() }
    }

    /// The counter that remembers nothing.
    #[must_use]
    pub fn inner(&self) -> &Arc<dyn Counter> {
        &self.inner
    }

    /// How the memory has served.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let counts = self.lock();
        let capacity = counts.newer.capacity() + counts.older.capacity();
        Figures {
            hits: counts.hits,
            misses: counts.misses,
            entries: (counts.newer.len() + counts.older.len()) as u64,
            bytes: (capacity * size_of::<(u128, u64)>()) as u64,
        }
    }

    /// Forget every count and start the figures anew.
    pub fn clear(&self) {
        *self.lock() = Counts::default();
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self, text: &str) -> Option<u128> {
        // A caller's counter is slow whatever the length.
        (text.len() >= SHORTEST_BYTES || self.inner.calls_back())
            .then(|| xxh3_128_with_seed(text.as_bytes(), self.seed))
    }
}

impl Counter for Remembering {
    fn count(&self, text: &str) -> Result<u64> {
        let Some(key) = self.key(text) else { return self.inner.count(text) };
        if let Some(count) = self.lock().get(key) {
            return Ok(count);
        }
        let count = self.inner.count(text)?;
        self.lock().put(key, count);
        Ok(count)
    }

    /// With two looks at the memory, whatever the number of texts: threads that count at the same time wait for it, and the line
    /// of its lock goes back and forth between their cores.
    fn count_all(&self, texts: &[&str]) -> Result<Vec<u64>> {
        if self.inner.calls_back() {
            return texts.iter().map(|text| self.count(text)).collect();
        }
        let keys: Vec<Option<u128>> = texts.iter().map(|text| self.key(text)).collect();
        let mut found: Vec<Option<u64>> = {
            let mut counts = self.lock();
            keys.iter().map(|key| key.and_then(|key| counts.get(key))).collect()
        };
        let unknown: Vec<&str> =
            texts.iter().zip(&found).filter(|(_, count)| count.is_none()).map(|(text, _)| *text).collect();
        let mut afresh = self.inner.count_all(&unknown)?.into_iter();
        let mut counts = self.lock();
        for (slot, key) in found.iter_mut().zip(&keys).filter(|(slot, _)| slot.is_none()) {
            *slot = afresh.next();
            if let (Some(key), Some(count)) = (*key, *slot) {
                counts.put(key, count);
            }
        }
        drop(counts);
        Ok(found.into_iter().flatten().collect())
    }

    fn fits(&self, text: &str, limit: u64) -> Result<bool> {
        let known = self.key(text).and_then(|key| self.lock().get(key));
        known.map_or_else(|| self.inner.fits(text, limit), |count| Ok(count <= limit))
    }

    fn cut(&self, text: &str, limit: u64) -> Result<usize> {
        self.inner.cut(text, limit)
    }

    fn id(&self) -> u64 {
        self.inner.id()
    }

    fn margin(&self) -> f64 {
        self.inner.margin()
    }

    fn calls_back(&self) -> bool {
        self.inner.calls_back()
    }
}
