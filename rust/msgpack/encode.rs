//! Headers and scalars, each in its shortest form.

use super::marker;

/// Where bytes go. The Python binding writes straight into a `bytes` object, the tests into a `Vec`.
pub trait Sink {
    /// Append a few bytes whose number is known when compiling.
    fn put<const N: usize>(&mut self, bytes: [u8; N]);
    /// Append any number of bytes.
    fn extend(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    #[inline]
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.extend_from_slice(&bytes);
    }

    #[inline]
    fn extend(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// A value longer than the 32 bits that the format has for its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

#[inline]
fn put8(out: &mut impl Sink, marker: u8, value: u8) {
    out.put([marker, value]);
}

#[inline]
fn put16(out: &mut impl Sink, marker: u8, value: u16) {
    let [a, b] = value.to_be_bytes();
    out.put([marker, a, b]);
}

#[inline]
fn put32(out: &mut impl Sink, marker: u8, value: u32) {
    let [a, b, c, d] = value.to_be_bytes();
    out.put([marker, a, b, c, d]);
}

#[inline]
fn put64(out: &mut impl Sink, marker: u8, value: u64) {
    let mut bytes = [marker; 9];
    bytes[1..].copy_from_slice(&value.to_be_bytes());
    out.put(bytes);
}

/// Write nil.
#[inline]
pub fn nil(out: &mut impl Sink) {
    out.put([marker::NIL]);
}

/// Write a truth value.
#[inline]
pub fn boolean(out: &mut impl Sink, value: bool) {
    out.put([if value { marker::TRUE } else { marker::FALSE }]);
}

/// Write an integer that is not negative.
#[inline]
pub fn uint(out: &mut impl Sink, value: u64) {
    if value <= u64::from(marker::POSITIVE_FIXINT_MAX) {
        out.put([value as u8]);
    } else if let Ok(value) = u8::try_from(value) {
        put8(out, marker::UINT8, value);
    } else if let Ok(value) = u16::try_from(value) {
        put16(out, marker::UINT16, value);
    } else if let Ok(value) = u32::try_from(value) {
        put32(out, marker::UINT32, value);
    } else {
        put64(out, marker::UINT64, value);
    }
}

/// Write an integer.
#[inline]
pub fn int(out: &mut impl Sink, value: i64) {
    if let Ok(value) = u64::try_from(value) {
        uint(out, value);
    } else if value >= marker::NEGATIVE_FIXINT_MIN {
        out.put([value as u8]);
    } else if let Ok(value) = i8::try_from(value) {
        put8(out, marker::INT8, value as u8);
    } else if let Ok(value) = i16::try_from(value) {
        put16(out, marker::INT16, value as u16);
    } else if let Ok(value) = i32::try_from(value) {
        put32(out, marker::INT32, value as u32);
    } else {
        put64(out, marker::INT64, value as u64);
    }
}

/// Write a float, always in 64 bits: a Python float is one.
#[inline]
pub fn float(out: &mut impl Sink, value: f64) {
    put64(out, marker::FLOAT64, value.to_bits());
}

/// Write a string.
///
/// # Errors
///
/// It has 2^32 bytes or more; so below.
#[inline]
pub fn str(out: &mut impl Sink, text: &[u8]) -> Result<(), TooLong> {
    let n = text.len();
    if n < 32 {
        out.put([marker::FIXSTR | n as u8]);
    } else if let Ok(n) = u8::try_from(n) {
        put8(out, marker::STR8, n);
    } else if let Ok(n) = u16::try_from(n) {
        put16(out, marker::STR16, n);
    } else {
        put32(out, marker::STR32, u32::try_from(n).map_err(|_| TooLong)?);
    }
    out.extend(text);
    Ok(())
}

/// Write bytes.
///
/// # Errors
///
/// As for [`str`].
#[inline]
pub fn bin(out: &mut impl Sink, data: &[u8]) -> Result<(), TooLong> {
    if let Ok(n) = u8::try_from(data.len()) {
        put8(out, marker::BIN8, n);
    } else if let Ok(n) = u16::try_from(data.len()) {
        put16(out, marker::BIN16, n);
    } else {
        put32(out, marker::BIN32, u32::try_from(data.len()).map_err(|_| TooLong)?);
    }
    out.extend(data);
    Ok(())
}

/// Write the header of an array; its `n` elements follow.
///
/// # Errors
///
/// As for [`str`].
#[inline]
pub fn array(out: &mut impl Sink, n: usize) -> Result<(), TooLong> {
    if n < 16 {
        out.put([marker::FIXARRAY | n as u8]);
    } else if let Ok(n) = u16::try_from(n) {
        put16(out, marker::ARRAY16, n);
    } else {
        put32(out, marker::ARRAY32, u32::try_from(n).map_err(|_| TooLong)?);
    }
    Ok(())
}

/// Write the header of a map; its `n` keys and values follow, in turn.
///
/// # Errors
///
/// As for [`str`].
#[inline]
pub fn map(out: &mut impl Sink, n: usize) -> Result<(), TooLong> {
    if n < 16 {
        out.put([marker::FIXMAP | n as u8]);
    } else if let Ok(n) = u16::try_from(n) {
        put16(out, marker::MAP16, n);
    } else {
        put32(out, marker::MAP32, u32::try_from(n).map_err(|_| TooLong)?);
    }
    Ok(())
}

/// Write the header of an extension value; its `n` bytes follow.
///
/// # Errors
///
/// As for [`str`].
pub fn ext(out: &mut impl Sink, code: i8, n: usize) -> Result<(), TooLong> {
    match n {
        1 | 2 | 4 | 8 | 16 => out.put([marker::FIXEXT1 + n.trailing_zeros() as u8]),
        0..=0xff => put8(out, marker::EXT8, n as u8),
        0x100..=0xffff => put16(out, marker::EXT16, n as u16),
        _ => put32(out, marker::EXT32, u32::try_from(n).map_err(|_| TooLong)?),
    }
    out.put([code as u8]);
    Ok(())
}
