//! Better choices found early: what cannot beat the best choice found is not looked at.

use super::core::{Classes, Move, NO_TRACE, Node, Search, State};
use super::order::{Side, Step};

/// Steps on either side that are tried for one another.
const NEAR: usize = 16;

/// Room for as many changes of two classes as may mostly be part of a better choice.
const USUAL_PAIRS: usize = 128;

/// A change of a class by its next step.
#[derive(Clone, Copy)]
struct Change {
    class: u32,
    by: Move,
    /// At the break's slope.
    loss: f64,
}

/// No change.
const NOTHING: Change = Change { class: u32::MAX, by: Move { weight: 0, value: 0, form: 0 }, loss: 0.0 };

impl<P: Classes> Search<'_, P> {
    /// Start from the best choice that takes one step more, in place of one or of none.
    pub(super) fn swap(&mut self) {
        let (taken, untaken) = self.order.near(NEAR);
        let mut best = (0, None);
        // From the flattest on, since of equal ones the last in position has to go, as it would at the break.
        for out in taken.iter().rev().map(|placed| Some(&placed.step)).chain([None]) {
            let (room, cost) = out.map_or((self.room, 0), |step| (self.room + step.weight, step.value));
            for step in untaken.iter().rev().map(|placed| &placed.step) {
                let gain = step.value - cost;
                if step.weight <= room && gain > best.0 && out.is_none_or(|out| out.class != step.class) {
                    best = (gain, Some((out, step)));
                }
            }
        }
        let Some((out, step)) = best.1 else { return };
        let out = out.map(|out| self.move_of(Side::Taken, out).map(|by| (out.class, by)));
        let come = self.move_of(Side::Untaken, step).map(|by| (step.class, by));
        let (Some(come), false) = (come, out == Some(None)) else { return };
        let start = State { weight: 0, value: 0, trace: NO_TRACE };
        self.best_after(start, out.flatten().into_iter().chain([come]));
    }

    /// Look for a better choice among these: each state, after one of the next steps on either side, or one on both.
    pub(super) fn join(&mut self) {
        let (taken, untaken) = self.order.near(NEAR);
        let most = self.relevance.most(self.best.value);
        let open = |side: Side, step: &Step| {
            let is_open = !self.is_done[step.class as usize];
            let by = is_open.then(|| self.move_of(side, step)).flatten()?;
            let loss = self.relevance.loss(by);
            (loss <= most).then_some(Change { class: step.class, by, loss })
        };
        // Of equal ones the last in position goes and the first comes, as above.
        let out = taken.iter().rev().filter_map(|placed| open(Side::Taken, &placed.step));
        let come = untaken.iter().rev().filter_map(|placed| open(Side::Untaken, &placed.step));
        let (out, come): (Vec<Change>, Vec<Change>) = (out.chain([NOTHING]).collect(), come.chain([NOTHING]).collect());
        let mut pairs: Vec<(i64, u8, u8)> = Vec::with_capacity(USUAL_PAIRS);
        for (n, a) in (0..).zip(&out) {
            let others = (0..).zip(&come).filter(|(_, b)| a.loss + b.loss <= most && a.class != b.class);
            pairs.extend(others.map(|(m, b)| (a.by.weight + b.by.weight, n, m)));
        }
        pairs.sort_unstable();
        let mut fitting = self.states.as_slice();
        let mut best = (self.best.value, None);
        for (weight, n, m) in pairs {
            while let [less @ .., heaviest] = fitting
                && heaviest.weight + weight > self.room
            {
                fitting = less;
            }
            // The heaviest state is the worthiest.
            let Some(&state) = fitting.last() else { break };
            let (a, b) = (out[usize::from(n)], come[usize::from(m)]);
            let value = state.value + a.by.value + b.by.value;
            if value > best.0 {
                best = (value, Some((state, [a, b])));
            }
        }
        if let Some((state, changes)) = best.1 {
            let changes = changes.into_iter().filter(|change| change.class != NOTHING.class);
            self.best_after(state, changes.map(|change| (change.class, change.by)));
        }
    }

    /// The move that a step is; None where another step of the class lies between this one and the break.
    fn move_of(&self, side: Side, step: &Step) -> Option<Move> {
        let change = side.change(step);
        let mut moves = self.problem.moves(step.class, self.taken[step.class as usize]);
        moves.find(|one| one.weight == change.weight && one.value == change.value)
    }

    /// The best choice is `state` after these moves of other classes.
    fn best_after(&mut self, mut state: State, moves: impl Iterator<Item = (u32, Move)>) {
        for (class, by) in moves {
            self.varied.push(class);
            let trace = self.nodes.len() as u32;
            self.nodes.push(Node { parent: state.trace, class, form: by.form });
            state = State { weight: state.weight + by.weight, value: state.value + by.value, trace };
        }
        self.best = state;
    }
}
