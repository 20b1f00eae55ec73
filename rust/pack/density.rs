//! The textbook rule, without sorting more than it must.
//!
//! Whatever their order, the densest candidates all fit up to some density, and of what is far behind it hardly anything
//! fits any more. So candidates are first put on shelves by density, roughly: what lies on the shelves that fit is taken
//! unsorted, the shelf on which the budget ends is sorted, and of the rest those that are small enough.

use super::plan::{Candidates, Plan, set};
use crate::knapsack::Shelves;
use crate::score::float;

/// The textbook rule: by priority per token, ties by position; what does not fit in full is tried in its smaller forms,
/// the most faithful first, and else skipped.
pub(super) fn fill_by_density(candidates: &Candidates, left: u64, plan: &mut Plan) {
    // Mostly nothing is required, and then it is not asked of each whether it is open.
    if candidates.n_required == 0 {
        fill::<true>(candidates, left, plan);
    } else {
        fill::<false>(candidates, left, plan);
    }
}

fn fill<const ALL_OPEN: bool>(candidates: &Candidates, mut left: u64, plan: &mut Plan) {
    let is_open = |chosen: &Option<u16>| ALL_OPEN || chosen.is_none();
    // The key of the densest open one.
    let mut first = u64::MAX;
    let densities = candidates.units.iter().zip(&plan.chosen).map(|(unit, chosen)| {
        // The bits of a number that is finite and not negative are ordered as the numbers are; flipped, the densest is
        // least.
        let density = !(unit.priority / float(unit.tokens.max(1))).to_bits();
        if is_open(chosen) {
            first = first.min(density);
        }
        density
    });
    let densities: Vec<u64> = densities.collect();
    // Density above place in one number, which compares faster than a pair.
    let key = |n: usize, density: u64| u128::from(density) << 32 | n as u128;
    let mut front = Vec::new();
    let mut rest = Vec::new();
    if candidates.len() < FEW || candidates.has_worthier {
        let open = densities.iter().zip(&plan.chosen).enumerate().filter(|(_, (_, chosen))| is_open(chosen));
        rest.extend(open.map(|(n, (density, _))| key(n, *density)));
    } else {
        let mut shelves = Shelves::new(first);
        for ((density, chosen), unit) in densities.iter().zip(&plan.chosen).zip(&candidates.units) {
            if is_open(chosen) {
                shelves.add(*density, unit.tokens);
            }
        }
        let (last, taken) = shelves.fitting(left);
        let room = left - taken;
        for (n, ((unit, chosen), density)) in candidates.units.iter().zip(&mut plan.chosen).zip(&densities).enumerate()
        {
            if !is_open(chosen) {
                continue;
            }
            let shelf = shelves.of(*density);
            if shelf < last {
                // Whatever their order, they all fit.
                *chosen = Some(0);
            } else if shelf == last {
                front.push(key(n, *density));
            } else if unit.tokens <= room || candidates.smallest(unit).1.tokens <= room {
                rest.push(key(n, *density));
            }
        }
        plan.tokens = plan.tokens.saturating_add(taken);
        left = room;
    }
    front.sort_unstable();
    take_fitting(candidates, &front, &mut left, plan);
    // Hardly any of them fits any more once some of them are taken.
    let mut rest = rest.as_mut_slice();
    let mut size = FEW;
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

/// So few are sorted at once.
const FEW: usize = 32;

/// The candidate of a key of the order by density.
fn place(key: u128) -> usize {
    (key as u32) as usize
}

/// Take what fits of candidates in this order.
fn take_fitting(candidates: &Candidates, order: &[u128], left: &mut u64, plan: &mut Plan) {
    for key in order {
        let n = place(*key);
        let Some(unit) = candidates.units.get(n) else { continue };
        let fitting = candidates.usable(unit).filter(|(_, form)| form.tokens <= *left);
        let best = fitting.reduce(|best, next| if next.1.fidelity > best.1.fidelity { next } else { best });
        if let Some((at, form)) = best {
            set(plan, n, at);
            plan.tokens = plan.tokens.saturating_add(form.tokens);
            *left -= form.tokens;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::plan::{Candidates, Plan};
    use super::{fill_by_density, set};

    /// The rule as it reads: sort, then take what fits.
    fn plainly(candidates: &Candidates, mut left: u64, plan: &mut Plan) {
        let density = |n: usize| candidates.units.get(n).map_or(0.0, |one| one.priority / one.tokens.max(1) as f64);
        let mut order: Vec<usize> = (0..candidates.len()).filter(|n| plan.chosen.get(*n) == Some(&None)).collect();
        order.sort_by(|a, b| density(*b).total_cmp(&density(*a)));
        for n in order {
            let Some(unit) = candidates.units.get(n) else { continue };
            let fitting = candidates.usable(unit).filter(|(_, form)| form.tokens <= left);
            let best = fitting.reduce(|best, next| if next.1.fidelity > best.1.fidelity { next } else { best });
            if let Some((at, form)) = best {
                set(plan, n, at);
                left -= form.tokens;
            }
        }
    }

    /// Priorities that are equal, zero, or orders of magnitude apart.
    fn any_priority() -> impl Strategy<Value = f64> {
        prop_oneof![3 => 0.0..1.0, 1 => Just(0.5), 1 => Just(0.0), 1 => Just(1e-30), 1 => Just(1e30)]
    }

    fn any_candidate() -> impl Strategy<Value = (f64, bool, u64, Vec<(u64, f64)>)> {
        let tokens = prop_oneof![6 => 1..400_u64, 1 => Just(100), 1 => Just(0), 1 => 1_000..100_000_u64];
        let forms = prop::collection::vec((0..300_u64, 0.1..1.0), 0..3);
        (any_priority(), prop::bool::weighted(0.1), tokens, forms)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn shelves_change_nothing(
            given in prop::collection::vec(any_candidate(), 0..300),
            share in 0.0..1.1,
            worthier in prop::bool::weighted(0.1),
        ) {
            let mut candidates = Candidates::new(0.25, given.len(), 0);
            let mut plan = Plan { chosen: vec![None; given.len()], tokens: 0, value: 0.0, bound: 0.0 };
            for (n, (priority, is_taken, tokens, forms)) in given.iter().enumerate() {
                candidates.push(*priority, *is_taken, *tokens);
                for (tokens, fidelity) in forms {
                    candidates.push_form(*tokens, fidelity + f64::from(worthier));
                }
                if *is_taken {
                    set(&mut plan, n, 0);
                }
            }
            let mut expected = plan.clone();
            let left = (candidates.all_tokens() as f64 * share) as u64;
            fill_by_density(&candidates, left, &mut plan);
            plainly(&candidates, left, &mut expected);
            prop_assert_eq!(plan.chosen, expected.chosen);
        }
    }
}
