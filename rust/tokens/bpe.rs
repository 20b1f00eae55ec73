//! An exact native counter: cut the text into pieces, count each.

use std::marker::PhantomData;

use super::piece_cache::{PieceCache, Pool, Room, SHORT};
use super::split::Split;
use super::vocab::{Key, Vocabulary, key_at};
use super::{Counter, cut, merge, spread};
use crate::Result;

/// Counts single pieces.
pub(super) struct Pieces {
    pub(super) vocabulary: Vocabulary,
    pub(super) pool: Pool,
}

impl Pieces {
    pub(super) fn new(vocabulary: Vocabulary) -> Self {
        Self { vocabulary, pool: Pool::new() }
    }

    /// Tokens of the piece `text[from..to]`.
    #[inline]
    pub(super) fn count(&self, cache: &mut PieceCache, text: &[u8], from: usize, to: usize) -> u64 {
        if to - from > SHORT {
            return self.count_long(cache, text, from, to);
        }
        let key = key_at(text, from, to);
        match cache.get(key) {
            Some(count) => count,
            None => self.count_short(cache, key, text, from, to),
        }
    }

    #[inline(never)]
    fn count_short(&self, cache: &mut PieceCache, key: Key, text: &[u8], from: usize, to: usize) -> u64 {
        cache.get_or(key, || self.count_afresh(text, from, to))
    }

    #[inline(never)]
    fn count_long(&self, cache: &mut PieceCache, text: &[u8], from: usize, to: usize) -> u64 {
        cache.get_long_or(&text[from..to], || self.count_afresh(text, from, to))
    }

    /// Tokens of the piece `text[from..to]`, without a cache.
    #[inline(never)]
    pub(super) fn count_afresh(&self, text: &[u8], from: usize, to: usize) -> u64 {
        merge::count(&self.vocabulary, &text[from..to])
    }
}

/// How far a text is counted.
struct Begun {
    at: usize,
    count: u64,
    /// For the rest; 1 if there is none.
    n_threads: usize,
}

/// Counts with one vocabulary and one way of cutting.
pub(super) struct Bpe<S> {
    pieces: Pieces,
    id: u64,
    split: PhantomData<S>,
}

impl<S: Split> Bpe<S> {
    pub(super) fn new(vocabulary: Vocabulary, id: u64) -> Self {
        Self { pieces: Pieces::new(vocabulary), id, split: PhantomData }
    }

    pub(super) fn pieces(&self) -> &Pieces {
        &self.pieces
    }

    /// Tokens of `text`, or some number above `limit` as soon as that is sure.
    pub(super) fn count_up_to(&self, text: &[u8], limit: u64) -> u64 {
        let begun = self.pieces.pool.with(|room| self.begin(room, text, limit));
        self.finish(begun, text, limit)
    }

    /// Count on this thread, all or as much as tells that others should join in.
    fn begin(&self, Room { cache, ends }: &mut Room, text: &[u8], limit: u64) -> Begun {
        let mut begun = Begun { at: 0, count: 0, n_threads: 1 };
        let merged_before = cache.merged;
        while begun.at < text.len() && begun.count <= limit && begun.n_threads == 1 {
            for &end in ends.find::<S>(text, begun.at, (limit - begun.count).saturating_add(1)) {
                begun.count += self.pieces.count(cache, text, begun.at, end);
                begun.at = end;
            }
            begun.n_threads = spread::threads_for_rest(text, begun.at, cache.merged - merged_before);
        }
        begun
    }

    /// All tokens of a text that was begun. Without a room of its own: each thread takes one.
    fn finish(&self, Begun { at, count, n_threads }: Begun, text: &[u8], limit: u64) -> u64 {
        if n_threads == 1 || count > limit {
            return count;
        }
        count + spread::count_rest::<S>(&self.pieces, text, at, limit - count, n_threads)
    }

    /// Call `found` with each piece and its tokens until it says to stop.
    pub(super) fn each_piece(&self, text: &[u8], mut found: impl FnMut(usize, usize, u64) -> bool) {
        self.pieces.pool.with(|Room { cache, ends }| {
            let mut at = 0;
            while at < text.len() {
                for &end in ends.find::<S>(text, at, u64::MAX) {
                    if !found(at, end, self.pieces.count(cache, text, at, end)) {
                        return;
                    }
                    at = end;
                }
            }
        });
    }
}

impl<S: Split> Counter for Bpe<S> {
    fn count(&self, text: &str) -> Result<u64> {
        Ok(self.count_up_to(text.as_bytes(), u64::MAX))
    }

    fn count_all(&self, texts: &[&str]) -> Result<Vec<u64>> {
        let all = |room: &mut Room| -> Vec<Begun> {
            texts.iter().map(|text| self.begin(room, text.as_bytes(), u64::MAX)).collect()
        };
        let begun = self.pieces.pool.with(all);
        Ok(texts.iter().zip(begun).map(|(text, begun)| self.finish(begun, text.as_bytes(), u64::MAX)).collect())
    }

    fn fits(&self, text: &str, limit: u64) -> Result<bool> {
        // A token has at least one byte and at most `longest`.
        let n = text.len() as u64;
        if n <= limit {
            return Ok(true);
        }
        if n.div_ceil(self.pieces.vocabulary.longest() as u64) > limit {
            return Ok(false);
        }
        Ok(self.count_up_to(text.as_bytes(), limit) <= limit)
    }

    fn cut(&self, text: &str, limit: u64) -> Result<usize> {
        Ok(cut::longest_prefix(self, text, limit))
    }

    fn id(&self) -> u64 {
        self.id
    }
}
