//! The choice itself: candidates in, one form of each or none out.

use crate::{Result, score};

use super::density::fill_by_density;
use super::purchase::{Limits, Offers, best_of_wholes};

/// How to choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// By density, the textbook rule.
    Greedy,
    /// The largest total value.
    Optimal,
}

/// One way to show a candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Form {
    /// What it costs.
    pub tokens: u64,
    /// Share of the full value that it keeps; 1 for the full form.
    pub fidelity: f64,
}

/// One candidate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unit {
    pub(super) priority: f64,
    /// Tokens of the full form.
    pub(super) tokens: u64,
    /// Where the other forms lie, and how many there are.
    forms: u32,
    n_forms: u16,
    required: bool,
}

/// Candidates in conversation order, each with its forms, the full one first.
#[derive(Debug, Clone, Default)]
pub struct Candidates {
    pub(super) units: Vec<Unit>,
    /// All but the full ones.
    forms: Vec<Form>,
    alpha: f64,
    pub(super) n_required: usize,
    /// Tokens of the full forms of all.
    all_tokens: u64,
    /// Whether some form is said to be worth more than the full one.
    pub(super) has_worthier: bool,
}

/// Which form of each candidate is packed.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Per candidate: the form, None where it stays out.
    pub chosen: Vec<Option<u16>>,
    /// Tokens of the chosen forms.
    pub tokens: u64,
    /// Their total value.
    pub value: f64,
    /// No choice is worth more; NaN where the strategy proves nothing.
    pub bound: f64,
}

/// The required candidates do not fit, even in their smallest forms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortfall {
    /// (candidate, tokens of its smallest form).
    pub needs: Vec<(usize, u64)>,
    /// Their sum.
    pub total: u64,
}

impl Candidates {
    /// No candidates yet. A candidate is worth priority x tokens^`alpha`.
    #[must_use]
    pub fn new(alpha: f64, capacity: usize, forms: usize) -> Self {
        let (units, forms) = (Vec::with_capacity(capacity), Vec::with_capacity(forms));
        Self { units, forms, alpha, n_required: 0, all_tokens: 0, has_worthier: false }
    }

    /// Add a candidate in its full form.
    #[inline]
    pub fn push(&mut self, priority: f64, required: bool, tokens: u64) {
        self.n_required += usize::from(required);
        self.all_tokens = self.all_tokens.saturating_add(tokens);
        self.units.push(Unit { priority, tokens, forms: self.forms.len() as u32, n_forms: 0, required });
    }

    /// Add candidates that have no other form: priority, whether required, and tokens of each.
    pub(super) fn extend(&mut self, all: impl Iterator<Item = (f64, bool, u64)>) {
        let Self { units, forms, n_required, all_tokens, .. } = self;
        let forms = forms.len() as u32;
        units.extend(all.map(|(priority, required, tokens)| {
            *n_required += usize::from(required);
            *all_tokens = all_tokens.saturating_add(tokens);
            Unit { priority, tokens, forms, n_forms: 0, required }
        }));
    }

    /// Add another form to the candidate pushed last; one has 65,535 of them at the most.
    pub fn push_form(&mut self, tokens: u64, fidelity: f64) {
        if let Some(unit) = self.units.last_mut()
            && unit.n_forms < u16::MAX
        {
            self.forms.push(Form { tokens, fidelity });
            self.has_worthier |= fidelity > 1.0;
            unit.n_forms += 1;
        }
    }

    /// Take `n` candidates away, from `first` on.
    pub(super) fn remove(&mut self, first: usize, n: usize) {
        let gone = self.units.drain(first..first + n);
        self.n_required -= gone.filter(|unit| unit.required).count();
        // Not by subtraction: the sum may have been more than a number holds.
        self.all_tokens = self.units.iter().fold(0_u64, |sum, unit| sum.saturating_add(unit.tokens));
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.units.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.units.is_empty()
    }

    /// The forms of a candidate besides the full one.
    fn others(&self, unit: &Unit) -> &[Form] {
        let start = unit.forms as usize;
        self.forms.get(start..start + usize::from(unit.n_forms)).unwrap_or_default()
    }

    /// Form `at` of a candidate, 0 for the full one.
    fn form(&self, unit: &Unit, at: u16) -> Option<Form> {
        match at.checked_sub(1) {
            None => Some(unit.full()),
            Some(at) => self.others(unit).get(usize::from(at)).copied(),
        }
    }

    /// What a candidate is worth in full; worked out when asked for, since the textbook rule only asks for what it takes.
    fn worth(&self, unit: &Unit) -> f64 {
        score::value(unit.priority, unit.tokens, self.alpha, 1.0)
    }

    /// `worth` of all.
    fn worths(&self) -> Vec<f64> {
        score::values(self.units.iter().map(|unit| (unit.priority, unit.tokens)), self.alpha)
    }

    /// Forms that may be used: the full one, and those that are smaller than it.
    pub(super) fn usable(&self, unit: &Unit) -> impl Iterator<Item = (u16, Form)> {
        let full = unit.full();
        let others = (1..).zip(self.others(unit)).map(|(at, form)| (at, *form));
        std::iter::once((0, full)).chain(others.filter(move |(_, form)| form.tokens < full.tokens))
    }

    pub(super) fn smallest(&self, unit: &Unit) -> (u16, Form) {
        if unit.n_forms == 0 {
            return (0, unit.full());
        }
        self.usable(unit).min_by_key(|(_, form)| form.tokens).unwrap_or((0, unit.full()))
    }

    /// Tokens of the smallest form of candidate `n`.
    #[must_use]
    pub fn least_tokens(&self, n: usize) -> u64 {
        self.units.get(n).map_or(0, |unit| self.smallest(unit).1.tokens)
    }

    /// Tokens of the full forms of all.
    #[must_use]
    pub fn all_tokens(&self) -> u64 {
        self.all_tokens
    }
}

impl Unit {
    const fn full(&self) -> Form {
        Form { tokens: self.tokens, fidelity: 1.0 }
    }
}

/// Choose within `budget`: required candidates first, in full where they fit together, then the others.
///
/// # Errors
/// The inner result is a `Shortfall` where the required ones do not fit; the outer one fails as the solver does.
pub fn choose(
    candidates: &Candidates,
    budget: u64,
    strategy: Strategy,
    limits: Limits,
) -> Result<std::result::Result<Plan, Shortfall>> {
    let mut plan = Plan { chosen: vec![None; candidates.len()], tokens: 0, value: 0.0, bound: 0.0 };
    let mut worths = Vec::new();
    if candidates.all_tokens() <= budget {
        // Everything fits: there is nothing to choose.
        plan.chosen.fill(Some(0));
    } else {
        if candidates.n_required > 0
            && let Err(shortfall) = take_required(candidates, budget, limits, &mut plan)?
        {
            return Ok(Err(shortfall));
        }
        let left = budget.saturating_sub(plan.tokens);
        if strategy == Strategy::Optimal {
            worths = candidates.worths();
        }
        plan.bound = match strategy {
            Strategy::Greedy => {
                fill_by_density(candidates, left, &mut plan);
                f64::NAN
            }
            Strategy::Optimal => take_optional(candidates, &worths, left, limits, &mut plan)?,
        };
    }
    plan.tokens = 0;
    for (n, (unit, at)) in candidates.units.iter().zip(&plan.chosen).enumerate() {
        if let Some(form) = at.and_then(|at| candidates.form(unit, at)) {
            plan.tokens = plan.tokens.saturating_add(form.tokens);
            let worth = worths.get(n).copied().unwrap_or_else(|| candidates.worth(unit));
            plan.value += worth * form.fidelity;
        }
    }
    // So far the distance of the bound from the value; greedy has none, and NaN it stays.
    plan.bound += plan.value;
    Ok(Ok(plan))
}

/// Take every required candidate: all in full, or the best forms that fit together.
fn take_required(
    candidates: &Candidates,
    budget: u64,
    limits: Limits,
    plan: &mut Plan,
) -> Result<std::result::Result<(), Shortfall>> {
    let required = || candidates.units.iter().enumerate().filter(|(_, unit)| unit.required);
    let full = required().fold(0_u64, |sum, (_, unit)| sum.saturating_add(unit.tokens));
    if full <= budget {
        for (n, _) in required() {
            set(plan, n, 0);
        }
        plan.tokens = full;
        return Ok(Ok(()));
    }
    let needs: Vec<(usize, u64)> = required().map(|(n, _)| (n, candidates.least_tokens(n))).collect();
    let total = needs.iter().fold(0_u64, |sum, (_, tokens)| sum.saturating_add(*tokens));
    if total > budget {
        return Ok(Err(Shortfall { needs, total }));
    }
    // Start from the smallest forms; a larger form is then an optional purchase of the difference.
    let mut upgrades = Offers::default();
    for (n, unit) in required() {
        let (least, small) = candidates.smallest(unit);
        set(plan, n, least);
        upgrades.open(n);
        let worth = candidates.worth(unit);
        for (at, form) in candidates.usable(unit).filter(|(_, form)| form.tokens > small.tokens) {
            upgrades.offer(at, form.tokens - small.tokens, worth * (form.fidelity - small.fidelity).max(0.0));
        }
    }
    let bought = upgrades.best(budget - total, limits)?;
    for (n, at) in bought.taken {
        set(plan, n as usize, at);
    }
    plan.tokens = total.saturating_add(bought.tokens);
    Ok(Ok(()))
}

pub(super) fn set(plan: &mut Plan, n: usize, form: u16) {
    if let Some(place) = plan.chosen.get_mut(n) {
        *place = Some(form);
    }
}

/// Take the choice of largest value among the optional candidates; returns how far the bound lies above it.
fn take_optional(candidates: &Candidates, worths: &[f64], budget: u64, limits: Limits, plan: &mut Plan) -> Result<f64> {
    let optional = || candidates.units.iter().zip(worths).enumerate().filter(|(_, (unit, _))| !unit.required);
    let n = candidates.len() - candidates.n_required;
    if candidates.forms.is_empty() {
        let mut wholes = Vec::with_capacity(n);
        if candidates.n_required == 0 {
            // Written without asking for room each time.
            wholes.extend(candidates.units.iter().zip(worths).map(|(unit, worth)| (unit.tokens, *worth)));
        } else {
            wholes.extend(optional().map(|(_, (unit, worth))| (unit.tokens, *worth)));
        }
        let (picks, tokens, slack) = best_of_wholes(&wholes, budget, limits)?;
        let mut picks = picks.into_iter();
        for (unit, chosen) in candidates.units.iter().zip(&mut plan.chosen) {
            if !unit.required {
                *chosen = picks.next().flatten().map(|_| 0);
            }
        }
        plan.tokens = plan.tokens.saturating_add(tokens);
        return Ok(slack);
    }
    let mut offers = Offers::with_capacity(n, n + candidates.forms.len());
    for (at, (unit, worth)) in optional() {
        offers.open(at);
        offers.offer(0, unit.tokens, *worth);
        for (at, form) in candidates.usable(unit).skip(1) {
            offers.offer(at, form.tokens, worth * form.fidelity);
        }
    }
    let bought = offers.best(budget, limits)?;
    for (n, at) in bought.taken {
        set(plan, n as usize, at);
    }
    plan.tokens = plan.tokens.saturating_add(bought.tokens);
    Ok(bought.slack)
}
