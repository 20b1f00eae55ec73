//! What is kept of a message between packs: how it reads, what it costs, what it is about, and its smaller forms.

use std::sync::OnceLock;

use crate::Result;
use crate::chat::framing::{Cost, Overhead, cost};
use crate::chat::{Edit, Message, PartKind};
use crate::relevance::Terms;
use crate::tokens::Counter;

use super::report::Label;
use super::shorten::{self, Rendition};

/// What is left of a required tool result at the least: the mark of the cut, and a little of both ends.
const LEAST_RESULT: u64 = 44;

/// A smaller form of a message.
#[derive(Debug, Clone)]
pub struct Short {
    /// What makes it of the message.
    pub edits: Vec<Edit>,
    /// Tokens of the whole message so shown.
    pub tokens: u64,
    /// What the report calls it.
    pub label: Label,
}

/// A message that was read and counted once.
#[derive(Debug)]
pub struct Entry {
    /// What it says.
    pub message: Message,
    /// What it costs.
    pub cost: Cost,
    terms: OnceLock<Terms>,
    shorts: OnceLock<Vec<Short>>,
    result_shorts: OnceLock<Vec<Short>>,
}

impl Entry {
    /// Count a message.
    ///
    /// # Errors
    /// As the counter.
    pub fn new(message: Message, counter: &dyn Counter, overhead: &Overhead) -> Result<Self> {
        let cost = cost(&message, counter, overhead)?;
        Ok(Self { message, cost, terms: OnceLock::new(), shorts: OnceLock::new(), result_shorts: OnceLock::new() })
    }

    /// What it is about; the speaker's name belongs to it.
    pub fn terms(&self) -> &Terms {
        self.terms.get_or_init(|| {
            let text = self.message.searchable();
            if self.message.is_named {
                let strings = self.message.rest.strings.iter().map(|name| (name.as_ref(), 1));
                Terms::of_parts(strings.chain([(text.as_str(), 1)]))
            } else {
                Terms::of(&text)
            }
        })
    }

    /// Smaller forms of whatever is said, larger ones first: shortened, then a summary. Only those smaller than the
    /// message; their sizes follow from the message alone.
    ///
    /// # Errors
    /// As the counter.
    pub fn shorts(&self, counter: &dyn Counter) -> Result<&[Short]> {
        if let Some(ready) = self.shorts.get() {
            return Ok(ready);
        }
        let is_shown = |kind: &PartKind| matches!(kind, PartKind::Text | PartKind::Result);
        let mut made = Vec::new();
        self.add_short(&mut made, Label::Shortened, counter, is_shown, |text, tokens| {
            shorten::shortened(text, tokens, counter)
        })?;
        self.add_short(&mut made, Label::Summary, counter, is_shown, |text, tokens| {
            match shorten::summary(text, tokens, counter)? {
                Some(summary) => Ok(Some(summary)),
                None => shorten::shortened(text, tokens, counter),
            }
        })?;
        Ok(self.shorts.get_or_init(|| made))
    }

    /// Smaller forms that a required message may take: tool results alone are cut, down to their least.
    ///
    /// # Errors
    /// As the counter.
    pub fn result_shorts(&self, counter: &dyn Counter) -> Result<&[Short]> {
        if let Some(ready) = self.result_shorts.get() {
            return Ok(ready);
        }
        let is_result = |kind: &PartKind| *kind == PartKind::Result;
        let mut made = Vec::new();
        self.add_short(&mut made, Label::Shortened, counter, is_result, |text, tokens| {
            shorten::shortened(text, tokens, counter)
        })?;
        for target in [1024, 256, 100, LEAST_RESULT] {
            self.add_short(&mut made, Label::Shortened, counter, is_result, |text, tokens| {
                shorten::head_tail(text, tokens, target, counter)
            })?;
        }
        Ok(self.result_shorts.get_or_init(|| made))
    }

    /// Bytes that keeping it takes, about.
    pub fn heap_bytes(&self) -> usize {
        const FIXED: usize = 600;
        let texts: usize = self.message.parts.iter().map(|part| part.text.len() + 160).sum();
        // The terms take about as much as the text, the smaller forms half of it.
        FIXED + texts * 5 / 2
    }

    /// Shorten every text of the kinds that `is_shown` names; keep the form where it is smaller than the last one.
    fn add_short(
        &self,
        made: &mut Vec<Short>,
        label: Label,
        counter: &dyn Counter,
        is_shown: impl Fn(&PartKind) -> bool,
        shorten: impl Fn(&str, u64) -> Result<Option<Rendition>>,
    ) -> Result<()> {
        let mut edits = Vec::new();
        for (part, cost) in self.message.parts.iter().zip(&self.cost.parts) {
            if is_shown(&part.kind)
                && let Some(rendition) = shorten(&part.text, cost.text)?
            {
                edits.push(Edit::Text { at: part.text_path(), text: rendition.text });
            }
        }
        if edits.is_empty() {
            return Ok(());
        }
        let tokens = self.cost.edited(&self.message, &edits, counter)?;
        if tokens < made.last().map_or(self.cost.total, |last| last.tokens) {
            made.push(Short { edits, tokens, label });
        }
        Ok(())
    }
}
