//! Stepping over what would decode without fault and without anything rare, so that it can be decoded later.

use super::ascii::is_ascii;
use super::marker;

/// Deeper values are decoded at once. Far below what the stack of a small thread holds.
const MAX_DEPTH: usize = 32;

/// Maps of more keys are decoded at once: here keys are compared one with another.
const MAX_KEYS: usize = 16;

/// An array that was stepped over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Array {
    /// How many elements it has.
    pub len: usize,
    /// Bytes of its header.
    pub header: usize,
    /// Bytes of it all.
    pub size: usize,
}

/// Step over the array that `data` begins with. None where there is none, or where its decoding might fail or would call for
/// more than plain values: extensions, keys that are no strings, large maps.
///
/// With `pairs`, every element has to be an array of a key, a string or an integer, and a value.
#[must_use]
pub fn array(data: &[u8], pairs: bool) -> Option<Array> {
    let mut bytes = Bytes { data, at: 0 };
    let len = match bytes.byte()? {
        first @ 0x90..=0x9f => usize::from(first & 0x0f),
        marker::ARRAY16 => bytes.length16()?,
        marker::ARRAY32 => bytes.length32()?,
        _ => return None,
    };
    let header = bytes.at;
    for _ in 0..len {
        if pairs {
            if bytes.byte()? != marker::FIXARRAY | 2 {
                return None;
            }
            match bytes.text()? {
                Some(text) => utf8(text)?,
                None if matches!(bytes.data.get(bytes.at)?, 0x00..=0x7f | 0xcc..=0xd3 | 0xe0..=0xff) => {
                    bytes.value(MAX_DEPTH)?;
                }
                None => return None,
            }
        }
        bytes.value(0)?;
    }
    Some(Array { len, header, size: bytes.at })
}

/// Reads a document by its bytes: here nothing is made of a value, and a token would be.
struct Bytes<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Bytes<'a> {
    #[inline]
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.data.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    #[inline]
    fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = self.data.get(self.at..)?.first_chunk()?;
        self.at += N;
        Some(*bytes)
    }

    #[inline]
    fn length8(&mut self) -> Option<usize> {
        self.byte().map(usize::from)
    }

    #[inline]
    fn length16(&mut self) -> Option<usize> {
        Some(usize::from(u16::from_be_bytes(self.fixed()?)))
    }

    #[inline]
    fn length32(&mut self) -> Option<usize> {
        Some(u32::from_be_bytes(self.fixed()?) as usize)
    }

    #[inline]
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let taken = self.data.get(self.at..)?.get(..n)?;
        self.at += n;
        Some(taken)
    }

    /// Read a string if one is next: `Some(None)`, and nothing read, where there is another value; None where it is cut.
    #[inline(always)]
    #[allow(clippy::inline_always, clippy::option_option, reason = "half of all values are strings")]
    fn text(&mut self) -> Option<Option<&'a [u8]>> {
        let rest = self.data.get(self.at..)?;
        let (header, n) = match *rest {
            [first @ 0xa0..=0xbf, ..] => (1, usize::from(first & 0x1f)),
            [marker::STR8, n, ..] => (2, usize::from(n)),
            [marker::STR16, high, low, ..] => (3, usize::from(u16::from_be_bytes([high, low]))),
            [marker::STR32, a, b, c, d, ..] => (5, u32::from_be_bytes([a, b, c, d]) as usize),
            [] | [marker::STR8 | marker::STR16 | marker::STR32, ..] => return None,
            _ => return Some(None),
        };
        let text = rest.get(header..)?.get(..n)?;
        self.at += header + n;
        Some(Some(text))
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        if let Some(text) = self.text()? {
            return utf8(text);
        }
        self.other(depth)
    }

    /// Step over what is no string.
    fn other(&mut self, depth: usize) -> Option<()> {
        let n = match self.byte()? {
            0x00..=0x7f | 0xe0..=0xff | marker::NIL | marker::FALSE | marker::TRUE => return Some(()),
            first @ 0x80..=0x8f => return self.map(usize::from(first & 0x0f), depth),
            first @ 0x90..=0x9f => return self.array(usize::from(first & 0x0f), depth),
            marker::UINT8 | marker::INT8 => 1,
            marker::UINT16 | marker::INT16 => 2,
            marker::UINT32 | marker::INT32 | marker::FLOAT32 => 4,
            marker::UINT64 | marker::INT64 | marker::FLOAT64 => 8,
            marker::BIN8 => self.length8()?,
            marker::BIN16 => self.length16()?,
            marker::BIN32 => self.length32()?,
            marker::ARRAY16 => {
                let n = self.length16()?;
                return self.array(n, depth);
            }
            marker::ARRAY32 => {
                let n = self.length32()?;
                return self.array(n, depth);
            }
            marker::MAP16 => {
                let n = self.length16()?;
                return self.map(n, depth);
            }
            _ => return None,
        };
        self.take(n).map(drop)
    }

    fn array(&mut self, n: usize, depth: usize) -> Option<()> {
        if depth >= MAX_DEPTH {
            return None;
        }
        (0..n).try_for_each(|_| self.value(depth + 1))
    }

    fn map(&mut self, n: usize, depth: usize) -> Option<()> {
        if depth >= MAX_DEPTH || n > MAX_KEYS {
            return None;
        }
        let mut keys: [&[u8]; MAX_KEYS] = [&[]; MAX_KEYS];
        for done in 0..n {
            let key = self.text()??;
            utf8(key)?;
            if keys.get(..done)?.contains(&key) {
                return None;
            }
            *keys.get_mut(done)? = key;
            self.value(depth + 1)?;
        }
        Some(())
    }
}

#[inline]
fn utf8(text: &[u8]) -> Option<()> {
    (is_ascii(text) || std::str::from_utf8(text).is_ok()).then_some(())
}
