//! Tools and messages share one budget: which tools find a place, and in what form.

use std::collections::HashSet;

use crate::Result;
use crate::tokens::Counter;
use crate::tools::{Costs, Fit, Shown, Step, ToolSet, Wish, fit, minimum};

/// The tools of one request, and what they are chosen by.
#[derive(Clone, Copy)]
pub(super) struct Tooling<'a> {
    pub(super) set: &'a ToolSet,
    pub(super) scores: &'a [f64],
    pub(super) counter: &'a dyn Counter,
    pub(super) costs: &'a Costs,
}

impl<'a> Tooling<'a> {
    /// All tools in full.
    pub(super) fn full(&self) -> Result<Fit> {
        self.fit(u64::MAX, &[])
    }

    /// What the tools of these names cost at the least.
    pub(super) fn least(&self, names: &[&str]) -> Result<u64> {
        minimum(self.set, names, self.counter, self.costs)
    }

    /// The tools that fit into `budget`, those of the names in `used` among them whatever they score.
    pub(super) fn fit(&self, budget: u64, used: &[&str]) -> Result<Fit> {
        fit(self.set, budget, Wish { scores: Some(self.scores), used }, self.counter, self.costs)
    }

    /// The used tools that keep their place within `budget`: the first `n_required` of `used` always, the others, which
    /// are in order of their latest call, until one does not fit.
    pub(super) fn keep<'b>(&self, used: &[&'b str], n_required: usize, budget: u64) -> Result<Vec<&'b str>> {
        if self.least(used)? <= budget {
            return Ok(used.to_vec());
        }
        let mut n_kept = n_required;
        while n_kept < used.len() && self.least(used.get(..=n_kept).unwrap_or_default())? <= budget {
            n_kept += 1;
        }
        Ok(used.get(..n_kept).unwrap_or_default().to_vec())
    }

    /// What the tools cost as they are shown.
    pub(super) fn tokens(&self, shown: &[Shown]) -> Result<u64> {
        let mut total = 0_u64;
        for (tool, shown) in self.set.iter().zip(shown) {
            let Shown::As(step) = shown else { continue };
            let tokens = match tool.tokens(*step, self.counter, self.costs)? {
                Some(tokens) => tokens,
                None => tool.tokens(Step::Full, self.counter, self.costs)?.unwrap_or(0),
            };
            total = if total == 0 { self.costs.once } else { total }.saturating_add(tokens);
        }
        Ok(total)
    }

    /// Names of tools that are in the set but not shown.
    pub(super) fn hidden(&self, shown: &[Shown]) -> HashSet<&'a str> {
        let names = |keep: fn(&Shown) -> bool| {
            self.set.iter().zip(shown).filter(move |(_, shown)| keep(shown)).map(|(tool, _)| tool.name())
        };
        let visible: HashSet<&str> = names(|shown| matches!(shown, Shown::As(_))).collect();
        names(|shown| matches!(shown, Shown::Dropped)).filter(|name| !visible.contains(name)).collect()
    }
}
