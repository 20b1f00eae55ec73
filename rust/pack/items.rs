//! Packing plain items: group, order, choose, report.

use crate::item::Kind;
use crate::{Error, Result};

use super::plan::{Candidates, Strategy, choose};
use super::purchase::Limits;
use super::report::{Fate, Label, Reason, Report, Row, Source};
use super::tuning::Tuning;

/// Another form of an item, with the share of its value that the form keeps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ItemForm {
    /// What it costs; `u64::MAX` for a form that must not be used, such as an empty text.
    pub tokens: u64,
    /// Above 0 and below 1; None for the default, which depends on how much of the text is left.
    pub fidelity: Option<f64>,
}

/// What the packer knows of an item.
#[derive(Debug, Clone, Copy)]
pub struct Item {
    /// Its type.
    pub kind: Kind,
    /// Type weight x recency x relevance.
    pub priority: f64,
    /// What it costs.
    pub tokens: u64,
    /// Place in the conversation.
    pub position: i64,
    /// Whether it must be in.
    pub required: bool,
    /// Whether there is nothing in it.
    pub is_empty: bool,
    /// Items of one group live or die together; `NO_GROUP` for none.
    pub group: u32,
    /// Where its other forms lie in the slice of forms.
    pub forms: (u32, u32),
}

impl Item {
    /// The group of an item that stands alone.
    pub const NO_GROUP: u32 = u32::MAX;
}

/// The share of a text's value that a smaller form of it keeps, where nobody says: 0.7 x share of the tokens^0.75, so
/// that a quarter of a text keeps a quarter of its worth.
#[must_use]
pub fn default_fidelity(tokens: u64, full: u64) -> f64 {
    Tuning::default().fidelity(tokens, full)
}

/// A unit of choice: the members of a group, or one item.
struct Unit {
    first: u32,
    /// Range in the list of members; empty for an item that stands alone.
    members: (u32, u32),
}

/// What came of packing items.
#[derive(Debug, Clone)]
pub struct PackedItems {
    /// One row per item, in input order.
    pub report: Report,
    /// Indices of the kept items, in conversation order.
    pub kept: Vec<u32>,
    /// What was chosen from, where the choice has no bound of its own.
    pub open: Option<Candidates>,
}

/// Choose among `items`, and say what became of each.
///
/// # Errors
/// `Error::RequiredOverflow` when the required items do not fit in their smallest forms.
pub fn pack_items(
    items: &[Item],
    forms: &[ItemForm],
    budget: u64,
    strategy: Strategy,
    alpha: f64,
    limits: Limits,
) -> Result<PackedItems> {
    let order = conversation_order(items);
    let (units, members) = units(items, &order);
    let mut candidates = Candidates::new(alpha, units.len());
    for unit in &units {
        push_unit(&mut candidates, unit, &members, items, forms);
    }
    let plan = match choose(&candidates, budget, strategy, limits)? {
        Ok(plan) => plan,
        Err(shortfall) => {
            let label = |n: usize| {
                let first = units.get(n).map_or(0, |unit| unit.first);
                let kind = items.get(first as usize).and_then(|item| item.kind.name()).unwrap_or("required");
                format!("item {first} ({kind})")
            };
            let needs = shortfall.needs.into_iter().map(|(n, tokens)| (label(n), tokens)).collect();
            return Err(Error::RequiredOverflow { budget, total: shortfall.total, items: needs });
        }
    };
    let mut rows: Vec<Row> = items.iter().enumerate().map(|(n, item)| empty_row(n as u32, item)).collect();
    for (n, (unit, chosen)) in units.iter().zip(&plan.chosen).enumerate() {
        for member in members_of(unit, &members) {
            let (Some(item), Some(row)) = (items.get(*member as usize), rows.get_mut(*member as usize)) else {
                continue;
            };
            match chosen {
                None => {
                    let is_too_large = candidates.least_tokens(n) > budget;
                    row.fate = Fate::Dropped(if is_too_large { Reason::TooLarge } else { Reason::OverBudget });
                }
                Some(level) => {
                    let (label, tokens, _) = member_form(item, forms, *level);
                    row.fate = Fate::Kept(label);
                    row.tokens = tokens;
                }
            }
        }
    }
    let kept = order
        .into_iter()
        .filter(|n| rows.get(*n as usize).is_some_and(|row| matches!(row.fate, Fate::Kept(_))))
        .collect();
    let report = Report { rows, tokens: plan.tokens, budget, value: plan.value, bound: plan.bound };
    Ok(PackedItems { report, kept, open: plan.bound.is_nan().then_some(candidates) })
}

/// Indices by position, those of equal position in the order they came.
fn conversation_order(items: &[Item]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..items.len() as u32).collect();
    if !items.is_sorted_by_key(|item| item.position) {
        order.sort_by_key(|n| items.get(*n as usize).map_or(0, |item| item.position));
    }
    order
}

/// The units in order of their first members. Empty items are in none.
fn units(items: &[Item], order: &[u32]) -> (Vec<Unit>, Vec<u32>) {
    let live = || order.iter().copied().filter(|n| items.get(*n as usize).is_some_and(|item| !item.is_empty));
    let group = |n: u32| items.get(n as usize).map_or(Item::NO_GROUP, |item| item.group);
    let mut units = Vec::with_capacity(items.len());
    if items.iter().all(|item| item.group == Item::NO_GROUP) {
        let alone: Vec<u32> = live().collect();
        units.extend(
            alone.iter().enumerate().map(|(n, first)| Unit { first: *first, members: (n as u32, n as u32 + 1) }),
        );
        return (units, alone);
    }
    // Sorted by the place of the group's first member, members stay in order.
    let mut first_of: std::collections::HashMap<u32, u32> = std::collections::HashMap::new();
    let mut placed: Vec<(u32, u32)> = Vec::with_capacity(items.len());
    for (place, n) in live().enumerate() {
        let place = place as u32;
        let first = if group(n) == Item::NO_GROUP { place } else { *first_of.entry(group(n)).or_insert(place) };
        placed.push((first, n));
    }
    placed.sort_by_key(|(first, _)| *first);
    let mut members: Vec<u32> = Vec::with_capacity(placed.len());
    for together in placed.chunk_by(|a, b| a.0 == b.0) {
        let start = members.len() as u32;
        members.extend(together.iter().map(|(_, n)| *n));
        if let Some((_, first)) = together.first() {
            units.push(Unit { first: *first, members: (start, members.len() as u32) });
        }
    }
    (units, members)
}

fn members_of<'a>(unit: &Unit, members: &'a [u32]) -> &'a [u32] {
    members.get(unit.members.0 as usize..unit.members.1 as usize).unwrap_or_default()
}

fn push_unit(candidates: &mut Candidates, unit: &Unit, members: &[u32], items: &[Item], forms: &[ItemForm]) {
    if let [alone] = members_of(unit, members)
        && let Some(item) = items.get(*alone as usize)
        && item.forms.0 == item.forms.1
    {
        candidates.push(item.priority, item.required, item.tokens);
        return;
    }
    let members = || members_of(unit, members).iter().filter_map(|n| items.get(*n as usize));
    let levels = members().map(|item| item.forms.1 - item.forms.0).max().unwrap_or(0);
    let priority = members().map(|item| item.priority).fold(0.0, f64::max);
    let full = members().fold(0_u64, |sum, item| sum.saturating_add(item.tokens));
    candidates.push(priority, members().any(|item| item.required), full);
    for level in 1..=levels {
        let level = u16::try_from(level).unwrap_or(u16::MAX);
        let mut tokens = 0_u64;
        let mut kept = 0.0;
        for item in members() {
            let (_, own, fidelity) = member_form(item, forms, level);
            tokens = tokens.saturating_add(own);
            kept += fidelity * item.tokens as f64;
        }
        candidates.push_form(tokens, kept / (full.max(1) as f64));
    }
}

/// The form that a member takes when its group is shown at `level`: its own form of that level or its last one, and in
/// full where that would not be smaller.
fn member_form(item: &Item, forms: &[ItemForm], level: u16) -> (Label, u64, f64) {
    let own = forms.get(item.forms.0 as usize..item.forms.1 as usize).unwrap_or_default();
    let at = usize::from(level).min(own.len());
    match at.checked_sub(1).and_then(|at| own.get(at)) {
        Some(form) if form.tokens < item.tokens => {
            let fidelity = form.fidelity.unwrap_or_else(|| default_fidelity(form.tokens, item.tokens));
            (Label::Given(at as u16), form.tokens, fidelity)
        }
        _ => (Label::Full, item.tokens, 1.0),
    }
}

fn empty_row(index: u32, item: &Item) -> Row {
    Row {
        source: Source::Item,
        index,
        kind: item.kind,
        fate: Fate::Dropped(Reason::Empty),
        tokens: item.tokens,
        full_tokens: item.tokens,
    }
}
