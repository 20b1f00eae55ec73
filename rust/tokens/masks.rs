//! Of which kind the bytes of a text are, 64 at a time, one bit per byte.

/// Bytes that are read together.
pub(crate) const WIDTH: usize = 64;

/// One bit per byte, of a kind. Of bytes beyond ASCII only that they are is sure.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Masks {
    /// Not ASCII.
    pub(crate) beyond: u64,
    pub(crate) letters: u64,
    pub(crate) upper: u64,
    pub(crate) digits: u64,
    /// White, CR and LF included.
    pub(crate) white: u64,
    /// CR and LF.
    pub(crate) newlines: u64,
    /// U+0020 alone.
    pub(crate) spaces: u64,
    pub(crate) quotes: u64,
    pub(crate) slashes: u64,
    pub(crate) commas: u64,
    /// `_`, `-`, `.` and commas.
    pub(crate) joints: u64,
}

impl Masks {
    /// The kinds of these bytes.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "who asks wants some of the kinds, and the others are then not worked out")]
    pub(crate) fn of(chunk: &[u8; WIDTH]) -> Self {
        let mut all = Self::default();
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
            all.commas |= masks.commas << shift;
            all.joints |= masks.joints << shift;
        }
        all
    }
}

/// Fewer bytes than are read together, with zeros after them.
#[inline]
pub(crate) fn padded<const N: usize>(rest: &[u8]) -> [u8; N] {
    let mut chunk = [0; N];
    let n = rest.len().min(N);
    chunk[..n].copy_from_slice(&rest[..n]);
    chunk
}

/// The bits below `n`.
#[inline]
pub(crate) fn below(n: u32) -> u64 {
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
        commas: bits(is(b',')),
        joints: bits(_mm_or_si128(between(bytes, b',', b'.'), is(b'_'))),
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
            commas: bits(is(b',')),
            joints: bits(between(bytes, b',', b'.') | is(b'_')),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Masks, STEP, classify, in_words};

    fn fields(masks: &Masks) -> [u64; 11] {
        let Masks { beyond, letters, upper, digits, white, newlines, spaces, quotes, slashes, commas, joints } = *masks;
        let ascii = !beyond;
        let kinds = [letters, upper, digits].map(|mask| mask & ascii);
        let [letters, upper, digits] = kinds;
        [beyond, letters, upper, digits, white & ascii, newlines, spaces, quotes, slashes, commas, joints]
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
                    byte == b',',
                    matches!(byte, b'_' | b'-' | b'.' | b','),
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
