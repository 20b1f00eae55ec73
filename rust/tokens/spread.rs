//! One text on all cores.
//!
//! Ordinary text is not worth it: its words are known, and a megabyte of it takes 2 ms. What takes long is what must be merged: words
//! that no vocabulary has, and pieces of a megabyte. So a text is begun on one thread, and others join where much of what was seen
//! had to be merged and much is left, or where one piece is long. Both are counts of bytes and not times, so that a text is always
//! counted in the same way, which gives the same number in any way.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::backtrack::Backtrack;
use super::bpe::Pieces;
use super::piece_cache::Room;
use super::split::Split;
use super::vocab::{Id, Vocabulary};
use crate::parallel::{on_threads, threads_for};

/// Bytes to merge that a thread is started for: they take 1.5 to 3 ms, and starting it takes 0.1.
const BYTES_PER_THREAD: usize = 1 << 16;
/// Bytes that were merged before what is left is judged by them.
const SEEN: usize = 1 << 13;
/// Pieces, or hardly more, that a thread takes at a time.
const PIECES_AT_ONCE: u64 = 128;
/// Bytes of a long piece that a thread takes at a time. A multiple of what the tokens of runs (spaces, dashes, letters) have, so
/// that two stretches of one run are cut alike and meet at once.
const STRETCH: usize = 15 << 10;

/// On how many threads to count what is left of a text, of which `merged` bytes up to `at` had to be merged.
#[inline]
pub(super) fn threads_for_rest(text: &[u8], at: usize, merged: usize) -> usize {
    if merged < SEEN {
        return 1;
    }
    let to_merge = (text.len() - at) as u64 * merged as u64 / at.max(1) as u64;
    threads_for(to_merge as usize, BYTES_PER_THREAD)
}

/// Tokens of what is left of `text` at `at`, where a piece starts, or some number above `limit` as soon as that is sure.
///
/// Where pieces end is found by one thread at a time, since one starts where the last one ends: that is 2 percent of the work.
pub(super) fn count_rest<S: Split>(pieces: &Pieces, text: &[u8], at: usize, limit: u64, n_threads: usize) -> u64 {
    let next = Mutex::new((at, 0));
    let count = AtomicU64::new(0);
    on_threads(n_threads, || {
        pieces.pool.with(|Room { cache, ends }| {
            let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
            let (mut at, n) = *next;
            if at == text.len() || count.load(Ordering::Relaxed) > limit {
                return None;
            }
            let ends = ends.find::<S>(text, at, PIECES_AT_ONCE);
            *next = (ends.last().copied().unwrap_or(text.len()), n + 1);
            drop(next);
            let mut tokens = 0;
            for &end in ends {
                tokens += pieces.count(cache, text, at, end);
                at = end;
            }
            count.fetch_add(tokens, Ordering::Relaxed);
            Some((n, ()))
        })
    });
    count.into_inner()
}

/// The tokens of a piece, with a vocabulary that is ordered.
pub(super) fn encode(vocabulary: &Vocabulary, piece: &[u8]) -> Vec<Id> {
    match threads_for(piece.len(), BYTES_PER_THREAD) {
        1 => Backtrack::new(vocabulary, piece).run(),
        n_threads => in_stretches(vocabulary, piece, STRETCH, n_threads),
    }
}

/// The tokens of a piece, so many bytes of it at a time.
///
/// Neighbours that stand together are an encoding, so two stretches are joined where both have a token that starts in one place
/// and the last of the one stands beside the first of the other: that is a few tokens after the seam. Where they never meet the
/// second is encoded anew, so that the work is twice that of one thread at the most.
pub(super) fn in_stretches(vocabulary: &Vocabulary, piece: &[u8], bytes: usize, n_threads: usize) -> Vec<Id> {
    let taken = AtomicUsize::new(0);
    let stretches = on_threads(n_threads, || {
        let n = taken.fetch_add(1, Ordering::Relaxed);
        let stretch = piece.chunks(bytes).nth(n)?;
        Some((n, Backtrack::new(vocabulary, stretch).run()))
    });
    let mut joined = Backtrack::new(vocabulary, piece);
    for (n, tokens) in stretches.iter().enumerate() {
        joined.join(n * bytes, tokens);
    }
    joined.run()
}
