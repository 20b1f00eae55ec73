//! Up to 64 bytes of ASCII at a time, one bit per byte: where pieces start, without a branch per byte or per piece.
//!
//! A window begins where a piece does. What a window cannot tell (it ends, another script begins, a rare case of the
//! patterns) is left to `Split::end`, which knows no windows and is the oracle of this module.

use super::masks::{Masks, WIDTH, below, padded};
use super::split::contraction;

/// Which bytes are of which kind; bit 0 is the first byte. No bit is set from `known` on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Window {
    /// Bytes before the first that is not ASCII, or before the end.
    pub(super) known: u32,
    pub(super) letters: u64,
    pub(super) upper: u64,
    pub(super) digits: u64,
    /// White, CR and LF included.
    pub(super) white: u64,
    /// CR and LF.
    pub(super) newlines: u64,
    /// U+0020 alone.
    pub(super) spaces: u64,
    pub(super) quotes: u64,
    pub(super) slashes: u64,
}

/// Where pieces start in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Starts {
    /// One bit per start.
    pub(super) bits: u64,
    /// Whether the piece that comes next is one that a window cannot tell.
    pub(super) is_cut: bool,
}

impl Window {
    /// Read the window at `p`, which is at most the length of `text`.
    #[inline]
    pub(super) fn at(text: &[u8], p: usize) -> Self {
        let rest = text.get(p..).unwrap_or_default();
        match rest.first_chunk() {
            Some(chunk) => Self::of(chunk, WIDTH),
            None => Self::of(&padded(rest), rest.len()),
        }
    }

    #[inline]
    fn of(chunk: &[u8; WIDTH], n: usize) -> Self {
        let all = Masks::of(chunk);
        let known = (n as u32).min(all.beyond.trailing_zeros());
        let inside = below(known);
        Self {
            known,
            letters: all.letters & inside,
            upper: all.upper & inside,
            digits: all.digits & inside,
            white: all.white & inside,
            newlines: all.newlines & inside,
            spaces: all.spaces & inside,
            quotes: all.quotes & inside,
            slashes: all.slashes & inside,
        }
    }

    /// Where the pieces of o200k, or without `O200K` of cl100k, start after the first byte, where one does: all up to
    /// the last start that is sure, and the end of the text if that is.
    #[inline]
    pub(super) fn starts<const O200K: bool>(&self, text: &[u8], p: usize) -> Starts {
        let Self { known, letters, upper, digits, white, newlines, spaces, quotes, slashes } = *self;
        let blank = white & !newlines;
        let others = below(known) & !(letters | digits | white);

        // Punctuation starts with the space before it. One character of it, or a blank, is part of a word that follows.
        let other_runs = others & !(others << 1) & !(spaces << 1);
        let before_words = (other_runs | blank) & letters >> 1;
        let words = letters & !((letters | before_words) << 1);
        // CR and LF right after punctuation belong to it: the carry of an addition runs through them.
        let taken = newlines & !newlines.wrapping_add(newlines & others << 1);

        // White space goes up to its last CR or LF; what is left is cut before its last character.
        let rest = white & !taken;
        let white_runs = rest & !(rest << 1);
        let last_blanks = blank & !(white >> 1);
        let indents = blank & !(blank << 1) & (newlines & !taken) << 1;
        // What looks like an indent is none on a blank line. That is rare.
        let no_indents = blank.wrapping_add(indents) & newlines;
        let mut until = known.min(no_indents.trailing_zeros());

        let mut digit_runs = digits & !(digits << 1);
        let mut thirds = digit_runs;
        while thirds != 0 {
            thirds = thirds << 3 & digits << 2 & digits << 1 & digits;
            digit_runs |= thirds;
        }

        let mut bits = other_runs | words | white_runs | last_blanks | indents | digit_runs;
        let unsure = 1 << (known.max(1) - 1);
        if O200K {
            bits |= upper & (letters & !upper) << 1;
            // A slash after a newline that punctuation has taken is taken too. That is rare.
            until = until.min((slashes & taken << 1).trailing_zeros());
            let mut contractions = quotes & letters << 1 & (letters >> 1 | unsure);
            while contractions != 0 {
                let at = contractions.trailing_zeros();
                contractions &= contractions - 1;
                let end = (contraction(text, p + at as usize) - p) as u32;
                if end == at {
                    continue;
                }
                bits &= below(at) | !below(end.min(known));
                // After a contraction there is no other.
                if end > known || quotes & !below(end) & below(end + 1) != 0 {
                    until = until.min(at);
                } else if end < 64 {
                    bits |= 1 << end;
                }
            }
        } else {
            let mut contractions = quotes & other_runs & (letters >> 1 | unsure);
            while contractions != 0 {
                let at = contractions.trailing_zeros();
                contractions &= contractions - 1;
                let end = (contraction(text, p + at as usize) - p) as u32;
                if end > at && end <= known && end < 64 {
                    bits |= 1 << end;
                }
            }
        }

        // Whether white space is at its end only the next character tells.
        let inked = below(until) & !white;
        let sure = 64 - inked.leading_zeros();
        if p + sure as usize == text.len() && sure == until && sure < 64 {
            bits |= 1 << sure;
        }
        Starts { bits: bits & below(sure.saturating_add(1).min(64)) & !1, is_cut: until < 64 }
    }
}
