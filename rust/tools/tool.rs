//! One tool, with its forms made and counted only when someone asks.

use std::borrow::Cow;
use std::sync::{Mutex, OnceLock, PoisonError};

use serde_json::Value;

use super::formats::{self, Format, Head};
use super::shorten::{Full, Step};
use super::{Costs, rank, read};
use crate::Result;
use crate::chat::Node;
use crate::relevance::Terms;
use crate::tokens::Counter;

/// Counts are kept for so many counters, the oldest making room: a worker uses one or two.
const COUNTERS_KEPT: usize = 4;

/// Text that shrank by fewer bytes than this is counted both ways before it is called smaller.
const SURELY_SMALLER_BYTES: usize = 64;

const N_STEPS: usize = Step::ALL.len();

/// A shorter way to show a tool.
#[derive(Debug)]
struct Form {
    /// Compact JSON as it is sent and counted.
    text: String,
    /// The same as a tree, for those who want it shown.
    value: OnceLock<Value>,
}

impl Form {
    fn tree(&self) -> &Value {
        self.value.get_or_init(|| tree_of(&self.text))
    }
}

/// A tree of JSON that was written here, so that reading it does not fail.
fn tree_of(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_default()
}

/// A tool that was read and checked once; forms, terms and counts are kept with it.
#[derive(Debug)]
pub struct Tool {
    /// Compact JSON of the full form.
    text: Box<str>,
    /// The same as a tree.
    value: OnceLock<Value>,
    /// Whether two keys of an object in it may be equal, of which the last counts.
    may_repeat_keys: bool,
    format: Format,
    name: String,
    terms: OnceLock<Terms>,
    /// One for each step below the full form.
    forms: [OnceLock<Option<Form>>; N_STEPS - 1],
    counts: Mutex<Vec<(u64, [Option<u64>; N_STEPS])>>,
}

impl Tool {
    /// Check a tool and tell its format; `index` names it in errors when it has no name.
    ///
    /// # Errors
    /// `Error::ToolSchema` when it is no object, has no name, or its schema is no object.
    pub fn read<N: Node>(node: &N, index: usize) -> Result<Self> {
        read::with_json(node, index, |json, may_repeat_keys| Self::of(json, may_repeat_keys, node, index))
    }

    /// The tool of which this is the JSON.
    pub(super) fn of<N: Node>(json: &str, may_repeat_keys: bool, node: &N, index: usize) -> Result<Self> {
        let Head { format, name } = formats::read(node, index)?;
        Ok(Self {
            text: json.into(),
            value: OnceLock::new(),
            may_repeat_keys,
            format,
            name,
            terms: OnceLock::new(),
            forms: Default::default(),
            counts: Mutex::default(),
        })
    }

    /// The name a call would use.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The format it came in.
    #[must_use]
    pub const fn format(&self) -> Format {
        self.format
    }

    /// What it is about.
    pub fn terms(&self) -> &Terms {
        self.terms.get_or_init(|| rank::terms(&self.text, self.format, &self.name))
    }

    /// Whether its terms are there.
    pub(super) fn is_split(&self) -> bool {
        self.terms.get().is_some()
    }

    /// The tool as shown at `step`, or `None` where there is no such form.
    pub fn value(&self, step: Step) -> Option<&Value> {
        if step == Step::Full { Some(self.tree()) } else { self.form(step).map(Form::tree) }
    }

    /// Compact JSON of the tool as shown at `step`: non-ASCII unescaped, no spaces.
    pub fn text(&self, step: Step) -> Option<&str> {
        if step == Step::Full { Some(&self.text) } else { self.form(step).map(|form| form.text.as_str()) }
    }

    /// What the tool costs at `step`, counted once per counter; `None` where there is no such form, or where it would
    /// not be smaller than the full one.
    ///
    /// # Errors
    /// `Error::Counter` when a caller's own counter failed.
    pub fn tokens(&self, step: Step, counter: &dyn Counter, costs: &Costs) -> Result<Option<u64>> {
        let Some(text) = self.text(step) else { return Ok(None) };
        let tokens = self.count(step, text, counter)?;
        if step != Step::Full
            && self.text.len() - text.len() < SURELY_SMALLER_BYTES
            && self.count(Step::Full, &self.text, counter)? <= tokens
        {
            return Ok(None);
        }
        Ok(Some(tokens.saturating_add(costs.per_tool)))
    }

    /// The smallest form, and what it costs.
    ///
    /// # Errors
    /// `Error::Counter` when a caller's own counter failed.
    pub fn smallest(&self, counter: &dyn Counter, costs: &Costs) -> Result<(Step, u64)> {
        for step in Step::ALL.into_iter().rev() {
            if let Some(tokens) = self.tokens(step, counter, costs)? {
                return Ok((step, tokens));
            }
        }
        Ok((Step::Full, costs.per_tool))
    }

    fn count(&self, step: Step, text: &str, counter: &dyn Counter) -> Result<u64> {
        if let Some(known) = self.known(step, counter.id()) {
            return Ok(known);
        }
        let tokens = counter.count(text)?;
        self.keep(step, counter.id(), tokens);
        Ok(tokens)
    }

    fn tree(&self) -> &Value {
        self.value.get_or_init(|| tree_of(&self.text))
    }

    fn form(&self, step: Step) -> Option<&Form> {
        let make = || {
            let json = if self.may_repeat_keys {
                // Straight into bytes: through `Display` it takes twice as long.
                Cow::Owned(serde_json::to_string(self.tree()).ok()?)
            } else {
                Cow::Borrowed(&*self.text)
            };
            let text = Full { json: &json, format: self.format, tree: &|| self.tree() }.shorten(step)?;
            (text.len() < self.text.len()).then_some(Form { text, value: OnceLock::new() })
        };
        self.forms.get((step as usize).checked_sub(1)?)?.get_or_init(make).as_ref()
    }

    fn known(&self, step: Step, counter: u64) -> Option<u64> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().find(|(id, _)| *id == counter).and_then(|(_, steps)| steps.get(step as usize).copied().flatten())
    }

    fn keep(&self, step: Step, counter: u64, tokens: u64) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let at = counts.iter().position(|(id, _)| *id == counter).unwrap_or_else(|| {
            if counts.len() == COUNTERS_KEPT {
                counts.remove(0);
            }
            counts.push((counter, Default::default()));
            counts.len() - 1
        });
        if let Some(slot) = counts.get_mut(at).and_then(|(_, steps)| steps.get_mut(step as usize)) {
            *slot = Some(tokens);
        }
    }
}
