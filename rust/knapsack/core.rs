//! The expanding core: an exact search that starts at the break and widens only as far as it must.
//!
//! Relax the problem so that the last rise may be taken in part: the best choice takes rises by falling slope until the
//! budget is reached, at the break. The true best choice differs from it in a few classes near the break. So keep the
//! list of undominated partial choices (lighter or worthier than every other), let one more class vary at a time,
//! alternately the steepest untaken and the flattest taken one, and drop what cannot beat the best choice found even if
//! the rest of the budget were filled at the slope of the next class. The list runs dry, usually after some dozens of
//! classes, and what was best is proven to be. After D. Pisinger's minimal algorithms for the 0-1 (1997) and the
//! multiple-choice (1995) knapsack problem.

use std::time::Instant;

use super::order::{Order, Side, Step};
use super::{Candidate, Limits};

/// A change of one class from its form at the break to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Move {
    pub weight: i64,
    pub value: i64,
    /// What the front end calls the other form.
    pub form: u32,
}

/// What the search asks about a class.
pub(super) trait Classes {
    /// All undominated forms of `class` but the one after `taken` of its steps, relative to that one.
    fn moves(&self, class: u32, taken: u32) -> impl Iterator<Item = Move>;

    /// Whether every undominated form of `class` ends one of its steps.
    fn is_all_steps(&self, class: u32) -> bool;
}

/// What the search found.
pub(super) struct Outcome {
    /// Steps of each class taken at the break.
    pub taken: Vec<u32>,
    /// (class, form) of the classes that differ from the break.
    pub changes: Vec<(u32, u32)>,
    /// The classes that were allowed to vary.
    pub varied: Vec<u32>,
    /// Weight and value of the choice, counted in steps from none taken.
    pub total: Candidate,
    /// The value that no choice exceeds, counted so too.
    pub bound: u64,
    /// Whether the choice is proven.
    pub is_proven: bool,
    /// Partial choices that were looked at.
    pub states: u64,
}

/// Take steps, of which all together may weigh more than `budget`, so that the value is largest.
pub(super) fn solve<P: Classes>(
    problem: &P,
    steps: Vec<Step>,
    n_classes: usize,
    budget: i64,
    limits: Limits,
) -> Outcome {
    let mut taken = vec![0_u32; n_classes];
    let weight = steps.iter().fold(0_i64, |sum, step| sum.saturating_add(step.weight));
    if weight <= budget {
        let mut value = 0;
        for step in &steps {
            taken[step.class as usize] += 1;
            value += step.value.unsigned_abs();
        }
        let total = Candidate { weight: weight.unsigned_abs(), value };
        return Outcome { taken, changes: vec![], varied: vec![], total, bound: value, is_proven: true, states: 0 };
    }
    let (order, at) = Order::new(steps, budget);
    let (before, after) = order.around(at);
    let (mut weight, mut value) = (0, 0);
    for step in before {
        taken[step.class as usize] += 1;
        weight += step.weight;
        value += step.value;
    }
    let room = budget - weight;
    let slope = after.first().map_or(0.0, |step| step.slope);
    let gain = slope * room as f64;
    let mut states = Vec::with_capacity(USUAL_STATES);
    states.push(State { weight: 0, value: 0, trace: NO_TRACE });
    let mut search = Search {
        problem,
        relevance: Relevance { slope, gain, tolerance: (value as f64 + gain) * TOLERANCE },
        order,
        is_done: vec![false; n_classes],
        taken,
        room,
        states,
        spare: [Vec::with_capacity(USUAL_STATES), Vec::with_capacity(USUAL_STATES)],
        nodes: Vec::with_capacity(4 * USUAL_STATES),
        best: State { weight: 0, value: 0, trace: NO_TRACE },
        looked_at: 1,
        varied: Vec::new(),
    };
    search.swap();
    search.run(Move { weight, value, form: 0 }, limits)
}

/// A partial choice: the weight and value by which it differs from the break.
#[derive(Clone, Copy)]
struct State {
    weight: i64,
    value: i64,
    trace: u32,
}

/// One change on the way to a state.
struct Node {
    parent: u32,
    class: u32,
    form: u32,
}

/// Room for as many states as most searches have at a time.
const USUAL_STATES: usize = 128;

/// Steps on either side of the break that are tried for one another before the search.
const SWAPPED: usize = 16;

const NO_TRACE: u32 = u32::MAX;

/// More than any rounding of a slope or a product can amount to, as a share.
const TOLERANCE: f64 = 1.0 / (1_u64 << 49) as f64;

struct Search<'a, P> {
    problem: &'a P,
    order: Order,
    /// Classes that have varied, or cannot matter any more.
    is_done: Vec<bool>,
    taken: Vec<u32>,
    /// Budget that the break leaves.
    room: i64,
    relevance: Relevance,
    /// Undominated states, by rising weight and value.
    states: Vec<State>,
    spare: [Vec<State>; 2],
    nodes: Vec<Node>,
    /// The best choice found.
    best: State,
    looked_at: u64,
    varied: Vec<u32>,
}

/// Which moves can still be part of a better choice.
struct Relevance {
    /// Slope of the first step that did not fit.
    slope: f64,
    /// What filling the room at that slope would add: no choice gains more over the break.
    gain: f64,
    /// Absolute error that sums of such figures may carry.
    tolerance: f64,
}

impl Relevance {
    /// Whether a choice with this move in it can gain more than `best`: at the break's slope every move is a loss.
    fn allows(&self, change: Move, best: i64) -> bool {
        let loss = self.slope * change.weight as f64 - change.value as f64;
        self.gain - loss + self.tolerance >= (best + 1) as f64
    }
}

/// The slopes at which the rest of the budget could be filled, or an overdraft be paid back.
#[derive(Clone, Copy)]
struct Slopes {
    fill: f64,
    pay: f64,
}

impl Slopes {
    /// What `room` is worth at the most: below 0 for an overdraft.
    fn worth(self, room: i64) -> f64 {
        room as f64 * if room >= 0 { self.fill } else { self.pay }
    }
}

impl<P: Classes> Search<'_, P> {
    /// Start from the best choice that takes one step more, in place of one or of none: what cannot beat it is not looked at.
    fn swap(&mut self) {
        let (taken, untaken) = self.order.near(SWAPPED);
        let mut best = (0, None);
        // From the flattest on, since of equal ones the last in position has to go, as it would at the break.
        for out in taken.iter().rev().map(Some).chain([None]) {
            let (room, cost) = out.map_or((self.room, 0), |step| (self.room + step.weight, step.value));
            for step in untaken {
                let gain = step.value - cost;
                if step.weight <= room && gain > best.0 && out.is_none_or(|out| out.class != step.class) {
                    best = (gain, Some((out, step)));
                }
            }
        }
        let Some((out, step)) = best.1 else { return };
        let mut state = State { weight: 0, value: 0, trace: NO_TRACE };
        let mut nodes = Vec::with_capacity(2);
        for (side, step) in out.map(|out| (Side::Taken, out)).into_iter().chain([(Side::Untaken, step)]) {
            let change = side.change(step);
            let is_it = |one: &Move| one.weight == change.weight && one.value == change.value;
            // Not so where another step of the class lies between this one and the break.
            let Some(found) = self.problem.moves(step.class, self.taken[step.class as usize]).find(is_it) else {
                return;
            };
            nodes.push(Node { parent: state.trace, class: step.class, form: found.form });
            let trace = nodes.len() as u32 - 1;
            state = State { weight: state.weight + change.weight, value: state.value + change.value, trace };
        }
        self.varied.extend(nodes.iter().map(|node| node.class));
        self.nodes.extend(nodes);
        self.best = state;
    }

    fn run(mut self, at_break: Move, limits: Limits) -> Outcome {
        let mut open_gain = None;
        let mut moves = Vec::new();
        let mut idle_sides = 0;
        let mut side = Side::Untaken;
        while idle_sides < 2 && !self.states.is_empty() {
            let slopes = self.slopes();
            if let Some(class) = self.next_class(side, &mut moves) {
                idle_sides = 0;
                // Every move is merged into what has been merged before it.
                let coming = self.states.len() as u64 * 2 * moves.len() as u64;
                if self.looked_at + coming > limits.max_states
                    || limits.deadline.is_some_and(|deadline| Instant::now() >= deadline)
                {
                    open_gain = Some(self.open_gain(slopes));
                    break;
                }
                self.vary(class, &moves);
            } else {
                idle_sides += 1;
            }
            side = side.other();
        }
        let gain = open_gain.unwrap_or(self.best.value);
        let total = Candidate {
            weight: (at_break.weight + self.best.weight).unsigned_abs(),
            value: (at_break.value + self.best.value).unsigned_abs(),
        };
        Outcome {
            changes: self.changes(),
            total,
            bound: (at_break.value + gain).unsigned_abs(),
            is_proven: gain == self.best.value,
            taken: self.taken,
            varied: self.varied,
            states: self.looked_at,
        }
    }

    /// The slopes of what has not varied yet, rounded away from the truth by more than they may be wrong.
    fn slopes(&self) -> Slopes {
        Slopes {
            fill: self.order.steepest_untaken() * (1.0 + TOLERANCE),
            pay: self.order.flattest_taken() * (1.0 - TOLERANCE),
        }
    }

    /// The next class on `side` that can still matter, and its moves that can.
    fn next_class(&mut self, side: Side, moves: &mut Vec<Move>) -> Option<u32> {
        let Self { problem, order, is_done, taken, relevance, best, .. } = self;
        loop {
            let step = order.next(side, |step| {
                let class = step.class as usize;
                if is_done[class] {
                    return false;
                }
                if problem.is_all_steps(step.class) {
                    // The loss of a move is that of the steps on its way, so the first of them tells.
                    return relevance.allows(side.change(step), best.value);
                }
                problem.moves(step.class, taken[class]).any(|one| side.has(one) && relevance.allows(one, best.value))
            })?;
            let class = step.class as usize;
            if std::mem::replace(&mut is_done[class], true) {
                continue;
            }
            moves.clear();
            moves.extend(problem.moves(step.class, taken[class]).filter(|&one| relevance.allows(one, best.value)));
            if !moves.is_empty() {
                return Some(step.class);
            }
        }
    }

    /// Let `class` stay as it is or make one of `moves`, in every state.
    fn vary(&mut self, class: u32, moves: &[Move]) {
        self.varied.push(class);
        let slopes = self.slopes();
        let from = std::mem::take(&mut self.states);
        let [mut stay, mut merged] = std::mem::take(&mut self.spare);
        for (n, &change) in moves.iter().enumerate() {
            merged.clear();
            self.merge(if n == 0 { &from } else { &stay }, &from, class, change, slopes, &mut merged);
            std::mem::swap(&mut stay, &mut merged);
        }
        self.states = stay;
        self.spare = [from, merged];
    }

    /// Append the undominated and still hopeful among `stay` and `from` after `change` to `merged`.
    fn merge(
        &mut self,
        stay: &[State],
        from: &[State],
        class: u32,
        change: Move,
        slopes: Slopes,
        merged: &mut Vec<State>,
    ) {
        let (mut staying, mut moving) = (stay.iter().peekable(), from.iter().peekable());
        let mut worthiest = i64::MIN;
        loop {
            let moved = moving.peek().map(|state| State {
                weight: state.weight + change.weight,
                value: state.value + change.value,
                trace: state.trace,
            });
            let (mut state, has_moved) = match (staying.peek(), moved) {
                (Some(&&stayed), Some(moved)) => {
                    // Of equal weights the worthier first, so that it dominates the other.
                    if (stayed.weight, moved.value) <= (moved.weight, stayed.value) {
                        (stayed, false)
                    } else {
                        (moved, true)
                    }
                }
                (Some(&&stayed), None) => (stayed, false),
                (None, Some(moved)) => (moved, true),
                (None, None) => return,
            };
            if has_moved {
                moving.next();
            } else {
                staying.next();
            }
            self.looked_at += 1;
            if state.value <= worthiest {
                continue;
            }
            let room = self.room - state.weight;
            if has_moved {
                let trace = self.nodes.len() as u32;
                if room >= 0 && state.value > self.best.value {
                    self.best = State { trace, ..state };
                } else if !self.is_hopeful(state, slopes) {
                    continue;
                }
                self.nodes.push(Node { parent: state.trace, class, form: change.form });
                state.trace = trace;
            } else if !self.is_hopeful(state, slopes) {
                continue;
            }
            worthiest = state.value;
            merged.push(state);
        }
    }

    /// Whether completing `state` can be worth more than the best choice found.
    fn is_hopeful(&self, state: State, slopes: Slopes) -> bool {
        slopes.worth(self.room - state.weight) >= (self.best.value + 1 - state.value) as f64
    }

    /// What the states that are left could still come to.
    fn open_gain(&self, slopes: Slopes) -> i64 {
        let completed = self.states.iter().map(|state| {
            let worth = slopes.worth(self.room - state.weight);
            state.value.saturating_add(worth.floor() as i64)
        });
        let relaxed = (self.relevance.gain + self.relevance.tolerance).floor() as i64;
        completed.max().unwrap_or(self.best.value).min(relaxed).max(self.best.value)
    }

    /// The classes in which the best choice differs from the break.
    fn changes(&self) -> Vec<(u32, u32)> {
        let mut changes = Vec::new();
        let mut trace = self.best.trace;
        while let Some(node) = self.nodes.get(trace as usize) {
            changes.push((node.class, node.form));
            trace = node.parent;
        }
        changes
    }
}
