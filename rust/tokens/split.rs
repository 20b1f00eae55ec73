//! Cutting text into the pieces that are encoded apart: the patterns of the two embedded encodings, written out by hand.
//!
//! Each function returns where the piece that starts at `p` ends, exactly as the regular expression in its comment
//! matches, backtracking included. `tests/` and the Python suite hold them against tiktoken on every code point.

use super::classes::{self, ASCII, LETTER, LOWER, MARK, NEWLINE, NUMBER, OTHER, SPACE, UPPER, is_letter};
use super::window::{Starts, Window};

/// How an encoding cuts text into pieces.
pub(super) trait Split: Send + Sync + 'static {
    /// End of the piece that starts at `p`, which is a character boundary before the end of `text`.
    fn end(text: &[u8], p: usize) -> usize;

    /// Starts of pieces in the window at `p`, where one starts.
    fn starts(text: &[u8], p: usize) -> Starts;
}

/// `'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s`
pub(super) struct Cl100k;

/// The seven alternatives of `o200k_base`, in order: word that ends in lower case, word that ends in upper case (both
/// with an optional character before and contraction after), digits, punctuation, newlines, white space twice.
pub(super) struct O200k;

impl Split for Cl100k {
    #[inline]
    fn starts(text: &[u8], p: usize) -> Starts {
        Window::at(text, p).starts::<false>(text, p)
    }

    #[inline]
    fn end(text: &[u8], p: usize) -> usize {
        if text[p] != b'\''
            && let Some(start) = ascii_word(text, p)
        {
            let end = ascii_run::<ANY_CASE>(text, start);
            if text.get(end).is_none_or(u8::is_ascii) {
                return end;
            }
        }
        let Some((class, n)) = classes::at(text, p) else { return text.len() };
        match class {
            UPPER | LOWER | LETTER => letters(text, p + n),
            NUMBER => numbers(text, p + n),
            NEWLINE => white::<true>(text, p),
            _ => {
                if text[p] == b'\'' {
                    let end = contraction(text, p);
                    if end > p {
                        return end;
                    }
                }
                let q = p + n;
                match classes::at(text, q) {
                    Some((next, m)) if is_letter(next) => letters(text, q + m),
                    _ if class != SPACE => punctuation::<false>(text, q),
                    Some((OTHER | MARK, m)) if text[p] == b' ' => punctuation::<false>(text, q + m),
                    _ => white::<true>(text, p),
                }
            }
        }
    }
}

impl Split for O200k {
    #[inline]
    fn starts(text: &[u8], p: usize) -> Starts {
        Window::at(text, p).starts::<true>(text, p)
    }

    #[inline]
    fn end(text: &[u8], p: usize) -> usize {
        if let Some(start) = ascii_word(text, p) {
            let end = ascii_run::<LOWERCASE>(text, ascii_run::<UPPERCASE>(text, start));
            match text.get(end) {
                Some(b'\'') => return contraction(text, end),
                Some(0x80..) => {}
                _ => return end,
            }
        }
        let Some((class, n)) = classes::at(text, p) else { return text.len() };
        match class {
            UPPER | LOWER | LETTER => word(text, p),
            NUMBER => numbers(text, p + n),
            NEWLINE => white::<false>(text, p),
            // A mark is tried as the character before a word first; that word must hold more than upper case, since
            // the mark alone satisfies the first alternative before the second is reached.
            MARK => match word_ending_in_lower(text, p + n) {
                (end, true) => with_contraction(text, end),
                _ => word(text, p),
            },
            _ => {
                let q = p + n;
                match classes::at(text, q) {
                    Some((UPPER | LOWER | LETTER | MARK, _)) => word(text, q),
                    _ if class != SPACE => punctuation::<true>(text, q),
                    Some((OTHER, m)) if text[p] == b' ' => punctuation::<true>(text, q + m),
                    _ => white::<false>(text, p),
                }
            }
        }
    }
}

/// Where an ASCII word starts: here, or after one ASCII character that may stand before a word.
#[inline]
fn ascii_word(text: &[u8], p: usize) -> Option<usize> {
    let first = *text.get(p)?;
    if first.is_ascii_alphabetic() {
        return Some(p);
    }
    let next = *text.get(p + 1)?;
    let before = first < 0x80 && matches!(ASCII[first as usize], SPACE | OTHER);
    (before && next.is_ascii_alphabetic()).then_some(p + 1)
}

const LOWERCASE: u8 = 0;
const UPPERCASE: u8 = 1;
const ANY_CASE: u8 = 2;

/// The end of the run of ASCII letters at `p`, eight bytes at a time: words are short, and a loop over their bytes is
/// mispredicted once for each.
#[inline]
fn ascii_run<const CASE: u8>(text: &[u8], mut p: usize) -> usize {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x80 * EACH;
    while let Some(chunk) = text.get(p..).and_then(|rest| rest.first_chunk::<8>()) {
        let bytes = u64::from_le_bytes(*chunk);
        let folded = if CASE == ANY_CASE { bytes | (0x20 * EACH) } else { bytes };
        let (first, last) = if CASE == UPPERCASE { (b'A', b'Z') } else { (b'a', b'z') };
        // The high bit of each byte of a difference says whether its low seven are at least that.
        let from_first = (folded | HIGH) - u64::from(first) * EACH;
        let beyond_last = (folded | HIGH) - u64::from(last + 1) * EACH;
        let others = !(from_first & !beyond_last & !bytes) & HIGH;
        if others != 0 {
            return p + others.trailing_zeros() as usize / 8;
        }
        p += 8;
    }
    while let Some(&byte) = text.get(p)
        && match CASE {
            LOWERCASE => byte.is_ascii_lowercase(),
            UPPERCASE => byte.is_ascii_uppercase(),
            _ => byte.is_ascii_alphabetic(),
        }
    {
        p += 1;
    }
    p
}

/// `\p{L}*` from `p`.
#[inline]
fn letters(text: &[u8], mut p: usize) -> usize {
    loop {
        while let Some(&byte) = text.get(p)
            && byte.is_ascii_alphabetic()
        {
            p += 1;
        }
        match text.get(p) {
            Some(byte) if *byte >= 0x80 => match classes::at(text, p) {
                Some((class, n)) if is_letter(class) => p += n,
                _ => return p,
            },
            _ => return p,
        }
    }
}

/// Up to two more of `\p{N}`.
#[inline]
fn numbers(text: &[u8], mut p: usize) -> usize {
    for _ in 0..2 {
        match classes::at(text, p) {
            Some((NUMBER, n)) => p += n,
            _ => break,
        }
    }
    p
}

/// `[^\s\p{L}\p{N}]*[\r\n]*`, or with `SLASH` `[^\s\p{L}\p{N}]*[\r\n/]*`.
#[inline]
fn punctuation<const SLASH: bool>(text: &[u8], mut p: usize) -> usize {
    while let Some((OTHER | MARK, n)) = classes::at(text, p) {
        p += n;
    }
    while let Some(&byte) = text.get(p)
        && (byte == b'\n' || byte == b'\r' || (SLASH && byte == b'/'))
    {
        p += 1;
    }
    p
}

/// White space from `p`, which is white: up to its last CR or LF, else all of it at the end of the text, else all but
/// the last character, which belongs to what follows, unless it is the only one. `ALL_AT_END` is `\s++$` coming first.
#[inline]
fn white<const ALL_AT_END: bool>(text: &[u8], p: usize) -> usize {
    let (mut end, mut last, mut newline) = (p, p, p);
    while let Some((class @ (SPACE | NEWLINE), n)) = classes::at(text, end) {
        last = end;
        end += n;
        if class == NEWLINE {
            newline = end;
        }
    }
    if ALL_AT_END && end == text.len() {
        end
    } else if newline > p {
        newline
    } else if end == text.len() || last == p {
        end
    } else {
        last
    }
}

/// `[UB]*[LB]+`, or else `[UB]+`, with U upper case, L lower case and B both; then an optional contraction.
#[inline]
fn word(text: &[u8], p: usize) -> usize {
    with_contraction(text, word_ending_in_lower(text, p).0)
}

/// Where the first of the two alternatives ends, and true; or where the run of upper case ends, and false.
///
/// The run before gives back characters until one that is also lower case is left for `[LB]+`: so without a lower-case
/// letter after the run, the match ends after the last character of the run that is of both.
#[inline]
fn word_ending_in_lower(text: &[u8], p: usize) -> (usize, bool) {
    let (mut end, mut both) = (p, p);
    loop {
        while let Some(&byte) = text.get(end)
            && byte.is_ascii_uppercase()
        {
            end += 1;
        }
        match classes::at(text, end) {
            Some((UPPER, n)) => end += n,
            Some((LETTER | MARK, n)) => {
                end += n;
                both = end;
            }
            Some((LOWER, n)) => return (lower(text, end + n), true),
            _ if both > p => return (both, true),
            _ => return (end, false),
        }
    }
}

/// `[LB]*` from `p`.
#[inline]
fn lower(text: &[u8], mut p: usize) -> usize {
    loop {
        while let Some(&byte) = text.get(p)
            && byte.is_ascii_lowercase()
        {
            p += 1;
        }
        match text.get(p) {
            Some(byte) if *byte >= 0x80 => match classes::at(text, p) {
                Some((LOWER | LETTER | MARK, n)) => p += n,
                _ => return p,
            },
            _ => return p,
        }
    }
}

#[inline]
fn with_contraction(text: &[u8], p: usize) -> usize {
    if text.get(p) == Some(&b'\'') { contraction(text, p) } else { p }
}

/// The end of `(?i:'s|'t|'re|'ve|'m|'ll|'d)` at `p`, where an apostrophe is; `p` if there is none.
///
/// Case is folded as Unicode does: U+017F is an `s`. (The Kelvin sign is a `k`, which no contraction has.)
#[inline]
pub(super) fn contraction(text: &[u8], p: usize) -> usize {
    debug_assert_eq!(ASCII[b'\'' as usize], OTHER);
    let first = text.get(p + 1).map_or(0, |byte| byte | 0x20);
    let second = text.get(p + 2).map_or(0, |byte| byte | 0x20);
    match (text.get(p + 1), first, second) {
        (Some(0xc5), _, _) if text.get(p + 2) == Some(&0xbf) => p + 3,
        (Some(byte), b's' | b't' | b'm' | b'd', _) if byte.is_ascii_alphabetic() => p + 2,
        (Some(byte), b'r' | b'v', b'e') | (Some(byte), b'l', b'l')
            if byte.is_ascii_alphabetic() && text[p + 2].is_ascii_alphabetic() =>
        {
            p + 3
        }
        _ => p,
    }
}
