//! Packing plain items: group, order, choose, report.

use std::sync::OnceLock;

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
#[derive(Debug, Clone)]
struct Unit {
    first: u32,
    /// Range in the list of members; empty for an item that stands alone.
    members: (u32, u32),
}

/// How items come together in units, the candidates.
#[derive(Debug, Clone)]
enum Grouping {
    /// Every item is a unit, and they came in order.
    Alone,
    /// Otherwise.
    Mixed {
        /// Indices in conversation order.
        order: Vec<u32>,
        units: Vec<Unit>,
        members: Vec<u32>,
    },
}

/// What came of packing items. The report is made when it is asked for.
#[derive(Debug, Clone)]
pub struct PackedItems {
    /// Tokens of what is in.
    pub tokens: u64,
    /// Its total value.
    pub value: f64,
    /// No choice is worth more; NaN where the strategy proves nothing.
    pub bound: f64,
    /// Tokens that were available.
    pub budget: u64,
    items: Vec<Item>,
    forms: Vec<ItemForm>,
    candidates: Candidates,
    grouping: Grouping,
    /// By unit.
    chosen: Vec<Option<u16>>,
    /// By item.
    levels: Vec<Option<u16>>,
    report: OnceLock<Report>,
}

/// Choose among `items`.
///
/// # Errors
/// `Error::RequiredOverflow` when the required items do not fit in their smallest forms.
pub fn pack_items(
    items: Vec<Item>,
    forms: Vec<ItemForm>,
    budget: u64,
    strategy: Strategy,
    alpha: f64,
    limits: Limits,
) -> Result<PackedItems> {
    let mut candidates = Candidates::new(alpha, items.len(), forms.len());
    let grouping = if push_alone(&mut candidates, &items, &forms) {
        Grouping::Alone
    } else {
        let order = conversation_order(&items);
        let (units, members) = units(&items, &order);
        for unit in &units {
            push_unit(&mut candidates, unit, &members, &items, &forms);
        }
        Grouping::Mixed { order, units, members }
    };
    let plan = match choose(&candidates, budget, strategy, limits)? {
        Ok(plan) => plan,
        Err(shortfall) => {
            let label = |n: usize| {
                let first = grouping.first_of(n);
                let kind = items.get(first).and_then(|item| item.kind.name()).unwrap_or("required");
                format!("item {first} ({kind})")
            };
            let needs = shortfall.needs.into_iter().map(|(n, tokens)| (label(n), tokens)).collect();
            return Err(Error::RequiredOverflow { budget, total: shortfall.total, items: needs });
        }
    };
    let mut levels = Vec::new();
    if let Grouping::Mixed { units, members, .. } = &grouping {
        levels.resize(items.len(), None);
        for (unit, chosen) in units.iter().zip(&plan.chosen) {
            for member in members_of(unit, members) {
                if let Some(level) = levels.get_mut(*member as usize) {
                    *level = *chosen;
                }
            }
        }
    }
    Ok(PackedItems {
        tokens: plan.tokens,
        value: plan.value,
        bound: plan.bound,
        budget,
        items,
        forms,
        candidates,
        grouping,
        chosen: plan.chosen,
        levels,
        report: OnceLock::new(),
    })
}

impl PackedItems {
    /// The items that are in, in conversation order: index, form and tokens.
    pub fn kept(&self) -> impl Iterator<Item = (usize, Label, u64)> {
        let (all, order) = match &self.grouping {
            Grouping::Alone => (self.chosen.as_slice(), <&[u32]>::default()),
            Grouping::Mixed { order, .. } => (<&[Option<u16>]>::default(), order.as_slice()),
        };
        let alone = all.iter().copied().enumerate();
        let mixed = order.iter().map(|n| (*n as usize, self.levels.get(*n as usize).copied().flatten()));
        alone.chain(mixed).filter_map(|(n, level)| {
            let item = self.items.get(n)?;
            let (label, tokens, _) = member_form(item, &self.forms, level?);
            Some((n, label, tokens))
        })
    }

    /// How many of them there are at the most.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there was nothing to choose from.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// What no choice within the budget is worth more than, worked out here where the strategy proves nothing.
    ///
    /// # Errors
    /// As the solver.
    pub fn proven_bound(&self) -> Result<f64> {
        if !self.bound.is_nan() {
            return Ok(self.bound);
        }
        let best = choose(&self.candidates, self.budget, Strategy::Optimal, Limits::default())?;
        Ok(best.map_or(self.value, |plan| plan.bound.max(self.value)))
    }

    /// What became of every item, in input order.
    pub fn report(&self) -> &Report {
        self.report.get_or_init(|| self.make_report())
    }

    fn make_report(&self) -> Report {
        let mut rows: Vec<Row> = (0..).zip(&self.items).map(|(n, item)| empty_row(n, item)).collect();
        let mut fill = |n: usize, least: u64, chosen: Option<u16>| {
            let (Some(item), Some(row)) = (self.items.get(n), rows.get_mut(n)) else { return };
            if let Some(level) = chosen {
                let (label, tokens, _) = member_form(item, &self.forms, level);
                row.fate = Fate::Kept(label);
                row.tokens = tokens;
            } else {
                row.fate = Fate::Dropped(if least > self.budget { Reason::TooLarge } else { Reason::OverBudget });
            }
        };
        for (n, chosen) in self.chosen.iter().enumerate() {
            let least = self.candidates.least_tokens(n);
            match &self.grouping {
                Grouping::Alone => fill(n, least, *chosen),
                Grouping::Mixed { units, members, .. } => {
                    for member in units.get(n).map_or(<&[u32]>::default(), |unit| members_of(unit, members)) {
                        fill(*member as usize, least, *chosen);
                    }
                }
            }
        }
        Report { rows, tokens: self.tokens, budget: self.budget, value: self.value, bound: self.bound }
    }

    /// A summary of `tokens` tokens took the place of dropped items.
    pub fn add_summary(&mut self, summarised: &[u32], tokens: u64, value: f64) {
        let mut report = self.report.take().unwrap_or_else(|| self.make_report());
        for index in summarised {
            if let Some(row) = report.rows.get_mut(*index as usize) {
                row.fate = Fate::Dropped(Reason::Summarized);
            }
        }
        report.rows.push(Row {
            source: Source::Summary,
            index: 0,
            kind: Kind::SUMMARY,
            fate: Fate::Kept(Label::Summary),
            tokens,
            full_tokens: tokens,
        });
        self.tokens = self.tokens.saturating_add(tokens);
        self.value += value;
        // The summary was not among the candidates, so nothing is proven about it.
        self.bound = self.value;
        (report.tokens, report.value, report.bound) = (self.tokens, self.value, self.bound);
        self.report = OnceLock::from(report);
    }
}

/// Push every item as a candidate of its own; false, and none pushed, if they did not come so.
fn push_alone(candidates: &mut Candidates, items: &[Item], forms: &[ItemForm]) -> bool {
    let mut position = i64::MIN;
    let mut is_alone = true;
    for item in items {
        is_alone &= item.position >= position && item.group == Item::NO_GROUP && !item.is_empty;
        position = item.position;
    }
    if !is_alone {
        return false;
    }
    if forms.is_empty() {
        candidates.extend(items.iter().map(|item| (item.priority, item.required, item.tokens)));
        return true;
    }
    for item in items {
        candidates.push(item.priority, item.required, item.tokens);
        if item.forms.0 < item.forms.1 {
            for level in 1..=levels(item) {
                let (_, tokens, fidelity) = member_form(item, forms, level);
                candidates.push_form(tokens, fidelity);
            }
        }
    }
    true
}

impl Grouping {
    /// The first item of unit `n`.
    fn first_of(&self, n: usize) -> usize {
        match self {
            Self::Alone => n,
            Self::Mixed { units, .. } => units.get(n).map_or(0, |unit| unit.first as usize),
        }
    }
}

/// The smaller forms of an item, in numbers.
fn levels(item: &Item) -> u16 {
    u16::try_from(item.forms.1 - item.forms.0).unwrap_or(u16::MAX)
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
    let members = || members_of(unit, members).iter().filter_map(|n| items.get(*n as usize));
    let levels = members().map(levels).max().unwrap_or(0);
    let priority = members().map(|item| item.priority).fold(0.0, f64::max);
    let full = members().fold(0_u64, |sum, item| sum.saturating_add(item.tokens));
    candidates.push(priority, members().any(|item| item.required), full);
    for level in 1..=levels {
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
