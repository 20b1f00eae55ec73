//! The choice itself: candidates in, one form of each or none out.

use crate::{Result, score};

use super::purchase::{Limits, Offers};

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

#[derive(Debug, Clone, Copy)]
struct Unit {
    priority: f64,
    required: bool,
    start: u32,
    end: u32,
}

/// Candidates in conversation order, each with its forms, the full one first.
#[derive(Debug, Clone, Default)]
pub struct Candidates {
    units: Vec<Unit>,
    forms: Vec<Form>,
    alpha: f64,
    n_required: usize,
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
    pub fn new(alpha: f64, capacity: usize) -> Self {
        Self { units: Vec::with_capacity(capacity), forms: Vec::with_capacity(capacity), alpha, n_required: 0 }
    }

    /// Add a candidate in its full form.
    pub fn push(&mut self, priority: f64, required: bool, tokens: u64) {
        let start = self.forms.len() as u32;
        self.forms.push(Form { tokens, fidelity: 1.0 });
        self.n_required += usize::from(required);
        self.units.push(Unit { priority, required, start, end: start + 1 });
    }

    /// Add another form to the candidate pushed last.
    pub fn push_form(&mut self, tokens: u64, fidelity: f64) {
        if let Some(unit) = self.units.last_mut() {
            self.forms.push(Form { tokens, fidelity });
            unit.end += 1;
        }
    }

    /// Take `n` candidates away, from `first` on.
    pub(super) fn remove(&mut self, first: usize, n: usize) {
        let gone = self.units.drain(first..first + n);
        self.n_required -= gone.filter(|unit| unit.required).count();
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

    /// Forms of candidate `n`.
    #[must_use]
    pub fn forms(&self, n: usize) -> &[Form] {
        self.units.get(n).and_then(|unit| self.forms.get(unit.start as usize..unit.end as usize)).unwrap_or_default()
    }

    fn full(&self, unit: &Unit) -> u64 {
        self.forms.get(unit.start as usize).map_or(0, |form| form.tokens)
    }

    /// What a candidate is worth in full; worked out when asked for, since the textbook rule only asks for what it takes.
    fn worth(&self, unit: &Unit) -> f64 {
        score::value(unit.priority, self.full(unit), self.alpha, 1.0)
    }

    /// Forms that may be used: the full one, and those that are smaller than it.
    fn usable(&self, n: usize) -> impl Iterator<Item = (u16, Form)> {
        let forms = self.forms(n);
        let full = forms.first().map_or(0, |form| form.tokens);
        let small = forms.iter().enumerate().filter(move |(at, form)| *at == 0 || form.tokens < full);
        small.map(|(at, form)| (at as u16, *form))
    }

    fn smallest(&self, n: usize) -> (u16, Form) {
        if let [only] = self.forms(n) {
            return (0, *only);
        }
        self.usable(n).min_by_key(|(_, form)| form.tokens).unwrap_or((0, Form { tokens: 0, fidelity: 1.0 }))
    }

    /// Tokens of the smallest form of candidate `n`.
    #[must_use]
    pub fn least_tokens(&self, n: usize) -> u64 {
        self.smallest(n).1.tokens
    }

    /// Tokens of the full forms of all.
    #[must_use]
    pub fn all_tokens(&self) -> u64 {
        self.units.iter().fold(0_u64, |sum, unit| sum.saturating_add(self.full(unit)))
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
        plan.bound = match strategy {
            Strategy::Greedy => {
                fill_by_density(candidates, left, &mut plan);
                f64::NAN
            }
            Strategy::Optimal => take_optional(candidates, left, limits, &mut plan)?,
        };
    }
    plan.tokens = 0;
    for (n, (unit, at)) in candidates.units.iter().zip(&plan.chosen).enumerate() {
        if let Some(form) = at.and_then(|at| candidates.forms(n).get(at as usize)) {
            plan.tokens = plan.tokens.saturating_add(form.tokens);
            plan.value += candidates.worth(unit) * form.fidelity;
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
    let full = required().fold(0_u64, |sum, (_, unit)| sum.saturating_add(candidates.full(unit)));
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
        let (least, small) = candidates.smallest(n);
        set(plan, n, least);
        upgrades.open(n);
        let worth = candidates.worth(unit);
        for (at, form) in candidates.usable(n).filter(|(_, form)| form.tokens > small.tokens) {
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

fn set(plan: &mut Plan, n: usize, form: u16) {
    if let Some(place) = plan.chosen.get_mut(n) {
        *place = Some(form);
    }
}

/// The textbook rule: by priority per token, ties by position; what does not fit in full is tried in its smaller forms,
/// the most faithful first, and else skipped.
fn fill_by_density(candidates: &Candidates, mut left: u64, plan: &mut Plan) {
    // Density above place in one number, which compares faster than a pair.
    let mut order: Vec<u128> = Vec::with_capacity(candidates.len());
    let mut total = 1.0;
    for (n, (unit, chosen)) in candidates.units.iter().zip(&plan.chosen).enumerate() {
        if chosen.is_none() {
            let tokens = candidates.full(unit).max(1) as f64;
            let density = unit.priority / tokens;
            total += tokens;
            // Finite and not negative, so the bits are ordered as the numbers are.
            order.push(u128::from(!density.to_bits()) << 32 | n as u128);
        }
    }
    // Most of what is behind the first misfit fits no more: the front is sorted, then what may still fit of the rest.
    let front = (order.len() as f64 * (left as f64 / total).min(1.0)) as usize;
    let mut rest = order.as_mut_slice();
    let mut size = front + front / 4 + 16;
    while !rest.is_empty() {
        let (sorted, others) = if size < rest.len() {
            rest.select_nth_unstable(size);
            rest.split_at_mut(size)
        } else {
            (rest, <&mut [u128]>::default())
        };
        sorted.sort_unstable();
        take_fitting(candidates, sorted, &mut left, plan);
        let mut n_fitting = 0;
        for at in 0..others.len() {
            if others.get(at).is_some_and(|key| candidates.least_tokens(place(*key)) <= left) {
                others.swap(n_fitting, at);
                n_fitting += 1;
            }
        }
        rest = others.get_mut(..n_fitting).unwrap_or_default();
        size *= 2;
    }
}

/// The candidate of a key of the order by density.
fn place(key: u128) -> usize {
    (key as u32) as usize
}

/// Take what fits of candidates in this order.
fn take_fitting(candidates: &Candidates, order: &[u128], left: &mut u64, plan: &mut Plan) {
    for key in order {
        let n = place(*key);
        let fitting = candidates.usable(n).filter(|(_, form)| form.tokens <= *left);
        let best = fitting.reduce(|best, next| if next.1.fidelity > best.1.fidelity { next } else { best });
        if let Some((at, form)) = best {
            set(plan, n, at);
            plan.tokens = plan.tokens.saturating_add(form.tokens);
            *left -= form.tokens;
        }
    }
}

/// Take the choice of largest value among the optional candidates; returns how far the bound lies above it.
fn take_optional(candidates: &Candidates, budget: u64, limits: Limits, plan: &mut Plan) -> Result<f64> {
    let mut offers = Offers::with_capacity(candidates.len(), candidates.forms.len());
    for (n, unit) in candidates.units.iter().enumerate().filter(|(_, unit)| !unit.required) {
        offers.open(n);
        let worth = candidates.worth(unit);
        for (at, form) in candidates.usable(n) {
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
