//! An exact native counter: cut the text into pieces, count each.

use std::marker::PhantomData;

use super::piece_cache::{LONGEST, PieceCache, Pool};
use super::split::Split;
use super::vocab::{Vocabulary, hash_of, key_at};
use super::{Counter, cut, merge};
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
        if to - from > LONGEST {
            return self.count_afresh(text, from, to);
        }
        let key = key_at(text, from, to);
        let hash = hash_of(key);
        if let Some(count) = cache.get(key, hash) {
            return count;
        }
        let count = self.count_afresh(text, from, to);
        cache.put(key, hash, count);
        count
    }

    /// Tokens of the piece `text[from..to]`, without a cache.
    #[inline(never)]
    pub(super) fn count_afresh(&self, text: &[u8], from: usize, to: usize) -> u64 {
        match self.vocabulary.find(text, from, to) {
            Some(_) => 1,
            None => merge::count(&self.vocabulary, &text[from..to]),
        }
    }
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
        self.pieces.pool.with(|cache| {
            let (mut at, mut count) = (0, 0);
            while at < text.len() && count <= limit {
                let end = S::end(text, at);
                count += self.pieces.count(cache, text, at, end);
                at = end;
            }
            count
        })
    }

    /// Call `found` with each piece and its tokens until it says to stop.
    pub(super) fn each_piece(&self, text: &[u8], mut found: impl FnMut(usize, usize, u64) -> bool) {
        self.pieces.pool.with(|cache| {
            let mut at = 0;
            while at < text.len() {
                let end = S::end(text, at);
                if !found(at, end, self.pieces.count(cache, text, at, end)) {
                    break;
                }
                at = end;
            }
        });
    }
}

impl<S: Split> Counter for Bpe<S> {
    fn count(&self, text: &str) -> Result<u64> {
        Ok(self.count_up_to(text.as_bytes(), u64::MAX))
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
