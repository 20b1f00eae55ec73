//! A byte-pair vocabulary: tokens by their bytes, and the one merge that makes each of them.
//!
//! tiktoken merges any two neighbours whose joined bytes are a token. A table of pairs is enough, one pair per token:
//! until both halves stand side by side, all that happened inside their span is what encoding the token alone does,
//! step by step, so the pair that meets last is always the same.

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use super::packed;
use crate::{Error, Result};

/// A token's place in the order of ranks, from 0.
pub(super) type Id = u32;

/// No token: larger than every rank.
pub(super) const NONE: Id = Id::MAX;

/// Bits of an id inside a slot of the pair table; three of them fit one word.
const ID_BITS: u32 = 21;
/// Largest vocabulary that can be held.
pub(super) const MAX_TOKENS: usize = 1 << ID_BITS;
const EMPTY: u64 = u64::MAX;

/// The tokens of one encoding.
pub(super) struct Vocabulary {
    /// All tokens end to end, in order of id, with room to read 16 bytes at any of them.
    bytes: Vec<u8>,
    /// Start of each token in `bytes`, and the end of the last.
    starts: Vec<u32>,
    /// Open addressing: id + 1 in the low bits, a tag of the hash above; 0 is free.
    slots: Vec<u32>,
    /// Open addressing: left, right, merged.
    pairs: Vec<u64>,
    /// Left and right half of each token; `NONE` twice where no merge makes it.
    halves: Vec<[Id; 2]>,
    /// Id of each single byte.
    singles: [Id; 256],
    /// Bytes of the longest token.
    longest: usize,
}

impl Vocabulary {
    /// Unpack an embedded vocabulary, whose payload must have the hash that was compiled in.
    pub(super) fn unpack(name: &str, packed: &[u8], hash: u128) -> Result<Self> {
        let damaged = |reason: &str| Error::Decode {
            offset: 0,
            reason: format!("the embedded vocabulary {name} is damaged ({reason}); install holdall again"),
        };
        let payload = packed::inflate(packed).ok_or_else(|| damaged("it does not inflate"))?;
        if xxh3_128(&payload) != hash {
            return Err(damaged("its hash is wrong"));
        }
        packed::read(&payload).ok_or_else(|| damaged("a token is made of later ones"))
    }

    /// Build from the bytes of every token in order of rank and the halves of each; `None` if a single byte is missing.
    pub(super) fn new(mut bytes: Vec<u8>, starts: Vec<u32>, halves: Vec<[Id; 2]>) -> Option<Self> {
        let n = starts.len().checked_sub(1)?;
        if n == 0 || n >= MAX_TOKENS || halves.len() != n {
            return None;
        }
        bytes.resize(bytes.len() + 16, 0);
        let mut made = Self {
            bytes,
            starts,
            slots: vec![0; (n * 2).next_power_of_two()],
            pairs: vec![EMPTY; (n * 2).next_power_of_two()],
            halves,
            singles: [NONE; 256],
            longest: 0,
        };
        for id in 0..n as Id {
            made.insert(id);
        }
        made.singles.iter().all(|&id| id != NONE).then_some(made)
    }

    fn insert(&mut self, id: Id) {
        let range = self.range(id);
        let token = &self.bytes[range.clone()];
        self.longest = self.longest.max(token.len());
        if let [byte] = token {
            self.singles[*byte as usize] = id;
        }
        let hash = hash_at(&self.bytes, range.start, range.end);
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot] != 0 {
            slot = (slot + 1) & mask;
        }
        self.slots[slot] = tagged(hash, id);
        let [left, right] = self.halves[id as usize];
        if left == NONE {
            return;
        }
        let key = pair_key(left, right);
        let mask = self.pairs.len() - 1;
        let mut slot = pair_slot(key, mask);
        while self.pairs[slot] != EMPTY {
            slot = (slot + 1) & mask;
        }
        self.pairs[slot] = key << ID_BITS | u64::from(id);
    }

    /// Bytes of the longest token.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    /// The bytes of a token.
    pub(super) fn token(&self, id: Id) -> &[u8] {
        &self.bytes[self.range(id)]
    }

    fn range(&self, id: Id) -> std::ops::Range<usize> {
        self.starts[id as usize] as usize..self.starts[id as usize + 1] as usize
    }

    /// The id of a single byte.
    #[inline]
    pub(super) fn single(&self, byte: u8) -> Id {
        self.singles[byte as usize]
    }

    /// What two neighbours merge into, or `NONE`.
    #[inline]
    pub(super) fn merged(&self, left: Id, right: Id) -> Id {
        let key = pair_key(left, right);
        let mask = self.pairs.len() - 1;
        let mut slot = pair_slot(key, mask);
        loop {
            let found = self.pairs[slot & mask];
            if found >> ID_BITS == key {
                return (found & (MAX_TOKENS as u64 - 1)) as Id;
            }
            if found == EMPTY {
                return NONE;
            }
            slot += 1;
        }
    }

    /// The token with the bytes `text[from..to]`, if there is one.
    #[inline]
    pub(super) fn find(&self, text: &[u8], from: usize, to: usize) -> Option<Id> {
        if to - from > self.longest {
            return None;
        }
        let hash = hash_at(text, from, to);
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        loop {
            let found = self.slots[slot];
            if found == 0 {
                return None;
            }
            let id = (found & (MAX_TOKENS as u32 - 1)) - 1;
            if found == tagged(hash, id) && self.token(id) == &text[from..to] {
                return Some(id);
            }
            slot = (slot + 1) & mask;
        }
    }
}

#[inline]
fn tagged(hash: u64, id: Id) -> u32 {
    ((hash >> 48) as u32) << ID_BITS | (id + 1)
}

#[inline]
fn pair_key(left: Id, right: Id) -> u64 {
    u64::from(left) << ID_BITS | u64::from(right)
}

#[inline]
fn pair_slot(key: u64, mask: usize) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize & mask
}

/// Up to 15 bytes of `text` and their number as one word, equal only for equal bytes.
#[inline]
pub(super) fn key_at(text: &[u8], from: usize, to: usize) -> u128 {
    let n = to - from;
    let word = if let Some(chunk) = text.get(from..from + 16).and_then(|chunk| chunk.first_chunk::<16>()) {
        u128::from_le_bytes(*chunk) & !(u128::MAX << (8 * n))
    } else {
        let mut chunk = [0; 16];
        chunk[..n].copy_from_slice(&text[from..to]);
        u128::from_le_bytes(chunk)
    };
    word | (n as u128) << 120
}

/// A hash of a key of `key_at`.
#[inline]
pub(super) fn hash_of(key: u128) -> u64 {
    let product = u128::from(key as u64 ^ 0x9e37_79b9_7f4a_7c15)
        .wrapping_mul(u128::from((key >> 64) as u64 ^ 0xd6e8_feb8_6659_fd93));
    product as u64 ^ (product >> 64) as u64
}

#[inline]
fn hash_at(text: &[u8], from: usize, to: usize) -> u64 {
    if to - from < 16 { hash_of(key_at(text, from, to)) } else { xxh3_64(&text[from..to]) }
}
