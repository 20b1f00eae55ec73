//! The first byte of every value, as the specification numbers them, and the extension types that holdall adds.
//!
//! Source: <https://github.com/msgpack/msgpack/blob/master/spec.md>, "Formats".

/// Largest value of a positive fixint: `0x00..=0x7f`.
pub const POSITIVE_FIXINT_MAX: u8 = 0x7f;
/// A map of up to 15 pairs: `0x80..=0x8f`.
pub const FIXMAP: u8 = 0x80;
/// An array of up to 15 elements: `0x90..=0x9f`.
pub const FIXARRAY: u8 = 0x90;
/// A string of up to 31 bytes: `0xa0..=0xbf`.
pub const FIXSTR: u8 = 0xa0;
/// Nil.
pub const NIL: u8 = 0xc0;
/// Never used by the specification; holdall's sealed blobs begin with it, so that none is taken for a document.
pub const NEVER_USED: u8 = 0xc1;
/// False.
pub const FALSE: u8 = 0xc2;
/// True.
pub const TRUE: u8 = 0xc3;
/// Binary, length in 8 bits.
pub const BIN8: u8 = 0xc4;
/// Binary, length in 16 bits.
pub const BIN16: u8 = 0xc5;
/// Binary, length in 32 bits.
pub const BIN32: u8 = 0xc6;
/// Extension, length in 8 bits.
pub const EXT8: u8 = 0xc7;
/// Extension, length in 16 bits.
pub const EXT16: u8 = 0xc8;
/// Extension, length in 32 bits.
pub const EXT32: u8 = 0xc9;
/// IEEE 754 binary32.
pub const FLOAT32: u8 = 0xca;
/// IEEE 754 binary64.
pub const FLOAT64: u8 = 0xcb;
/// Unsigned, 8 bits.
pub const UINT8: u8 = 0xcc;
/// Unsigned, 16 bits.
pub const UINT16: u8 = 0xcd;
/// Unsigned, 32 bits.
pub const UINT32: u8 = 0xce;
/// Unsigned, 64 bits.
pub const UINT64: u8 = 0xcf;
/// Signed, 8 bits.
pub const INT8: u8 = 0xd0;
/// Signed, 16 bits.
pub const INT16: u8 = 0xd1;
/// Signed, 32 bits.
pub const INT32: u8 = 0xd2;
/// Signed, 64 bits.
pub const INT64: u8 = 0xd3;
/// Extension of 1 byte; 2, 4, 8 and 16 bytes follow in order.
pub const FIXEXT1: u8 = 0xd4;
/// Extension of 16 bytes.
pub const FIXEXT16: u8 = 0xd8;
/// String, length in 8 bits.
pub const STR8: u8 = 0xd9;
/// String, length in 16 bits.
pub const STR16: u8 = 0xda;
/// String, length in 32 bits.
pub const STR32: u8 = 0xdb;
/// Array, length in 16 bits.
pub const ARRAY16: u8 = 0xdc;
/// Array, length in 32 bits.
pub const ARRAY32: u8 = 0xdd;
/// Map, length in 16 bits.
pub const MAP16: u8 = 0xde;
/// Map, length in 32 bits.
pub const MAP32: u8 = 0xdf;
/// Smallest negative fixint: `0xe0..=0xff` is -32 to -1.
pub const NEGATIVE_FIXINT_MIN: i64 = -32;

/// The extension types. Every other code is refused. Codes are never reused.
///
/// | code | value | body |
/// |---|---|---|
/// | 1 | `int` beyond 64 bits | two's complement, big-endian, shortest |
/// | 2 | `str` with lone surrogates | UTF-8, each surrogate as its three bytes |
/// | 3 | `tuple` | one array |
/// | 4 | `set` | one array |
/// | 5 | `frozenset` | one array |
/// | 6 | `datetime` | year u16, month, day, hour, minute, second u8, microsecond u32, fold u8, then the zone (see 8) |
/// | 7 | `date` | year u16, month u8, day u8 |
/// | 8 | `time` | hour, minute, second u8, microsecond u32, fold u8, then the zone: nothing where naive; `o` and the offset in microseconds i64; `n`, the same and a name in UTF-8; `z` and an IANA key |
/// | 9 | `timedelta` | days i32, seconds u32, microseconds u32 |
/// | 10 | `Decimal` | its text, ASCII |
/// | 11 | `UUID` | its 16 bytes |
/// | 12 | `bytearray` | its bytes |
/// | 13 | `list` of floats | f64 each, little-endian |
/// | 14 | `list` of floats that all fit 32 bits exactly | f32 each, little-endian |
/// | 15 | `array.array` | typecode (ASCII), item size u8, then its items, little-endian |
/// | 16 | `numpy.ndarray` | length of the dtype text u8, the text, number of dimensions u8, each dimension u64, the items in C order |
///
/// Numbers are big-endian, as everywhere in `MessagePack`, but for the items of 13 to 16.
pub mod ext {
    /// A tuple: one array.
    pub const TUPLE: i8 = 3;
    /// A set: one array.
    pub const SET: i8 = 4;
    /// A frozen set: one array.
    pub const FROZENSET: i8 = 5;
    /// A list of floats, 64 bits each.
    pub const FLOATS64: i8 = 13;
    /// A list of floats that all fit 32 bits exactly.
    pub const FLOATS32: i8 = 14;
}
