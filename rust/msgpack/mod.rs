//! `MessagePack` for session states, native and strict.
//!
//! [`encode`] writes the shortest form of each value, as the specification asks; [`decode`] reads a document as a flat
//! run of [`decode::Token`]s and never trusts a declared length further than the bytes that are left. Neither recurses,
//! so that depth costs heap and not stack. What `MessagePack` lacks travels in the extension types of [`marker::ext`].

pub mod decode;
pub mod encode;
pub mod marker;

#[cfg(test)]
mod tests;

/// Containers inside containers, at most, in what is written and in what is read.
///
/// Ten times the deepest conversation that we have seen, and within what Python can compare and print again.
pub const MAX_DEPTH: usize = 500;

/// Keys of one map, or elements of one set, that are neither `str` nor `bytes`.
///
/// The hashes of the other types are not salted, so that an attacker can make them collide; at this size the worst that
/// colliding keys cost is a few milliseconds per map.
pub const MAX_UNSALTED_KEYS: usize = 4096;

/// Lists of floats at least this long are packed as one array. Below it the saving is smaller than the header.
pub const MIN_PACKED_FLOATS: usize = 16;
