//! Steps by falling slope around the break, sorted only as far as the search walks.

use std::cmp::Ordering;

use super::core::{Classes, Move};
use super::shelves::Shelves;

/// One rise of one class to a heavier, worthier form; within a class slopes fall.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Step {
    pub weight: i64,
    pub value: i64,
    pub class: u32,
}

/// A step in its place in the order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    pub step: Step,
    pub slope: f64,
    /// Position among all steps, class by class: decides between equal slopes.
    rank: u32,
}

impl Placed {
    /// The steepest first.
    fn cmp(&self, other: &Self) -> Ordering {
        other.slope.total_cmp(&self.slope).then(self.rank.cmp(&other.rank))
    }
}

/// The slopes of all steps by rank.
#[derive(Debug)]
pub(super) struct Slopes {
    all: Vec<f64>,
    steepest: f64,
    /// No two forms of a class differ by less weight.
    least: u64,
    mean_weight: u64,
}

impl Slopes {
    /// Of steps by their slopes and weights; 0 for both where there is no step. value / weight, rounded to nearest, never
    /// orders two slopes wrongly, at most makes different ones equal.
    pub fn new(steps: impl Iterator<Item = (f64, u64)>) -> Self {
        let (mut steepest, mut least, mut weights) = (0.0, u64::MAX, 0_u64);
        let all = steps.map(|(slope, weight)| {
            steepest = if slope > steepest { slope } else { steepest };
            least = least.min(weight.wrapping_sub(1));
            weights = weights.wrapping_add(weight);
            slope
        });
        let all: Vec<f64> = all.collect();
        let mean_weight = weights / (all.len() as u64).max(1);
        Self { all, steepest, least: least.saturating_add(1), mean_weight }
    }

    /// The same, where forms of a class differ by `least` in weight, or more.
    pub fn with_least(self, least: u64) -> Self {
        Self { least, ..self }
    }
}

/// Steps on either side of the break that are sorted at once, about.
const SORTED: u64 = 16;

/// A direction to walk from the break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    /// Steps taken at the break, the least steep first.
    Taken,
    /// Steps not taken at the break, the steepest first.
    Untaken,
}

impl Side {
    pub fn other(self) -> Self {
        match self {
            Self::Taken => Self::Untaken,
            Self::Untaken => Self::Taken,
        }
    }

    /// What making a step on this side changes.
    pub fn change(self, step: &Step) -> Move {
        let sign = if self == Self::Taken { -1 } else { 1 };
        Move { weight: sign * step.weight, value: sign * step.value, form: 0 }
    }

    /// Whether a class whose next step is on this side would make this move.
    pub fn has(self, change: Move) -> bool {
        match self {
            Self::Taken => change.weight < 0,
            Self::Untaken => change.weight > 0,
        }
    }
}

/// All steps, in order near the break and on unsorted shelves further out.
pub(super) struct Order {
    slopes: Vec<f64>,
    least: u64,
    /// What is steeper than the first and not steeper than the second is not sorted.
    sorted: (f64, f64),
    taken: Way,
    untaken: Way,
}

/// The steps on one side of the break.
struct Way {
    /// Those that are sorted and not walked yet, the nearest last.
    steps: Vec<Placed>,
    /// The slope of the last one walked: no step beyond is steeper (untaken) or flatter (taken).
    last: f64,
    /// Whether there are steps beyond that are not sorted.
    is_open: bool,
}

/// What the steps before the break come to.
pub(super) struct Held {
    /// Steps of each class.
    pub taken: Vec<u32>,
    pub weight: i64,
    pub value: i64,
}

impl Order {
    /// Order the steps of `problem` around the first one that does not fit; None for the order where all fit.
    pub fn new<P: Classes>(problem: &P, slopes: Slopes, n_classes: usize, budget: i64) -> (Option<Self>, Held) {
        let Slopes { all: slopes, steepest, least, mean_weight } = slopes;
        let mut shelves = Shelves::new(key(steepest));
        for (&slope, step) in slopes.iter().zip(problem.steps()) {
            shelves.add(key(slope), if slope > 0.0 { step.weight.unsigned_abs() } else { 0 });
        }
        let (at, _) = shelves.fitting(budget.unsigned_abs());
        let (first, end) =
            if at < Shelves::N { shelves.around(at, SORTED.saturating_mul(mean_weight)) } else { (at, at) };
        let mut held = Held { taken: vec![0; n_classes], weight: 0, value: 0 };
        let mut near = Vec::with_capacity(4 * SORTED as usize);
        // All that is steeper is taken; all that is not as steep is not near.
        let (upper, lower) = (slope_of(shelves.start(first)), slope_of(shelves.start(end)));
        let lower = if end < Shelves::N { lower } else { 0.0 };
        for ((rank, &slope), step) in (0..).zip(&slopes).zip(problem.steps()) {
            // Without a branch: which steps are taken is hard to guess.
            let is_taken = i64::from(slope > upper);
            held.taken[step.class as usize] += is_taken as u32;
            held.weight += step.weight & -is_taken;
            held.value += step.value & -is_taken;
            if slope > lower && slope <= upper {
                near.push(Placed { step, slope, rank });
            }
        }
        near.sort_unstable_by(Placed::cmp);
        let mut n_taken = 0;
        for Placed { step, .. } in &near {
            if held.weight.saturating_add(step.weight) > budget {
                break;
            }
            held.taken[step.class as usize] += 1;
            held.weight += step.weight;
            held.value += step.value;
            n_taken += 1;
        }
        let Some(slope) = near.get(n_taken).map(|placed| placed.slope) else { return (None, held) };
        let mut untaken = near.split_off(n_taken);
        untaken.reverse();
        let order = Self {
            slopes,
            least,
            sorted: (upper, lower),
            taken: Way { steps: near, last: slope, is_open: first > 0 },
            untaken: Way { steps: untaken, last: slope, is_open: end < Shelves::N },
        };
        (Some(order), held)
    }

    /// Sorted steps taken at the break and not, the nearest last, at most `n` each.
    pub fn near(&self, n: usize) -> (&[Placed], &[Placed]) {
        let last = |way: &Way| way.steps.len().saturating_sub(n);
        (&self.taken.steps[last(&self.taken)..], &self.untaken.steps[last(&self.untaken)..])
    }

    /// The next step on `side`, among those that `may_matter`; what does not is left out before sorting.
    pub fn next<P: Classes>(
        &mut self,
        problem: &P,
        side: Side,
        reach: impl FnOnce(u64) -> (f64, f64),
        may_matter: impl FnMut(Side, &Step) -> bool,
    ) -> Option<Step> {
        let way = self.way(side);
        if way.steps.is_empty() {
            if !way.is_open {
                return None;
            }
            let (flattest, steepest) = reach(self.least);
            self.sort_beyond(problem, flattest.max(f64::MIN_POSITIVE), steepest, may_matter);
        }
        let way = self.way(side);
        let placed = way.steps.pop()?;
        way.last = placed.slope;
        Some(placed.step)
    }

    fn way(&mut self, side: Side) -> &mut Way {
        match side {
            Side::Taken => &mut self.taken,
            Side::Untaken => &mut self.untaken,
        }
    }

    /// Sort the steps from the flattest to the steepest slope that may matter, beyond those that are sorted.
    fn sort_beyond<P: Classes>(
        &mut self,
        problem: &P,
        flattest: f64,
        steepest: f64,
        mut may_matter: impl FnMut(Side, &Step) -> bool,
    ) {
        let (mut taken, mut untaken) = (Vec::new(), Vec::new());
        let (upper, lower) = self.sorted;
        for (rank, &slope) in (0..).zip(&self.slopes) {
            if slope >= flattest && slope <= steepest && (slope > upper || slope <= lower) {
                let step = problem.step(rank);
                if slope > upper {
                    if self.taken.is_open && may_matter(Side::Taken, &step) {
                        taken.push(Placed { step, slope, rank });
                    }
                } else if self.untaken.is_open && may_matter(Side::Untaken, &step) {
                    untaken.push(Placed { step, slope, rank });
                }
            }
        }
        self.taken.put_beyond(taken, Placed::cmp);
        self.untaken.put_beyond(untaken, |a, b| b.cmp(a));
    }

    /// The steepest slope that a step still to come on the untaken side can have; 0 when there is none.
    pub fn steepest_untaken(&self) -> f64 {
        self.untaken.nearest().unwrap_or(0.0)
    }

    /// The flattest slope that a step still to come on the taken side can have; infinite when there is none.
    pub fn flattest_taken(&self) -> f64 {
        self.taken.nearest().unwrap_or(f64::INFINITY)
    }
}

impl Way {
    fn put_beyond(&mut self, mut steps: Vec<Placed>, order: impl Fn(&Placed, &Placed) -> Ordering) {
        steps.sort_unstable_by(order);
        steps.append(&mut self.steps);
        self.steps = steps;
        self.is_open = false;
    }

    /// The slope that no step still to come lies nearer to the break than; None when there is none.
    fn nearest(&self) -> Option<f64> {
        self.steps.last().map(|placed| placed.slope).or(self.is_open.then_some(self.last))
    }
}

/// The bits of a number that is not negative are ordered as the numbers are; flipped, the steepest is least.
fn key(slope: f64) -> u64 {
    !slope.to_bits()
}

fn slope_of(key: u64) -> f64 {
    f64::from_bits(!key)
}
