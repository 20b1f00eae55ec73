//! Up to 64 bytes of ASCII at a time, one bit per byte: where pieces start, without a branch per byte or per piece.
//!
//! A window begins where a piece does. What a window cannot tell (it ends, another script begins, a rare case of the
//! patterns) is left to `Split::end`, which knows no windows and is the oracle of this module.

use super::split::contraction;

/// Bytes in a window.
pub(super) const WIDTH: usize = 64;

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

/// One bit per byte of 16 or 8, of a kind.
struct Masks {
    beyond: u64,
    letters: u64,
    upper: u64,
    digits: u64,
    white: u64,
    newlines: u64,
    spaces: u64,
    quotes: u64,
    slashes: u64,
}

impl Window {
    /// Read the window at `p`, which is at most the length of `text`.
    #[inline]
    pub(super) fn at(text: &[u8], p: usize) -> Self {
        let rest = text.get(p..).unwrap_or_default();
        if let Some(chunk) = rest.first_chunk::<WIDTH>() {
            return Self::of(chunk, WIDTH);
        }
        let mut chunk = [0; WIDTH];
        chunk[..rest.len()].copy_from_slice(rest);
        Self::of(&chunk, rest.len())
    }

    #[inline]
    fn of(chunk: &[u8; WIDTH], n: usize) -> Self {
        let mut all = Masks {
            beyond: 0,
            letters: 0,
            upper: 0,
            digits: 0,
            white: 0,
            newlines: 0,
            spaces: 0,
            quotes: 0,
            slashes: 0,
        };
        let (parts, _) = chunk.as_chunks::<STEP>();
        for (at, part) in parts.iter().enumerate() {
            let masks = classify(*part);
            let shift = at * STEP;
            all.beyond |= masks.beyond << shift;
            all.letters |= masks.letters << shift;
            all.upper |= masks.upper << shift;
            all.digits |= masks.digits << shift;
            all.white |= masks.white << shift;
            all.newlines |= masks.newlines << shift;
            all.spaces |= masks.spaces << shift;
            all.quotes |= masks.quotes << shift;
            all.slashes |= masks.slashes << shift;
        }
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

/// The bits below `n`.
#[inline]
pub(super) fn below(n: u32) -> u64 {
    if n < 64 { (1 << n) - 1 } else { u64::MAX }
}

#[cfg(target_arch = "x86_64")]
const STEP: usize = 16;

#[cfg(target_arch = "x86_64")]
#[inline]
#[allow(unsafe_code, reason = "the vector instructions that every x86-64 has")]
fn classify(part: [u8; STEP]) -> Masks {
    // SAFETY: SSE2 is part of x86-64.
    unsafe { classify_with_sse2(part) }
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "sse2")]
fn classify_with_sse2(part: [u8; STEP]) -> Masks {
    use std::arch::x86_64::{
        __m128i, _mm_add_epi8, _mm_cmpeq_epi8, _mm_cmpgt_epi8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x,
        _mm_set1_epi8, _mm_slli_epi16,
    };
    let word = u128::from_le_bytes(part);
    let bits = |lanes: __m128i| u64::from(_mm_movemask_epi8(lanes).cast_unsigned() as u16);
    let all = |byte: u8| _mm_set1_epi8(byte.cast_signed());
    let bytes = _mm_set_epi64x((word >> 64) as i64, word as i64);
    let is = |byte: u8| _mm_cmpeq_epi8(bytes, all(byte));
    // Moved so that the range ends at 127, the largest signed byte.
    let between = |lanes, first: u8, last: u8| {
        _mm_cmpgt_epi8(_mm_add_epi8(lanes, all(127 - last)), all(127 - (last - first) - 1))
    };
    let letters = bits(between(_mm_or_si128(bytes, all(0x20)), b'a', b'z'));
    let spaces = is(b' ');
    Masks {
        beyond: bits(bytes),
        letters,
        // Bit 5 tells the cases apart, moved to where it is looked for.
        upper: letters & !bits(_mm_slli_epi16::<2>(bytes)),
        digits: bits(between(bytes, b'0', b'9')),
        white: bits(_mm_or_si128(spaces, between(bytes, b'\t', b'\r'))),
        newlines: bits(_mm_or_si128(is(b'\n'), is(b'\r'))),
        spaces: bits(spaces),
        quotes: bits(is(b'\'')),
        slashes: bits(is(b'/')),
    }
}

#[cfg(not(target_arch = "x86_64"))]
const STEP: usize = 8;

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn classify(part: [u8; STEP]) -> Masks {
    in_words::classify(part)
}

/// The same on any machine, eight bytes in a word.
#[cfg(any(test, not(target_arch = "x86_64")))]
mod in_words {
    use super::Masks;

    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * EACH;

    /// The high bit of each byte, as eight bits.
    #[inline]
    fn bits(high: u64) -> u64 {
        ((high & HIGH) >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56
    }

    /// The high bit of each byte that is in `first..=last`, all of it ASCII.
    #[inline]
    fn between(bytes: u64, first: u8, last: u8) -> u64 {
        // The high bit of each byte of a difference says whether its low seven are at least that.
        let from_first = (bytes | HIGH) - u64::from(first) * EACH;
        let beyond_last = (bytes | HIGH) - u64::from(last + 1) * EACH;
        from_first & !beyond_last & !bytes & HIGH
    }

    #[inline]
    pub(super) fn classify(part: [u8; 8]) -> Masks {
        let bytes = u64::from_le_bytes(part);
        let is = |byte| between(bytes, byte, byte);
        let spaces = is(b' ');
        Masks {
            beyond: bits(bytes),
            letters: bits(between(bytes | (0x20 * EACH), b'a', b'z')),
            upper: bits(between(bytes, b'A', b'Z')),
            digits: bits(between(bytes, b'0', b'9')),
            white: bits(spaces | between(bytes, b'\t', b'\r')),
            newlines: bits(is(b'\n') | is(b'\r')),
            spaces: bits(spaces),
            quotes: bits(is(b'\'')),
            slashes: bits(is(b'/')),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Masks, STEP, classify, in_words};

    fn fields(masks: &Masks) -> [u64; 9] {
        let Masks { beyond, letters, upper, digits, white, newlines, spaces, quotes, slashes } = *masks;
        let ascii = !beyond;
        [beyond, letters & ascii, upper & ascii, digits & ascii, white & ascii, newlines, spaces, quotes, slashes]
    }

    #[test]
    fn every_byte_is_of_the_kind_it_is() {
        for byte in 0..=255_u8 {
            for at in 0..STEP {
                let mut part = [b'a'; STEP];
                part[at] = byte;
                let found = fields(&classify(part)).map(|mask| mask >> at & 1 == 1);
                let expected = [
                    !byte.is_ascii(),
                    byte.is_ascii_alphabetic(),
                    byte.is_ascii_uppercase(),
                    byte.is_ascii_digit(),
                    matches!(byte, 9..=13 | b' '),
                    matches!(byte, b'\n' | b'\r'),
                    byte == b' ',
                    byte == b'\'',
                    byte == b'/',
                ];
                assert_eq!(found, expected, "{byte:#x}");
                let mut words = [b'a'; 8];
                words[at % 8] = byte;
                let found = fields(&in_words::classify(words)).map(|mask| mask >> (at % 8) & 1 == 1);
                assert_eq!(found, expected, "{byte:#x} in words");
            }
        }
    }
}
