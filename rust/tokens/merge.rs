//! Encoding one piece: merge the lowest-ranked pair of neighbours, leftmost first, until none is left.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::backtrack::Backtrack;
use super::vocab::{Id, NONE, Vocabulary};

/// Longest piece that is merged by scanning an array for its best pair; found by measurement.
pub(super) const SMALL: usize = 64;

/// Tokens of `piece`, which is known not to be a token itself.
pub(super) fn count(vocabulary: &Vocabulary, piece: &[u8]) -> u64 {
    if piece.len() <= SMALL {
        Parts::encode(vocabulary, piece).len()
    } else if vocabulary.backtracks() {
        Backtrack::new(vocabulary, piece).run().len() as u64
    } else {
        encode_long(vocabulary, piece).len() as u64
    }
}

/// No merge, in the keys of `Parts`.
const NEVER: i32 = i32::MAX;
/// Keys are compared this many at a time.
const LANES: usize = 8;

/// The tokens of a small piece: a part is known by where it starts, and there is a bit for each that is left.
pub(super) struct Parts {
    ids: [Id; SMALL],
    /// For each part: what it and the next merge into, and its start below, so that the least key is the merge to make,
    /// leftmost first; signed, since that is what the oldest vector instructions compare.
    keys: [i32; SMALL],
    alive: u64,
}

impl Parts {
    /// Encode at most `SMALL` bytes.
    pub(super) fn encode(vocabulary: &Vocabulary, piece: &[u8]) -> Self {
        let n = piece.len().min(SMALL);
        let mut parts = Self { ids: [0; SMALL], keys: [NEVER; SMALL], alive: u64::MAX >> (SMALL - n.max(1)) };
        for (id, &byte) in parts.ids.iter_mut().zip(piece) {
            *id = vocabulary.single(byte);
        }
        for i in 1..n {
            parts.keys[i - 1] = key(vocabulary.double(piece[i - 1], piece[i]), i - 1);
        }
        let used = n.next_multiple_of(LANES);
        loop {
            let least = least(&parts.keys[..used]);
            if least == NEVER {
                return parts;
            }
            parts.merge(vocabulary, least as usize % SMALL, least as Id / SMALL as Id);
        }
    }

    /// Make the merge of the part at `at` with the next.
    #[inline]
    fn merge(&mut self, vocabulary: &Vocabulary, at: usize, merged: Id) {
        let after = self.alive & !(u64::MAX >> (63 - at));
        let gone = after.trailing_zeros() as usize % SMALL;
        self.alive &= !(1 << gone);
        self.keys[gone] = NEVER;
        self.ids[at] = merged;
        let after = after & (after - 1);
        self.keys[at] = match after.trailing_zeros() as usize {
            SMALL => NEVER,
            next => key(vocabulary.merged(merged, self.ids[next]), at),
        };
        let before = self.alive & !(u64::MAX << at);
        if before != 0 {
            let previous = 63 - before.leading_zeros() as usize;
            self.keys[previous] = key(vocabulary.merged(self.ids[previous], merged), previous);
        }
    }

    /// Tokens.
    pub(super) fn len(&self) -> u64 {
        u64::from(self.alive.count_ones())
    }

    /// Start and id of each token.
    pub(super) fn tokens(&self) -> impl Iterator<Item = (usize, Id)> {
        let mut alive = self.alive;
        std::iter::from_fn(move || {
            let start = alive.trailing_zeros() as usize;
            alive &= alive.wrapping_sub(1);
            self.ids.get(start).map(|&id| (start, id))
        })
    }
}

#[inline]
fn key(merged: Id, at: usize) -> i32 {
    if merged == NONE { NEVER } else { (merged << SMALL.trailing_zeros() | at as u32).cast_signed() }
}

#[inline]
fn least(keys: &[i32]) -> i32 {
    let mut lanes = [NEVER; LANES];
    for chunk in keys.chunks_exact(LANES) {
        for (lane, &key) in lanes.iter_mut().zip(chunk) {
            *lane = (*lane).min(key);
        }
    }
    lanes.into_iter().fold(NEVER, i32::min)
}

/// The tokens of a piece of any length, by a heap of pairs: O(n log n).
pub(super) fn encode_long(vocabulary: &Vocabulary, piece: &[u8]) -> Vec<Id> {
    let n = piece.len();
    let mut ids: Vec<Id> = piece.iter().map(|&byte| vocabulary.single(byte)).collect();
    let mut next: Vec<u32> = (1..=n as u32).collect();
    let mut previous: Vec<u32> = (0..n as u32).map(|i| i.wrapping_sub(1)).collect();
    // A part that was merged away keeps the id NONE, so that its pairs in the heap are seen to be stale.
    let mut heap = BinaryHeap::with_capacity(n);
    let push = |heap: &mut BinaryHeap<_>, ids: &[Id], left: usize, right: usize| {
        let rank = vocabulary.merged(ids[left], ids[right]);
        if rank != NONE {
            heap.push(Reverse((rank, left as u32, right as u32)));
        }
    };
    for i in 1..n {
        push(&mut heap, &ids, i - 1, i);
    }
    while let Some(Reverse((rank, left, right))) = heap.pop() {
        let (l, r) = (left as usize, right as usize);
        if ids[l] == NONE || ids[r] == NONE || next[l] != right || vocabulary.merged(ids[l], ids[r]) != rank {
            continue;
        }
        ids[l] = rank;
        ids[r] = NONE;
        let after = next[r] as usize;
        next[l] = after as u32;
        if after < n {
            previous[after] = left;
            push(&mut heap, &ids, l, after);
        }
        if let Some(before) = (previous[l] != u32::MAX).then(|| previous[l] as usize) {
            push(&mut heap, &ids, before, l);
        }
    }
    ids.retain(|&id| id != NONE);
    ids
}
