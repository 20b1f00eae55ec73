//! The items of a call, read once each.

use std::collections::HashMap;

use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::ahead::objects_of;
use super::item::{ContextItem, ItemClass};
use super::pack::Packer;
use super::tokens::text_of;
use crate::item::Kind;
use crate::pack::{Item, ItemForm, Settings};
use crate::score::{Decay, REQUIRED_FROM, priority};
use crate::{Error, Result};

/// The items of one call as the core wants them.
pub(super) struct Read {
    pub(super) objects: Py<PyTuple>,
    pub(super) items: Vec<Item>,
    pub(super) forms: Vec<ItemForm>,
}

impl Packer {
    pub(super) fn read(&self, py: Python<'_>, items: &Bound<'_, PyAny>) -> PyResult<Read> {
        let objects = objects_of(items)?;
        let counter = &*self.counter;
        let settings = self.settings();
        let class = ItemClass::new(py);
        if let Some(items) = read_plain(&class, objects.as_slice(), &settings, self.item_overhead)? {
            return Ok(Read { objects: objects.unbind(), items, forms: Vec::new() });
        }
        // What fades once the range of turns is known: an object is visited only once.
        let mut ages = Vec::with_capacity(objects.len());
        let mut read = Vec::with_capacity(objects.len());
        let mut forms = Vec::new();
        let mut groups: HashMap<String, u32> = HashMap::new();
        let (mut oldest, mut newest) = (i64::MAX, i64::MIN);
        for (n, object) in objects.as_slice().iter().enumerate() {
            let Some(item) = class.of(object) else { return Err(not_an_item(n, object)) };
            let weight = match settings.weights.get(item.kind.index()) {
                Some(weight) => *weight,
                None => self.own_weight(py, item)?,
            };
            let group = match &item.group {
                None => Item::NO_GROUP,
                Some(name) => {
                    let next = groups.len() as u32;
                    *groups.entry(text_of(name.bind(py))?.into_owned()).or_insert(next)
                }
            };
            let tokens = item.count(py, counter)?.saturating_add(self.item_overhead);
            let first_form = forms.len() as u32;
            for rendition in &item.renditions {
                let rendition = rendition.get();
                let tokens = if rendition.is_blank {
                    u64::MAX
                } else {
                    rendition.count(py, counter)?.saturating_add(self.item_overhead)
                };
                forms.push(ItemForm { tokens, fidelity: rendition.fidelity });
            }
            (oldest, newest) = (oldest.min(item.turn_index), newest.max(item.turn_index));
            ages.push((item.turn_index, item.relevance_score));
            let plain = item_of(item, weight, tokens);
            read.push(Item { group, forms: (first_form, forms.len() as u32), ..plain });
        }
        let mut fading = Fading::new(&settings, oldest, newest);
        for (item, &(turn, relevance)) in read.iter_mut().zip(&ages) {
            item.priority = fading.priority(item.priority, turn, relevance)?;
        }
        Ok(Read { objects: objects.unbind(), items: read, forms })
    }

    fn own_weight(&self, py: Python<'_>, item: &ContextItem) -> PyResult<f64> {
        let name = text_of(item.type_name.bind(py))?.into_owned();
        let weighed = self.weights.of(&name);
        if let Some(known) = weighed.near_miss {
            let text = format!("unknown item type {name:?} weighs {}; did you mean {known:?}?", weighed.weight);
            let text = std::ffi::CString::new(text.replace('\0', "\\0")).unwrap_or_default();
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1)?;
        }
        Ok(weighed.weight)
    }
}

/// An item without a group and other forms, which has not faded.
#[inline]
fn item_of(item: &ContextItem, weight: f64, tokens: u64) -> Item {
    Item {
        kind: item.kind,
        priority: weight,
        tokens,
        position: item.position,
        required: item.required.unwrap_or(weight >= REQUIRED_FROM),
        is_empty: item.is_empty,
        group: Item::NO_GROUP,
        forms: (0, 0),
    }
}

/// The items, where each is of a known type and of known tokens, without a group and other forms: visited twice, once to see
/// that and how they fade, they need no room beside what comes of them.
fn read_plain(
    class: &ItemClass,
    objects: &[Bound<'_, PyAny>],
    settings: &Settings,
    overhead: u64,
) -> PyResult<Option<Vec<Item>>> {
    let (mut oldest, mut newest) = (i64::MAX, i64::MIN);
    for object in objects {
        let Some(item) = class.of(object) else { return Ok(None) };
        let is_known = item.kind.index() < settings.weights.len() && item.tokens.is_some();
        if !is_known || item.group.is_some() || !item.renditions.is_empty() {
            return Ok(None);
        }
        (oldest, newest) = (oldest.min(item.turn_index), newest.max(item.turn_index));
    }
    let mut fading = Fading::new(settings, oldest, newest);
    let mut fault = None;
    let mut items = Vec::with_capacity(objects.len());
    // Written without asking for room each time, hence something for what cannot be: that one is no item after all.
    items.extend(objects.iter().map(|object| {
        let Some(item) = class.of(object) else { return NOTHING };
        let weight = settings.weights.get(item.kind.index()).copied().unwrap_or_default();
        let mut read = item_of(item, weight, item.tokens.unwrap_or_default().saturating_add(overhead));
        match fading.priority(weight, item.turn_index, item.relevance_score) {
            Ok(priority) => read.priority = priority,
            Err(error) => _ = fault.get_or_insert(error),
        }
        read
    }));
    fault.map_or(Ok(Some(items)), |error| Err(error.into()))
}

const NOTHING: Item = Item {
    kind: Kind::OLDER_HISTORY,
    priority: 0.0,
    tokens: 0,
    position: 0,
    required: false,
    is_empty: true,
    group: Item::NO_GROUP,
    forms: (0, 0),
};

/// How turns fade. Neighbours are mostly of one turn, so the last is kept.
struct Fading {
    decay: Decay,
    last: (i64, f64),
}

impl Fading {
    fn new(settings: &Settings, oldest: i64, newest: i64) -> Self {
        let decay = settings.recency.over([oldest, newest]);
        Self { decay, last: (newest, decay.at(newest)) }
    }

    #[inline]
    fn priority(&mut self, weight: f64, turn: i64, relevance: f64) -> Result<f64> {
        if self.last.0 != turn {
            self.last = (turn, self.decay.at(turn));
        }
        // Each of them was checked; only their product may have become too large.
        let product = weight * self.last.1 * relevance;
        if product.is_finite() { Ok(product) } else { priority(weight, self.last.1, relevance) }
    }
}

#[cold]
fn not_an_item(n: usize, object: &Bound<'_, PyAny>) -> PyErr {
    match object.get_type().name() {
        Ok(kind) => {
            let text = format!("item {n} must be a ContextItem, not {kind}; pack_messages takes chat messages");
            Error::Argument(text).into()
        }
        Err(error) => error,
    }
}
