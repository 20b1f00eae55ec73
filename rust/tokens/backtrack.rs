//! Encoding a long piece from left to right, in linear time.
//!
//! A sequence of tokens is the encoding of its bytes exactly if every two neighbours are: that is, if encoding the bytes
//! of the two alone gives the two back. So take the longest token that stands validly beside the one before; where none
//! does, no encoding ends there, so step back and never end a token there again. Each position is given up at most once
//! and tokens have bounded length, which bounds the work. The idea is that of the crate `bpe` (GitHub, MIT); what is
//! different here is how the longest token is found: by the lengths that tokens with the same four first bytes have,
//! instead of an automaton.

use super::merge::{SMALL, Window};
use super::vocab::{Id, NONE, Vocabulary};

/// Bytes that are encoded alone at a time, and how many of them at the end are left for the next time.
const GUESSED: usize = SMALL;
const UNSURE: usize = 8;
/// Stepping is quicker where the longest token mostly fits (runs, Chinese), guessing where it often does not (Latin
/// letters without spaces): so step, and after some misfits guess this many times.
const GUESSES: u32 = 64;
const TROUBLE: u32 = 6;
/// A first token of this many bytes promises more such.
const LONG: usize = 8;

/// The tokens of a text that is being encoded.
pub(super) struct Backtrack<'a> {
    vocabulary: &'a Vocabulary,
    text: &'a [u8],
    tokens: Vec<Id>,
    at: usize,
    /// One bit per position after which nothing goes on.
    dead: Vec<u64>,
    window: Window,
    /// Guesses to make yet.
    guesses: u32,
    /// Where none is worth while before.
    guess_from: usize,
    /// How many steps lately met tokens that do not fit.
    trouble: u32,
}

impl<'a> Backtrack<'a> {
    /// Encode `text` with a vocabulary that is ordered.
    pub(super) fn new(vocabulary: &'a Vocabulary, text: &'a [u8]) -> Self {
        let (tokens, dead) = (Vec::with_capacity(text.len() / 2), vec![0; text.len() / 64 + 1]);
        let window = Window::new();
        let mut made = Self { vocabulary, text, tokens, at: 0, dead, window, guesses: 0, guess_from: 0, trouble: 0 };
        made.guesses = if made.is_latin() { GUESSES } else { 0 };
        made
    }

    /// The tokens.
    pub(super) fn run(mut self) -> Vec<Id> {
        while self.at < self.text.len() && self.go_on() {}
        self.tokens
    }

    /// Go on from the last token before `start`, until what comes is `tokens`, which is what the text has from there when it is
    /// encoded without what is before: that is where both have a token that starts in one place, and it stands beside the
    /// last one here. Where they never meet, all up to where `tokens` end is encoded once more.
    pub(super) fn join(&mut self, mut start: usize, tokens: &[Id]) {
        // What is here was encoded without what comes after.
        while self.at + UNSURE > start
            && let Some(last) = self.tokens.pop()
        {
            self.at -= self.vocabulary.width(last);
        }
        let mut rest = tokens;
        while let Some((&first, after)) = rest.split_first() {
            if start < self.at {
                start += self.vocabulary.width(first);
                rest = after;
            } else if start == self.at && self.is_beside(first) {
                self.tokens.extend_from_slice(rest);
                self.at += rest.iter().map(|&id| self.vocabulary.width(id)).sum::<usize>();
                return;
            } else if !self.go_on() {
                return;
            }
        }
    }

    /// Add a token, or some, or take one away that nothing goes on after; false if there is none.
    #[inline]
    fn go_on(&mut self) -> bool {
        if self.guesses > 0 && self.at >= self.guess_from {
            self.guesses -= 1;
            // Never again from here or close by, which bounds the number of guesses.
            self.guess_from = self.at + UNSURE;
            self.guess();
        } else if let Some(misfits) = self.step() {
            self.trouble = (self.trouble + 4 * misfits).saturating_sub(1);
            if self.trouble > TROUBLE {
                (self.guesses, self.trouble) = (GUESSES, 0);
            }
        } else {
            self.dead[self.at / 64] |= 1 << (self.at % 64);
            // The first token can always go back to a single byte, so there is one to give up.
            let Some(last) = self.tokens.pop() else { return false };
            self.at -= self.vocabulary.width(last);
        }
        true
    }

    /// Whether the start looks like words without spaces: ASCII, of which the first token is short.
    fn is_latin(&self) -> bool {
        let is_short = |id| self.vocabulary.width(id) < LONG;
        self.text.first_chunk::<16>().is_some_and(|start| start.is_ascii())
            && self.vocabulary.longest_at(self.text, 0, usize::MAX).is_some_and(is_short)
    }

    /// Encode the next bytes alone and add the tokens that what comes after them can hardly change. If they are wrong
    /// all the same, no token will go on from there, and stepping back takes them away again.
    fn guess(&mut self) {
        let rest = &self.text[self.at..];
        let chunk = &rest[..rest.len().min(GUESSED)];
        let sure = if rest.len() > GUESSED { GUESSED - UNSURE } else { GUESSED };
        let start = self.at;
        for (from, id) in self.window.encode(self.vocabulary, chunk).tokens() {
            let end = start + from + self.vocabulary.width(id);
            // Neighbours of one encoding fit each other; only the first must be tried, the others but for dead ends.
            let is_dead = self.dead[end / 64] >> (end % 64) & 1 == 1;
            let is_beside =
                from > 0 || self.tokens.last().is_none_or(|&last| stand_together(self.vocabulary, last, id));
            if end - start > sure || is_dead || !is_beside {
                break;
            }
            self.tokens.push(id);
            self.at = end;
        }
    }

    /// Add the longest token that fits here; say how many longer ones do not.
    #[inline]
    fn step(&mut self) -> Option<u32> {
        let (mut most, mut misfits) = (usize::MAX, 0);
        while let Some(id) = self.vocabulary.longest_at(self.text, self.at, most) {
            let width = self.vocabulary.width(id);
            if self.fits(id, self.at + width) {
                self.tokens.push(id);
                self.at += width;
                return Some(misfits);
            }
            most = width - 1;
            misfits += 1;
        }
        None
    }

    #[inline]
    fn is_dead(&self, at: usize) -> bool {
        self.dead[at / 64] >> (at % 64) & 1 == 1
    }

    /// Whether a token that ends at `end` can stand here.
    #[inline]
    fn fits(&self, id: Id, end: usize) -> bool {
        !self.is_dead(end) && self.is_beside(id)
    }

    /// Whether a token stands validly beside the last one.
    #[inline]
    fn is_beside(&self, id: Id) -> bool {
        self.tokens.last().is_none_or(|&last| stand_together(self.vocabulary, last, id))
    }
}

/// Whether encoding the bytes of two tokens gives the two back.
///
/// Undo the merges at their seam, the latest first: a merge across the seam must not come before the one just undone.
/// Of two of one rank the left comes first.
pub(super) fn stand_together(vocabulary: &Vocabulary, mut left: Id, mut right: Id) -> bool {
    // Merges across the seam below this came first.
    let mut limit = NONE;
    loop {
        let across = vocabulary.merged(left, right);
        if across < limit {
            return false;
        }
        let (of_left, of_right) = (vocabulary.halves(left)[1], vocabulary.halves(right)[0]);
        if of_left != NONE && (left > right || of_right == NONE) {
            limit = left;
            left = of_left;
        } else if of_right != NONE {
            limit = right + 1;
            right = of_right;
        } else {
            return true;
        }
    }
}
