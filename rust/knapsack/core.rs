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

use super::order::{Held, Order, Side, Slopes, Step};
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
    /// The step of a rank.
    fn step(&self, rank: u32) -> Step;

    /// All steps, by rank.
    fn steps(&self) -> impl Iterator<Item = Step>;

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
pub(super) fn solve<P: Classes>(problem: &P, slopes: Slopes, n_classes: usize, budget: i64, limits: Limits) -> Outcome {
    let (order, Held { taken, weight, value }) = Order::new(problem, slopes, n_classes, budget);
    let Some(order) = order else {
        let total = Candidate { weight: weight.unsigned_abs(), value: value.unsigned_abs() };
        let (changes, varied) = (vec![], vec![]);
        return Outcome { taken, changes, varied, total, bound: total.value, is_proven: true, states: 0 };
    };
    let room = budget - weight;
    let slope = order.steepest_untaken();
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
pub(super) struct State {
    pub(super) weight: i64,
    pub(super) value: i64,
    pub(super) trace: u32,
}

/// One change on the way to a state.
pub(super) struct Node {
    pub(super) parent: u32,
    pub(super) class: u32,
    pub(super) form: u32,
}

/// Room for as many states as most searches have at a time.
const USUAL_STATES: usize = 128;

/// What comes after the last state.
const END: State = State { weight: i64::MAX, value: i64::MIN, trace: NO_TRACE };

/// So many states are joined with what comes next, and again after so many classes more.
const JOIN_FROM: usize = 32;
const JOIN_EVERY: usize = 4;

pub(super) const NO_TRACE: u32 = u32::MAX;

/// More than any rounding of a slope or a product can amount to, as a share.
const TOLERANCE: f64 = 1.0 / (1_u64 << 49) as f64;

pub(super) struct Search<'a, P> {
    pub(super) problem: &'a P,
    pub(super) order: Order,
    /// Classes that have varied, or cannot matter any more.
    pub(super) is_done: Vec<bool>,
    pub(super) taken: Vec<u32>,
    /// Budget that the break leaves.
    pub(super) room: i64,
    pub(super) relevance: Relevance,
    /// Undominated states, by rising weight and value.
    pub(super) states: Vec<State>,
    spare: [Vec<State>; 2],
    pub(super) nodes: Vec<Node>,
    /// The best choice found.
    pub(super) best: State,
    looked_at: u64,
    pub(super) varied: Vec<u32>,
}

/// Which moves can still be part of a better choice.
pub(super) struct Relevance {
    /// Slope of the first step that did not fit.
    pub(super) slope: f64,
    /// What filling the room at that slope would add: no choice gains more over the break.
    pub(super) gain: f64,
    /// Absolute error that sums of such figures may carry.
    pub(super) tolerance: f64,
}

impl Relevance {
    /// What a move loses at the break's slope.
    pub fn loss(&self, change: Move) -> f64 {
        self.slope * change.weight as f64 - change.value as f64
    }

    /// What the moves of a choice worth more than `best` lose together at the most.
    pub fn most(&self, best: i64) -> f64 {
        self.gain - (best + 1) as f64 + self.tolerance
    }

    /// Whether a choice with this move in it can gain more than `best`: at the break's slope every move is a loss.
    pub fn allows(&self, change: Move, best: i64) -> bool {
        self.loss(change) <= self.most(best)
    }

    /// The flattest and the steepest slope that a step of such a choice can have, if it weighs `least` or more.
    fn reach(&self, least: u64, best: i64) -> (f64, f64) {
        let most = self.most(best) / least as f64 * (1.0 + TOLERANCE);
        (self.slope - most, self.slope + most)
    }
}

/// The slopes at which the rest of the budget could be filled, or an overdraft be paid back.
#[derive(Clone, Copy)]
struct Rates {
    fill: f64,
    pay: f64,
}

impl Rates {
    /// What `room` is worth at the most: below 0 for an overdraft.
    fn worth(self, room: i64) -> f64 {
        room as f64 * if room >= 0 { self.fill } else { self.pay }
    }

    /// Whether completing a choice of this value that leaves `room` can be worth more than `best`.
    fn is_hopeful(self, room: i64, value: i64, best: i64) -> bool {
        self.worth(room) >= (best + 1 - value) as f64
    }
}

impl<P: Classes> Search<'_, P> {
    fn run(mut self, at_break: Move, limits: Limits) -> Outcome {
        let mut open_gain = None;
        let mut moves = Vec::new();
        let mut idle_sides = 0;
        let mut until_join = 0_usize;
        let mut side = Side::Untaken;
        while idle_sides < 2 && !self.states.is_empty() {
            let rates = self.rates();
            if let Some(class) = self.next_class(side, &mut moves) {
                idle_sides = 0;
                // Every move is merged into what has been merged before it.
                let coming = self.states.len() as u64 * 2 * moves.len() as u64;
                if self.looked_at + coming > limits.max_states
                    || limits.deadline.is_some_and(|deadline| Instant::now() >= deadline)
                {
                    open_gain = Some(self.open_gain(rates));
                    break;
                }
                self.vary(class, &moves);
                if self.states.len() >= JOIN_FROM && until_join == 0 {
                    self.join();
                    until_join = JOIN_EVERY;
                }
                until_join = until_join.saturating_sub(1);
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
    fn rates(&self) -> Rates {
        Rates {
            fill: self.order.steepest_untaken() * (1.0 + TOLERANCE),
            pay: self.order.flattest_taken() * (1.0 - TOLERANCE),
        }
    }

    /// The next class on `side` that can still matter, and its moves that can.
    fn next_class(&mut self, side: Side, moves: &mut Vec<Move>) -> Option<u32> {
        let Self { problem, order, is_done, taken, relevance, best, .. } = self;
        loop {
            let reach = |least: u64| relevance.reach(least, best.value);
            let step = order.next(*problem, side, reach, |side, step| {
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
        let rates = self.rates();
        let from = std::mem::take(&mut self.states);
        let [mut stay, mut merged] = std::mem::take(&mut self.spare);
        for (n, &change) in moves.iter().enumerate() {
            merged.clear();
            self.merge(if n == 0 { &from } else { &stay }, &from, class, change, rates, &mut merged);
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
        rates: Rates,
        merged: &mut Vec<State>,
    ) {
        self.looked_at += (stay.len() + from.len()) as u64;
        let (mut staying, mut moving) = (stay.iter(), from.iter());
        let after_change = |state: &State| State {
            weight: state.weight + change.weight,
            value: state.value + change.value,
            trace: state.trace,
        };
        let mut stayed = staying.next().copied().unwrap_or(END);
        let mut moved = moving.next().map_or(END, after_change);
        let mut best = self.best;
        let mut worthiest = i64::MIN;
        loop {
            // Of equal weights the worthier first, so that it dominates the other.
            if stayed.weight < moved.weight || (stayed.weight == moved.weight && stayed.value >= moved.value) {
                if stayed.weight == END.weight {
                    break;
                }
                if stayed.value > worthiest && rates.is_hopeful(self.room - stayed.weight, stayed.value, best.value) {
                    worthiest = stayed.value;
                    merged.push(stayed);
                }
                stayed = staying.next().copied().unwrap_or(END);
            } else {
                if moved.value > worthiest {
                    let room = self.room - moved.weight;
                    let is_best = room >= 0 && moved.value > best.value;
                    if is_best || rates.is_hopeful(room, moved.value, best.value) {
                        let trace = self.nodes.len() as u32;
                        self.nodes.push(Node { parent: moved.trace, class, form: change.form });
                        worthiest = moved.value;
                        moved.trace = trace;
                        merged.push(moved);
                        if is_best {
                            best = moved;
                        }
                    }
                }
                moved = moving.next().map_or(END, after_change);
            }
        }
        self.best = best;
    }

    /// What the states that are left could still come to.
    fn open_gain(&self, rates: Rates) -> i64 {
        let completed = self.states.iter().map(|state| {
            let worth = rates.worth(self.room - state.weight);
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
