//! The class of a character, as the two patterns tell characters apart.
//!
//! The classes partition all of Unicode (16.0, the version that tiktoken's regex engine has). `data/classes.bin` is a
//! two-stage table over blocks of 128 code points; `tests/classes.rs` holds it against `regex-syntax` and rewrites it.

/// Whatever is not named below: punctuation, symbols, controls, unassigned.
pub(super) const OTHER: u8 = 0;
/// `\s` except CR and LF.
pub(super) const SPACE: u8 = 1;
/// CR and LF.
pub(super) const NEWLINE: u8 = 2;
/// `\p{N}`.
pub(super) const NUMBER: u8 = 3;
/// `\p{Lu}` and `\p{Lt}`.
pub(super) const UPPER: u8 = 4;
/// `\p{Ll}`.
pub(super) const LOWER: u8 = 5;
/// `\p{Lm}` and `\p{Lo}`: letters without case, on both sides of the o200k pattern.
pub(super) const LETTER: u8 = 6;
/// `\p{M}`.
pub(super) const MARK: u8 = 7;

const BLOCK: usize = 128;
const N_BLOCKS: usize = 0x11_0000 / BLOCK;
pub(super) static TABLE: &[u8] = include_bytes!("data/classes.bin");

/// The class of every ASCII byte; bytes from 0x80 up say `OTHER` and must not be asked for.
pub(super) static ASCII: [u8; 256] = {
    let mut table = [OTHER; 256];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = match byte as u8 {
            b'\n' | b'\r' => NEWLINE,
            b'\t' | 0x0b | 0x0c | b' ' => SPACE,
            b'0'..=b'9' => NUMBER,
            b'A'..=b'Z' => UPPER,
            b'a'..=b'z' => LOWER,
            _ => OTHER,
        };
        byte += 1;
    }
    table
};

/// The class of a code point.
#[inline]
pub(super) fn of(code: u32) -> u8 {
    let block = TABLE.get(code as usize / BLOCK).copied().unwrap_or(0) as usize;
    TABLE.get(N_BLOCKS + block * BLOCK + code as usize % BLOCK).copied().unwrap_or(OTHER)
}

/// The class and length in bytes of the character at `at`; `None` at the end.
///
/// `text` is valid UTF-8 and `at` a character boundary; anything else gives a wrong class, never a panic.
#[inline]
pub(super) fn at(text: &[u8], at: usize) -> Option<(u8, usize)> {
    let first = *text.get(at)?;
    if first < 0x80 { Some((ASCII[first as usize], 1)) } else { Some(beyond_ascii(text, at, first)) }
}

#[inline]
fn beyond_ascii(text: &[u8], at: usize, first: u8) -> (u8, usize) {
    let tail = |n: usize| u32::from(text.get(at + n).copied().unwrap_or(0) & 0x3f);
    let head = u32::from(first);
    match first {
        0xc0..=0xdf => (of((head & 0x1f) << 6 | tail(1)), 2),
        0xe0..=0xef => (of((head & 0x0f) << 12 | tail(1) << 6 | tail(2)), 3),
        _ => (of((head & 0x07) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3)), 4),
    }
}

#[inline]
pub(super) fn is_letter(class: u8) -> bool {
    matches!(class, UPPER | LOWER | LETTER)
}
