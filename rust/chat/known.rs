//! What was worked out before, by a hash.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Values by a 128-bit hash. What was not asked for during a whole generation is forgotten.
#[derive(Debug)]
pub(crate) struct Known<V> {
    /// At most this many values in a generation, of which two are held.
    generation: usize,
    young: Map<V>,
    old: Map<V>,
}

type Map<V> = HashMap<u128, V, BuildHasherDefault<LowBits>>;

/// The guard of `known`, also after a panic elsewhere: every state of it is sound.
pub(crate) fn locked<V>(known: &Mutex<Known<V>>) -> MutexGuard<'_, Known<V>> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<V: Clone> Known<V> {
    pub(crate) const fn new(generation: usize) -> Self {
        Self {
            generation,
            young: Map::with_hasher(BuildHasherDefault::new()),
            old: Map::with_hasher(BuildHasherDefault::new()),
        }
    }

    pub(crate) fn get(&mut self, hash: u128) -> Option<V> {
        if let Some(known) = self.young.get(&hash) {
            return Some(known.clone());
        }
        let known = self.old.get(&hash).cloned()?;
        self.put(hash, known.clone());
        Some(known)
    }

    pub(crate) fn put(&mut self, hash: u128, value: V) {
        if self.young.len() >= self.generation {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(hash, value);
    }
}

/// The keys are hashes already.
#[derive(Default)]
struct LowBits(u64);

impl Hasher for LowBits {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxhash_rust::xxh3::xxh3_64(bytes);
    }

    fn write_u128(&mut self, hash: u128) {
        self.0 = hash as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::Known;

    const GENERATION: usize = 1 << 10;

    #[test]
    fn what_is_asked_for_stays_and_the_rest_goes() {
        let mut known = Known::new(GENERATION);
        known.put(u128::MAX, 7);
        for n in 0..4 * GENERATION {
            known.put(n as u128, n);
            if n % 1000 == 0 {
                assert_eq!(known.get(u128::MAX), Some(7));
            }
        }
        assert_eq!(known.get(0), None);
        assert_eq!(known.get(4 * GENERATION as u128 - 1), Some(4 * GENERATION - 1));
        assert!(known.young.len() + known.old.len() <= 2 * GENERATION);
    }
}
