//! The compact form of the embedded vocabularies; `data/README.md` describes it, `data/pack.py` writes it.

use super::pairs::Pairs;
use super::vocab::{Id, NONE, Vocabulary};

const N_SINGLE: usize = 256;
/// What is copied at a time: most tokens have no more bytes.
const CHUNK: usize = 16;

/// The vocabulary of a payload and the pilots of its pairs, or `None` if they are none.
pub(super) fn read(payload: &[u8], pilots: &[u8]) -> Option<Vocabulary> {
    let (n, rest) = payload.split_first_chunk::<4>()?;
    let n = u32::from_le_bytes(*n) as usize;
    let (singles, planes) = rest.split_at_checked(N_SINGLE)?;
    let n_pairs = n.checked_sub(N_SINGLE)?;
    if planes.len() != n_pairs.checked_mul(6)? {
        return None;
    }
    let plane = |at: usize| &planes[at * n_pairs..(at + 1) * n_pairs];
    let [low, middle, high] = [0, 1, 2].map(|at| plane(at).iter().zip(plane(at + 3)));
    let mut halves = vec![[NONE; 2]; N_SINGLE];
    halves.reserve_exact(n_pairs);
    halves.extend(low.zip(middle).zip(high).map(|((low, middle), high)| {
        let id = |low: u8, middle: u8, high: u8| Id::from_le_bytes([low, middle, high, 0]);
        [id(*low.0, *middle.0, *high.0), id(*low.1, *middle.1, *high.1)]
    }));
    let mut starts: Vec<u32> = (0..=N_SINGLE as u32).collect();
    starts.reserve_exact(n_pairs);
    let mut end = N_SINGLE as u32;
    for pair in &halves[N_SINGLE..] {
        for &half in pair {
            let half = half as usize;
            end = end.checked_add(starts.get(half + 1)?.checked_sub(starts[half])?)?;
        }
        starts.push(end);
    }
    let bytes = joined(singles, &starts, &halves)?;
    let pairs = Pairs::with_pilots(&halves, pilots)?;
    Vocabulary::new(bytes, starts, halves, pairs)
}

/// The bytes of all tokens, end to end: of each those of its halves, which come before it.
fn joined(singles: &[u8], starts: &[u32], halves: &[[Id; 2]]) -> Option<Vec<u8>> {
    let len = *starts.last()? as usize;
    let mut bytes = vec![0; len + CHUNK];
    bytes.get_mut(..singles.len())?.copy_from_slice(singles);
    let mut to = singles.len();
    for pair in halves.get(singles.len()..)? {
        for &half in pair {
            let (from, end) = (*starts.get(half as usize)? as usize, *starts.get(half as usize + 1)? as usize);
            if end - from > CHUNK {
                bytes.copy_within(from..end, to);
            } else {
                // What is copied beyond its end is overwritten by what comes next.
                let chunk = *bytes.get(from..)?.first_chunk::<CHUNK>()?;
                *bytes.get_mut(to..)?.first_chunk_mut()? = chunk;
            }
            to += end - from;
        }
    }
    bytes.truncate(len);
    Some(bytes)
}
