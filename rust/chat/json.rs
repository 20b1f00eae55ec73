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
pub(crate) fn push_quoted(text: &str, out: &mut String) {
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
///
/// Sixteen bytes are looked at together, which the compiler makes a few vector instructions of.
pub(crate) fn first_escape(bytes: &[u8]) -> Option<usize> {
    let is_escaped = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    let (chunks, tail) = bytes.as_chunks::<16>();
    let n = chunks.iter().position(|chunk| chunk.iter().fold(false, |any, byte| any | is_escaped(*byte)));
    let rest = n.map_or(tail, |n| bytes.get(n * 16..).unwrap_or_default());
    let (chunks, tail) = rest.as_chunks::<8>();
    for (n, chunk) in chunks.iter().enumerate() {
        let escaped = escaped(*chunk);
        if escaped != 0 {
            return Some(bytes.len() - rest.len() + n * 8 + escaped.trailing_zeros() as usize / 8);
        }
    }
    if tail.is_empty() {
        return None;
    }
    let (at, last) = if let Some(last) = bytes.last_chunk::<8>() {
        // What was looked at before needs none.
        (bytes.len() - 8, *last)
    } else {
        (0, filled(bytes))
    };
    let escaped = escaped(last);
    (escaped != 0).then(|| at + escaped.trailing_zeros() as usize / 8)
}

/// Fewer than eight bytes, filled up with what needs no escape.
fn filled(bytes: &[u8]) -> [u8; 8] {
    let n = bytes.len() as u32;
    // Two parts that together are all; where they overlap they are the same.
    let (first, last, last_at) = if let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        (u64::from(u32::from_le_bytes(*first)), u64::from(u32::from_le_bytes(*last)), n - 4)
    } else {
        let pair = |at: u32| bytes.get(at as usize).map_or(0, |byte| u64::from(*byte) << (8 * at));
        (pair(0) | pair(1), pair(2), 0)
    };
    let spaces = u64::from_le_bytes([b' '; 8]) << (8 * n);
    (first | last << (8 * last_at) | spaces).to_le_bytes()
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

    use super::first_escape;

    proptest! {
        #[test]
        fn the_first_escape_is_found(bytes in proptest::collection::vec(prop_oneof![any::<u8>(), 0x1f_u8..0x24, 0x5b_u8..0x5e, 0x7e_u8..0x82], 0..40)) {
            let expected = bytes.iter().position(|byte| *byte < 0x20 || *byte == b'"' || *byte == b'\\');
            prop_assert_eq!(first_escape(&bytes), expected);
        }
    }
}
