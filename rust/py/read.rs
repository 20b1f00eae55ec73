//! The items of a call, read once each.

use std::collections::HashMap;

use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::ahead::objects_of;
use super::item::{ContextItem, ItemClass};
use super::pack::Packer;
use super::tokens::text_of;
use crate::Error;
use crate::pack::{Item, ItemForm};
use crate::score::{REQUIRED_FROM, priority};

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
        // What fades once the range of turns is known: an object is visited only once.
        let mut ages = Vec::with_capacity(objects.len());
        let mut read = Vec::with_capacity(objects.len());
        let mut forms = Vec::new();
        let mut groups: HashMap<String, u32> = HashMap::new();
        let class = ItemClass::new(py);
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
            read.push(Item {
                kind: item.kind,
                priority: weight,
                tokens,
                position: item.position,
                required: item.required.unwrap_or(weight >= REQUIRED_FROM),
                is_empty: item.is_empty,
                group,
                forms: (first_form, forms.len() as u32),
            });
        }
        let decay = settings.recency.over([oldest, newest]);
        // Neighbours are mostly of one turn.
        let mut faded = None;
        for (item, &(turn, relevance)) in read.iter_mut().zip(&ages) {
            let (_, recency) = match faded {
                Some((of, recency)) if of == turn => (of, recency),
                _ => *faded.insert((turn, decay.at(turn))),
            };
            // Each of them was checked; only their product may have become too large.
            let product = item.priority * recency * relevance;
            item.priority = if product.is_finite() { product } else { priority(item.priority, recency, relevance)? };
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
