//! Multiple choice: at most one candidate of each class.

use super::core::{Classes, Move, solve};
use super::order::{Slopes, Step};
use super::settle::partners;
use super::{Candidate, Limits, Solution, checked_budget, checked_total, finish, totals};
use crate::Result;

/// Choose at most one candidate of each class so that their weight is at most `budget` and their value is largest.
///
/// Candidates stand fullest first: the order decides ties, nothing else. Time: O(n) steps over classes of bounded size
/// in most cases, else by `limits`.
///
/// # Errors
/// `Error::Argument` if the largest values of the classes add up to more than 2^53, or a budget of more than 2^53 does
/// not hold everything.
pub fn choose<C: AsRef<[Candidate]>>(classes: &[C], budget: u64, limits: Limits) -> Result<Solution> {
    let (mut heaviest, mut largest) = (0_u128, 0_u128);
    for class in classes {
        let (weight, value) = largest_of(class.as_ref());
        heaviest += u128::from(weight);
        largest += u128::from(value);
    }
    checked_total(largest)?;
    if heaviest <= u128::from(budget) {
        let picks: Vec<Option<u32>> = classes.iter().map(|class| worthiest(class.as_ref())).collect();
        let total = totals(classes, &picks);
        return Ok(Solution { picks, weight: total.weight, value: total.value, bound: total.value, states: 0 });
    }
    let room = checked_budget(budget)?;
    let forms = Forms::new(classes, budget);
    let slope = |step: &Step| (step.value as f64 / step.weight as f64, step.weight.unsigned_abs());
    let slopes = Slopes::new(forms.steps.iter().map(slope)).with_least(forms.least);
    let outcome = solve(&forms, slopes, classes.len(), room, limits);
    let mut picks: Vec<Option<u32>> = Vec::with_capacity(classes.len());
    for (class, &taken) in outcome.taken.iter().enumerate() {
        picks.push(forms.after(class, taken).and_then(|form| form.pick));
    }
    for &(class, form) in &outcome.changes {
        picks[class as usize] = forms.all.get(form as usize).and_then(|form| form.pick);
    }
    Ok(finish(classes, budget, picks, &outcome, forms.free_value, partners(classes, &outcome.varied)))
}

/// The largest weight and the largest value in a class.
fn largest_of(class: &[Candidate]) -> (u64, u64) {
    class.iter().fold((0, 0), |(weight, value), one| (weight.max(one.weight), value.max(one.value)))
}

/// The fullest of the candidates of the largest value.
fn worthiest(class: &[Candidate]) -> Option<u32> {
    let best = class.iter().map(|one| one.value).max()?;
    class.iter().position(|one| one.value == best).map(|option| option as u32)
}

/// One way to show a class that no lighter way is worth as much as.
#[derive(Clone, Copy)]
struct Form {
    weight: u64,
    value: u64,
    pick: Option<u32>,
}

/// The undominated forms of all classes, by rising weight, and the corners of their convex hulls.
struct Forms {
    all: Vec<Form>,
    /// Where the forms of each class end.
    ends: Vec<u32>,
    /// Indices into `all`.
    corners: Vec<u32>,
    /// Where the corners of each class end.
    corner_ends: Vec<u32>,
    steps: Vec<Step>,
    /// No two forms of a class differ by less weight.
    least: u64,
    /// What is gained for no tokens.
    free_value: u64,
}

impl Forms {
    fn new<C: AsRef<[Candidate]>>(classes: &[C], budget: u64) -> Self {
        let n = classes.len();
        let size = classes.iter().map(|class| class.as_ref().len()).sum::<usize>();
        let mut forms = Self {
            all: Vec::with_capacity(n + size),
            ends: Vec::with_capacity(n),
            corners: Vec::with_capacity(n + size),
            corner_ends: Vec::with_capacity(n),
            steps: Vec::with_capacity(size),
            least: u64::MAX,
            free_value: 0,
        };
        let mut sorted = Vec::new();
        for (index, class) in classes.iter().enumerate() {
            sorted.clear();
            sorted.push(Form { weight: 0, value: 0, pick: None });
            // From the back, since the lightest mostly stands last.
            let affordable = class.as_ref().iter().enumerate().rev().filter(|(_, one)| one.weight <= budget);
            sorted.extend(affordable.map(|(option, one)| Form {
                weight: one.weight,
                value: one.value,
                pick: Some(option as u32),
            }));
            forms.push(index, &mut sorted);
        }
        forms
    }

    /// Add the forms of one class.
    fn push(&mut self, class: usize, sorted: &mut [Form]) {
        // Among equal forms the fullest stays first, and the others are dominated by it.
        let in_order =
            |a: &Form, b: &Form| a.weight.cmp(&b.weight).then(b.value.cmp(&a.value)).then(a.pick.cmp(&b.pick));
        if !sorted.is_sorted_by(|a, b| a.weight < b.weight) {
            sorted.sort_unstable_by(in_order);
        }
        let (first, first_corner) = (self.all.len(), self.corners.len());
        for &form in &*sorted {
            if let Some(last) = self.all[first..].last() {
                if last.value >= form.value {
                    continue;
                }
                self.least = self.least.min(form.weight - last.weight);
            }
            while let [.., a, b] = self.corners[first_corner..] {
                if !is_below(self.all[a as usize], self.all[b as usize], form) {
                    break;
                }
                self.corners.pop();
            }
            self.corners.push(self.all.len() as u32);
            self.all.push(form);
        }
        self.free_value += self.all.get(first).map_or(0, |form| form.value);
        for pair in self.corners[first_corner..].windows(2) {
            let (lower, upper) = (self.all[pair[0] as usize], self.all[pair[1] as usize]);
            let (weight, value) = (upper.weight - lower.weight, upper.value - lower.value);
            self.steps.push(Step { weight: weight.cast_signed(), value: value.cast_signed(), class: class as u32 });
        }
        self.ends.push(self.all.len() as u32);
        self.corner_ends.push(self.corners.len() as u32);
    }

    /// The form of `class` after `taken` of its steps.
    fn after(&self, class: usize, taken: u32) -> Option<Form> {
        let first = class.checked_sub(1).and_then(|before| self.corner_ends.get(before)).copied().unwrap_or(0);
        let corner = self.corners.get((first + taken) as usize)?;
        self.all.get(*corner as usize).copied()
    }
}

/// Whether `b` is on or below the line from `a` to `c`.
fn is_below(a: Form, b: Form, c: Form) -> bool {
    let product = |value: u64, weight: u64| u128::from(value) * u128::from(weight);
    product(b.value - a.value, c.weight - b.weight) <= product(c.value - b.value, b.weight - a.weight)
}

impl Classes for Forms {
    fn step(&self, rank: u32) -> Step {
        self.steps[rank as usize]
    }

    fn steps(&self) -> impl Iterator<Item = Step> {
        self.steps.iter().copied()
    }

    fn is_all_steps(&self, class: u32) -> bool {
        let class = class as usize;
        let count = |ends: &[u32]| {
            let first = class.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
            ends.get(class).copied().unwrap_or(first) - first
        };
        count(&self.ends) == count(&self.corner_ends)
    }

    fn moves(&self, class: u32, taken: u32) -> impl Iterator<Item = Move> {
        let class = class as usize;
        let base = self.after(class, taken);
        let first = class.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(class).copied().unwrap_or(first);
        let forms = self.all.get(first as usize..end as usize).unwrap_or_default();
        base.into_iter().flat_map(move |base| {
            let others = (first..).zip(forms).filter(move |(_, form)| form.weight != base.weight);
            others.map(move |(index, form)| Move {
                weight: form.weight.cast_signed() - base.weight.cast_signed(),
                value: form.value.cast_signed() - base.value.cast_signed(),
                form: index,
            })
        })
    }
}
