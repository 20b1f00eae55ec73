//! Steps by falling slope around the break, sorted only as far as the search walks.

use std::cmp::Ordering;
use std::ops::Range;

use super::core::Move;

/// One rise of one class to a heavier, worthier form; within a class slopes fall.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Step {
    /// value / weight, rounded to nearest: never ordering two slopes wrongly, at most making different ones equal.
    pub slope: f64,
    pub weight: i64,
    pub value: i64,
    pub class: u32,
    /// Position among all steps, class by class: decides between equal slopes.
    pub rank: u32,
}

impl Step {
    pub fn new(weight: u64, value: u64, class: usize, rank: usize) -> Self {
        Self {
            slope: value as f64 / weight as f64,
            weight: weight.cast_signed(),
            value: value.cast_signed(),
            class: class as u32,
            rank: rank as u32,
        }
    }

    /// Whether this step is `other` or comes before it.
    fn is_up_to(&self, other: &Self) -> bool {
        self.slope > other.slope || (self.slope >= other.slope && self.rank <= other.rank)
    }

    fn cmp(&self, other: &Self) -> Ordering {
        other.slope.total_cmp(&self.slope).then(self.rank.cmp(&other.rank))
    }
}

/// A range this small is sorted rather than split further.
const SORT_BELOW: usize = 32;

/// Splits before a range is sorted whatever its size, so that no input makes the break slow to find.
const MAX_SPLITS: usize = 16;

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

/// All steps, in order near the break and in unsorted intervals further out.
pub(super) struct Order {
    steps: Vec<Step>,
    /// Sorted steps not walked yet, on either side.
    taken: Range<usize>,
    untaken: Range<usize>,
    /// Unsorted intervals beyond them, the nearest last.
    taken_beyond: Vec<Range<usize>>,
    untaken_beyond: Vec<Range<usize>>,
    /// Slopes of the last steps walked: no step beyond is steeper (untaken) or flatter (taken).
    last_taken: f64,
    last_untaken: f64,
}

impl Order {
    /// Order `steps`, which together weigh more than `budget`, around the first one that does not fit; its index.
    pub fn new(mut steps: Vec<Step>, budget: i64) -> (Self, usize) {
        let (mut taken_beyond, mut untaken_beyond) = (Vec::new(), Vec::new());
        let mut range = 0..steps.len();
        let mut held = 0_i64;
        let mut range_weight = steps.iter().map(|step| step.weight as f64).sum::<f64>();
        for _ in 0..MAX_SPLITS {
            if range.len() <= SORT_BELOW {
                break;
            }
            let part = &mut steps[range.clone()];
            let (first, second) = pivots(part, (budget - held) as f64 / range_weight);
            let split = split(part, &first, &second);
            let (a, b) = (range.start + split.head, range.start + split.head + split.middle);
            let up_to_middle = split.head_weight.saturating_add(split.middle_weight);
            if held.saturating_add(split.head_weight) > budget {
                untaken_beyond.extend([b..range.end, a..b]);
                range = range.start..a;
                range_weight = split.head_weight as f64;
            } else if held.saturating_add(up_to_middle) > budget {
                taken_beyond.push(range.start..a);
                untaken_beyond.push(b..range.end);
                range = a..b;
                held += split.head_weight;
                range_weight = split.middle_weight as f64;
            } else {
                taken_beyond.extend([range.start..a, a..b]);
                range = b..range.end;
                held += up_to_middle;
                range_weight -= up_to_middle as f64;
            }
        }
        steps[range.clone()].sort_unstable_by(Step::cmp);
        let mut at = range.start;
        while let Some(step) = steps.get(at).filter(|step| at < range.end && held.saturating_add(step.weight) <= budget)
        {
            held += step.weight;
            at += 1;
        }
        let slope = steps.get(at).map_or(0.0, |step| step.slope);
        let order = Self {
            steps,
            taken: range.start..at,
            untaken: at..range.end,
            taken_beyond,
            untaken_beyond,
            last_taken: slope,
            last_untaken: slope,
        };
        (order, at)
    }

    /// The steps before and from the break on.
    pub fn around(&self, at: usize) -> (&[Step], &[Step]) {
        self.steps.split_at(at.min(self.steps.len()))
    }

    /// Sorted steps on either side of the break, at most `n` each: taken ones, the least steep last, and untaken ones, the
    /// steepest first.
    pub fn near(&self, n: usize) -> (&[Step], &[Step]) {
        let (first, end) =
            (self.taken.start.max(self.taken.end.saturating_sub(n)), self.untaken.start.saturating_add(n));
        let taken = self.steps.get(first..self.taken.end).unwrap_or_default();
        (taken, self.steps.get(self.untaken.start..end.min(self.untaken.end)).unwrap_or_default())
    }

    /// The next step on `side`, among those that `may_matter`; what does not is left out before sorting.
    pub fn next(&mut self, side: Side, mut may_matter: impl FnMut(&Step) -> bool) -> Option<Step> {
        loop {
            let sorted = match side {
                Side::Taken => &mut self.taken,
                Side::Untaken => &mut self.untaken,
            };
            let index = match side {
                Side::Taken => sorted.next_back(),
                Side::Untaken => sorted.next(),
            };
            if let Some(&step) = index.and_then(|index| self.steps.get(index)) {
                match side {
                    Side::Taken => self.last_taken = step.slope,
                    Side::Untaken => self.last_untaken = step.slope,
                }
                return Some(step);
            }
            let beyond = match side {
                Side::Taken => &mut self.taken_beyond,
                Side::Untaken => &mut self.untaken_beyond,
            };
            let interval = beyond.pop()?;
            let part = &mut self.steps[interval.clone()];
            let mut kept = 0;
            for index in 0..part.len() {
                if may_matter(&part[index]) {
                    part.swap(kept, index);
                    kept += 1;
                }
            }
            part[..kept].sort_unstable_by(Step::cmp);
            *sorted = interval.start..interval.start + kept;
        }
    }

    /// The steepest slope that a step still to come on the untaken side can have; 0 when there is none.
    pub fn steepest_untaken(&self) -> f64 {
        match self.steps.get(self.untaken.start).filter(|_| !self.untaken.is_empty()) {
            Some(step) => step.slope,
            None if self.untaken_beyond.is_empty() => 0.0,
            None => self.last_untaken,
        }
    }

    /// The flattest slope that a step still to come on the taken side can have; infinite when there is none.
    pub fn flattest_taken(&self) -> f64 {
        match self.taken.end.checked_sub(1).and_then(|end| self.steps.get(end)).filter(|_| !self.taken.is_empty()) {
            Some(step) => step.slope,
            None if self.taken_beyond.is_empty() => f64::INFINITY,
            None => self.last_taken,
        }
    }
}

/// Two steps that probably have the break between them: the break is where `share` of the weight has been taken.
fn pivots(steps: &[Step], share: f64) -> (Step, Step) {
    let n_sampled = (steps.len() / 16).clamp(16, 128);
    let mut sample: Vec<Step> = steps.iter().step_by(steps.len() / n_sampled).take(n_sampled).copied().collect();
    sample.sort_unstable_by(Step::cmp);
    let wanted = share * sample.iter().map(|step| step.weight as f64).sum::<f64>();
    let mut taken = 0.0;
    let near = sample.iter().take_while(|step| {
        taken += step.weight as f64;
        taken <= wanted
    });
    let near = near.count();
    // The break's rank in a sample of k has a standard deviation of at most sqrt(k) / 2.
    let margin = n_sampled.isqrt() * 3 / 4 + 1;
    let second = (near + margin).min(sample.len() - 1).max(1);
    let first = near.saturating_sub(margin).min(second - 1);
    (sample[first], sample[second])
}

struct Split {
    head: usize,
    middle: usize,
    head_weight: i64,
    middle_weight: i64,
}

/// Arrange `steps` as those up to `first`, those after it up to `second`, and the rest.
fn split(steps: &mut [Step], first: &Step, second: &Step) -> Split {
    let mut found = Split { head: 0, middle: 0, head_weight: 0, middle_weight: 0 };
    let (mut at, mut end) = (0, steps.len());
    while at < end {
        let step = steps[at];
        if step.is_up_to(first) {
            steps.swap(found.head, at);
            found.head += 1;
            found.head_weight = found.head_weight.saturating_add(step.weight);
            at += 1;
        } else if step.is_up_to(second) {
            found.middle_weight = found.middle_weight.saturating_add(step.weight);
            at += 1;
        } else {
            end -= 1;
            steps.swap(at, end);
        }
    }
    found.middle = at - found.head;
    found
}
