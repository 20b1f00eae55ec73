//! Packing a conversation: rounds and types, what must be in, what is worth its tokens, and where everything stands.

use std::sync::Arc;

use crate::Result;
use crate::chat::framing::Overhead;
use crate::chat::group::{GroupKind, Groups, group};
use crate::chat::{Format, Message, Path};
use crate::item::{Kind, TYPES};
use crate::score::{Decay, REQUIRED_FROM, Recency};
use crate::tokens::Counter;
use crate::tools::{Costs, ToolSet};

use super::entry::Entry;
use super::memo::Memo;
use super::plan::Strategy;
use super::purchase::Limits;
use super::stable::Sticky;
use super::tuning::Tuning;
use super::wrap::{Templates, block_tokens, message_tokens, system_tokens};

/// Rounds, counted from the last, whose messages are recent turns.
const RECENT_ROUNDS: usize = 4;

/// What stands between a system prompt beside the messages and the summary after it.
pub const SYSTEM_JOINER: &str = "\n\n";

/// What a packer was set to.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How to choose.
    pub strategy: Strategy,
    /// Exponent of the tokens in the value.
    pub alpha: f64,
    /// Limits of the exact search.
    pub limits: Limits,
    /// Weight of each known type, by `Kind::index`.
    pub weights: [f64; TYPES.len()],
    /// How worth fades.
    pub recency: Recency,
    /// What is counted besides texts.
    pub overhead: Overhead,
    /// What is counted besides the JSON of tools.
    pub tool_costs: Costs,
    /// Share of what the required messages leave that tools may take.
    pub tools_share: f64,
    /// What documents and the summary are wrapped in.
    pub templates: Templates,
    /// What a message is worth besides its type.
    pub tuning: Tuning,
    /// Share of the budget that a stable window is cut to, so that it can grow again before the next cut.
    pub low_water: f64,
    /// Share of the budget that quotes of what was cut may take in a stable window.
    pub recall: f64,
    /// Whether a window keeps the beginning that was sent before.
    pub is_stable: bool,
}

/// A document that may help.
#[derive(Debug, Clone)]
pub struct Document {
    /// What it says.
    pub text: String,
    /// How relevant it is, at least 0; 1 for the best.
    pub relevance: f64,
}

/// What is to be packed.
pub struct Conversation<'a> {
    /// The format of the messages.
    pub format: Format,
    /// The messages, read and counted.
    pub messages: &'a [Arc<Entry>],
    /// Their fingerprints.
    pub keys: &'a [u128],
    /// The system prompt that stands beside them.
    pub system: Option<&'a Entry>,
    /// Documents, best first or each with its relevance.
    pub documents: &'a [Document],
    /// A summary of what came before.
    pub summary: Option<&'a str>,
    /// Tool schemas.
    pub tools: Option<&'a ToolSet>,
    /// Names of tools that count as used, besides those that a call names.
    pub used_tools: &'a [String],
    /// What the history should be relevant to; the current turn where it is None.
    pub query: Option<&'a str>,
    /// The caller's own relevance of each message, at least 0.
    pub relevance: Option<&'a [f64]>,
    /// Whether the first message after the system prompt must be a user's.
    pub start_on_user: bool,
    /// What the last pack of this conversation came to.
    pub previous: Option<&'a Memo>,
}

/// A conversation while it is being packed.
pub(super) struct Packing<'a> {
    pub(super) it: &'a Conversation<'a>,
    pub(super) settings: &'a Settings,
    pub(super) counter: &'a dyn Counter,
    pub(super) budget: u64,
    pub(super) found: Groups,
    /// Tokens of each group in full, repairs made; once something sticks, of each group as it was shown.
    pub(super) full: Vec<u64>,
    pub(super) kinds: Vec<Kind>,
    pub(super) is_required: Vec<bool>,
    /// Tokens of the request without anything in it: framing and the system prompt beside the messages.
    pub(super) base: u64,
    /// Tokens of each document in what it is wrapped in; 0 for one that says nothing.
    pub(super) document_pieces: Vec<u64>,
    /// Tokens of the message that the documents stand in.
    pub(super) document_frame: u64,
    pub(super) summary_tokens: u64,
    /// How the rounds fade.
    pub(super) decay: Decay,
    /// Per message, once there is something to choose; empty where the query says nothing of any.
    pub(super) relevance: Vec<f64>,
    /// Per group, how much it says for its tokens, the most being 1; empty where that counts for nothing.
    pub(super) information: Vec<f64>,
    /// What the last window binds this one to.
    pub(super) sticky: Sticky,
}

impl<'a> Packing<'a> {
    pub(super) fn new(
        it: &'a Conversation<'a>,
        settings: &'a Settings,
        counter: &'a dyn Counter,
        budget: u64,
    ) -> Result<Self> {
        let messages: Vec<&Message> = it.messages.iter().map(|entry| &entry.message).collect();
        let found = group(&messages);
        let mut packing = Self {
            it,
            settings,
            counter,
            budget,
            full: Vec::with_capacity(found.groups.len()),
            kinds: Vec::new(),
            is_required: Vec::new(),
            base: settings.overhead.per_request.saturating_add(it.system.map_or(0, |system| system.cost.total)),
            document_pieces: Vec::new(),
            document_frame: 0,
            summary_tokens: 0,
            decay: settings
                .recency
                .over(found.groups.iter().map(|group| i64::try_from(group.round).unwrap_or(i64::MAX))),
            relevance: Vec::new(),
            information: Vec::new(),
            sticky: Sticky::default(),
            found,
        };
        for group in &packing.found.groups {
            let mut tokens = 0_u64;
            for member in &group.members {
                if let Some(entry) = it.messages.get(member.index) {
                    tokens = tokens.saturating_add(entry.cost.edited(&entry.message, &member.repairs, counter)?);
                }
            }
            packing.full.push(tokens);
        }
        packing.sort_out();
        packing.count_wrapped()?;
        Ok(packing)
    }

    /// The type of each group, and whether it must be in.
    fn sort_out(&mut self) {
        let groups = &self.found.groups;
        let current = self.found.current_turn();
        let last_round = groups.iter().map(|group| group.round).max().unwrap_or(0);
        for (at, group) in groups.iter().enumerate() {
            let is_current = current.contains(&at) || at + 1 == groups.len() || group.is_open;
            let kind = if group.is_prompt {
                Kind::SYSTEM_PROMPT
            } else if is_current {
                Kind::CURRENT_TURN
            } else if group.round + RECENT_ROUNDS > last_round {
                Kind::RECENT_TURNS
            } else if group.kind == GroupKind::Turn {
                Kind::TOOL_RESULTS
            } else {
                Kind::OLDER_HISTORY
            };
            self.kinds.push(kind);
            let is_heavy = self.settings.weights.get(kind.index()).is_some_and(|weight| *weight >= REQUIRED_FROM);
            self.is_required.push(is_heavy || group.is_prompt || is_current || group.is_compaction);
        }
    }

    /// Count the documents and the summary in what they are wrapped in.
    fn count_wrapped(&mut self) -> Result<()> {
        let templates = &self.settings.templates;
        for (index, document) in self.it.documents.iter().enumerate() {
            let is_blank = document.text.trim().is_empty();
            let piece = || self.counter.count(&templates.document(index, &document.text));
            let tokens = if is_blank { 0 } else { piece()? };
            self.document_pieces.push(tokens);
        }
        if self.document_pieces.iter().any(|tokens| *tokens > 0) {
            self.document_frame = self.documents_tokens(&[])?;
        }
        if let Some(summary) = self.summary_text() {
            self.summary_tokens = self.summary_cost(summary)?;
        }
        Ok(())
    }

    /// The given summary, unless it says nothing.
    pub(super) fn summary_text(&self) -> Option<&'a str> {
        self.it.summary.map(str::trim).filter(|summary| !summary.is_empty())
    }

    pub(super) fn documents_tokens(&self, pieces: &[String]) -> Result<u64> {
        let text = self.settings.templates.documents(pieces);
        message_tokens(self.it.format, "user", &text, self.counter, &self.settings.overhead)
    }

    /// What the summary adds to the request.
    pub(super) fn summary_cost(&self, summary: &str) -> Result<u64> {
        summary_cost(summary, self.it.format, self.it.system, self.settings, self.counter)
    }
}

/// What a summary adds: one system message, or what the system prompt beside the messages grows by.
pub(super) fn summary_cost(
    summary: &str,
    format: Format,
    system: Option<&Entry>,
    settings: &Settings,
    counter: &dyn Counter,
) -> Result<u64> {
    let text = settings.templates.summary(summary);
    let overhead = &settings.overhead;
    if format != Format::Anthropic {
        return message_tokens(format, "system", &text, counter, overhead);
    }
    let Some(system) = system else { return system_tokens(&text, counter, overhead) };
    match system.message.parts.as_slice() {
        [prompt] if prompt.at == Path::root() => {
            let whole = system_tokens(&[&prompt.text, SYSTEM_JOINER, &text].concat(), counter, overhead)?;
            Ok(whole.saturating_sub(system.cost.total))
        }
        _ => block_tokens(&text, counter, overhead),
    }
}
