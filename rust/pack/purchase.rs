//! The exact solver with floats for values: what may be bought, and what the best purchase is.

use std::time::{Duration, Instant};

use crate::knapsack::{self, Candidate, MAX_STATES};
use crate::score::Quantiser;
use crate::{Error, Result};

/// What limits the search.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Limits {
    /// States of the exact solver, 0 for its default. Deterministic.
    pub states: u64,
    /// Seconds of wall clock, 0 for none.
    pub seconds: f64,
}

impl Limits {
    fn of_solver(self) -> Result<knapsack::Limits> {
        let wait = Duration::try_from_secs_f64(self.seconds)
            .map_err(|_| Error::Argument(format!("{} is not a number of seconds", self.seconds)))?;
        let deadline = if wait.is_zero() { None } else { Instant::now().checked_add(wait) };
        Ok(knapsack::Limits { max_states: if self.states == 0 { MAX_STATES } else { self.states }, deadline })
    }
}

#[derive(Debug, Clone, Copy)]
struct Offer {
    form: u16,
    tokens: u64,
    value: f64,
}

/// Offers by unit; at most one of a unit's offers is bought.
#[derive(Debug, Default)]
pub(super) struct Offers {
    units: Vec<(u32, u32)>,
    all: Vec<Offer>,
    /// Tokens of the offer added last to the unit opened last.
    last: Option<u64>,
}

/// The best purchase.
#[derive(Debug)]
pub(super) struct Bought {
    /// (unit, form).
    pub(super) taken: Vec<(u32, u16)>,
    pub(super) tokens: u64,
    /// How far the proven bound lies above the value.
    pub(super) slack: f64,
}

impl Offers {
    pub(super) fn with_capacity(units: usize, offers: usize) -> Self {
        Self { units: Vec::with_capacity(units), all: Vec::with_capacity(offers), last: None }
    }

    /// The offers that follow are those of `unit`.
    pub(super) fn open(&mut self, unit: usize) {
        self.units.push((unit as u32, self.all.len() as u32));
        self.last = None;
    }

    /// Add an offer to the unit opened last, larger ones before smaller ones.
    pub(super) fn offer(&mut self, form: u16, tokens: u64, value: f64) {
        if self.last.is_none_or(|last| last >= tokens) {
            self.last = Some(tokens);
            self.all.push(Offer { form, tokens, value });
            return;
        }
        let start = self.units.last().map_or(0, |(_, start)| *start as usize);
        let own = self.all.get(start..).unwrap_or_default();
        let at = own.partition_point(|offer| offer.tokens >= tokens);
        self.all.insert(start + at, Offer { form, tokens, value });
    }

    /// The purchase of largest value within `budget`.
    pub(super) fn best(&self, budget: u64, limits: Limits) -> Result<Bought> {
        let quantiser = Quantiser::new(self.all.iter().map(|offer| offer.value));
        let candidates: Vec<Candidate> = self
            .all
            .iter()
            .map(|offer| Candidate { weight: offer.tokens, value: quantiser.units(offer.value) })
            .collect();
        let limits = limits.of_solver()?;
        // Not only as many offers as units: one unit may have none, and another two.
        let one_each = (0..self.units.len()).all(|n| self.range(n).len() == 1);
        let solution = if one_each {
            knapsack::zero_one(&candidates, budget, limits)?
        } else {
            let mut rest = candidates.as_slice();
            let mut classes: Vec<&[Candidate]> = Vec::with_capacity(self.units.len());
            for n in 0..self.units.len() {
                let (class, others) = rest.split_at_checked(self.range(n).len()).unwrap_or_default();
                classes.push(class);
                rest = others;
            }
            knapsack::choose(&classes, budget, limits)?
        };
        let mut taken = Vec::with_capacity(self.units.len());
        for (pick, (unit, start)) in solution.picks.iter().zip(&self.units) {
            if let Some(offer) = pick.and_then(|pick| self.all.get((*start + pick) as usize)) {
                taken.push((*unit, offer.form));
            }
        }
        let slack = quantiser.value(solution.bound.saturating_sub(solution.value));
        Ok(Bought { taken, tokens: solution.weight, slack })
    }

    fn range(&self, n: usize) -> std::ops::Range<usize> {
        let start = self.units.get(n).map_or(0, |(_, start)| *start as usize);
        let end = self.units.get(n + 1).map_or(self.all.len(), |(_, start)| *start as usize);
        start..end
    }
}

/// The purchase of largest value where every unit is offered whole, for tokens and a value: what is picked, and its tokens.
pub(super) fn best_of_wholes(
    offers: &[(u64, f64)],
    budget: u64,
    limits: Limits,
) -> Result<(Vec<Option<u32>>, u64, f64)> {
    let quantiser = Quantiser::new(offers.iter().map(|(_, value)| *value));
    let candidate = |(weight, value): &(u64, f64)| Candidate { weight: *weight, value: quantiser.units(*value) };
    let candidates: Vec<Candidate> = offers.iter().map(candidate).collect();
    let solution = knapsack::zero_one(&candidates, budget, limits.of_solver()?)?;
    let slack = quantiser.value(solution.bound.saturating_sub(solution.value));
    Ok((solution.picks, solution.weight, slack))
}

#[cfg(test)]
mod tests {
    use super::{Limits, Offers};

    #[test]
    fn a_unit_without_offers_leaves_those_of_others_to_them() {
        let mut offers = Offers::default();
        offers.open(7);
        offers.open(8);
        offers.offer(0, 60, 3.0);
        offers.offer(1, 30, 2.0);
        let bought = offers.best(100, Limits::default()).expect("valid limits");
        assert_eq!((bought.taken, bought.tokens), (vec![(8, 0)], 60), "not both forms of one unit");
    }
}
