//! What two neighbours merge into, looked up without a branch: which pairs merge is too random to be predicted.
//!
//! Each left half has a perfect hash of its right halves: they fall into small buckets, and each bucket has the
//! multiplier (`pilot`) that was found to send all of it to free slots. What is looked up with one left half lies close
//! together, since a text asks for many right halves of few left ones, most of which are not there.

use super::vocab::{ID_BITS, Id, MAX_TOKENS, NONE};

/// Right halves in a bucket, on average.
const IN_BUCKET: usize = 4;
const EMPTY: u64 = u64::MAX;
/// Bits that say what a pair merges into.
const MERGED: u64 = MAX_TOKENS as u64 - 1;

/// A perfect hash of pairs.
pub(super) struct Pairs {
    /// By left half.
    groups: Vec<Group>,
    /// One per bucket.
    pilots: Vec<u16>,
    /// Right, merged.
    slots: Vec<u64>,
}

/// The right halves of one left half.
#[derive(Clone, Copy)]
struct Group {
    /// Where its slots start, and log2 of how many there are below, at least 1.
    slots: u32,
    /// Where its pilots start, and log2 of how many there are below.
    pilots: u32,
}

/// Bits of a logarithm in a group.
const LOG_BITS: u32 = 5;
/// The group of a left half that has no right ones: two empty slots.
const NO_GROUP: Group = Group { slots: 1, pilots: 0 };

impl Group {
    fn new(first_slot: usize, log_slots: u32, first_pilot: usize, log_buckets: u32) -> Option<Self> {
        let with_log = |start: usize, log: u32| Some(u32::try_from(start << LOG_BITS).ok()? | log);
        Some(Self { slots: with_log(first_slot, log_slots)?, pilots: with_log(first_pilot, log_buckets)? })
    }
}

impl Pairs {
    /// A table of the halves of each token, by id; those of `NONE` are left out. `None` if no pilots are found.
    pub(super) fn new(halves: &[[Id; 2]]) -> Option<Self> {
        let mut starts = vec![0_usize; halves.len() + 1];
        let is_merged = |half: &[Id; 2]| half[0] != NONE;
        for half in halves.iter().filter(|half| is_merged(half)) {
            starts[half[0] as usize + 1] += 1;
        }
        for at in 0..halves.len() {
            starts[at + 1] += starts[at];
        }
        let mut by_left = vec![(0, 0); starts.last().copied().unwrap_or(0)];
        let mut next = starts.clone();
        for (id, half) in (0..).zip(halves).filter(|(_, half)| is_merged(half)) {
            let at = &mut next[half[0] as usize];
            by_left[*at] = (half[1], id);
            *at += 1;
        }
        let mut made = Self { groups: vec![NO_GROUP; halves.len()], pilots: vec![0], slots: vec![EMPTY; 2] };
        for (left, bounds) in starts.windows(2).enumerate() {
            if bounds[0] < bounds[1] {
                made.groups[left] = made.add(&mut by_left[bounds[0]..bounds[1]])?;
            }
        }
        Some(made)
    }

    /// The table of `new` whose pilots are known: low byte of each, then high byte. `None` if they are not its pilots.
    pub(super) fn with_pilots(halves: &[[Id; 2]], pilots: &[u8]) -> Option<Self> {
        let merges = || (0..).zip(halves).filter(|(_, half)| half[0] != NONE);
        let mut n_rights = vec![0_u32; halves.len()];
        for (_, half) in merges() {
            *n_rights.get_mut(half[0] as usize)? += 1;
        }
        let (low, high) = pilots.split_at(pilots.len() / 2);
        let pilots = [0].into_iter().chain(low.iter().zip(high).map(|(low, high)| u16::from_le_bytes([*low, *high])));
        let mut made = Self { groups: vec![NO_GROUP; halves.len()], pilots: pilots.collect(), slots: Vec::new() };
        let (mut n_slots, mut n_pilots) = (2, 1);
        for (group, &n) in made.groups.iter_mut().zip(&n_rights).filter(|(_, n)| **n > 0) {
            let (log_slots, log_buckets) = logs_of(n as usize);
            *group = Group::new(n_slots, log_slots, n_pilots, log_buckets)?;
            (n_slots, n_pilots) = (n_slots + (1 << log_slots), n_pilots + (1 << log_buckets));
        }
        made.slots = vec![EMPTY; n_slots];
        for (id, &[left, right]) in merges() {
            let place = made.place(left, right);
            let slot = made.slots.get_mut(place).filter(|slot| **slot == EMPTY)?;
            *slot = slot_of(right, id);
        }
        (n_pilots == made.pilots.len()).then_some(made)
    }

    /// Add the right halves of one left half and what each merges into.
    fn add(&mut self, rights: &mut [(Id, Id)]) -> Option<Group> {
        let (log, log_buckets) = logs_of(rights.len());
        let bucket = |right: Id| bucket(hash(right), log_buckets);
        rights.sort_unstable_by_key(|&(right, _)| bucket(right));
        let mut buckets: Vec<&[(Id, Id)]> = rights.chunk_by(|one, other| bucket(one.0) == bucket(other.0)).collect();
        // The largest first: those find a place while there is room.
        buckets.sort_by_key(|bucket| std::cmp::Reverse(bucket.len()));
        let (first_slot, first_pilot) = (self.slots.len(), self.pilots.len());
        self.pilots.resize(first_pilot + (1 << log_buckets), 0);
        // Where a group finds no place it is given twice the room.
        for log_slots in log..log + 4 {
            self.slots.truncate(first_slot);
            self.slots.resize(first_slot + (1 << log_slots), EMPTY);
            let places = &mut self.slots[first_slot..];
            let is_put = buckets.iter().all(|rights| match put(places, rights) {
                Some(pilot) => {
                    self.pilots[first_pilot + bucket(rights[0].0)] = pilot;
                    true
                }
                None => false,
            });
            if is_put {
                return Group::new(first_slot, log_slots, first_pilot, log_buckets);
            }
        }
        None
    }

    /// The slot that what the two merge into is in, if it is anywhere.
    #[inline]
    fn place(&self, left: Id, right: Id) -> usize {
        let group = self.groups.get(left as usize).copied().unwrap_or(NO_GROUP);
        let hash = hash(right);
        let pilot = (group.pilots >> LOG_BITS) as usize + bucket(hash, group.pilots % (1 << LOG_BITS));
        let pilot = self.pilots.get(pilot).copied().unwrap_or(0);
        (group.slots >> LOG_BITS) as usize + slot(hash, pilot, group.slots % (1 << LOG_BITS))
    }

    /// The pilots, for `with_pilots`, but for that of no group.
    #[cfg(test)]
    pub(super) fn pilots(&self) -> Vec<u8> {
        [0, 1]
            .into_iter()
            .flat_map(|byte| self.pilots[1..].iter().map(move |pilot| pilot.to_le_bytes()[byte]))
            .collect()
    }

    /// What the two merge into, or `NONE`.
    #[inline]
    pub(super) fn merged(&self, left: Id, right: Id) -> Id {
        let found = self.slots.get(self.place(left, right)).copied().unwrap_or(EMPTY);
        if found >> ID_BITS == u64::from(right) { (found & MERGED) as Id } else { NONE }
    }
}

/// log2 of the slots, and of the buckets, of so many right halves.
fn logs_of(n: usize) -> (u32, u32) {
    let log = |n: usize| n.next_power_of_two().trailing_zeros();
    (log(n * 5 / 4).max(1), log((n / IN_BUCKET).max(1)))
}

#[inline]
fn slot_of(right: Id, merged: Id) -> u64 {
    u64::from(right) << ID_BITS | u64::from(merged)
}

/// Put all of a bucket into free slots; the pilot that says which.
fn put(slots: &mut [u64], bucket: &[(Id, Id)]) -> Option<u16> {
    let log = slots.len().trailing_zeros();
    (0..1 << 12).find(|&pilot| {
        for (n, &(right, id)) in bucket.iter().enumerate() {
            let place = &mut slots[slot(hash(right), pilot, log)];
            if *place != EMPTY {
                for &(right, _) in &bucket[..n] {
                    slots[slot(hash(right), pilot, log)] = EMPTY;
                }
                return false;
            }
            *place = slot_of(right, id);
        }
        true
    })
}

#[inline]
fn hash(right: Id) -> u64 {
    (u64::from(right) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// One of 2^`log` buckets.
#[inline]
fn bucket(hash: u64, log: u32) -> usize {
    (hash >> 32) as usize & ((1 << log) - 1)
}

/// One of 2^`log` slots; `log` is at least 1.
#[inline]
fn slot(hash: u64, pilot: u16, log: u32) -> usize {
    (hash.wrapping_mul(u64::from(pilot) << 1 | 1) >> (64 - log)) as usize
}
