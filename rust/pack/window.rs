//! A packed conversation: what stands where, and the report of it.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::Result;
use crate::chat::group::{Group, Reason as Found};
use crate::chat::{Edit, Format};
use crate::item::Kind;
use crate::tokens::Counter;
use crate::tools::{Fit, Shown, Step};

use super::choosing::{Chosen, memo_of};
use super::conversation::{Conversation, Packing, Settings};
use super::history::Histories;
use super::late::Late;
use super::memo::{Form, Memo};
use super::plan::Candidates;
use super::report::{Fate, Label, Reason, Report, Row, Source};

/// One message of the window.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placed {
    /// A message that came in, with the changes to it.
    Message {
        /// Its index.
        index: usize,
        /// None where it stands as it came.
        edits: Vec<Edit>,
    },
    /// The documents, as a user message of this text.
    Documents(String),
    /// What was said before and is quoted again, as a user message of this text.
    Recalled(String),
    /// The summary, as a system message of this text.
    Summary(String),
}

/// A packed conversation.
#[derive(Debug, Clone)]
pub struct Window {
    /// The messages, in order.
    pub placed: Vec<Placed>,
    /// What the system prompt beside the messages ends with, after `SYSTEM_JOINER`.
    pub system_summary: Option<String>,
    /// The tools, where there were any.
    pub tools: Option<Fit>,
    /// What became of every input.
    pub report: Report,
    /// The type of each message.
    pub kinds: Vec<Kind>,
    /// What was sent.
    pub memo: Memo,
    /// What the greedy strategy would have summarised.
    pub late: Option<Late>,
    /// What was chosen from, and within how much, where the choice has no bound of its own.
    pub open: Option<(Candidates, u64)>,
    /// Where the summary stands among the messages.
    after_prompt: usize,
    /// Whether `placed` is the messages from the first on, none of them changed; found when asked for.
    is_plain: OnceLock<bool>,
}

/// Pack a conversation into `budget` tokens.
///
/// # Errors
/// `Error::RequiredOverflow` when what must be in does not fit; `Error::Argument` for relevance scores that are none.
pub fn pack_conversation(
    conversation: &Conversation<'_>,
    settings: &Settings,
    counter: &dyn Counter,
    budget: u64,
    histories: &mut Histories,
) -> Result<Window> {
    let mut packing = Packing::new(conversation, settings, counter, budget)?;
    let chosen = packing.choose(histories)?;
    packing.window(chosen)
}

impl Packing<'_> {
    /// Tokens of the whole request as it is sent.
    pub(super) fn total(&self, chosen: &Chosen) -> Result<u64> {
        let mut total = self.base.saturating_add(chosen.tools.as_ref().map_or(0, |tools| tools.tokens));
        for group in &self.found.groups {
            for member in &group.members {
                let form = chosen.forms.get(member.index).copied().unwrap_or_default();
                total = total.saturating_add(self.message_tokens(member.index, &member.repairs, form)?);
            }
        }
        let pieces = self.pieces(chosen);
        if !pieces.is_empty() {
            total = total.saturating_add(self.documents_tokens(&pieces)?);
        }
        let quotes = self.quotes(chosen);
        if !quotes.is_empty() {
            total = total.saturating_add(self.recalled_tokens(&quotes)?);
        }
        Ok(total.saturating_add(chosen.summary.as_ref().map_or(0, |summary| summary.tokens)))
    }

    fn pieces(&self, chosen: &Chosen) -> Vec<String> {
        let templates = &self.settings.templates;
        let documents = chosen.documents.iter().enumerate();
        documents
            .filter_map(|(index, document)| document.as_ref().map(|shown| templates.document(index, &shown.text)))
            .collect()
    }

    pub(super) fn message_tokens(&self, index: usize, repairs: &[Edit], form: Form) -> Result<u64> {
        let Some(entry) = self.it.messages.get(index) else { return Ok(0) };
        let short = match form {
            Form::Out | Form::Recalled => return Ok(0),
            Form::Full => return entry.cost.edited(&entry.message, repairs, self.counter),
            Form::Short(n) => entry.shorts(self.counter)?.get(usize::from(n).wrapping_sub(1)),
            Form::Results(n) => entry.result_shorts(self.counter)?.get(usize::from(n).wrapping_sub(1)),
        };
        Ok(short.map_or(entry.cost.total, |short| short.tokens))
    }

    fn window(&self, chosen: Chosen) -> Result<Window> {
        let mut placed = Vec::with_capacity(self.it.messages.len() + 2);
        let mut rows = Vec::with_capacity(self.it.messages.len() + 4);
        if let Some(system) = self.it.system {
            let tokens = system.cost.total;
            let fate = Fate::Kept(Label::Full);
            rows.push(Row {
                source: Source::System,
                index: 0,
                kind: Kind::SYSTEM_PROMPT,
                fate,
                tokens,
                full_tokens: tokens,
            });
        }
        let mut kinds = vec![Kind::OLDER_HISTORY; self.it.messages.len()];
        self.message_rows(&chosen, &mut rows, &mut kinds)?;
        let documents = self.document_rows(&chosen, &mut rows)?;
        let total = self.total(&chosen)?;
        let is_beside = self.it.format == Format::Anthropic;
        let summary = chosen.summary.as_ref().map(|summary| self.settings.templates.summary(&summary.text));
        let prompts = self.found.groups.iter().filter(|group| group.is_prompt);
        let last_prompt = prompts.flat_map(Group::indices).max();
        let current = self.found.current_or_last().first().copied().filter(|group| !group.is_prompt);
        let current = current.and_then(|group| group.indices().next());
        let repairs: HashMap<usize, &[Edit]> = self
            .found
            .groups
            .iter()
            .flat_map(|group| &group.members)
            .filter(|member| !member.repairs.is_empty())
            .map(|member| (member.index, member.repairs.as_slice()))
            .collect();
        let mut after_prompt = 0;
        let mut documents = documents;
        let quotes = self.quotes(&chosen);
        let mut recalled = (!quotes.is_empty()).then(|| self.settings.templates.recalled(&quotes));
        for (index, form) in chosen.forms.iter().enumerate() {
            if Some(index) == current {
                placed.extend(recalled.take().map(Placed::Recalled));
                placed.extend(documents.take().map(Placed::Documents));
            }
            if !matches!(form, Form::Out | Form::Recalled) {
                let edits = self.edits(index, *form, repairs.get(&index).copied().unwrap_or_default())?;
                placed.push(Placed::Message { index, edits });
            }
            if Some(index) == last_prompt {
                after_prompt = placed.len();
            }
        }
        if let Some(text) = documents {
            placed.push(Placed::Documents(text));
        }
        let mut window = Window {
            placed,
            system_summary: None,
            tools: None,
            kinds,
            memo: memo_of(self, &chosen),
            late: None,
            after_prompt,
            is_plain: OnceLock::new(),
            report: Report { rows, tokens: total, budget: self.budget, value: chosen.value, bound: chosen.bound },
            open: chosen.open,
        };
        self.tool_rows(chosen.tools.as_ref(), &mut window.report.rows)?;
        self.summary_row(
            chosen.summary.as_ref().map(|summary| (summary.label, summary.tokens)),
            &mut window.report.rows,
        );
        window.tools = chosen.tools;
        if let Some(text) = summary {
            window.place_summary(text, is_beside);
        }
        window.late = self.late(&window);
        Ok(window)
    }

    fn edits(&self, index: usize, form: Form, repairs: &[Edit]) -> Result<Vec<Edit>> {
        let Some(entry) = self.it.messages.get(index) else { return Ok(Vec::new()) };
        let short = match form {
            Form::Out | Form::Full | Form::Recalled => return Ok(repairs.to_vec()),
            Form::Short(n) => entry.shorts(self.counter)?.get(usize::from(n).wrapping_sub(1)),
            Form::Results(n) => entry.result_shorts(self.counter)?.get(usize::from(n).wrapping_sub(1)),
        };
        Ok(short.map(|short| short.edits.clone()).unwrap_or_default())
    }

    /// One row per message.
    fn message_rows(&self, chosen: &Chosen, rows: &mut Vec<Row>, kinds: &mut [Kind]) -> Result<()> {
        let mut fates: Vec<Option<(Fate, u64)>> = vec![None; self.it.messages.len()];
        for finding in self.found.findings.iter().filter(|finding| finding.at.is_none()) {
            if let Some(slot) = fates.get_mut(finding.index) {
                *slot = Some((Fate::Dropped(reason_of(finding.reason)), 0));
            }
        }
        for (at, group) in self.found.groups.iter().enumerate() {
            let full = self.full.get(at).copied().unwrap_or(0);
            let why = if chosen.toolless.contains(&at) {
                Reason::ToolDropped
            } else if chosen.before_user.contains(&at) {
                Reason::BeforeUser
            } else if full > self.budget && self.least(at)? > self.budget {
                Reason::TooLarge
            } else {
                Reason::OverBudget
            };
            for member in &group.members {
                let form = chosen.forms.get(member.index).copied().unwrap_or_default();
                let tokens = match form {
                    Form::Recalled => self.counter.count(&self.quote(member.index))?,
                    _ => self.message_tokens(member.index, &member.repairs, form)?,
                };
                let fate = match self.label(member.index, form, !member.repairs.is_empty())? {
                    Some(label) => Fate::Kept(label),
                    None => Fate::Dropped(why),
                };
                if let Some(slot) = fates.get_mut(member.index) {
                    *slot = Some((fate, tokens));
                }
                if let (Some(slot), Some(kind)) = (kinds.get_mut(member.index), self.kinds.get(at)) {
                    let entry = self.it.messages.get(member.index);
                    let is_call = entry.is_some_and(|entry| entry.message.answers.is_empty());
                    *slot = if *kind == Kind::TOOL_RESULTS && is_call { Kind::OLDER_HISTORY } else { *kind };
                }
            }
        }
        for (index, (fate, entry)) in fates.into_iter().zip(self.it.messages).enumerate() {
            let full_tokens = entry.cost.total;
            let (fate, tokens) = fate.unwrap_or((Fate::Dropped(Reason::Empty), 0));
            let tokens = if matches!(fate, Fate::Kept(_)) { tokens } else { full_tokens };
            let kind = kinds.get(index).copied().unwrap_or(Kind::OLDER_HISTORY);
            rows.push(Row { source: Source::Message, index: index as u32, kind, fate, tokens, full_tokens });
        }
        Ok(())
    }

    fn label(&self, index: usize, form: Form, is_repaired: bool) -> Result<Option<Label>> {
        let Some(entry) = self.it.messages.get(index) else { return Ok(None) };
        let short = match form {
            Form::Out => return Ok(None),
            Form::Recalled => return Ok(Some(Label::Recalled)),
            Form::Full if is_repaired => return Ok(Some(Label::Repaired)),
            Form::Full => return Ok(Some(Label::Full)),
            Form::Short(n) => entry.shorts(self.counter)?.get(usize::from(n).wrapping_sub(1)),
            Form::Results(n) => entry.result_shorts(self.counter)?.get(usize::from(n).wrapping_sub(1)),
        };
        Ok(Some(short.map_or(Label::Full, |short| short.label)))
    }

    /// One row per document; the text of the message that they stand in, if any is in.
    fn document_rows(&self, chosen: &Chosen, rows: &mut Vec<Row>) -> Result<Option<String>> {
        for (index, full) in self.document_pieces.iter().enumerate() {
            let shown = chosen.documents.get(index).and_then(Option::as_ref);
            let fate = match shown {
                Some(shown) => Fate::Kept(shown.label),
                None if *full == 0 => Fate::Dropped(Reason::Empty),
                None if *full > self.budget && self.least_of_document(index)? > self.budget => {
                    Fate::Dropped(Reason::TooLarge)
                }
                None => Fate::Dropped(Reason::OverBudget),
            };
            rows.push(Row {
                source: Source::Document,
                index: index as u32,
                kind: Kind::RAG_DOCUMENTS,
                fate,
                tokens: shown.map_or(*full, |shown| shown.tokens),
                full_tokens: *full,
            });
        }
        let pieces = self.pieces(chosen);
        Ok((!pieces.is_empty()).then(|| self.settings.templates.documents(&pieces)))
    }

    fn tool_rows(&self, fit: Option<&Fit>, rows: &mut Vec<Row>) -> Result<()> {
        let (Some(set), Some(fit)) = (self.it.tools, fit) else { return Ok(()) };
        for (index, (tool, shown)) in set.iter().zip(&fit.shown).enumerate() {
            let costs = &self.settings.tool_costs;
            let full_tokens = tool.tokens(Step::Full, self.counter, costs)?.unwrap_or(0);
            let (fate, tokens) = match shown {
                Shown::As(Step::Full) => (Fate::Kept(Label::Full), full_tokens),
                Shown::As(step) => {
                    (Fate::Kept(Label::Shortened), tool.tokens(*step, self.counter, costs)?.unwrap_or(full_tokens))
                }
                Shown::Dropped => (Fate::Dropped(Reason::OverBudget), full_tokens),
            };
            rows.push(Row {
                source: Source::Tool,
                index: index as u32,
                kind: Kind::TOOL_SCHEMAS,
                fate,
                tokens,
                full_tokens,
            });
        }
        Ok(())
    }

    fn summary_row(&self, shown: Option<(Label, u64)>, rows: &mut Vec<Row>) {
        if self.it.summary.is_none() {
            return;
        }
        let full_tokens = self.summary_tokens;
        let (fate, tokens) = match shown {
            Some((label, tokens)) => (Fate::Kept(label), tokens),
            None if full_tokens == 0 => (Fate::Dropped(Reason::Empty), 0),
            None => (Fate::Dropped(Reason::OverBudget), full_tokens),
        };
        rows.push(Row { source: Source::Summary, index: 0, kind: Kind::SUMMARY, fate, tokens, full_tokens });
    }
}

impl Window {
    /// Whether all of `n` messages stand as they came, with nothing beside them.
    #[must_use]
    pub fn is_as_given(&self, n: usize) -> bool {
        let is_in_place = |(n, placed): (usize, &Placed)| matches!(placed, Placed::Message { index, edits } if *index == n && edits.is_empty());
        self.placed.len() == n && *self.is_plain.get_or_init(|| self.placed.iter().enumerate().all(is_in_place))
    }

    /// How many of the messages come before what stands there for this turn alone.
    #[must_use]
    pub fn n_lasting(&self) -> usize {
        let is_passing = |placed: &Placed| matches!(placed, Placed::Documents(_) | Placed::Recalled(_));
        self.placed.iter().position(is_passing).unwrap_or(self.placed.len())
    }

    pub(super) fn place_summary(&mut self, text: String, is_beside: bool) {
        if is_beside {
            self.system_summary = Some(text);
        } else {
            self.is_plain = OnceLock::new();
            self.placed.insert(self.after_prompt, Placed::Summary(text));
        }
    }
}

const fn reason_of(found: Found) -> Reason {
    match found {
        Found::Empty => Reason::Empty,
        Found::OrphanResult => Reason::OrphanResult,
        Found::DuplicateResult => Reason::DuplicateResult,
        Found::UnansweredCall => Reason::UnansweredCall,
        Found::DanglingReasoning => Reason::DanglingReasoning,
    }
}
