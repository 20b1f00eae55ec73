//! Encoding one piece: merge the lowest-ranked pair of neighbours, leftmost first, until none is left.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::spread;
use super::vocab::{Id, MAX_TOKENS, NONE, Vocabulary};

/// Longest piece that is merged by scanning an array for its best pair; found by measurement.
pub(super) const SMALL: usize = 64;

/// Tokens of `piece`.
pub(super) fn count(vocabulary: &Vocabulary, piece: &[u8]) -> u64 {
    match *piece {
        [] => 0,
        [_] => 1,
        [first, second] => 1 + u64::from(vocabulary.double(first, second) == NONE),
        [_, _, _] if vocabulary.has_unmade() && vocabulary.find(piece, 0, 3).is_some() => 1,
        [first, second, third] => of_three(vocabulary, first, second, third),
        _ if vocabulary.find(piece, 0, piece.len()).is_some() => 1,
        _ if piece.len() < SHORT => Parts::<SHORT>::new().encode(vocabulary, piece).len(),
        _ if piece.len() <= SMALL => Window::new().encode(vocabulary, piece).len(),
        _ if vocabulary.backtracks() => spread::encode(vocabulary, piece).len() as u64,
        _ => encode_long(vocabulary, piece).len() as u64,
    }
}

/// Tokens of three bytes that are none which no merge makes.
fn of_three(vocabulary: &Vocabulary, first: u8, second: u8, third: u8) -> u64 {
    let (left, right) = (vocabulary.double(first, second), vocabulary.double(second, third));
    if left == NONE && right == NONE {
        return 3;
    }
    let merged = if left <= right {
        vocabulary.merged(left, vocabulary.single(third))
    } else {
        vocabulary.merged(vocabulary.single(first), right)
    };
    1 + u64::from(merged == NONE)
}

/// No merge: above every key.
const NEVER: f32 = f32::MAX;
/// Set in every key, so that as a number none is so small that a processor may take it for zero.
const NORMAL: u32 = 1 << 28;
/// Keys are compared this many at a time.
const LANES: usize = 16;
/// No token has this id, and no pair: there are fewer than `MAX_TOKENS`.
const NO_ID: Id = MAX_TOKENS as Id - 1;
/// Parts that can be, with the one that is none, of a piece that is mostly a word.
const SHORT: usize = LANES;

/// Parts of up to `SMALL` bytes.
pub(super) type Window = Parts<{ SMALL + LANES }>;

/// The tokens of a small piece: a part is known by where it starts, and there is a bit for each that is left. The last
/// of the `N` is no part, for neighbours that are not there.
pub(super) struct Parts<const N: usize> {
    ids: [Id; N],
    /// For each part: what it and the next merge into, and its start below, so that the least key is the merge to make,
    /// leftmost first; as the bits of a float, since least floats are what the oldest vector instructions find. All
    /// `NEVER` before and after encoding.
    keys: [f32; N],
    alive: u64,
}

impl<const N: usize> Parts<N> {
    const NOWHERE: usize = N - 1;

    pub(super) fn new() -> Self {
        Self { ids: [NO_ID; N], keys: [NEVER; N], alive: 0 }
    }

    /// Encode at most `SMALL` bytes, and fewer than `N`.
    #[inline]
    pub(super) fn encode(&mut self, vocabulary: &Vocabulary, piece: &[u8]) -> &Self {
        let n = piece.len().min(SMALL).min(N - 1);
        self.alive = u64::MAX >> (SMALL - n.max(1));
        for (id, &byte) in self.ids.iter_mut().zip(&piece[..n]) {
            *id = vocabulary.single(byte);
        }
        let sure = self.put_doubles(vocabulary, &piece[..n]);
        self.merge_sure(vocabulary, sure, n);
        let used = n.next_multiple_of(LANES);
        let mut next = least(&self.keys[..used]);
        while next < NEVER {
            let bits = next.to_bits() & !NORMAL;
            next = self.merge(vocabulary, bits as usize % SMALL % N, bits / SMALL as Id, used);
        }
        self
    }

    /// Set the keys of single bytes. A bit for each that merges with the next one whatever else there is: what could take one of
    /// the two from the other comes later.
    #[inline]
    fn put_doubles(&mut self, vocabulary: &Vocabulary, piece: &[u8]) -> u64 {
        // Of the pair before: what it merges into, and the first merges that take its bytes to the left and, of the second, there.
        let (mut merged, mut taken, mut second_taken) = (NONE, NONE, NONE);
        let mut sure = 0;
        for (at, (key_at, pair)) in self.keys.iter_mut().zip(piece.windows(2)).enumerate() {
            let double = vocabulary.neighbours(pair[0], pair[1]);
            *key_at = key(double.merged, at);
            sure |= u64::from(merged < taken.min(double.taken_right)) << at;
            (merged, taken, second_taken) = (double.merged, second_taken, double.taken_left);
        }
        sure |= u64::from(merged < taken) << (piece.len().max(1) - 1);
        sure >> 1
    }

    /// Make these merges of single bytes at once: none depends on another, so the processor waits for all look-ups together.
    #[inline]
    fn merge_sure(&mut self, vocabulary: &Vocabulary, sure: u64, n: usize) {
        self.alive &= !(sure << 1);
        let mut rest = sure;
        while rest != 0 {
            let at = rest.trailing_zeros() as usize % SMALL % N;
            rest &= rest - 1;
            self.ids[at] = (self.keys[at].to_bits() & !NORMAL) / SMALL as Id;
        }
        rest = sure;
        while rest != 0 {
            let at = rest.trailing_zeros() as usize % SMALL % N;
            rest &= rest - 1;
            let next = if at + 2 < n { (at + 2).min(Self::NOWHERE) } else { Self::NOWHERE };
            // Two bytes before where those are one part already.
            let step = 1 + (sure << 2 >> at & 1) as usize;
            let previous = if at == 0 { Self::NOWHERE } else { (at - step).min(Self::NOWHERE) };
            self.keys[(at + 1).min(Self::NOWHERE)] = NEVER;
            self.keys[at] = key(vocabulary.merged(self.ids[at], self.ids[next]), at);
            self.keys[previous] = key(vocabulary.merged(self.ids[previous], self.ids[at]), previous % SMALL);
        }
    }

    /// Make the merge of the part at `at` with the next; the next merge to make.
    #[inline]
    fn merge(&mut self, vocabulary: &Vocabulary, at: usize, merged: Id, used: usize) -> f32 {
        let after = self.alive & !(u64::MAX >> (63 - at));
        let gone = after.trailing_zeros() as usize;
        let next = (after & after.wrapping_sub(1)).trailing_zeros() as usize;
        let before = self.alive & !(u64::MAX << at);
        let previous = if before == 0 { Self::NOWHERE } else { 63 - before.leading_zeros() as usize };
        self.alive &= !(1 << (gone % 64));
        let (next, previous) = (next.min(Self::NOWHERE), previous.min(Self::NOWHERE));
        self.ids[at] = merged;
        self.keys[gone.min(Self::NOWHERE)] = NEVER;
        // The keys that change are taken out while their places are looked up, and all others compared meanwhile.
        self.keys[at] = NEVER;
        self.keys[previous] = NEVER;
        let with_next = key(vocabulary.merged(merged, self.ids[next]), at);
        let with_previous = key(vocabulary.merged(self.ids[previous], merged), previous % SMALL);
        let least = least(&self.keys[..used]);
        self.keys[at] = with_next;
        self.keys[previous] = with_previous;
        lesser(lesser(with_next, with_previous), least)
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
            if start < SMALL { self.ids.get(start).map(|&id| (start, id)) } else { None }
        })
    }
}

#[inline]
fn key(merged: Id, at: usize) -> f32 {
    let key = f32::from_bits(NORMAL | merged << SMALL.trailing_zeros() | at as u32);
    if merged == NONE { NEVER } else { key }
}

/// What one vector instruction does; `f32::min` asks for more.
#[inline]
fn lesser(one: f32, other: f32) -> f32 {
    if one < other { one } else { other }
}

#[inline(always)]
#[allow(clippy::inline_always, reason = "the compiler makes a call of it otherwise, which takes a tenth longer")]
fn least(keys: &[f32]) -> f32 {
    let mut lanes = [NEVER; LANES];
    for chunk in keys.as_chunks::<LANES>().0 {
        for (lane, &key) in lanes.iter_mut().zip(chunk) {
            *lane = lesser(key, *lane);
        }
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] = lesser(lanes[lane], lanes[lane + width]);
        }
        width /= 2;
    }
    lanes[0]
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
