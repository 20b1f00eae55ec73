//! The embedded encodings, each unpacked when it is first asked for and then kept.

use std::sync::{Arc, OnceLock};

use super::Counter;
use super::bpe::Bpe;
use super::split::{Cl100k, O200k};
use super::vocab::Vocabulary;
use crate::{Error, Result};

/// Names of the embedded encodings.
pub const NAMES: [&str; 2] = ["o200k_base", "cl100k_base"];

/// The payload of each, and the pilots of its pairs.
static O200K: [&[u8]; 2] = [include_bytes!("data/o200k_base.bpe"), include_bytes!("data/o200k_base.pilots")];
static CL100K: [&[u8]; 2] = [include_bytes!("data/cl100k_base.bpe"), include_bytes!("data/cl100k_base.pilots")];
/// xxh3-128 of these.
const O200K_HASHES: [u128; 2] = [0xd086_1b21_88b2_03bf_35e5_0a78_b15d_668a, 0x3125_d36d_3051_4d4b_f4ea_4658_86c1_c9b1];
const CL100K_HASHES: [u128; 2] = [0x9519_49b5_8ac6_3b93_72e5_06e9_d361_e301, 0x75f8_43e3_50c9_841c_d869_e30a_b6d6_04e2];

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
    let load = || Ok(Arc::new(Bpe::new(Vocabulary::unpack("o200k_base", O200K, O200K_HASHES)?, 1)));
    LOADED.get_or_init(load).clone()
}

pub(super) fn cl100k() -> Result<Arc<Bpe<Cl100k>>> {
    static LOADED: OnceLock<Result<Arc<Bpe<Cl100k>>>> = OnceLock::new();
    let load = || Ok(Arc::new(Bpe::new(Vocabulary::unpack("cl100k_base", CL100K, CL100K_HASHES)?, 2)));
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
    use super::super::pairs::Pairs;
    use super::*;

    pub(in crate::tokens) fn vocabularies() -> &'static [Vocabulary; 2] {
        static UNPACKED: OnceLock<[Vocabulary; 2]> = OnceLock::new();
        UNPACKED.get_or_init(|| {
            let o200k = Vocabulary::unpack("o200k_base", O200K, O200K_HASHES).expect("undamaged");
            [o200k, Vocabulary::unpack("cl100k_base", CL100K, CL100K_HASHES).expect("undamaged")]
        })
    }

    #[test]
    fn damage_is_refused() {
        let [payload, pilots] = CL100K.map(<[u8]>::to_vec);
        let refused = |parts: [&[u8]; 2], hashes| match Vocabulary::unpack("cl100k_base", parts, hashes) {
            Err(Error::Decode { reason, .. }) => assert!(reason.contains("cl100k_base is damaged"), "{reason}"),
            _ => panic!("damage must be an error"),
        };
        let [of_payload, of_pilots] = CL100K_HASHES;
        refused(CL100K, [of_payload ^ 1, of_pilots]);
        refused(CL100K, [of_payload, of_pilots ^ 1]);
        refused([&payload[..payload.len() / 2], &pilots], CL100K_HASHES);
        for part in 0..2 {
            let mut parts = [payload.clone(), pilots.clone()];
            let middle = parts[part].len() / 2;
            parts[part][middle] ^= 0x10;
            // Whoever damages a part and its hash with it.
            let [payload, pilots] = parts.each_ref().map(Vec::as_slice);
            refused([payload, pilots], CL100K_HASHES);
            let hashes = [payload, pilots].map(xxhash_rust::xxh3::xxh3_128);
            let _ = Vocabulary::unpack("cl100k_base", [payload, pilots], hashes);
        }
    }

    #[test]
    fn pilots_are_those_that_are_found() {
        for (name, vocabulary, [_, pilots]) in NAMES
            .iter()
            .zip(vocabularies())
            .zip([O200K, CL100K])
            .map(|((name, vocabulary), parts)| (name, vocabulary, parts))
        {
            let halves: Vec<_> = (0..vocabulary.len() as u32).map(|id| vocabulary.halves(id)).collect();
            let found = Pairs::new(&halves).expect("there are pilots").pilots();
            if std::env::var_os("HOLDALL_WRITE_PILOTS").is_some() {
                std::fs::write(format!("rust/tokens/data/{name}.pilots"), &found).expect("the pilots can be written");
            }
            assert!(found == pilots, "run HOLDALL_WRITE_PILOTS=1 cargo test to write the pilots anew");
        }
    }
}
