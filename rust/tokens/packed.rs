//! The compact form of the embedded vocabularies; `data/README.md` describes it, `data/pack.py` writes it.

use super::vocab::{Id, NONE, Vocabulary};

/// Larger than any payload, so that damaged data cannot ask for more.
const MAX_PAYLOAD: usize = 16 << 20;
const N_SINGLE: usize = 256;

/// The payload of a packed vocabulary, or `None` if it is not deflated data.
pub(super) fn inflate(packed: &[u8]) -> Option<Vec<u8>> {
    miniz_oxide::inflate::decompress_to_vec_with_limit(packed, MAX_PAYLOAD).ok()
}

/// The vocabulary of a payload, or `None` if it is not one.
pub(super) fn read(payload: &[u8]) -> Option<Vocabulary> {
    let (n, rest) = payload.split_first_chunk::<4>()?;
    let n = u32::from_le_bytes(*n) as usize;
    let (singles, planes) = rest.split_at_checked(N_SINGLE)?;
    let pairs = n.checked_sub(N_SINGLE)?;
    if planes.len() != pairs.checked_mul(6)? {
        return None;
    }
    let id = |side: usize, at: usize| {
        let byte = |plane: usize| Id::from(planes[(side * 3 + plane) * pairs + at]);
        byte(0) | byte(1) << 8 | byte(2) << 16
    };
    let mut bytes = Vec::with_capacity(n * 8);
    let mut starts = Vec::with_capacity(n + 1);
    let mut halves = Vec::with_capacity(n);
    starts.push(0);
    for &byte in singles {
        bytes.push(byte);
        starts.push(bytes.len() as u32);
        halves.push([NONE, NONE]);
    }
    for at in 0..pairs {
        let pair = [id(0, at), id(1, at)];
        for half in pair {
            let half = half as usize;
            let (from, to) = (*starts.get(half)? as usize, *starts.get(half + 1)? as usize);
            bytes.extend_from_within(from..to);
        }
        starts.push(u32::try_from(bytes.len()).ok()?);
        halves.push(pair);
    }
    Vocabulary::new(bytes, starts, halves)
}
