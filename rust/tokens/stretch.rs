//! The longest prefix within a limit, in the stretch of text after the last anchor (see `cut`).
//!
//! A stretch is white space that is cut in a way that depends on what follows, then one piece that is not white; either
//! may be a megabyte long. A short one is searched from its end. In a long one, let `A(i)` be the tokens of its first
//! `i` bytes taken as one piece, which differs from the true count only where a prefix is cut in two: after its last
//! newline, or after its last letter that is not upper case. The encoding of any longer prefix has a token that ends
//! within the last `longest` bytes before `i`, and its tokens up to there are those of `A` there. So once `A`, and the
//! same reckoned from the last cut, have been at the limit for as many bytes in a row as the longest token has, no
//! longer prefix is within the limit.

use super::backtrack::{Backtrack, stand_together};
use super::bpe::Bpe;
use super::split::Split;
use super::spread;
use super::vocab::Id;

/// Up to this many bytes every prefix is tried.
const SHORT: usize = 256;
/// A prefix of a long piece is encoded anew from about this many bytes before its end.
const BACK: usize = 256;

/// A stretch, and what is known of it.
pub(super) struct Stretch<'a, S> {
    bpe: &'a Bpe<S>,
    text: &'a str,
    limit: u64,
    /// The bytes from a start to the end of the text, encoded as one piece.
    runs: Vec<Run>,
}

struct Run {
    start: usize,
    tokens: Vec<Id>,
    /// Where each token ends.
    ends: Vec<usize>,
}

/// The pieces of a prefix.
struct Prefix {
    /// Tokens of all pieces but the last.
    before: u64,
    /// Where the last piece starts.
    last: usize,
}

impl<'a, S: Split> Stretch<'a, S> {
    /// Search `text` for a prefix of at most `limit` tokens.
    pub(super) fn new(bpe: &'a Bpe<S>, text: &'a str, limit: u64) -> Self {
        Self { bpe, text, limit, runs: Vec::new() }
    }

    /// Bytes of the longest prefix within the limit that is shorter than the text.
    pub(super) fn longest(mut self) -> usize {
        let n = self.text.len();
        if n <= SHORT || !self.bpe.pieces().vocabulary.backtracks() {
            return self.walk_back(0, n);
        }
        // What is white, and the first character that is not.
        let white = self.text.find(|c: char| !c.is_whitespace()).unwrap_or(n);
        let width = |at: usize| self.text[at..].chars().next().map_or(0, char::len_utf8);
        let (inked, first) = (white + width(white), width(0));
        if white < n {
            let (start, before) = self.last_piece();
            if before < self.limit
                && let Some(found) = self.search(start, before, inked, n)
            {
                return found;
            }
        }
        if white == 0 {
            return 0;
        }
        self.search(0, 0, first, (white + 1).min(n)).unwrap_or(0)
    }

    /// Where the last piece starts, and the tokens before it.
    fn last_piece(&self) -> (usize, u64) {
        let (mut start, mut before, mut count) = (0, 0, 0);
        self.bpe.each_piece(self.text.as_bytes(), |from, _, tokens| {
            (start, before) = (from, count);
            count += tokens;
            true
        });
        (start, before)
    }

    /// The longest prefix within the limit that ends in `low..high`, of which `low` is a character boundary; `start` is
    /// where the one piece starts that these prefixes end in if they are not cut, `before` the tokens before it.
    fn search(&mut self, start: usize, before: u64, low: usize, high: usize) -> Option<usize> {
        let run = self.run(start);
        // Where the last token would end that is within the limit if no prefix were cut.
        let tokens = (self.limit - before) as usize;
        let full = tokens.checked_sub(1).and_then(|last| self.runs[run].ends.get(last)).copied();
        let first = full.unwrap_or(high).clamp(low, high);
        let longest = self.bpe.pieces().vocabulary.longest();
        let (mut found, mut beyond) = (None, 0);
        let mut at = (low..=first).rev().find(|&at| self.text.is_char_boundary(at)).unwrap_or(low);
        let back_from = at;
        while at < high && beyond < longest {
            let prefix = self.prefix(at);
            if prefix.before + self.raw(prefix.last, at) <= self.limit {
                found = Some(at);
            }
            let next = (at + 1..=high).find(|&end| self.text.is_char_boundary(end)).unwrap_or(high);
            for byte in at..next {
                let whole = before + self.raw(start, byte);
                let cut = prefix.before + self.raw(prefix.last, byte);
                beyond = if whole.min(cut) >= self.limit { beyond + 1 } else { 0 };
            }
            at = next;
        }
        found.or_else(|| Some(self.walk_back(low, back_from.min(high))).filter(|&at| at >= low))
    }

    /// The longest prefix within the limit that ends before `high`, trying each; 0 if there is none from `low` up.
    fn walk_back(&mut self, low: usize, high: usize) -> usize {
        let text = self.text;
        let ends = text[..high].char_indices().rev().map(|(at, _)| at);
        ends.take_while(|&at| at > 0 && at >= low).find(|&at| self.is_within(at)).unwrap_or(0)
    }

    fn is_within(&mut self, at: usize) -> bool {
        if at <= SHORT {
            return self.bpe.count_up_to(&self.text.as_bytes()[..at], self.limit) <= self.limit;
        }
        let prefix = self.prefix(at);
        prefix.before + self.raw(prefix.last, at) <= self.limit
    }

    /// How the first `at` bytes, at least one, are cut into pieces.
    fn prefix(&mut self, at: usize) -> Prefix {
        let bytes = &self.text.as_bytes()[..at];
        let mut prefix = Prefix { before: 0, last: 0 };
        loop {
            let end = S::end(bytes, prefix.last);
            if end >= at {
                return prefix;
            }
            prefix.before += self.raw(prefix.last, end);
            prefix.last = end;
        }
    }

    /// Tokens of the bytes between, as one piece.
    fn raw(&mut self, from: usize, to: usize) -> u64 {
        let (bytes, pieces) = (self.text.as_bytes(), self.bpe.pieces());
        if to <= from {
            return 0;
        }
        if to - from <= SHORT.max(pieces.vocabulary.longest()) || !pieces.vocabulary.backtracks() {
            return pieces.count_afresh(bytes, from, to);
        }
        let run = self.run(from);
        let run = &self.runs[run];
        let mut kept = run.ends.partition_point(|&end| end + BACK <= to);
        loop {
            let start = kept.checked_sub(1).map_or(from, |last| run.ends[last]);
            let tail = Backtrack::new(&pieces.vocabulary, &bytes[start..to]).run();
            let fits = match (kept.checked_sub(1), tail.first()) {
                (Some(last), Some(&first)) => stand_together(&pieces.vocabulary, run.tokens[last], first),
                _ => true,
            };
            if fits {
                return (kept + tail.len()) as u64;
            }
            kept /= 2;
        }
    }

    /// Index of the run from `start`.
    fn run(&mut self, start: usize) -> usize {
        if let Some(at) = self.runs.iter().position(|run| run.start == start) {
            return at;
        }
        let vocabulary = &self.bpe.pieces().vocabulary;
        let tokens = spread::encode(vocabulary, &self.text.as_bytes()[start..]);
        let mut end = start;
        let ends = tokens.iter().map(|&id| {
            end += vocabulary.width(id);
            end
        });
        let ends = ends.collect();
        self.runs.push(Run { start, tokens, ends });
        self.runs.len() - 1
    }
}
