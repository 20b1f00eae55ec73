//! A value as compact JSON, as it is sent: no spaces, non-ASCII unescaped. The same bytes as Python's
//! `json.dumps(value, ensure_ascii=False, separators=(",", ":"))`.

use super::fault::Fault;
use super::node::{Kind, Node};

/// Deeper values are refused: real requests stay below 20, and a value that contains itself has no end.
pub const MAX_DEPTH: usize = 128;

/// A value that shares its parts can stand for exponentially many; past this many visits it is refused.
pub const MAX_VALUES: usize = 4_000_000;

/// Counts down what may still be visited.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fuel(usize);

impl Default for Fuel {
    fn default() -> Self {
        Self(MAX_VALUES)
    }
}

impl Fuel {
    pub(crate) fn spend(&mut self, depth: usize) -> Result<(), Fault> {
        if depth > MAX_DEPTH {
            return Err(Fault::new(format!("nested deeper than {MAX_DEPTH} levels")));
        }
        match self.0.checked_sub(1) {
            Some(left) => {
                self.0 = left;
                Ok(())
            }
            None => Err(Fault::new(format!("holds more than {MAX_VALUES} values"))),
        }
    }
}

/// Append `node` to `out` as compact JSON.
///
/// # Errors
/// The value is too deep, or holds something that JSON does not know.
pub(crate) fn write<N: Node>(node: &N, out: &mut String, fuel: &mut Fuel, depth: usize) -> Result<(), Fault> {
    fuel.spend(depth)?;
    match node.kind() {
        Kind::Null => out.push_str("null"),
        Kind::Bool | Kind::Number => out.push_str(&node.scalar().unwrap_or_default()),
        Kind::Text => push_quoted(&node.text().unwrap_or_default(), out),
        Kind::List => {
            out.push('[');
            for (index, item) in node.items().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(&item, out, fuel, depth + 1)?;
            }
            out.push(']');
        }
        Kind::Object => {
            out.push('{');
            for (index, (key, value)) in node.entries().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                push_quoted(&key.text().unwrap_or_default(), out);
                out.push(':');
                write(&value, out, fuel, depth + 1)?;
            }
            out.push('}');
        }
        Kind::Other => return Err(Fault::new(format!("{} is not a JSON value", node.type_name()))),
    }
    Ok(())
}

/// Append `text` as a JSON string.
#[inline]
pub(crate) fn push_quoted(text: &str, out: &mut String) {
    if let Some(quoted) = quoted_word(text.as_bytes()) {
        push_word(quoted, text.len() + 2, out);
    } else {
        push_long(text, out);
    }
}

/// A text of at most 14 bytes in its quotes, as a number, if it needs no escape.
#[inline]
fn quoted_word(text: &[u8]) -> Option<u128> {
    let n = text.len() as u32;
    let (word, escapes) = if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        let last_at = 8 * (n - 8);
        if n > 14 {
            return None;
        }
        let word = u128::from(u64::from_le_bytes(*first)) | u128::from(u64::from_le_bytes(*last)) << last_at;
        (word, escaped(*first) | escaped(*last))
    } else {
        let (word, spaces) = short_word(text);
        (word.into(), escaped((word | spaces).to_le_bytes()))
    };
    let quote = u128::from(b'"');
    (escapes == 0).then_some(word << 8 | quote | quote << (8 * (n + 1)))
}

/// Append the first `n` bytes of a number that is the UTF-8 of characters.
#[allow(unsafe_code, reason = "checking again that it is UTF-8 takes as long as the rest")]
#[inline]
fn push_word(word: u128, n: usize, out: &mut String) {
    // SAFETY: whole characters are appended.
    let out = unsafe { out.as_mut_vec() };
    let end = out.len() + n;
    out.extend_from_slice(&word.to_le_bytes());
    out.truncate(end);
}

fn push_long(text: &str, out: &mut String) {
    const HEX: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    out.reserve(text.len() + 2);
    out.push('"');
    let mut rest = text;
    while let Some(at) = first_escape(rest.as_bytes()) {
        // What is escaped is ASCII, so both cuts are at the ends of characters.
        let (plain, tail) = rest.split_at(at);
        out.push_str(plain);
        let byte = tail.as_bytes().first().copied().unwrap_or_default();
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            0x08 => out.push_str("\\b"),
            0x0c => out.push_str("\\f"),
            _ => {
                out.push_str("\\u00");
                out.push(if byte < 0x10 { '0' } else { '1' });
                out.push(HEX[usize::from(byte & 0xf)]);
            }
        }
        rest = tail.get(1..).unwrap_or_default();
    }
    out.push_str(rest);
    out.push('"');
}

/// Where the first byte stands that a JSON string cannot hold as it is.
#[inline]
pub(crate) fn first_escape(bytes: &[u8]) -> Option<usize> {
    let (chunks, tail) = bytes.as_chunks::<STEP>();
    for (n, chunk) in chunks.iter().enumerate() {
        let escapes = escapes(*chunk);
        if escapes != 0 {
            return Some(n * STEP + escapes.trailing_zeros() as usize);
        }
    }
    if tail.is_empty() {
        return None;
    }
    if let Some(last) = bytes.last_chunk::<STEP>() {
        // What was looked at before needs none.
        let escapes = escapes(*last);
        return (escapes != 0).then(|| bytes.len() - STEP + escapes.trailing_zeros() as usize);
    }
    let (first, rest) = tail.split_at(tail.len().min(8));
    let find = |bytes: &[u8]| {
        let word = bytes.first_chunk().copied().unwrap_or_else(|| {
            let (word, spaces) = short_word(bytes);
            (word | spaces).to_le_bytes()
        });
        let escaped = escaped(word);
        (escaped != 0).then(|| escaped.trailing_zeros() as usize / 8)
    };
    find(first).or_else(|| find(rest).map(|at| first.len() + at))
}

/// Bytes that are looked at together.
const STEP: usize = 16;

/// One bit for each byte that needs an escape.
#[cfg(target_arch = "x86_64")]
#[inline]
#[allow(unsafe_code, reason = "the vector instructions that every x86-64 has")]
fn escapes(chunk: [u8; STEP]) -> u32 {
    use std::arch::x86_64::{
        _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set1_epi8,
    };
    // SAFETY: SSE2 is part of x86-64, and so many bytes can be read.
    unsafe {
        let bytes = _mm_loadu_si128(chunk.as_ptr().cast());
        let is = |byte: u8| _mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte.cast_signed()));
        let is_control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
        _mm_movemask_epi8(_mm_or_si128(is_control, _mm_or_si128(is(b'"'), is(b'\\')))).cast_unsigned()
    }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn escapes(chunk: [u8; STEP]) -> u32 {
    let is_escaped = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    chunk.iter().rev().fold(0, |bits, byte| bits << 1 | u32::from(is_escaped(*byte)))
}

/// Fewer than eight bytes as a number, and spaces for the rest of it.
#[inline]
fn short_word(bytes: &[u8]) -> (u64, u64) {
    let n = bytes.len() as u32;
    // Two parts that together are all; where they overlap they are the same.
    let (first, last, last_at) = if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        (u64::from(u32::from_le_bytes(*first)), u64::from(u32::from_le_bytes(*last)), n - 4)
    } else {
        let pair = |at: u32| bytes.get(at as usize).map_or(0, |byte| u64::from(*byte) << (8 * at));
        (pair(0) | pair(1), pair(2), 0)
    };
    (first | last << (8 * last_at), u64::from_le_bytes([b' '; 8]) << (8 * n))
}

/// The high bit of each byte that needs an escape, right up to the first of them.
fn escaped(chunk: [u8; 8]) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let bytes = u64::from_le_bytes(chunk);
    // A byte of ASCII from which that is taken borrows if it is less; what borrows may spoil the bytes above it.
    let below = |bytes: u64, n: u8| bytes.wrapping_sub(EACH * u64::from(n)) & !bytes;
    let is = |byte: u8| below(bytes ^ (EACH * u64::from(byte)), 1);
    (below(bytes, 0x20) | is(b'"') | is(b'\\')) & (0x80 * EACH)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{first_escape, push_quoted};

    proptest! {
        #[test]
        fn a_text_is_quoted_as_serde_does(text in "([ -~]|[\"\\\\\u{0}-\u{1f}]|\\PC){0,40}", before in "[a-zé]{0,3}") {
            let mut out = before.clone();
            push_quoted(&text, &mut out);
            prop_assert_eq!(out, before + &serde_json::to_string(&text).expect("a string"));
        }

        #[test]
        fn the_first_escape_is_found(bytes in proptest::collection::vec(prop_oneof![any::<u8>(), 0x1f_u8..0x24, 0x5b_u8..0x5e, 0x7e_u8..0x82], 0..40)) {
            let expected = bytes.iter().position(|byte| *byte < 0x20 || *byte == b'"' || *byte == b'\\');
            prop_assert_eq!(first_escape(&bytes), expected);
        }
    }
}
