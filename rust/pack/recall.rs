//! What a stable window says again: messages that were cut, quoted for the turn that asks for them.
//!
//! The quotes stand in one message before the current turn, as documents do, so that what was sent before stays as it is: a
//! prompt cache loses nothing but their own tokens. They last as long as the turn does and are no part of what binds the next
//! window.

use crate::Result;
use crate::chat::group::GroupKind;
use crate::chat::{Message, PartKind, Role};

use super::choosing::Chosen;
use super::conversation::Packing;
use super::field::What;
use super::memo::{Form, Memo};
use super::plan::{Candidates, choose};
use super::wrap::message_tokens;

/// What a quote costs besides its text, about: who said it, and the end of the line.
const PER_QUOTE: u64 = 5;
const PER_NAMED_QUOTE: u64 = 7;

impl Packing<'_> {
    /// Quote what was cut and the current turn asks for, in what is left of the budget.
    pub(super) fn recall(&self, chosen: &mut Chosen, memo: Option<&Memo>) -> Result<()> {
        let Some(memo) = memo.filter(|_| self.settings.recall > 0.0) else { return Ok(()) };
        let Some(&current) = self.found.current_turn().first() else { return Ok(()) };
        let first = self.found.groups.get(current).and_then(|group| group.indices().next());
        let is_new = first >= Some(memo.forms.len());
        let quoted = if is_new {
            if !self.is_asked(current, chosen) {
                return Ok(());
            }
            self.relevant(chosen)?
        } else {
            // The turn goes on: what was said to it stays said, or the cache of the turn itself would be lost.
            self.sticky.recalled.clone()
        };
        if quoted.is_empty() {
            return Ok(());
        }
        let set = |chosen: &mut Chosen, index: usize, from: Form, to: Form| {
            if let Some(form) = chosen.forms.get_mut(index).filter(|form| **form == from) {
                *form = to;
            }
        };
        for index in &quoted {
            set(chosen, *index, Form::Out, Form::Recalled);
        }
        // What fitted was an estimate: the last ones go until all fits. Where the turn has grown, it needs the room of all.
        let mut left = quoted.as_slice();
        while self.total(chosen)? > self.budget
            && let Some((last, others)) = left.split_last()
        {
            set(chosen, *last, Form::Recalled, Form::Out);
            left = others;
            if !is_new {
                for index in std::mem::take(&mut left) {
                    set(chosen, *index, Form::Recalled, Form::Out);
                }
            }
        }
        Ok(())
    }

    /// Whether the current turn has just begun, and is likely to be answered at once: no call of a tool is in the window. Over
    /// many calls the quotes would be read again and again, and when they go, all that came after them would be written anew.
    fn is_asked(&self, current: usize, chosen: &Chosen) -> bool {
        let groups = &self.found.groups;
        let is_last = current + 1 == groups.len() && groups.last().is_some_and(|group| group.kind == GroupKind::User);
        is_last && !groups.iter().any(|group| group.kind == GroupKind::Turn && Self::is_shown(chosen, group))
    }

    /// The messages that are out and worth quoting, within the share of the budget that quotes may take.
    fn relevant(&self, chosen: &Chosen) -> Result<Vec<usize>> {
        let left = self.budget.saturating_sub(self.total(chosen)?);
        let frame = self.recalled_tokens(&[])?;
        let room = left.min((self.budget as f64 * self.settings.recall) as u64).saturating_sub(frame);
        let mut candidates = Candidates::new(self.settings.alpha, 0, 0);
        let mut indices = Vec::new();
        for (at, group) in self.found.groups.iter().enumerate() {
            let [member] = group.members.as_slice() else { continue };
            let is_out = chosen.forms.get(member.index) == Some(&Form::Out);
            let relevance = self.relevance.get(member.index).copied().unwrap_or(0.0);
            if !is_out || relevance <= 0.0 || !member.repairs.is_empty() || !self.is_text(member.index) {
                continue;
            }
            let Some(entry) = self.it.messages.get(member.index) else { continue };
            let per_quote = if entry.message.is_named { PER_NAMED_QUOTE } else { PER_QUOTE };
            let tokens = entry.cost.parts.iter().fold(per_quote, |sum, part| sum.saturating_add(part.text));
            if tokens <= room {
                candidates.push(self.priority(What::Group(at)), false, tokens);
                indices.push(member.index);
            }
        }
        let Ok(plan) = choose(&candidates, room, self.settings.strategy, self.settings.limits)? else {
            return Ok(Vec::new());
        };
        Ok(indices.into_iter().zip(plan.chosen).filter_map(|(index, picked)| picked.map(|_| index)).collect())
    }

    /// Whether a message is nothing but text.
    fn is_text(&self, index: usize) -> bool {
        self.it.messages.get(index).is_some_and(|entry| {
            let message = &entry.message;
            let has_only_text = message.parts.iter().all(|part| part.kind == PartKind::Text);
            has_only_text
                && !message.is_empty
                && !message.is_reference
                && matches!(message.role, Role::User | Role::Assistant)
        })
    }

    /// The quotes, in the order of the conversation.
    pub(super) fn quotes(&self, chosen: &Chosen) -> Vec<String> {
        let recalled = chosen.forms.iter().enumerate().filter(|(_, form)| **form == Form::Recalled);
        recalled.map(|(index, _)| self.quote(index)).collect()
    }

    /// A message as it is quoted.
    pub(super) fn quote(&self, index: usize) -> String {
        let Some(entry) = self.it.messages.get(index) else { return String::new() };
        let who = if entry.message.role == Role::Assistant { "assistant" } else { "user" };
        let texts: Vec<&str> = entry.message.parts.iter().map(|part| &*part.text).collect();
        let text = texts.join("\n");
        match name_of(&entry.message, who) {
            Some(name) => format!("[{who} {name}] {text}\n"),
            None => format!("[{who}] {text}\n"),
        }
    }

    /// What quotes cost together.
    pub(super) fn recalled_tokens(&self, quotes: &[String]) -> Result<u64> {
        let text = self.settings.templates.recalled(quotes);
        message_tokens(self.it.format, "user", &text, self.counter, &self.settings.overhead)
    }
}

/// The name that a message carries besides its role, where it says nothing else.
fn name_of<'a>(message: &'a Message, role: &str) -> Option<&'a str> {
    let strings = &message.rest.strings;
    (message.is_named && strings.len() == 2)
        .then(|| strings.iter().find(|one| one.as_ref() != role))?
        .map(AsRef::as_ref)
}
