//! The 0/1 case: every candidate is taken whole or left.

use super::core::{Classes, Move, solve};
use super::order::{Slopes, Step};
use super::{Candidate, Limits, Solution, checked_budget, checked_total, finish};
use crate::Result;

/// Take candidates so that their weight is at most `budget` and their value is largest.
///
/// `picks` hold `Some(0)` for a candidate that is taken. Time: linear in most cases, else by `limits`.
///
/// # Errors
/// `Error::Argument` if the values add up to more than 2^53, or a budget of more than 2^53 does not hold everything.
pub fn zero_one(candidates: &[Candidate], budget: u64, limits: Limits) -> Result<Solution> {
    let (mut weight, mut value, mut free) = (0_u128, 0_u128, 0_u64);
    let slopes = Slopes::new(candidates.iter().map(|one| {
        weight += u128::from(one.weight);
        value += u128::from(one.value);
        free = free.wrapping_add(if one.weight == 0 { one.value } else { 0 });
        // From 1 token to the budget. Where the casts are wrong, the candidate is of no use or the total too large.
        let is_useful = one.weight.wrapping_sub(1) < budget;
        let slope = one.value.cast_signed() as f64 / one.weight.cast_signed() as f64;
        if is_useful { (slope, one.weight) } else { (0.0, 0) }
    }));
    let bound = checked_total(value)?;
    if weight <= u128::from(budget) {
        let weight = weight as u64;
        return Ok(Solution { picks: vec![Some(0); candidates.len()], weight, value: bound, bound, states: 0 });
    }
    let room = checked_budget(budget)?;
    let mut outcome = solve(&Whole(candidates), slopes, candidates.len(), room, limits);
    let is_in = |(one, &taken): (&Candidate, &u32)| (taken > 0 || one.weight == 0).then_some(TAKEN);
    let mut picks: Vec<Option<u32>> = candidates.iter().zip(&outcome.taken).map(is_in).collect();
    for &(index, form) in &outcome.changes {
        picks[index as usize] = (form == TAKEN).then_some(0);
    }
    let varied = std::mem::take(&mut outcome.varied);
    Ok(finish(candidates, budget, picks, &outcome, free, varied))
}

const TAKEN: u32 = 0;
const LEFT: u32 = 1;

struct Whole<'a>(&'a [Candidate]);

impl Classes for Whole<'_> {
    fn step(&self, rank: u32) -> Step {
        step(rank, &self.0.get(rank as usize).copied().unwrap_or_default())
    }

    fn steps(&self) -> impl Iterator<Item = Step> {
        (0..).zip(self.0).map(|(rank, one)| step(rank, one))
    }

    fn is_all_steps(&self, _class: u32) -> bool {
        true
    }

    fn moves(&self, class: u32, taken: u32) -> impl Iterator<Item = Move> {
        self.0.get(class as usize).into_iter().map(move |one| {
            let (weight, value) = (one.weight.cast_signed(), one.value.cast_signed());
            if taken > 0 {
                Move { weight: -weight, value: -value, form: LEFT }
            } else {
                Move { weight, value, form: TAKEN }
            }
        })
    }
}

fn step(rank: u32, one: &Candidate) -> Step {
    Step { weight: one.weight.cast_signed(), value: one.value.cast_signed(), class: rank }
}
