//! The embedded encodings, each unpacked when it is first asked for and then kept.

use std::sync::{Arc, OnceLock};

use super::Counter;
use super::bpe::Bpe;
use super::split::{Cl100k, O200k};
use super::vocab::Vocabulary;
use crate::{Error, Result};

/// Names of the embedded encodings.
pub const NAMES: [&str; 2] = ["o200k_base", "cl100k_base"];

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
            let packed = include_bytes!("data/o200k_base.bpe");
            let vocabulary = Vocabulary::unpack(name, packed, 0xd086_1b21_88b2_03bf_35e5_0a78_b15d_668a)?;
            Ok(Arc::new(Bpe::<O200k>::new(vocabulary, 1)))
        }),
        "cl100k_base" => CL100K.get_or_init(|| {
            let packed = include_bytes!("data/cl100k_base.bpe");
            let vocabulary = Vocabulary::unpack(name, packed, 0x9519_49b5_8ac6_3b93_72e5_06e9_d361_e301)?;
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
