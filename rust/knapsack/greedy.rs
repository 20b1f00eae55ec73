//! The textbook rule: by value per token, what does not fit is tried smaller or skipped.

use std::cmp::Ordering;

use super::{Candidate, Solution, candidate, totals};

/// Integers up to here are exact as `f64`.
const EXACT: u64 = 1 << 53;

/// Take classes by falling value per token of their first candidate, ties by position; a class whose first candidate
/// does not fit is taken in the first of its further ones that does, else skipped.
///
/// `bound` is what everything together would be worth: the rule proves nothing.
#[must_use]
pub fn greedy<C: AsRef<[Candidate]>>(classes: &[C], budget: u64) -> Solution {
    let mut picks = vec![None; classes.len()];
    let mut left = budget;
    for index in density_order(classes) {
        let (Some(class), Some(pick)) = (classes.get(index as usize), picks.get_mut(index as usize)) else { continue };
        let fitting = class.as_ref().iter().position(|candidate| candidate.weight <= left);
        *pick = fitting.map(|option| option as u32);
        left -= candidate(class.as_ref(), *pick).map_or(0, |taken| taken.weight);
    }
    let total = totals(classes, &picks);
    let largest = classes.iter().filter_map(|class| class.as_ref().iter().map(|one| one.value).max());
    let bound = largest.fold(0, u64::saturating_add);
    Solution { picks, weight: total.weight, value: total.value, bound, states: 0 }
}

/// Classes by falling value / max(weight, 1) of their first candidate, ties by position; empty classes are left out.
fn density_order<C: AsRef<[Candidate]>>(classes: &[C]) -> Vec<u32> {
    let mut order: Vec<(u64, u32, Candidate)> = Vec::with_capacity(classes.len());
    let mut quotients_keep_order = true;
    for (index, class) in classes.iter().enumerate() {
        let Some(&first) = class.as_ref().first() else { continue };
        quotients_keep_order &= first.value <= EXACT && first.weight <= EXACT;
        // The bits of a float that is not negative sort as it does; flipped, the largest comes first.
        let quotient = first.value as f64 / first.weight.max(1) as f64;
        order.push((!quotient.to_bits(), index as u32, first));
    }
    let by_density = |a: &(u64, u32, Candidate), b: &(u64, u32, Candidate)| density(b.2, a.2).then(a.1.cmp(&b.1));
    if quotients_keep_order {
        // A quotient of exact integers is rounded to nearest, so it never orders two densities wrongly: it can only
        // make different ones equal, and those few are ordered exactly.
        order.sort_unstable_by_key(|&(quotient, index, _)| (quotient, index));
        for equals in order.chunk_by_mut(|a, b| a.0 == b.0) {
            if equals.len() > 1 {
                equals.sort_unstable_by(by_density);
            }
        }
    } else {
        order.sort_unstable_by(by_density);
    }
    order.into_iter().map(|(_, index, _)| index).collect()
}

/// Compares values per token by cross multiplication.
fn density(a: Candidate, b: Candidate) -> Ordering {
    let product = |value: u64, weight: u64| u128::from(value) * u128::from(weight.max(1));
    product(a.value, b.weight).cmp(&product(b.value, a.weight))
}
