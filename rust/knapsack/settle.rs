//! Ties: fuller forms first, then earlier positions.

use super::{Candidate, candidate};

/// Rounds of raising and trading; each round but the last has shown something fuller, so few are ever needed.
const MAX_ROUNDS: usize = 8;

/// Settle `picks`, whose weight leaves `slack` tokens of the budget; whether any has changed. The value never falls.
///
/// `movable` are the classes among which trades are looked for: those that the solver has not left at the break, since
/// at the break equal forms already go to the earlier class.
pub(super) fn settle<C: AsRef<[Candidate]>>(
    classes: &[C],
    picks: &mut [Option<u32>],
    mut slack: u64,
    movable: &[u32],
) -> bool {
    let mut movable = movable.to_vec();
    let mut has_changed = false;
    for _ in 0..MAX_ROUNDS {
        let raised = raise(classes, picks, &mut slack);
        let is_raised = !raised.is_empty();
        movable.extend(raised);
        movable.sort_unstable();
        movable.dedup();
        let is_traded = trade(classes, picks, &movable);
        has_changed |= is_raised || is_traded;
        if !is_raised && !is_traded {
            break;
        }
    }
    has_changed
}

/// Show each class in the fullest form that fits and is worth no less; the classes that were raised.
fn raise<C: AsRef<[Candidate]>>(classes: &[C], picks: &mut [Option<u32>], slack: &mut u64) -> Vec<u32> {
    let mut raised = Vec::new();
    for (index, (class, pick)) in classes.iter().zip(picks.iter_mut()).enumerate() {
        let class = class.as_ref();
        // After an exact choice hardly anything fits any more: asked first, since that is guessed rightly.
        if let [only] = class
            && only.weight > *slack
        {
            continue;
        }
        let fuller = pick.map_or(class.len(), |option| option as usize);
        if fuller == 0 {
            continue;
        }
        let now = candidate(class, *pick).unwrap_or_default();
        let room = slack.saturating_add(now.weight);
        let better = class.iter().take(fuller).position(|one| one.weight <= room && one.value >= now.value);
        if let Some(option) = better {
            *pick = Some(option as u32);
            *slack = room - class.get(option).map_or(0, |one| one.weight);
            raised.push(index as u32);
        }
    }
    raised
}

/// What a class would gain by being shown fuller: two classes with the same trade can swap their forms for nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Trade {
    fuller: u32,
    /// `u32::MAX` for not shown at all.
    shorter: u32,
    weight: i128,
    value: i128,
}

/// Let earlier classes have the fuller form of every trade; whether anything changed hands.
fn trade<C: AsRef<[Candidate]>>(classes: &[C], picks: &mut [Option<u32>], movable: &[u32]) -> bool {
    let mut has_changed = false;
    loop {
        let mut offers = offers(classes, picks, movable);
        offers.sort_unstable();
        let mut has_moved = vec![false; picks.len()];
        let mut is_stable = true;
        for group in offers.chunk_by(|a, b| a.0 == b.0) {
            // In order of position: those that want the fuller form from the front, those that have it from the back.
            let mut wanting = group.iter().filter(|offer| !offer.2);
            let mut having = group.iter().rev().filter(|offer| offer.2);
            while let (Some(&(trade, early, _)), Some(&(_, late, _))) = (wanting.next(), having.next()) {
                let (early, late) = (early as usize, late as usize);
                if early >= late {
                    break;
                }
                // A class takes part in several trades; what it holds has changed after the first one.
                if has_moved.get(early) != Some(&false) || has_moved.get(late) != Some(&false) {
                    is_stable = false;
                    continue;
                }
                picks[early] = Some(trade.fuller);
                picks[late] = (trade.shorter != u32::MAX).then_some(trade.shorter);
                has_moved[early] = true;
                has_moved[late] = true;
                has_changed = true;
                is_stable = false;
            }
        }
        if is_stable {
            return has_changed;
        }
    }
}

/// Up to so many classes all may trade with all.
const FEW: usize = 64;

/// `varied`, and the classes that may share a trade with one of them: a form below the hull of its class is not seen at
/// the break. One pass; a hash of a trade that meets another's by chance only costs a look.
pub(super) fn partners<C: AsRef<[Candidate]>>(classes: &[C], varied: &[u32]) -> Vec<u32> {
    if classes.len() <= FEW {
        return (0..classes.len() as u32).collect();
    }
    let mut has_trade = [0_u64; 256];
    let bit = |hash: u64| (((hash >> 56) & 255) as usize, 1_u64 << ((hash >> 50) & 63));
    for class in varied.iter().filter_map(|&index| classes.get(index as usize)) {
        any_trade(class.as_ref(), |hash| {
            let (word, mask) = bit(hash);
            has_trade[word] |= mask;
            false
        });
    }
    let mut found: Vec<u32> = varied.to_vec();
    for (index, class) in (0..).zip(classes) {
        if any_trade(class.as_ref(), |hash| {
            let (word, mask) = bit(hash);
            has_trade[word] & mask != 0
        }) {
            found.push(index);
        }
    }
    found
}

/// Whether a hash of any trade between two forms of a class, or a form and nothing, is wanted.
#[inline]
fn any_trade(class: &[Candidate], mut is_wanted: impl FnMut(u64) -> bool) -> bool {
    let mut rest = class;
    while let Some((fuller, shorter)) = rest.split_first() {
        // The multiplier is 2^64 over the golden ratio.
        let hash = |weight: u64, value: u64| (weight.wrapping_mul(31) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut hashes = shorter
            .iter()
            .map(|one| hash(fuller.weight.wrapping_sub(one.weight), fuller.value.wrapping_sub(one.value)));
        if is_wanted(hash(fuller.weight, fuller.value)) || hashes.any(&mut is_wanted) {
            return true;
        }
        rest = shorter;
    }
    false
}

/// All trades of the movable classes: (trade, class, whether the class has the fuller form).
fn offers<C: AsRef<[Candidate]>>(classes: &[C], picks: &[Option<u32>], movable: &[u32]) -> Vec<(Trade, u32, bool)> {
    let mut offers = Vec::new();
    for &index in movable {
        let (Some(class), Some(&pick)) = (classes.get(index as usize), picks.get(index as usize)) else { continue };
        let class = class.as_ref();
        let held = pick.unwrap_or(u32::MAX);
        let forms = (0..class.len() as u32).map(Some).chain([None]);
        for other in forms.filter(|&other| other != pick) {
            let form = other.unwrap_or(u32::MAX);
            let (fuller, shorter) = (held.min(form), held.max(form));
            let full = candidate(class, Some(fuller)).unwrap_or_default();
            let short = candidate(class, Some(shorter)).unwrap_or_default();
            let trade = Trade {
                fuller,
                shorter,
                weight: i128::from(full.weight) - i128::from(short.weight),
                value: i128::from(full.value) - i128::from(short.value),
            };
            offers.push((trade, index, held == fuller));
        }
    }
    offers
}
