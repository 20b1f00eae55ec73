//! The 0/1 case: every candidate is taken whole or left.

use super::core::{Classes, Move, solve};
use super::order::Step;
use super::{Candidate, Limits, Solution, checked_budget, checked_total, finish};
use crate::Result;

/// Take candidates so that their weight is at most `budget` and their value is largest.
///
/// `picks` hold `Some(0)` for a candidate that is taken. Time: linear in most cases, else by `limits`.
///
/// # Errors
/// `Error::Argument` if the values add up to more than 2^53, or a budget of more than 2^53 does not hold everything.
pub fn zero_one(candidates: &[Candidate], budget: u64, limits: Limits) -> Result<Solution> {
    let (mut weight, mut value) = (0_u128, 0_u128);
    for one in candidates {
        weight += u128::from(one.weight);
        value += u128::from(one.value);
    }
    let bound = checked_total(value)?;
    if weight <= u128::from(budget) {
        let weight = weight as u64;
        return Ok(Solution { picks: vec![Some(0); candidates.len()], weight, value: bound, bound, states: 0 });
    }
    let room = checked_budget(budget)?;
    let useful = |one: &Candidate| one.weight > 0 && one.weight <= budget && one.value > 0;
    let mut steps = Vec::with_capacity(candidates.len());
    steps.extend(
        candidates
            .iter()
            .enumerate()
            .filter(|(_, one)| useful(one))
            .map(|(index, one)| Step::new(one.weight, one.value, index, index)),
    );
    let mut outcome = solve(&Whole(candidates), steps, candidates.len(), room, limits);
    let mut picks: Vec<Option<u32>> = Vec::with_capacity(candidates.len());
    let mut free = 0;
    for (one, &taken) in candidates.iter().zip(&outcome.taken) {
        let is_free = one.weight == 0;
        free += if is_free { one.value } else { 0 };
        picks.push((taken > 0 || is_free).then_some(0));
    }
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
