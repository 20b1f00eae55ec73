//! A bounded memory of the counts of Python strings by who they are: the same object is the same text.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use pyo3::prelude::*;
use pyo3::types::PyString;

/// Strings shorter than this are counted each time, which is as quick. Found by measurement.
const SHORTEST: usize = 64;
/// What each of two generations may hold: strings, and what keeping them alive may cost.
const GENERATION: usize = 1 << 13;
const GENERATION_BYTES: usize = 16 << 20;

/// Holds the strings it knows, so that no other string can come to have their address.
#[derive(Default)]
pub(super) struct Seen {
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    newer: HashMap<usize, (Py<PyString>, u64), BuildHasherDefault<Address>>,
    older: HashMap<usize, (Py<PyString>, u64), BuildHasherDefault<Address>>,
    newer_bytes: usize,
    older_bytes: usize,
    hits: u64,
}

/// Addresses differ above their low bits.
#[derive(Default)]
struct Address(u64);

impl Hasher for Address {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_usize(byte.into());
        }
    }

    fn write_usize(&mut self, address: usize) {
        self.0 = (self.0 ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
    }
}

impl Seen {
    /// Tokens of this very string, if they are known. Another thread at work here counts as not known.
    #[inline]
    pub(super) fn get(&self, text: &Bound<'_, PyString>) -> Option<u64> {
        if text.len().ok()? < SHORTEST {
            return None;
        }
        self.at_once()?.get(text)
    }

    /// As `get` for each of many.
    pub(super) fn get_all(&self, texts: &[Bound<'_, PyString>]) -> Vec<Option<u64>> {
        let Some(mut held) = self.at_once() else { return vec![None; texts.len()] };
        texts.iter().map(|text| held.get(text)).collect()
    }

    /// Keep the tokens of a string.
    pub(super) fn put(&self, text: &Bound<'_, PyString>, count: u64) {
        if let Some(mut held) = self.at_once() {
            held.keep(text, count);
        }
    }

    /// Keep the tokens of many.
    pub(super) fn put_all<'a, 'py: 'a>(&self, counted: impl ExactSizeIterator<Item = (&'a Bound<'py, PyString>, u64)>) {
        if let Some(mut held) = self.at_once() {
            let room = GENERATION.saturating_sub(held.newer.len());
            held.newer.reserve(counted.len().min(room));
            for (text, count) in counted {
                held.keep(text, count);
            }
        }
    }

    /// What is held, unless another thread is at work here.
    fn at_once(&self) -> Option<MutexGuard<'_, Held>> {
        match self.held.try_lock() {
            Ok(held) => Some(held),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Hits, strings held, and their characters.
    pub(super) fn figures(&self) -> (u64, usize, usize) {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        (held.hits, held.newer.len() + held.older.len(), held.newer_bytes + held.older_bytes)
    }

    /// Let go of every string.
    pub(super) fn clear(&self) {
        let cleared = std::mem::take(&mut *self.held.lock().unwrap_or_else(PoisonError::into_inner));
        drop(cleared);
    }
}

impl Held {
    #[inline]
    fn get(&mut self, text: &Bound<'_, PyString>) -> Option<u64> {
        let address = text.as_ptr() as usize;
        if let Some(&(_, count)) = self.newer.get(&address) {
            self.hits += 1;
            return Some(count);
        }
        let (string, count) = self.older.remove(&address)?;
        self.hits += 1;
        let bytes = text.len().unwrap_or(0);
        self.older_bytes = self.older_bytes.saturating_sub(bytes);
        self.put(address, string, count, bytes);
        Some(count)
    }

    #[inline]
    fn keep(&mut self, text: &Bound<'_, PyString>, count: u64) {
        let n = text.len().unwrap_or(0);
        if (SHORTEST..GENERATION_BYTES).contains(&n) {
            self.put(text.as_ptr() as usize, text.clone().unbind(), count, n);
        }
    }

    fn put(&mut self, address: usize, string: Py<PyString>, count: u64, bytes: usize) {
        if self.newer.len() >= GENERATION || self.newer_bytes + bytes > GENERATION_BYTES {
            self.older = std::mem::take(&mut self.newer);
            self.older_bytes = std::mem::take(&mut self.newer_bytes);
        }
        if self.newer.insert(address, (string, count)).is_none() {
            self.newer_bytes += bytes;
        }
    }
}
