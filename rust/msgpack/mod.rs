//! `MessagePack` for session states, native and strict.
//!
//! [`encode`] writes the shortest form of each value, as the specification asks; [`decode`] reads a document as a flat
//! run of [`decode::Token`]s and never trusts a declared length further than the bytes that are left. Neither recurses,
//! so that depth costs heap and not stack. What `MessagePack` lacks travels in the extension types of [`marker::ext`].

pub mod ascii;
pub mod decode;
pub mod encode;
pub mod marker;
pub mod skip;

#[cfg(test)]
mod tests;

/// Containers inside containers, at most, in what is written and in what is read.
///
/// The deepest of 18,252 recorded messages nests 4 deep. Python compares and prints 500 levels within its default limit of
/// 1,000 calls.
pub const MAX_DEPTH: usize = 500;

/// Keys of one map, or elements of one set, that are neither `str` nor `bytes`.
///
/// The hashes of the other types are not salted, so that an attacker can make them collide, and reading takes quadratic
/// time. So many ints that all collide took 88 ms to read; hashes that agree as a whole are told earlier, those that agree in
/// part are not.
pub const MAX_UNSALTED_KEYS: usize = 4096;

/// Lists of floats at least this long are packed as one array, which saves a byte per float, five where 32 bits hold all.
/// Shorter ones, where that is little, stay what every reader of `MessagePack` knows.
pub const MIN_PACKED_FLOATS: usize = 16;
