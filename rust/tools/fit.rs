//! Choose which tools to show, and how fully, within a budget.

use super::{Costs, Step, ToolSet};
use crate::tokens::Counter;
use crate::{Error, Result};

/// A tool that scores below this share of the best is added only after better ones are as full as they can be.
const TAIL: f64 = 0.2;

/// Less room than this makes no tool fuller.
const SMALLEST: u64 = 4;

/// With less than a twentieth of the budget left, so many tools in a row that do not fit end the search.
const MISFITS: usize = 24;
const NEARLY_FULL: u64 = 20;

/// JSON that is longer than this many bytes for each token of room is not counted: schemas run at 4 to 5 bytes a token.
const BYTES_PER_TOKEN: u64 = 7;

/// How a tool came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// In this form.
    As(Step),
    /// Left out: it did not fit in what better tools left.
    Dropped,
}

/// What fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fit {
    /// One per tool, in input order.
    pub shown: Vec<Shown>,
    /// What the shown tools cost as a list; 0 when none is shown.
    pub tokens: u64,
}

/// What the choice goes by.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wish<'a> {
    /// One score per tool, larger is better; `None` ranks by input order.
    pub scores: Option<&'a [f64]>,
    /// Names of tools that a call in the history names: kept whatever they score.
    pub used: &'a [&'a str],
}

/// Fit the tools of `set` into `budget` tokens.
///
/// Everything in full where that fits. Else the used tools are kept in their smallest form, then as many of the
/// relevant others as fit, best first; what is left makes them fuller, used ones first, then best first; and what is
/// still left takes in the others. Same input, same result. Work is linear: only tools that may be chosen are shortened
/// and counted.
///
/// # Errors
/// `Error::RequiredOverflow` when the used tools do not fit even in their smallest form; `Error::Argument` when the
/// scores are not one per tool; `Error::Counter` when a caller's own counter failed.
pub fn fit(set: &ToolSet, budget: u64, wish: Wish<'_>, counter: &dyn Counter, costs: &Costs) -> Result<Fit> {
    let n = set.len();
    if let Some(scores) = wish.scores
        && (scores.len() != n || scores.iter().any(|score| score.is_nan()))
    {
        return Err(Error::Argument(format!("{} scores for {n} tools; give one number per tool", scores.len())));
    }
    let room = budget.saturating_sub(costs.once);
    let mut fitting = Fitting { set, counter, costs, shown: vec![None; n], budget, room };
    let is_used = set.used(wish.used);
    let is_used = |at: usize| is_used.get(at).copied().unwrap_or(false);
    let order = rank(n, wish.scores, is_used);
    if fitting.all_full(&order)? {
        return Ok(fitting.finish());
    }
    fitting.shown = vec![None; n];
    fitting.room = room;

    let (used, others): (Vec<usize>, Vec<usize>) = order.iter().partition(|at| is_used(**at));
    fitting.require(&used)?;
    let score = |at: usize| wish.scores.and_then(|scores| scores.get(at).copied()).unwrap_or(1.0);
    let best = others.first().map_or(0.0, |at| score(*at));
    let relevant = others.partition_point(|at| score(*at) > 0.0 && score(*at) >= best * TAIL);
    let (relevant, rest) = others.split_at(relevant);
    fitting.each(relevant, |fitting, at| fitting.show_first(at, &[Step::Bare, Step::Full]))?;
    fitting.each(&used, Fitting::fill)?;
    fitting.each(relevant, Fitting::fill)?;
    fitting.each(rest, Fitting::fill)?;
    Ok(fitting.finish())
}

/// What the used tools cost in their smallest form, as a list.
///
/// # Errors
/// `Error::Counter` when a caller's own counter failed.
pub fn minimum(set: &ToolSet, used: &[&str], counter: &dyn Counter, costs: &Costs) -> Result<u64> {
    let mut total = 0;
    for (tool, _) in set.iter().zip(set.used(used)).filter(|(_, is_used)| *is_used) {
        let (_, tokens) = tool.smallest(counter, costs)?;
        total = if total == 0 { costs.once } else { total }.saturating_add(tokens);
    }
    Ok(total)
}

/// Used tools first, then by score; equal ones in input order.
fn rank(n: usize, scores: Option<&[f64]>, is_used: impl Fn(usize) -> bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..n).collect();
    if let Some(scores) = scores {
        let score = |at: usize| scores.get(at).copied().unwrap_or_default();
        order.sort_by(|a, b| score(*b).total_cmp(&score(*a)));
    }
    order.sort_by_key(|at| !is_used(*at));
    order
}

struct Fitting<'a> {
    set: &'a ToolSet,
    counter: &'a dyn Counter,
    costs: &'a Costs,
    shown: Vec<Option<(Step, u64)>>,
    budget: u64,
    room: u64,
}

impl Fitting<'_> {
    /// Show everything in full, if that fits; counts no further than the first that does not.
    fn all_full(&mut self, order: &[usize]) -> Result<bool> {
        for &at in order {
            let Some(tool) = self.set.get(at) else { continue };
            let tokens = tool.tokens(Step::Full, self.counter, self.costs)?.unwrap_or(u64::MAX);
            if tokens > self.room {
                return Ok(false);
            }
            self.show(at, Step::Full, tokens);
        }
        Ok(true)
    }

    /// Show used tools in their smallest form, or say by how much they exceed the budget.
    fn require(&mut self, used: &[usize]) -> Result<()> {
        let mut items = Vec::with_capacity(used.len());
        let mut total = if used.is_empty() { 0 } else { self.costs.once };
        for tool in used.iter().filter_map(|at| self.set.get(*at)) {
            let (step, tokens) = tool.smallest(self.counter, self.costs)?;
            items.push((step, tokens));
            total = total.saturating_add(tokens);
        }
        if total > self.budget {
            let names = used.iter().filter_map(|at| self.set.get(*at)).map(|tool| format!("tool {}", tool.name()));
            let items = names.zip(items).map(|(name, (_, tokens))| (name, tokens)).collect();
            return Err(Error::RequiredOverflow { budget: self.budget, total, items });
        }
        for (&at, (step, tokens)) in used.iter().zip(items) {
            self.show(at, step, tokens);
        }
        Ok(())
    }

    fn show(&mut self, at: usize, step: Step, tokens: u64) {
        if let Some(slot) = self.shown.get_mut(at) {
            let before = slot.map_or(0, |(_, before)| before);
            self.room = (self.room + before).saturating_sub(tokens);
            *slot = Some((step, tokens));
        }
    }

    /// Do this for one tool after the other, until there is no more room to speak of.
    fn each(&mut self, tools: &[usize], act: impl Fn(&mut Self, usize) -> Result<bool>) -> Result<()> {
        let mut misfits = 0;
        for &at in tools {
            if self.room < SMALLEST || misfits == MISFITS {
                break;
            }
            let fits = act(self, at)?;
            misfits = if fits || self.room >= self.budget / NEARLY_FULL { 0 } else { misfits + 1 };
        }
        Ok(())
    }

    /// Show a tool as fully as there is room for; false if that changed nothing.
    fn fill(&mut self, at: usize) -> Result<bool> {
        self.show_first(at, &Step::ALL)
    }

    /// Show a tool in the first of these forms that fits and is fuller than what is shown; false if none does.
    fn show_first(&mut self, at: usize, steps: &[Step]) -> Result<bool> {
        let Some(tool) = self.set.get(at) else { return Ok(false) };
        let now = self.shown.get(at).copied().flatten();
        let room = self.room + now.map_or(0, |(_, tokens)| tokens);
        for &step in steps.iter().filter(|step| now.is_none_or(|(shown, _)| **step < shown)) {
            if tool.text(step).is_none_or(|text| text.len() as u64 > room.saturating_mul(BYTES_PER_TOKEN)) {
                continue;
            }
            if let Some(tokens) = tool.tokens(step, self.counter, self.costs)?
                && tokens <= room
            {
                self.show(at, step, tokens);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn finish(self) -> Fit {
        let shown: Vec<Shown> =
            self.shown.iter().map(|shown| shown.map_or(Shown::Dropped, |(step, _)| Shown::As(step))).collect();
        let any = self.shown.iter().any(Option::is_some);
        Fit { shown, tokens: if any { self.budget.saturating_sub(self.room) } else { 0 } }
    }
}
