//! The greedy strategy's late summary: what becomes of the older history that it dropped.

use std::sync::Arc;

use crate::Result;
use crate::chat::Format;
use crate::item::Kind;
use crate::tokens::Counter;

use super::LATE_SUMMARY_ABOVE;
use super::conversation::{Packing, Settings, summary_cost};
use super::entry::Entry;
use super::plan::Strategy;
use super::report::{Fate, Label, Reason, Row, Source};
use super::window::Window;

/// What a late summary would be made of.
#[derive(Debug, Clone)]
pub struct Late {
    /// The texts that were dropped, oldest first.
    pub texts: Vec<String>,
    /// Which messages these are, ascending.
    messages: Vec<usize>,
    /// Tokens that the summary may add.
    limit: u64,
}

impl Packing<'_> {
    /// What the greedy strategy summarises into what is left: the older history that it dropped.
    pub(super) fn late(&self, window: &Window) -> Option<Late> {
        let left = window.report.budget.saturating_sub(window.report.tokens);
        if self.settings.strategy != Strategy::Greedy || left <= LATE_SUMMARY_ABOVE || self.it.summary.is_some() {
            return None;
        }
        let is_lost = |row: &&Row| {
            row.source == Source::Message
                && row.kind == Kind::OLDER_HISTORY
                && matches!(row.fate, Fate::Dropped(Reason::OverBudget | Reason::TooLarge))
        };
        let lost: Vec<&Row> = window.report.rows.iter().filter(is_lost).collect();
        let replaced = lost.iter().fold(0_u64, |sum, row| sum.saturating_add(row.tokens));
        let messages: Vec<usize> = lost.iter().map(|row| row.index as usize).collect();
        let entries = messages.iter().filter_map(|index| self.it.messages.get(*index));
        let texts: Vec<String> =
            entries.map(|entry| entry.message.searchable()).filter(|text| !text.is_empty()).collect();
        let limit = left.min(replaced.saturating_sub(1));
        (!texts.is_empty() && limit > 0).then_some(Late { texts, messages, limit })
    }
}

impl Window {
    /// How many tokens the text of the late summary may have at the most.
    #[must_use]
    pub fn late_limit(&self) -> u64 {
        self.late.as_ref().map_or(0, |late| late.limit)
    }

    /// Put a summary of the dropped older history in, cut to what is left.
    ///
    /// # Errors
    /// As the counter.
    pub fn add_late(
        &mut self,
        summary: &str,
        format: Format,
        system: Option<&Arc<Entry>>,
        settings: &Settings,
        counter: &dyn Counter,
    ) -> Result<()> {
        let Some(late) = self.late.take() else { return Ok(()) };
        let system = system.map(AsRef::as_ref);
        let cost = |text: &str| summary_cost(text, format, system, settings, counter);
        let mut text = summary.trim();
        let mut tokens = cost(text)?;
        // What it is wrapped in costs something too; then each try takes off what the last was over by.
        let mut room = late.limit.saturating_sub(cost("")?);
        while tokens > late.limit && !text.is_empty() {
            text = text.get(..counter.cut(text, room)?).unwrap_or_default().trim_end();
            tokens = cost(text)?;
            room = room.saturating_sub(tokens.saturating_sub(late.limit).max(1));
        }
        if text.is_empty() {
            return Ok(());
        }
        for row in &mut self.report.rows {
            if row.source == Source::Message && late.messages.binary_search(&(row.index as usize)).is_ok() {
                row.fate = Fate::Dropped(Reason::Summarized);
            }
        }
        let fate = Fate::Kept(Label::Summary);
        self.report.rows.push(Row {
            source: Source::Summary,
            index: 0,
            kind: Kind::SUMMARY,
            fate,
            tokens,
            full_tokens: tokens,
        });
        self.report.tokens = self.report.tokens.saturating_add(tokens);
        let weight = settings.weights.get(Kind::SUMMARY.index()).copied().unwrap_or(0.0);
        self.report.value += crate::score::value(weight, tokens, settings.alpha, 1.0);
        // The summary was not among the candidates, so nothing is proven about it.
        self.report.bound = self.report.value;
        self.open = None;
        self.place_summary(settings.templates.summary(text), format == Format::Anthropic);
        Ok(())
    }
}
