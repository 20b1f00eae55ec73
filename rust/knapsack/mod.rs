//! Choose items, or renditions, within a budget.
//!
//! A class is one item with the ways to show it, fullest first; at most one of them is chosen. An item that can only be
//! shown whole is a class of one: `zero_one` solves that case faster. `greedy` is the textbook rule.
//!
//! ```
//! use holdall::knapsack::{Candidate, Limits, choose};
//!
//! let message = [Candidate { weight: 900, value: 30 }, Candidate { weight: 300, value: 20 }];
//! let note = [Candidate { weight: 200, value: 15 }];
//! let solution = choose(&[&message[..], &note[..]], 1_000, Limits::default())?;
//! assert_eq!(solution.picks, [Some(1), Some(0)]); // the message shortened, the note whole
//! assert_eq!((solution.weight, solution.value, solution.bound), (500, 35, 35));
//! # Ok::<(), holdall::Error>(())
//! ```
//!
//! **Exact** where `bound == value`: no other choice within the budget is worth more. Past `Limits` the best choice
//! found so far comes back with a bound that no choice can exceed.
//!
//! **Ties.** The same input always gives the same choice. Among choices of equal value the one that comes back is
//! settled: no class can be shown fuller within the budget without losing value (so worthless candidates are taken
//! where there is room), and of two classes that could trade their forms of equal weight and value the earlier one has
//! the fuller form (so of duplicates the earliest are kept). A full order over all choices of equal value is not
//! promised: proving it would cost more than the optimum itself.

mod choice;
mod core;
mod early;
mod exact;
mod greedy;
mod order;
mod settle;
mod shelves;
#[cfg(test)]
mod tests;

use std::time::Instant;

use self::core::Outcome;
pub use choice::choose;
pub use exact::zero_one;
pub use greedy::greedy;
pub(crate) use shelves::Shelves;

use crate::{Error, Result};

/// One form of one item: what it costs and what it is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Candidate {
    /// Tokens.
    pub weight: u64,
    /// Worth, in units of `score::Quantiser`.
    pub value: u64,
}

/// A candidate is a class of one.
impl AsRef<[Candidate]> for Candidate {
    fn as_ref(&self) -> &[Candidate] {
        std::slice::from_ref(self)
    }
}

/// When to stop short of the optimum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Partial choices that may be looked at: the same on every machine and every run.
    pub max_states: u64,
    /// A moment after which the best choice so far comes back; what it is depends on the machine.
    pub deadline: Option<Instant>,
}

/// Partial choices looked at before the solver gives up proving: 20 to 40 ms and 50 MB at the most.
///
/// Conversations of 1,000 messages need some 1,000, strongly correlated sets of 1,000 half a million, one in six more than that.
pub const MAX_STATES: u64 = 1 << 21;

impl Default for Limits {
    fn default() -> Self {
        Self { max_states: MAX_STATES, deadline: None }
    }
}

/// A choice within the budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Solution {
    /// For each class the index of the chosen candidate, or None.
    pub picks: Vec<Option<u32>>,
    /// Tokens of what is chosen; at most the budget.
    pub weight: u64,
    /// Worth of what is chosen.
    pub value: u64,
    /// What no choice within the budget can exceed; equal to `value` where the choice is proven to be the best.
    pub bound: u64,
    /// Partial choices that were looked at.
    pub states: u64,
}

impl Solution {
    /// Whether no choice within the budget is worth more.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.bound == self.value
    }
}

/// Totals stay below this, so that they are exact as `f64`, in which the solver compares slopes.
const LARGEST_TOTAL: u64 = 1 << 53;

/// The sum of the largest value of each class, if it is one that the solver can work with.
fn checked_total(total: u128) -> Result<u64> {
    u64::try_from(total).ok().filter(|&total| total <= LARGEST_TOTAL).ok_or_else(|| {
        Error::Argument(format!("the values add up to {total}, which is more than 2^53; quantise them more coarsely"))
    })
}

/// A budget that does not hold everything, if it is one that the solver can work with.
fn checked_budget(budget: u64) -> Result<i64> {
    i64::try_from(budget).ok().filter(|&budget| budget.unsigned_abs() <= LARGEST_TOTAL).ok_or_else(|| {
        Error::Argument(format!("the budget is {budget} tokens, and what is to be chosen from even more; at most 2^53"))
    })
}

/// Weight and value of `picks`; the callers have seen to it that neither overflows.
fn totals<C: AsRef<[Candidate]>>(classes: &[C], picks: &[Option<u32>]) -> Candidate {
    classes.iter().zip(picks).filter_map(|(class, pick)| candidate(class.as_ref(), *pick)).fold(
        Candidate::default(),
        |sum, one| Candidate {
            weight: sum.weight.saturating_add(one.weight),
            value: sum.value.saturating_add(one.value),
        },
    )
}

/// What both front ends do with a choice: the textbook rule's where that is worth more, then settled.
///
/// `free` is the value of what weighs nothing, which the outcome does not count; `varied` are the classes that may have
/// to trade forms.
fn finish<C: AsRef<[Candidate]>>(
    classes: &[C],
    budget: u64,
    mut picks: Vec<Option<u32>>,
    outcome: &Outcome,
    free: u64,
    varied: Vec<u32>,
) -> Solution {
    let mut total = Candidate { weight: outcome.total.weight, value: outcome.total.value + free };
    debug_assert_eq!(total, totals(classes, &picks), "what the search says of its choice");
    let bound = if outcome.is_proven { total.value } else { outcome.bound + free };
    let mut movable = varied;
    if !outcome.is_proven {
        let simple = greedy(classes, budget);
        if simple.value > total.value {
            picks = simple.picks;
            total = Candidate { weight: simple.weight, value: simple.value };
        }
        movable = (0..classes.len() as u32).collect();
    }
    if settle::settle(classes, &mut picks, budget - total.weight, &movable) {
        total = totals(classes, &picks);
    }
    Solution { picks, weight: total.weight, value: total.value, bound, states: outcome.states }
}

/// The candidate that `pick` names.
fn candidate(class: &[Candidate], pick: Option<u32>) -> Option<Candidate> {
    pick.and_then(|index| class.get(index as usize)).copied()
}
