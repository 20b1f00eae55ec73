//! Encoding one piece: merge the lowest-ranked pair of neighbours, leftmost first, until none is left.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::vocab::{Id, NONE, Vocabulary};

/// Longest piece that is merged by scanning an array for its best pair; found by measurement.
pub(super) const SMALL: usize = 64;

/// Tokens of `piece`, which is known not to be a token itself.
pub(super) fn count(vocabulary: &Vocabulary, piece: &[u8]) -> u64 {
    if piece.len() <= SMALL {
        let mut parts = Parts::new();
        parts.encode(vocabulary, piece);
        parts.len() as u64
    } else {
        encode_long(vocabulary, piece).len() as u64
    }
}

/// The tokens of a small piece, merged in place on the stack.
pub(super) struct Parts {
    ids: [Id; SMALL],
    /// What part `i` and the next merge into.
    ranks: [Id; SMALL],
    n: usize,
}

impl Parts {
    pub(super) fn new() -> Self {
        Self { ids: [0; SMALL], ranks: [NONE; SMALL], n: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.n
    }

    /// Encode at most `SMALL` bytes.
    pub(super) fn encode(&mut self, vocabulary: &Vocabulary, piece: &[u8]) {
        let mut n = piece.len().min(SMALL);
        for (id, &byte) in self.ids.iter_mut().zip(piece) {
            *id = vocabulary.single(byte);
        }
        for i in 1..n {
            self.ranks[i - 1] = vocabulary.merged(self.ids[i - 1], self.ids[i]);
        }
        while n > 1 {
            let (mut best, mut at) = (NONE, 0);
            for (i, &rank) in self.ranks[..n - 1].iter().enumerate() {
                if rank < best {
                    (best, at) = (rank, i);
                }
            }
            if best == NONE {
                break;
            }
            self.ids[at] = best;
            self.ids.copy_within(at + 2..n, at + 1);
            self.ranks.copy_within((at + 1).min(n - 1)..n - 1, at);
            n -= 1;
            if at > 0 {
                self.ranks[at - 1] = vocabulary.merged(self.ids[at - 1], best);
            }
            if at + 1 < n {
                self.ranks[at] = vocabulary.merged(best, self.ids[at + 1]);
            }
        }
        self.n = n;
    }
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
