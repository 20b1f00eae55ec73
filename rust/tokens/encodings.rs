//! The embedded encodings, each unpacked when it is first asked for and then kept.

use std::sync::{Arc, OnceLock};

use super::Counter;
use super::bpe::Bpe;
use super::split::{Cl100k, O200k};
use super::vocab::Vocabulary;
use crate::{Error, Result};

/// Names of the embedded encodings.
pub const NAMES: [&str; 2] = ["o200k_base", "cl100k_base"];

static O200K_PACKED: &[u8] = include_bytes!("data/o200k_base.bpe");
static CL100K_PACKED: &[u8] = include_bytes!("data/cl100k_base.bpe");
/// xxh3-128 of the payloads.
const O200K_HASH: u128 = 0xd086_1b21_88b2_03bf_35e5_0a78_b15d_668a;
const CL100K_HASH: u128 = 0x9519_49b5_8ac6_3b93_72e5_06e9_d361_e301;

/// tiktoken's patterns, by which an encoding that a caller brings is recognised.
pub(super) const O200K_PATTERN: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);
pub(super) const CL100K_PATTERN: &str = concat!(
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|",
    r"\s++$|\s*[\r\n]|\s+(?!\S)|\s",
);

pub(super) fn o200k() -> Result<Arc<Bpe<O200k>>> {
    static LOADED: OnceLock<Result<Arc<Bpe<O200k>>>> = OnceLock::new();
    let load = || Ok(Arc::new(Bpe::new(Vocabulary::unpack("o200k_base", O200K_PACKED, O200K_HASH)?, 1)));
    LOADED.get_or_init(load).clone()
}

pub(super) fn cl100k() -> Result<Arc<Bpe<Cl100k>>> {
    static LOADED: OnceLock<Result<Arc<Bpe<Cl100k>>>> = OnceLock::new();
    let load = || Ok(Arc::new(Bpe::new(Vocabulary::unpack("cl100k_base", CL100K_PACKED, CL100K_HASH)?, 2)));
    LOADED.get_or_init(load).clone()
}

/// The counter of an embedded encoding, exact as tiktoken's `encode_ordinary`.
///
/// # Errors
/// `Error::UnknownName` for any other name; `Error::Decode` when the embedded vocabulary is damaged.
pub fn encoding(name: &str) -> Result<Arc<dyn Counter>> {
    match name {
        "o200k_base" => Ok(o200k()?),
        "cl100k_base" => Ok(cl100k()?),
        _ => Err(Error::UnknownName {
            what: "encoding",
            name: name.to_owned(),
            known: NAMES.map(str::to_owned).to_vec(),
        }),
    }
}

/// Whether an embedded encoding has this pattern and these ranks; its name.
#[must_use]
pub fn recognise(pattern: &str, ranks: &[(Vec<u8>, u32)]) -> Option<&'static str> {
    let same = |vocabulary: &Vocabulary| {
        let has = |(token, rank): &(Vec<u8>, u32)| vocabulary.find(token, 0, token.len()) == Some(*rank);
        vocabulary.len() == ranks.len() && ranks.iter().all(has)
    };
    match pattern {
        O200K_PATTERN if same(&o200k().ok()?.pieces().vocabulary) => Some("o200k_base"),
        CL100K_PATTERN if same(&cl100k().ok()?.pieces().vocabulary) => Some("cl100k_base"),
        _ => None,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::tokens) fn vocabularies() -> &'static [Vocabulary; 2] {
        static UNPACKED: OnceLock<[Vocabulary; 2]> = OnceLock::new();
        UNPACKED.get_or_init(|| {
            let o200k = Vocabulary::unpack("o200k_base", O200K_PACKED, O200K_HASH).expect("undamaged");
            [o200k, Vocabulary::unpack("cl100k_base", CL100K_PACKED, CL100K_HASH).expect("undamaged")]
        })
    }

    #[test]
    fn damage_is_refused() {
        let mut packed = CL100K_PACKED.to_vec();
        let refused = |packed: &[u8], hash| match Vocabulary::unpack("cl100k_base", packed, hash) {
            Err(Error::Decode { reason, .. }) => assert!(reason.contains("cl100k_base is damaged"), "{reason}"),
            _ => panic!("damage must be an error"),
        };
        refused(&packed, CL100K_HASH ^ 1);
        refused(&packed[..packed.len() / 2], CL100K_HASH);
        let middle = packed.len() / 2;
        packed[middle] ^= 0x10;
        refused(&packed, CL100K_HASH);
    }
}
