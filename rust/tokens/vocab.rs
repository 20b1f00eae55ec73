//! A byte-pair vocabulary: tokens by their bytes, and the one merge that makes each of them.
//!
//! tiktoken merges any two neighbours whose joined bytes are a token. A table of pairs is enough, one pair per token:
//! until both halves stand side by side, all that happened inside their span is what encoding the token alone does,
//! step by step, so the pair that meets last is always the same.

use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

use super::doubles::{Double, Doubles};
use super::packed;
use super::pairs::Pairs;
use crate::{Error, Result};

/// A token's place in the order of ranks, from 0.
pub(super) type Id = u32;

/// No token: larger than every rank.
pub(super) const NONE: Id = Id::MAX;

/// Bits of an id inside a slot of the pair table; three of them fit one word.
pub(super) const ID_BITS: u32 = 21;
/// Largest vocabulary that can be held.
pub(super) const MAX_TOKENS: usize = 1 << ID_BITS;

/// The tokens of one encoding.
pub(super) struct Vocabulary {
    /// All tokens end to end, in order of id, with room to read 16 bytes at any of them.
    bytes: Vec<u8>,
    /// Start of each token in `bytes`, and the end of the last.
    starts: Vec<u32>,
    /// Open addressing: id + 1 in the low bits, a tag of the hash above; 0 is free.
    slots: Vec<u32>,
    /// What two neighbours merge into.
    pairs: Pairs,
    /// Left and right half of each token; `NONE` twice where no merge makes it.
    halves: Vec<[Id; 2]>,
    /// Id of each single byte.
    singles: [Id; 256],
    doubles: Doubles,
    /// One bit per hash of three bytes: whether a token can have them.
    triples: Vec<u64>,
    /// Open addressing by the first four bytes of tokens: a part of their hash, and the lengths of tokens that have them.
    starts_of_four: Vec<u64>,
    n_starts: usize,
    /// Whether there are tokens that no merge makes, beside single bytes; no training leaves any.
    has_unmade: bool,
    /// Bytes of the longest token.
    longest: usize,
    /// Whether `backtrack` can encode: every token comes after both its halves, as training leaves it, and the starts
    /// of tokens are few enough.
    backtracks: bool,
}

/// Bits of the hash of four bytes that are kept in their slot of `starts_of_four`.
const TAG_BITS: u32 = 15;
/// Lengths from 4 up have a bit each in `starts_of_four`; from this one on they share one.
const FAR: usize = 4 + (63 - TAG_BITS as usize);
/// log2 of the bits of `triples`.
const TRIPLES_BITS: u32 = 17;

impl Vocabulary {
    /// Unpack an embedded vocabulary: its payload and the pilots of its pairs must have the hashes that were compiled in.
    pub(super) fn unpack(name: &str, [payload, pilots]: [&[u8]; 2], hashes: [u128; 2]) -> Result<Self> {
        let damaged = |reason: &str| Error::Decode {
            offset: 0,
            reason: format!("the embedded vocabulary {name} is damaged ({reason}); install holdall again"),
        };
        if [payload, pilots].map(xxh3_128) != hashes {
            return Err(damaged("its hash is wrong"));
        }
        packed::read(payload, pilots).ok_or_else(|| damaged("a token is made of later ones"))
    }

    /// Build from the bytes of every token in order of rank, the halves of each and their pairs; `None` if a single byte is missing.
    pub(super) fn new(mut bytes: Vec<u8>, starts: Vec<u32>, halves: Vec<[Id; 2]>, pairs: Pairs) -> Option<Self> {
        let n = starts.len().checked_sub(1)?;
        if n == 0 || n >= MAX_TOKENS || halves.len() != n {
            return None;
        }
        bytes.resize(bytes.len() + 16, 0);
        let mut made = Self {
            bytes,
            starts,
            slots: vec![0; (n * 2).next_power_of_two()],
            pairs,
            halves,
            singles: [NONE; 256],
            doubles: Doubles::new(),
            triples: vec![0; 1 << (TRIPLES_BITS - 6)],
            starts_of_four: vec![0; (n / 2).next_power_of_two()],
            n_starts: 0,
            has_unmade: false,
            longest: 0,
            backtracks: true,
        };
        for id in 0..n as Id {
            made.insert(id);
        }
        let mut doubles = std::mem::take(&mut made.doubles);
        if let Some(merges) = made.merges() {
            doubles.find_firsts(merges);
        }
        made.doubles = doubles;
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
            self.has_unmade |= range.len() > 1;
            return;
        }
        self.backtracks &= left < id && right < id;
        match *token {
            [first, second] => self.doubles.put(first, second, id),
            [first, second, third] => {
                let bit = triple_bit([first, second, third]);
                self.triples[bit / 64] |= 1 << (bit % 64);
            }
            [first, second, third, fourth, ..] => {
                let length = 1 << (token.len().min(FAR) - 4);
                self.put_start([first, second, third, fourth], length);
            }
            _ => {}
        }
    }

    /// Every token that a merge makes: its bytes, and how many of them are the left half's. `None` where one comes before a half.
    fn merges(&self) -> Option<impl Iterator<Item = (Id, &[u8], usize)>> {
        let all = || (0..).zip(&self.halves).filter(|(_, [left, _])| *left != NONE);
        let is_ordered = all().all(|(id, &[left, right])| left < id && right < id);
        is_ordered.then(|| all().map(|(id, &[left, _])| (id, self.token(id), self.width(left))))
    }

    /// Bytes of the longest token.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    fn put_start(&mut self, start: [u8; 4], length: u64) {
        let mask = self.starts_of_four.len() - 1;
        if self.n_starts > mask / 2 {
            self.backtracks = false;
            return;
        }
        let (mut slot, tag) = start_slot(start, mask);
        while self.starts_of_four[slot] != 0 && self.starts_of_four[slot] >> (64 - TAG_BITS) != tag {
            slot = (slot + 1) & mask;
        }
        self.n_starts += usize::from(self.starts_of_four[slot] == 0);
        self.starts_of_four[slot] |= tag << (64 - TAG_BITS) | length;
    }

    /// One bit per length from 4 up, the last for all from `FAR` up, that tokens with this start can have.
    #[inline]
    fn lengths(&self, start: [u8; 4]) -> u64 {
        let mask = self.starts_of_four.len() - 1;
        let (mut slot, tag) = start_slot(start, mask);
        loop {
            let found = self.starts_of_four[slot & mask];
            if found == 0 {
                return 0;
            }
            if found >> (64 - TAG_BITS) == tag {
                return found & (u64::MAX >> TAG_BITS);
            }
            slot += 1;
        }
    }

    /// Whether there are tokens that only a piece of the same bytes is.
    pub(super) fn has_unmade(&self) -> bool {
        self.has_unmade
    }

    /// Tokens there are.
    pub(super) fn len(&self) -> usize {
        self.halves.len()
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

    /// Whether `backtrack` can encode with this vocabulary.
    pub(super) fn backtracks(&self) -> bool {
        self.backtracks
    }

    /// Left and right half of a token, `NONE` if no merge makes it.
    #[inline]
    pub(super) fn halves(&self, id: Id) -> [Id; 2] {
        self.halves[id as usize]
    }

    /// Bytes of a token.
    #[inline]
    pub(super) fn width(&self, id: Id) -> usize {
        (self.starts[id as usize + 1] - self.starts[id as usize]) as usize
    }

    /// The longest token that merges make, that `text` has at `at`, and that is no longer than `most`.
    #[inline]
    pub(super) fn longest_at(&self, text: &[u8], at: usize, most: usize) -> Option<Id> {
        let most = most.min(text.len() - at).min(self.longest);
        let made = |n: usize| self.find(text, at, at + n).filter(|&id| self.halves(id)[0] != NONE);
        let rest = &text[at..];
        if most >= 4
            && let Some(start) = rest.first_chunk::<4>()
        {
            let mut lengths = self.lengths(*start);
            if lengths >> (FAR - 4) != 0
                && let Some(id) = (FAR..=most).rev().find_map(made)
            {
                return Some(id);
            }
            lengths &= u64::MAX >> (63 - (most - 4).min(FAR - 5));
            while lengths != 0 {
                let n = 63 - lengths.leading_zeros() as usize;
                if let Some(id) = made(n + 4) {
                    return Some(id);
                }
                lengths &= !(1 << n);
            }
        }
        if most >= 3
            && let Some(start) = rest.first_chunk::<3>()
        {
            let bit = triple_bit(*start);
            if self.triples[bit / 64] >> (bit % 64) & 1 == 1
                && let Some(id) = made(3)
            {
                return Some(id);
            }
        }
        if most >= 2
            && let Some(&[first, second]) = rest.first_chunk::<2>()
        {
            let id = self.double(first, second);
            if id != NONE {
                return Some(id);
            }
        }
        if most >= 1 { rest.first().map(|&byte| self.single(byte)) } else { None }
    }

    /// What two single bytes merge into, or `NONE`.
    #[inline]
    pub(super) fn double(&self, first: u8, second: u8) -> Id {
        self.neighbours(first, second).merged
    }

    /// What is known of two neighbouring bytes.
    #[inline]
    pub(super) fn neighbours(&self, first: u8, second: u8) -> Double {
        self.doubles.at(first, second)
    }

    /// What two neighbours merge into, or `NONE`.
    #[inline]
    pub(super) fn merged(&self, left: Id, right: Id) -> Id {
        self.pairs.merged(left, right)
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

/// Slot and tag of a start of four bytes.
#[inline]
fn start_slot(start: [u8; 4], mask: usize) -> (usize, u64) {
    let hash = u32::from_le_bytes(start).wrapping_mul(0x9e37_79b1);
    ((hash >> TAG_BITS) as usize & mask, u64::from(hash) & ((1 << TAG_BITS) - 1))
}

#[inline]
fn triple_bit([first, second, third]: [u8; 3]) -> usize {
    let hash = u32::from_le_bytes([first, second, third, 0]).wrapping_mul(0x9e37_79b1);
    (hash >> (32 - TRIPLES_BITS)) as usize
}

/// Up to 15 bytes of a text and their number, in bits 56 to 59 of `high`; equal only for equal bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) low: u64,
    pub(super) high: u64,
}

/// What is kept of 16 bytes for a key of each length.
const KEPT: [Key; 16] = {
    let mut kept = [Key { low: u64::MAX, high: 0 }; 16];
    let mut n = 0;
    while n < 8 {
        kept[n].low = (1 << (8 * n)) - 1;
        kept[8 + n].high = (1 << (8 * n)) - 1;
        n += 1;
    }
    kept
};

/// The key of `text[from..to]`, of at most 15 bytes.
#[inline]
pub(super) fn key_at(text: &[u8], from: usize, to: usize) -> Key {
    let n = to.wrapping_sub(from) % 16;
    let rest = text.get(from..).unwrap_or_default();
    let bytes =
        rest.first_chunk::<16>().map_or_else(|| u128::from_le_bytes(padded(rest)), |chunk| u128::from_le_bytes(*chunk));
    let (low, high) = (bytes as u64 & KEPT[n].low, (bytes >> 64) as u64 & KEPT[n].high);
    Key { low, high: high | (n as u64) << 56 }
}

#[cold]
fn padded(rest: &[u8]) -> [u8; 16] {
    let mut chunk = [0; 16];
    for (to, from) in chunk.iter_mut().zip(rest) {
        *to = *from;
    }
    chunk
}

/// A hash of a key of `key_at`.
#[inline]
pub(super) fn hash_of(key: Key) -> u64 {
    let product =
        u128::from(key.low ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(u128::from(key.high ^ 0xd6e8_feb8_6659_fd93));
    product as u64 ^ (product >> 64) as u64
}

#[inline]
fn hash_at(text: &[u8], from: usize, to: usize) -> u64 {
    if to - from < 16 { hash_of(key_at(text, from, to)) } else { xxh3_64(&text[from..to]) }
}
