//! A document as a flat run of tokens, each checked against the bytes that are left before anything is made of it.

use super::marker;
use crate::Error;

/// One value, or the header of one that contains others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Token<'a> {
    /// Nil.
    Nil,
    /// A truth value.
    Bool(bool),
    /// An integer that is not negative.
    Uint(u64),
    /// A negative integer (a writer that is not ours may put others here too).
    Int(i64),
    /// A float.
    Float(f64),
    /// A string, not yet checked to be UTF-8.
    Str(&'a [u8]),
    /// Bytes.
    Bin(&'a [u8]),
    /// An array of so many elements, which follow.
    Array(usize),
    /// A map of so many pairs, which follow.
    Map(usize),
    /// An extension value: its type and its body.
    Ext(i8, &'a [u8]),
}

/// Why there is no next token. Small, since it is looked at after every one; [`Reader::error`] says it in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// So many bytes are declared and not there.
    Short(usize),
    /// The byte that the specification never uses.
    NeverUsed,
}

type Result<T> = std::result::Result<T, Fault>;

/// Reads tokens off a document.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    data: &'a [u8],
    at: usize,
    /// Values that open containers have declared and not yet received. Each takes a byte at least, so that their number
    /// over all open containers, and with it what is allocated ahead, never exceeds the bytes that are left.
    owed: usize,
}

impl<'a> Reader<'a> {
    /// Read `data` from byte `start` on.
    #[must_use]
    pub fn new(data: &'a [u8], start: usize) -> Self {
        Self { data, at: start.min(data.len()), owed: 1 }
    }

    /// The offset of the next byte.
    #[inline]
    #[must_use]
    pub fn offset(&self) -> usize {
        self.at
    }

    /// Bytes that are left.
    #[inline]
    #[must_use]
    pub fn left(&self) -> usize {
        self.data.len() - self.at
    }

    /// The bytes that are left.
    #[inline]
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.data.get(self.at..).unwrap_or_default()
    }

    /// Step over one whole value, of `n` bytes.
    #[inline]
    pub fn step_over(&mut self, n: usize) {
        self.at = self.at.saturating_add(n).min(self.data.len());
        self.owed = self.owed.saturating_sub(1);
    }

    /// Step over one whole value, of `n` bytes, if what is owed after it may be there; false, and nothing is read, otherwise.
    #[inline]
    pub fn try_step_over(&mut self, n: usize) -> bool {
        let may_be = self.left().checked_sub(n).is_some_and(|left| self.owed.saturating_sub(1) <= left);
        if may_be {
            self.step_over(n);
        }
        may_be
    }

    /// Step back over the body of the extension value that was just read, so that its content is read as tokens.
    #[inline]
    pub fn enter(&mut self, body: &[u8]) {
        self.at = self.at.saturating_sub(body.len());
        self.owed += 1;
    }

    #[inline]
    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        let rest = self.data.get(self.at..).unwrap_or_default();
        let Some(taken) = rest.get(..n) else { return Err(Fault::Short(n)) };
        self.at += n;
        Ok(taken)
    }

    #[inline]
    fn fixed<const N: usize>(&mut self) -> Result<[u8; N]> {
        let rest = self.data.get(self.at..).unwrap_or_default();
        let Some(taken) = rest.first_chunk::<N>() else { return Err(Fault::Short(N)) };
        self.at += N;
        Ok(*taken)
    }

    /// What a fault means, at the byte where it was found.
    #[cold]
    #[must_use]
    pub fn error(&self, fault: Fault) -> Error {
        let left = self.left();
        match fault {
            Fault::Short(n) => Error::Decode {
                offset: self.at,
                reason: format!("truncated: {n} bytes are declared and {left} are left"),
            },
            Fault::NeverUsed => Error::Decode {
                offset: self.at.saturating_sub(1),
                reason: "byte 0xc1, which MessagePack never uses".into(),
            },
        }
    }

    #[inline]
    fn length8(&mut self) -> Result<usize> {
        Ok(usize::from(u8::from_be_bytes(self.fixed()?)))
    }

    #[inline]
    fn length16(&mut self) -> Result<usize> {
        Ok(usize::from(u16::from_be_bytes(self.fixed()?)))
    }

    #[inline]
    fn length32(&mut self) -> Result<usize> {
        Ok(u32::from_be_bytes(self.fixed()?) as usize)
    }

    #[inline]
    fn owe(&mut self, values: usize) -> Result<()> {
        self.owed = self.owed.saturating_add(values);
        if self.owed > self.left() { Err(Fault::Short(self.owed)) } else { Ok(()) }
    }

    #[inline]
    fn array(&mut self, n: usize) -> Result<Token<'a>> {
        self.owe(n)?;
        Ok(Token::Array(n))
    }

    #[inline]
    fn map(&mut self, n: usize) -> Result<Token<'a>> {
        self.owe(n.saturating_mul(2))?;
        Ok(Token::Map(n))
    }

    #[inline]
    fn ext(&mut self, n: usize) -> Result<Token<'a>> {
        let [code] = self.fixed()?;
        Ok(Token::Ext(code.cast_signed(), self.take(n)?))
    }

    /// Read a string of up to 2^16 bytes if one is next and whole; None, and nothing read, otherwise.
    ///
    /// Half of all values are such strings. They come back in two registers, where a token goes through memory.
    #[inline(always)]
    #[allow(clippy::inline_always, reason = "a third of the time of a decode, by measurement")]
    pub fn text_ahead(&mut self) -> Option<&'a [u8]> {
        let rest = self.data.get(self.at..)?;
        let (header, n) = match *rest {
            [first @ 0xa0..=0xbf, ..] => (1, usize::from(first & 0x1f)),
            [marker::STR8, n, ..] => (2, usize::from(n)),
            [marker::STR16, high, low, ..] => (3, usize::from(u16::from_be_bytes([high, low]))),
            _ => return None,
        };
        let text = rest.get(header..header + n)?;
        self.at += header + n;
        self.owed = self.owed.saturating_sub(1);
        Some(text)
    }

    /// Read the next token.
    ///
    /// # Errors
    ///
    /// The document ends before the token does, declares more than is left, or holds the byte that is never used.
    #[inline]
    pub fn token(&mut self) -> Result<Token<'a>> {
        let [first] = self.fixed()?;
        self.owed = self.owed.saturating_sub(1);
        Ok(match first {
            0x00..=0x7f => Token::Uint(u64::from(first)),
            0x80..=0x8f => self.map(usize::from(first & 0x0f))?,
            0x90..=0x9f => self.array(usize::from(first & 0x0f))?,
            0xa0..=0xbf => Token::Str(self.take(usize::from(first & 0x1f))?),
            marker::NIL => Token::Nil,
            marker::NEVER_USED => return Err(Fault::NeverUsed),
            marker::FALSE => Token::Bool(false),
            marker::TRUE => Token::Bool(true),
            marker::BIN8 => {
                let n = self.length8()?;
                Token::Bin(self.take(n)?)
            }
            marker::BIN16 => {
                let n = self.length16()?;
                Token::Bin(self.take(n)?)
            }
            marker::BIN32 => {
                let n = self.length32()?;
                Token::Bin(self.take(n)?)
            }
            marker::EXT8 => {
                let n = self.length8()?;
                self.ext(n)?
            }
            marker::EXT16 => {
                let n = self.length16()?;
                self.ext(n)?
            }
            marker::EXT32 => {
                let n = self.length32()?;
                self.ext(n)?
            }
            marker::FLOAT32 => Token::Float(f64::from(f32::from_be_bytes(self.fixed()?))),
            marker::FLOAT64 => Token::Float(f64::from_be_bytes(self.fixed()?)),
            marker::UINT8 => Token::Uint(u64::from(u8::from_be_bytes(self.fixed()?))),
            marker::UINT16 => Token::Uint(u64::from(u16::from_be_bytes(self.fixed()?))),
            marker::UINT32 => Token::Uint(u64::from(u32::from_be_bytes(self.fixed()?))),
            marker::UINT64 => Token::Uint(u64::from_be_bytes(self.fixed()?)),
            marker::INT8 => Token::Int(i64::from(i8::from_be_bytes(self.fixed()?))),
            marker::INT16 => Token::Int(i64::from(i16::from_be_bytes(self.fixed()?))),
            marker::INT32 => Token::Int(i64::from(i32::from_be_bytes(self.fixed()?))),
            marker::INT64 => Token::Int(i64::from_be_bytes(self.fixed()?)),
            marker::FIXEXT1..=marker::FIXEXT16 => self.ext(1 << (first - marker::FIXEXT1))?,
            marker::STR8 => {
                let n = self.length8()?;
                Token::Str(self.take(n)?)
            }
            marker::STR16 => {
                let n = self.length16()?;
                Token::Str(self.take(n)?)
            }
            marker::STR32 => {
                let n = self.length32()?;
                Token::Str(self.take(n)?)
            }
            marker::ARRAY16 => {
                let n = self.length16()?;
                self.array(n)?
            }
            marker::ARRAY32 => {
                let n = self.length32()?;
                self.array(n)?
            }
            marker::MAP16 => {
                let n = self.length16()?;
                self.map(n)?
            }
            marker::MAP32 => {
                let n = self.length32()?;
                self.map(n)?
            }
            0xe0..=0xff => Token::Int(i64::from(first.cast_signed())),
        })
    }
}
