//! The greedy strategy's late summary of the older history that it dropped, by the caller's summarizer or the built-in.

use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyRuntimeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

use super::item::ContextItem;
use super::messages::OpenWindow;
use super::pack::Packer;
use super::result::{Inputs, PackResult, Packed};
use super::tokens::text_of;
use crate::Error;
use crate::item::Kind;
use crate::pack::shorten::summarise;
use crate::pack::{LATE_SUMMARY_ABOVE, Reason, Row};
use crate::score::{UNKNOWN_WEIGHT, value};

/// What there is to summarise, and the room for it.
pub(super) struct Late {
    pub(super) texts: Vec<String>,
    members: Vec<u32>,
    /// Tokens that the summary may have: what is left of the budget, and less than what it replaces.
    limit: u64,
}

/// What waits for a summary.
pub(super) enum Open {
    Items(Box<PackResult>, Option<Late>),
    Window(Box<OpenWindow>),
}

/// A pack that waits for its summary; `apack` awaits the summarizer in between.
#[pyclass(frozen, module = "holdall._native")]
pub(super) struct Pending {
    packer: Py<Packer>,
    open: Mutex<Option<Open>>,
}

#[pymethods]
impl Pending {
    /// What the summarizer is to be given; None where there is nothing to summarise.
    #[getter]
    fn text(&self) -> Option<String> {
        match self.open.lock().unwrap_or_else(PoisonError::into_inner).as_ref()? {
            Open::Items(_, late) => late.as_ref().map(|late| late.texts.join("\n\n")),
            Open::Window(window) => window.late_text(),
        }
    }

    /// Finish with the summary, or with the built-in one, once.
    fn finish(&self, py: Python<'_>, summary: Option<&Bound<'_, PyAny>>) -> PyResult<PackResult> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
        let summary = summary.map(checked_summary).transpose()?;
        let packer = self.packer.get();
        match open.ok_or_else(|| PyRuntimeError::new_err("this pack is finished"))? {
            Open::Items(mut result, late) => {
                if let Some(late) = late {
                    packer.add_summary_or_extract(py, &mut result, &late, summary)?;
                }
                Ok(*result)
            }
            Open::Window(mut window) => {
                match summary {
                    Some(summary) => window.summarise(&summary, &*packer.counter)?,
                    None => window.extract(&*packer.counter)?,
                }
                window.render(py)
            }
        }
    }
}

impl Pending {
    pub(super) fn new(packer: Py<Packer>, open: Open) -> Self {
        Self { packer, open: Mutex::new(Some(open)) }
    }
}

impl Packer {
    /// What a late summary would be made of, if the strategy wants one.
    pub(super) fn late(&self, py: Python<'_>, result: &PackResult) -> PyResult<Option<Late>> {
        let left = result.packed.budget().saturating_sub(result.packed.tokens());
        let Inputs::Items(items) = &result.inputs else { return Ok(None) };
        if !self.is_summarising() || left <= LATE_SUMMARY_ABOVE {
            return Ok(None);
        }
        let is_older = |row: &Row| row.kind == Kind::OLDER_HISTORY;
        let mut rows: Vec<&Row> = result
            .report()
            .dropped()
            .filter(|(row, reason)| is_older(row) && matches!(reason, Reason::OverBudget | Reason::TooLarge))
            .map(|(row, _)| row)
            .collect();
        let items = items.bind(py);
        let mut texts = Vec::with_capacity(rows.len());
        for row in &rows {
            let item = items.get_item(row.index as usize)?;
            let item = item.cast::<ContextItem>()?.get();
            texts.push((item.position, row.index, item.text(py)?));
        }
        texts.sort_by_key(|(position, index, _)| (*position, *index));
        rows.sort_by_key(|row| row.index);
        let replaced = rows.iter().fold(0_u64, |sum, row| sum.saturating_add(row.tokens));
        let limit = left.min(replaced.saturating_sub(1)).saturating_sub(self.item_overhead);
        if texts.is_empty() || limit == 0 {
            return Ok(None);
        }
        let members = texts.iter().map(|(_, index, _)| *index).collect();
        let texts = texts.into_iter().map(|(_, _, text)| text).collect();
        Ok(Some(Late { texts, members, limit }))
    }

    /// Ask the caller's summarizer, which must answer at once.
    pub(super) fn summarise(&self, py: Python<'_>, text: &str) -> PyResult<Option<String>> {
        let Some(summarizer) = &self.summarizer else { return Ok(None) };
        checked_summary(&summarizer.bind(py).call1((text,))?).map(Some)
    }

    /// Put in the caller's summary, or the weightiest sentences where there is no summarizer.
    pub(super) fn add_summary_or_extract(
        &self,
        py: Python<'_>,
        result: &mut PackResult,
        late: &Late,
        summary: Option<String>,
    ) -> PyResult<()> {
        let summary = match summary {
            Some(summary) => Some(summary),
            None => summarise(&late.texts, late.limit, &*self.counter)?.map(|summary| summary.text),
        };
        summary.map_or(Ok(()), |summary| self.add_summary(py, result, late, &summary))
    }

    /// Put a summary where the oldest of what it replaces stood.
    fn add_summary(&self, py: Python<'_>, result: &mut PackResult, late: &Late, summary: &str) -> PyResult<()> {
        let Inputs::Items(items) = &result.inputs else { return Ok(()) };
        let summary = summary.trim();
        let counter = &*self.counter;
        let fitting = if counter.fits(summary, late.limit)? {
            summary
        } else {
            summary.get(..counter.cut(summary, late.limit)?).unwrap_or_default().trim_end()
        };
        if fitting.is_empty() {
            return Ok(());
        }
        let own = counter.count(fitting)?;
        let items = items.bind(py);
        let (mut turn, mut relevance, mut position) = (i64::MIN, 0.0_f64, i64::MAX);
        for index in &late.members {
            let item = items.get_item(*index as usize)?;
            let item = item.cast::<ContextItem>()?.get();
            turn = turn.max(item.turn_index);
            relevance = relevance.max(item.relevance_score);
            position = position.min(item.position);
        }
        let fields = PyDict::new(py);
        let metadata = PyDict::new(py);
        metadata.set_item("summarizes", &late.members)?;
        fields.set_item("metadata", metadata)?;
        fields.set_item("turn_index", turn)?;
        fields.set_item("relevance_score", relevance)?;
        fields.set_item("tokens", own)?;
        let item = py.get_type::<ContextItem>().call(("summary", fitting, position), Some(&fields))?;
        let sequence = result.sequence.bind(py);
        let mut kept: Vec<Py<PyAny>> = sequence.iter().map(Bound::unbind).collect();
        let earlier =
            |object: &Py<PyAny>| object.bind(py).cast::<ContextItem>().is_ok_and(|it| it.get().position < position);
        let at = kept.iter().take_while(|object| earlier(object)).count();
        kept.insert(at, item.unbind());
        result.sequence = PyTuple::new(py, kept)?.unbind();
        let tokens = own.saturating_add(self.item_overhead);
        let Packed::Items(packed) = &mut result.packed else { return Ok(()) };
        let settings = self.settings();
        let weight = settings.weights.get(Kind::SUMMARY.index()).copied().unwrap_or(UNKNOWN_WEIGHT);
        packed.add_summary(&late.members, tokens, value(weight * relevance, tokens, settings.alpha, 1.0));
        Ok(())
    }
}

/// The summarizer's answer as text.
fn checked_summary(answer: &Bound<'_, PyAny>) -> PyResult<String> {
    if let Ok(text) = answer.cast::<PyString>() {
        return Ok(text_of(text)?.into_owned());
    }
    if answer.hasattr(intern!(answer.py(), "__await__"))? {
        if answer.hasattr(intern!(answer.py(), "close"))? {
            // An un-awaited coroutine would warn when it is collected.
            answer.call_method0(intern!(answer.py(), "close"))?;
        }
        let text = "the summarizer is async; await apack or apack_messages instead";
        return Err(Error::Summarizer(text.to_owned()).into());
    }
    let kind = answer.get_type().name()?;
    Err(Error::Summarizer(format!("the summarizer must return a str, not {kind}")).into())
}
