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

type Loaded = OnceLock<Result<Arc<dyn Counter>>>;

/// The counter of an embedded encoding, exact as tiktoken's `encode_ordinary`.
///
/// # Errors
/// `Error::UnknownName` for any other name; `Error::Decode` when the embedded vocabulary is damaged.
pub fn encoding(name: &str) -> Result<Arc<dyn Counter>> {
    static O200K: Loaded = OnceLock::new();
    static CL100K: Loaded = OnceLock::new();
    match name {
        "o200k_base" => O200K.get_or_init(|| {
            let vocabulary = Vocabulary::unpack(name, O200K_PACKED, O200K_HASH)?;
            Ok(Arc::new(Bpe::<O200k>::new(vocabulary, 1)))
        }),
        "cl100k_base" => CL100K.get_or_init(|| {
            let vocabulary = Vocabulary::unpack(name, CL100K_PACKED, CL100K_HASH)?;
            Ok(Arc::new(Bpe::<Cl100k>::new(vocabulary, 2)))
        }),
        _ => {
            return Err(Error::UnknownName {
                what: "encoding",
                name: name.to_owned(),
                known: NAMES.map(str::to_owned).to_vec(),
            });
        }
    }
    .clone()
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
