//! Any other byte-pair encoding, given by its pattern and its ranks: cut by a regex engine, counted natively.

use std::collections::HashMap;

use fancy_regex::Regex;

use super::bpe::Pieces;
use super::pairs::Pairs;
use super::piece_cache::Room;
use super::vocab::{Id, MAX_TOKENS, NONE, Vocabulary};
use super::{Counter, cut};
use crate::{Error, Result};

/// Counts with the vocabulary and the pattern of a caller.
pub struct PatternBpe {
    pieces: Pieces,
    pattern: Regex,
    id: u64,
}

impl PatternBpe {
    /// The counter of an encoding: its pattern, and its tokens with their ranks. `None` where the engine does not know the
    /// pattern, or where the vocabulary is not one of byte pairs (a single byte is missing, or two tokens have one rank).
    ///
    /// `id` tells this counter from others in caches.
    #[must_use]
    pub fn new(pattern: &str, mut ranks: Vec<(Vec<u8>, u32)>, id: u64) -> Option<Self> {
        let pattern = Regex::new(pattern).ok()?;
        ranks.sort_unstable_by_key(|(_, rank)| *rank);
        let is_strict = ranks.windows(2).all(|pair| pair[0].1 != pair[1].1);
        let tokens: Vec<Vec<u8>> = ranks.into_iter().map(|(token, _)| token).collect();
        if !is_strict || tokens.len() >= MAX_TOKENS || tokens.iter().any(Vec::is_empty) {
            return None;
        }
        let ids: HashMap<&[u8], Id> = tokens.iter().zip(0..).map(|(token, id)| (token.as_slice(), id)).collect();
        if ids.len() != tokens.len() {
            return None;
        }
        let halves: Vec<[Id; 2]> = tokens.iter().map(|token| halves(token, &ids)).collect();
        let mut starts = vec![0];
        for token in &tokens {
            starts.push(u32::try_from(starts.last()? + token.len()).ok()? as usize);
        }
        let starts = starts.into_iter().map(|start| start as u32).collect();
        let pairs = Pairs::new(&halves)?;
        let vocabulary = Vocabulary::new(tokens.concat(), starts, halves, pairs)?;
        Some(Self { pieces: Pieces::new(vocabulary), pattern, id })
    }
}

/// The two parts whose merge gives `token` when it is encoded alone.
fn halves(token: &[u8], ids: &HashMap<&[u8], Id>) -> [Id; 2] {
    let mut ends: Vec<usize> = (0..=token.len()).collect();
    while ends.len() > 3 {
        let merges = ends.windows(3).enumerate().filter_map(|(at, end)| Some((*ids.get(&token[end[0]..end[2]])?, at)));
        let Some((_, at)) = merges.min() else { return [NONE; 2] };
        ends.remove(at + 1);
    }
    match ends[..] {
        [from, seam, to] => match (ids.get(&token[from..seam]), ids.get(&token[seam..to])) {
            (Some(&left), Some(&right)) => [left, right],
            _ => [NONE; 2],
        },
        _ => [NONE; 2],
    }
}

impl Counter for PatternBpe {
    fn count(&self, text: &str) -> Result<u64> {
        self.pieces.pool.with(|Room { cache, .. }| {
            let mut count = 0;
            for piece in self.pattern.find_iter(text) {
                let piece = piece.map_err(|error| Error::Counter(error.to_string()))?;
                if piece.start() == piece.end() {
                    return Err(Error::Counter("the pattern matches nothing at all".to_owned()));
                }
                count += self.pieces.count(cache, text.as_bytes(), piece.start(), piece.end());
            }
            Ok(count)
        })
    }

    fn cut(&self, text: &str, limit: u64) -> Result<usize> {
        cut::by_counting(self, text, limit)
    }

    fn id(&self) -> u64 {
        self.id
    }
}
