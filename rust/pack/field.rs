//! The candidates of a conversation: groups, documents and the summary, with their smaller forms and what they are worth.

use std::collections::HashSet;

use crate::Result;
use crate::chat::group::Group;
use crate::item::Kind;
use crate::tokens::Counter;

use super::choosing::{Chosen, Shortened};
use super::conversation::Packing;
use super::entry::Short;
use super::items::default_fidelity;
use super::memo::Form;
use super::plan::{Candidates, Plan};
use super::report::Label;
use super::shorten;

/// The share of its weight that the oldest message keeps, and that one without relevance keeps: neither age nor a query
/// about something else erases a message, so that each can win by the other. Chosen by evidence recall: a lower floor of
/// recency loses old evidence (`QMSum` at 2,000 tokens .61 at 0.25, .64 from 0.5 on), a higher one of relevance floods the
/// window (`LoCoMo` .82 at 0.05, .83 at 0.01).
const RECENCY_FLOOR: f64 = 0.6;
const RELEVANCE_FLOOR: f64 = 0.005;

/// What one candidate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Group(usize),
    Document(usize),
    Summary,
}

/// The candidates of one attempt, with the forms of those that are not messages.
pub(super) struct Field {
    pub(super) whats: Vec<What>,
    pub(super) candidates: Candidates,
    shortened: Vec<Vec<Shortened>>,
}

impl Packing<'_> {
    /// The candidates: all groups but those left out, the documents and the summary.
    pub(super) fn field(&self, left_out: &HashSet<usize>, with_forms: bool, is_tight: bool) -> Result<Field> {
        let n = self.found.groups.len();
        let mut field = Field {
            whats: Vec::with_capacity(n + 1),
            candidates: Candidates::new(self.settings.alpha, n + 1),
            shortened: Vec::new(),
        };
        for at in (0..n).filter(|at| !left_out.contains(at)) {
            let required = self.is_required.get(at) == Some(&true);
            let full = self.full.get(at).copied().unwrap_or(0);
            field.push(What::Group(at), self.priority(What::Group(at)), required, full);
            if with_forms && (!required || is_tight) {
                for level in 1..=self.levels(at)? {
                    let tokens = self.level_tokens(at, level)?;
                    field.candidates.push_form(tokens, default_fidelity(tokens, full));
                }
            }
        }
        let templates = &self.settings.templates;
        for (index, (document, tokens)) in self.it.documents.iter().zip(&self.document_pieces).enumerate() {
            if *tokens > 0 {
                field.push(What::Document(index), self.priority(What::Document(index)), false, *tokens);
                let wrap = |text: &str| self.counter.count(&templates.document(index, text));
                field.push_text(&document.text, *tokens, with_forms, self.counter, wrap)?;
            }
        }
        if let Some(summary) = self.summary_text() {
            field.push(What::Summary, self.priority(What::Summary), false, self.summary_tokens);
            field.push_text(summary, self.summary_tokens, with_forms, self.counter, |text| self.summary_cost(text))?;
        }
        Ok(field)
    }

    /// Type weight x recency x relevance.
    fn priority(&self, what: What) -> f64 {
        let weight = |kind: Kind| self.settings.weights.get(kind.index()).copied().unwrap_or(0.0);
        match what {
            What::Summary => weight(Kind::SUMMARY),
            What::Document(at) => {
                weight(Kind::RAG_DOCUMENTS) * self.it.documents.get(at).map_or(0.0, |document| document.relevance)
            }
            What::Group(at) => {
                let (Some(group), Some(kind)) = (self.found.groups.get(at), self.kinds.get(at)) else { return 0.0 };
                let recency = self.decay.at(i64::try_from(group.round).unwrap_or(i64::MAX));
                let relevance = group.indices().filter_map(|index| self.relevance.get(index)).copied();
                let relevance = relevance.reduce(f64::max).unwrap_or(1.0);
                let floored = |floor: f64, share: f64| floor + (1.0 - floor) * share;
                weight(*kind) * floored(RECENCY_FLOOR, recency) * floored(RELEVANCE_FLOOR, relevance)
            }
        }
    }

    pub(super) fn worth(&self, what: What) -> f64 {
        let tokens = match what {
            What::Group(at) => self.full.get(at),
            What::Document(at) => self.document_pieces.get(at),
            What::Summary => Some(&self.summary_tokens),
        };
        crate::score::value(self.priority(what), tokens.copied().unwrap_or(0), self.settings.alpha, 1.0)
    }

    /// The smaller forms that message `index` of group `at` may take.
    fn shorts(&self, at: usize, index: usize) -> Result<&[Short]> {
        let Some(entry) = self.it.messages.get(index) else { return Ok(&[]) };
        let is_repaired = |group: &Group| group.members.iter().any(|one| one.index == index && !one.repairs.is_empty());
        if self.found.groups.get(at).is_some_and(is_repaired) {
            return Ok(&[]);
        }
        if self.is_required.get(at) == Some(&true) {
            entry.result_shorts(self.counter)
        } else {
            entry.shorts(self.counter)
        }
    }

    fn levels(&self, at: usize) -> Result<u8> {
        let mut most = 0;
        for index in self.found.groups.get(at).into_iter().flat_map(Group::indices) {
            most = most.max(self.shorts(at, index)?.len());
        }
        Ok(most as u8)
    }

    /// Tokens of group `at` with each message in its `level`-th smaller form, or its smallest.
    fn level_tokens(&self, at: usize, level: u8) -> Result<u64> {
        let mut tokens = self.full.get(at).copied().unwrap_or(0);
        for index in self.found.groups.get(at).into_iter().flat_map(Group::indices) {
            let shorts = self.shorts(at, index)?;
            let full = self.it.messages.get(index).map_or(0, |entry| entry.cost.total);
            if let Some(short) = shorts.get(usize::from(level).min(shorts.len()).wrapping_sub(1)) {
                tokens = tokens.saturating_sub(full.saturating_sub(short.tokens));
            }
        }
        Ok(tokens)
    }

    pub(super) fn least(&self, at: usize) -> Result<u64> {
        let levels = self.levels(at)?;
        self.level_tokens(at, levels)
    }

    pub(super) fn chosen(&self, field: Field, plan: &Plan) -> Chosen {
        let mut chosen = Chosen {
            forms: vec![Form::Out; self.it.messages.len()],
            documents: vec![None; self.it.documents.len()],
            value: plan.value,
            bound: plan.bound,
            ..Chosen::default()
        };
        for ((what, picked), shortened) in field.whats.iter().zip(&plan.chosen).zip(field.shortened) {
            let Some(level) = picked else { continue };
            let text = usize::from(*level).checked_sub(1).and_then(|at| shortened.get(at).cloned());
            match what {
                What::Group(at) => self.show(&mut chosen, *at, *level),
                What::Document(at) => {
                    let whole = || {
                        let text = self.it.documents.get(*at).map(|document| document.text.clone()).unwrap_or_default();
                        let tokens = self.document_pieces.get(*at).copied().unwrap_or(0);
                        Shortened { text, label: Label::Full, tokens }
                    };
                    if let Some(slot) = chosen.documents.get_mut(*at) {
                        *slot = Some(text.unwrap_or_else(whole));
                    }
                }
                What::Summary => {
                    chosen.summary = text.or_else(|| self.summary_text().map(|text| self.whole_summary(text)));
                }
            }
        }
        chosen
    }

    /// Show group `at` at `level`.
    fn show(&self, chosen: &mut Chosen, at: usize, level: u16) {
        let required = self.is_required.get(at) == Some(&true);
        for index in self.found.groups.get(at).into_iter().flat_map(Group::indices) {
            // The forms were made when the levels were counted.
            let n_shorts = if level == 0 { 0 } else { self.shorts(at, index).map_or(0, <[Short]>::len) };
            let n = usize::from(level).min(n_shorts) as u8;
            let form = match n {
                0 => Form::Full,
                n if required => Form::Results(n),
                n => Form::Short(n),
            };
            if let Some(slot) = chosen.forms.get_mut(index) {
                *slot = form;
            }
        }
    }
}

impl Field {
    fn push(&mut self, what: What, priority: f64, required: bool, tokens: u64) {
        self.whats.push(what);
        self.candidates.push(priority, required, tokens);
        self.shortened.push(Vec::new());
    }

    /// Add the smaller forms of a text to the candidate pushed last; `wrapped` counts one in what it is wrapped in.
    fn push_text(
        &mut self,
        text: &str,
        full: u64,
        with_forms: bool,
        counter: &dyn Counter,
        wrapped: impl Fn(&str) -> Result<u64>,
    ) -> Result<()> {
        if !with_forms {
            return Ok(());
        }
        let own = counter.count(text)?;
        let forms = [
            (Label::Shortened, shorten::shortened(text, own, counter)?),
            (Label::Summary, shorten::summary(text, own, counter)?),
        ];
        for (label, rendition) in forms {
            if let Some(rendition) = rendition {
                let tokens = wrapped(&rendition.text)?;
                self.candidates.push_form(tokens, default_fidelity(tokens, full));
                if let Some(last) = self.shortened.last_mut() {
                    last.push(Shortened { text: rendition.text, label, tokens });
                }
            }
        }
        Ok(())
    }

    /// Leave the documents out: there is no room for the message that they stand in.
    pub(super) fn drop_documents(&mut self) {
        let first = self.whats.iter().position(|what| matches!(what, What::Document(_)));
        let Some(first) = first else { return };
        let n = self.whats.iter().filter(|what| matches!(what, What::Document(_))).count();
        self.whats.drain(first..first + n);
        self.shortened.drain(first..first + n);
        self.candidates.remove(first, n);
    }
}
