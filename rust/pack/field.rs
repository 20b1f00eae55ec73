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
use super::tuning::Tuning;

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
            candidates: Candidates::new(self.settings.alpha, n + 1, 0),
            shortened: Vec::new(),
        };
        for at in (0..n).filter(|at| !left_out.contains(at)) {
            let required = self.is_required.get(at) == Some(&true);
            let full = self.full.get(at).copied().unwrap_or(0);
            field.push(What::Group(at), self.priority(What::Group(at)), required, full);
            if with_forms && (!required || is_tight) {
                for level in 1..=self.levels(at)? {
                    let tokens = self.level_tokens(at, level)?;
                    field.candidates.push_form(tokens, self.fidelity(at, tokens));
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

    /// Tokens of the smallest form of a document, in what it is wrapped in.
    pub(super) fn least_of_document(&self, index: usize) -> Result<u64> {
        let full = self.document_pieces.get(index).copied().unwrap_or(0);
        let Some(document) = self.it.documents.get(index) else { return Ok(full) };
        let own = self.counter.count(&document.text)?;
        let mut least = full;
        let shortened = shorten::shortened(&document.text, own, self.counter)?;
        let summary = shorten::summary(&document.text, own, self.counter)?;
        for rendition in [shortened, summary].into_iter().flatten() {
            let text = self.settings.templates.document(index, &rendition.text);
            least = least.min(self.counter.count(&text)?);
        }
        Ok(least)
    }

    /// Type weight x recency x relevance.
    pub(super) fn priority(&self, what: What) -> f64 {
        let weight = |kind: Kind| self.settings.weights.get(kind.index()).copied().unwrap_or(0.0);
        match what {
            What::Summary => weight(Kind::SUMMARY),
            What::Document(at) => {
                weight(Kind::RAG_DOCUMENTS) * self.it.documents.get(at).map_or(0.0, |document| document.relevance)
            }
            What::Group(at) => {
                let (Some(group), Some(kind)) = (self.found.groups.get(at), self.kinds.get(at)) else { return 0.0 };
                let recency = self.decay.at(i64::try_from(group.round).unwrap_or(i64::MAX));
                let tuning = &self.settings.tuning;
                let relevance = group.indices().filter_map(|index| self.relevance.get(index)).copied();
                let standing = match relevance.reduce(f64::max) {
                    Some(relevance) => {
                        let says = tuning.information * self.information.get(at).copied().unwrap_or(0.0);
                        tuning.standing(recency, relevance, tuning.relevance_floor.max(says))
                    }
                    None => Tuning::floored(tuning.recency_floor, recency),
                };
                weight(*kind) * standing * self.faded(at)
            }
        }
    }

    /// How much each group says for its tokens, the most being 1, from how much each message says.
    pub(super) fn informing(&self, messages: &[f64]) -> Vec<f64> {
        let says = |(group, tokens): (&Group, &u64)| {
            let said: f64 = group.indices().filter_map(|index| messages.get(index)).sum();
            said / (*tokens.max(&1) as f64).sqrt()
        };
        let says: Vec<f64> = self.found.groups.iter().zip(&self.full).map(says).collect();
        let most = says.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        says.into_iter().map(|one| one / most).collect()
    }

    /// What a group that sticks to a smaller form is worth of one as large that came in so.
    fn faded(&self, at: usize) -> f64 {
        let (Some(whole), Some(shown)) = (self.sticky.whole.get(at), self.full.get(at)) else { return 1.0 };
        if shown >= whole {
            return 1.0;
        }
        let worth = |tokens: u64, fidelity: f64| crate::score::value(1.0, tokens, self.settings.alpha, fidelity);
        worth(*whole, self.settings.tuning.fidelity(*shown, *whole)) / worth(*shown, 1.0)
    }

    /// What a form of group `at` is worth of what the group is shown as at most.
    fn fidelity(&self, at: usize, tokens: u64) -> f64 {
        let tuning = &self.settings.tuning;
        let shown = self.full.get(at).copied().unwrap_or(0);
        match self.sticky.whole.get(at) {
            Some(whole) if shown < *whole => tuning.fidelity(tokens, *whole) / tuning.fidelity(shown, *whole),
            _ => tuning.fidelity(tokens, shown),
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

    /// Those of `shorts` that are smaller than what the message was shown as before.
    fn smaller(&self, at: usize, index: usize) -> Result<&[Short]> {
        let shorts = self.shorts(at, index)?;
        let form = self.sticky.form(index);
        if shorts.is_empty() || form == Form::Full {
            return Ok(shorts);
        }
        let shown = self.message_tokens(index, &[], form)?;
        Ok(shorts.get(shorts.partition_point(|short| short.tokens >= shown)..).unwrap_or_default())
    }

    fn levels(&self, at: usize) -> Result<u8> {
        let mut most = 0;
        for index in self.found.groups.get(at).into_iter().flat_map(Group::indices) {
            most = most.max(self.smaller(at, index)?.len());
        }
        Ok(most as u8)
    }

    /// Tokens of group `at` with each message in its `level`-th smaller form, or its smallest.
    fn level_tokens(&self, at: usize, level: u8) -> Result<u64> {
        let mut tokens = self.full.get(at).copied().unwrap_or(0);
        for index in self.found.groups.get(at).into_iter().flat_map(Group::indices) {
            let shorts = self.smaller(at, index)?;
            if let Some(short) = shorts.get(usize::from(level).min(shorts.len()).wrapping_sub(1)) {
                let most = match self.sticky.form(index) {
                    Form::Full => self.it.messages.get(index).map_or(0, |entry| entry.cost.total),
                    form => self.message_tokens(index, &[], form)?,
                };
                tokens = tokens.saturating_sub(most.saturating_sub(short.tokens));
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
            let n_smaller = if level == 0 { 0 } else { self.smaller(at, index).map_or(0, <[Short]>::len) };
            let n = usize::from(level).min(n_smaller);
            let form = if n == 0 {
                self.sticky.form(index)
            } else {
                let n_larger = self.shorts(at, index).map_or(0, <[Short]>::len) - n_smaller;
                let n = (n_larger + n) as u8;
                if required { Form::Results(n) } else { Form::Short(n) }
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
