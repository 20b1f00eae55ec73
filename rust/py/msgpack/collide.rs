//! Keys whose hashes an attacker chose: the hashes of `str` and `bytes` are salted, those of ints and tuples are not.
//!
//! A dict finds keys of one hash one after the other, so that `n` of them cost `n * n` comparisons. Values of the types that are
//! read never agree in 62 bits by chance. Hashes that agree in part cost a few more steps each and no more.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// Fewer keys are not looked at: all of one hash, they cost 20 us.
const LEAST: usize = 64;

/// Keys of one hash, at most, where there are so many.
pub(super) const MAX_EQUAL: usize = 16;

/// Whether so many keys are worth a look.
pub(super) fn is_many(n: usize) -> bool {
    n >= LEAST
}

/// What is wrong with a dict or a set, as the end of a sentence.
pub(super) fn said() -> String {
    format!("has more than {MAX_EQUAL} keys of one hash")
}

/// Whether to look at the hashes of the keys in front of the `n`-th: each time their number has doubled.
pub(super) fn is_due(n: usize) -> bool {
    n > LEAST && (n - 1).is_power_of_two()
}

/// Whether a key's hash is salted per process, so that nobody can make keys collide.
#[inline]
pub(super) fn is_salted(key: &Bound<'_, PyAny>) -> bool {
    key.is_exact_instance_of::<PyString>() || key.is_exact_instance_of::<PyBytes>()
}

/// Whether too many of at least [`LEAST`] keys have one hash.
pub(super) fn collide<'py>(keys: impl Iterator<Item = Bound<'py, PyAny>>) -> bool {
    let mut hashes: Vec<_> = keys.filter(|key| !is_salted(key)).filter_map(|key| key.hash().ok()).collect();
    hashes.sort_unstable();
    hashes.len() >= LEAST && hashes.windows(MAX_EQUAL + 1).any(|equal| equal.first() == equal.last())
}
