//! A window that begins as the last one did: what was sent is sent again while it fits, and a cut leaves room to grow.

use std::collections::HashSet;

use crate::Result;
use crate::chat::group::Group;
use crate::tools::{Fit, Shown, ToolSet};

use super::choosing::{Chosen, Shortened};
use super::conversation::Packing;
use super::field::What;
use super::memo::{Form, Memo};
use super::report::Label;
use super::tooling::Tooling;

/// Where what must be in is above the low-water mark, the others may take this share of the rest: without it an agent
/// would see nothing but its last step, and with more the next cut would come soon.
const SHARE_BESIDE_REQUIRED: f64 = 0.25;

/// What was sent before, as far as it binds what may be sent now.
#[derive(Debug, Default)]
pub(super) struct Sticky {
    /// Per message of the last window; empty where there was none.
    pub(super) forms: Vec<Form>,
    /// Tokens of each group as it came in: the packing's own count is of how it was shown.
    pub(super) whole: Vec<u64>,
    /// Messages that were quoted for the turn that was current.
    pub(super) recalled: Vec<usize>,
    /// Groups that were left out and stay out.
    pub(super) gone: Vec<usize>,
    /// How the tools were shown.
    pub(super) tools: Vec<Shown>,
    /// How the tools are shown until the next cut at the least.
    pub(super) steady: Option<Fit>,
}

impl Sticky {
    /// How a message may be shown at most.
    pub(super) fn form(&self, index: usize) -> Form {
        self.forms.get(index).copied().unwrap_or(Form::Full)
    }
}

impl<'a> Packing<'a> {
    /// What was sent of this conversation and these tools, if `previous` is about them.
    pub(super) fn memo(&self) -> Option<&'a Memo> {
        let tools = self.it.tools;
        let is_same = |memo: &&Memo| memo.is_beginning_of(self.it.keys) && memo.tools_key == Memo::key_of_tools(tools);
        self.it.previous.filter(is_same).filter(|memo| memo.tools.len() == tools.map_or(0, ToolSet::len))
    }

    /// From now on no message is shown larger than it was, and what was left out stays out.
    pub(super) fn stick(&mut self, memo: &Memo) -> Result<()> {
        let mut sticky = Sticky {
            forms: memo.forms.clone(),
            whole: self.full.clone(),
            recalled: Vec::new(),
            gone: Vec::new(),
            tools: memo.tools.clone(),
            steady: None,
        };
        for (index, form) in sticky.forms.iter_mut().enumerate() {
            if *form == Form::Recalled {
                *form = Form::Out;
                sticky.recalled.push(index);
            }
        }
        for (at, group) in self.found.groups.iter().enumerate() {
            let is_out = |index: &usize| sticky.form(*index) == Form::Out;
            let out: Vec<usize> = group.indices().filter(is_out).collect();
            if self.is_required.get(at) == Some(&true) {
                for index in out {
                    if let Some(form) = sticky.forms.get_mut(index) {
                        *form = Form::Full;
                    }
                }
            } else if !out.is_empty() {
                sticky.gone.push(at);
                continue;
            }
            let mut shown = 0_u64;
            for member in &group.members {
                // A repair and a smaller form do not go together; only a memo that was tampered with asks for both.
                if let (false, Some(form)) = (member.repairs.is_empty(), sticky.forms.get_mut(member.index)) {
                    *form = Form::Full;
                }
                let form = sticky.form(member.index);
                shown = shown.saturating_add(self.message_tokens(member.index, &member.repairs, form)?);
            }
            if let Some(tokens) = self.full.get_mut(at) {
                *tokens = shown;
            }
        }
        self.sticky = sticky;
        Ok(())
    }

    /// What was sent before, and all that is new in full, if that fits. Documents take what is left.
    pub(super) fn as_before(&self, memo: &Memo) -> Result<Option<Chosen>> {
        let mut chosen = Chosen { forms: vec![Form::Out; self.it.messages.len()], ..Chosen::default() };
        let was_out = |index: usize| matches!(memo.forms.get(index), Some(Form::Out | Form::Recalled));
        for (at, group) in self.found.groups.iter().enumerate() {
            if self.sticky.gone.binary_search(&at).is_ok() {
                if group.indices().any(|index| !was_out(index)) {
                    return Ok(None);
                }
                continue;
            }
            if group.indices().any(was_out) {
                return Ok(None);
            }
            for index in group.indices() {
                if let Some(slot) = chosen.forms.get_mut(index) {
                    *slot = self.sticky.form(index);
                }
            }
            chosen.value += self.worth(What::Group(at));
        }
        chosen.bound = chosen.value;
        if let Some(tooling) = self.tooling(&[]) {
            let is_in = |index: usize| chosen.forms.get(index).is_some_and(|form| *form != Form::Out);
            let Some(fit) = self.tools_before(&tooling, is_in, u64::MAX)? else { return Ok(None) };
            chosen.tools = Some(fit);
        }
        chosen.summary = self.summary_text().map(|text| self.whole_summary(text));
        if self.it.start_on_user && !self.early(&chosen).is_empty() {
            return Ok(None);
        }
        self.add_documents(&mut chosen)?;
        Ok((self.total(&chosen)? <= self.budget).then_some(chosen))
    }

    /// The most relevant documents that fit beside the messages; all of them where a cut would make room for them.
    fn add_documents(&self, chosen: &mut Chosen) -> Result<()> {
        let whole = |at: usize| {
            let (document, tokens) = (self.it.documents.get(at)?, *self.document_pieces.get(at)?);
            (tokens > 0).then(|| Shortened { text: document.text.clone(), label: Label::Full, tokens })
        };
        let all: Vec<Option<Shortened>> = (0..self.it.documents.len()).map(whole).collect();
        let messages = self.total(chosen)?;
        let wanted = self.document_pieces.iter().fold(self.document_frame, |sum, tokens| sum.saturating_add(*tokens));
        let low = self.low_water();
        if messages.saturating_add(wanted) <= self.budget
            || (messages > low && wanted <= self.budget.saturating_sub(low))
        {
            chosen.documents = all;
            return Ok(());
        }
        let relevance = |at: &usize| self.it.documents.get(*at).map_or(0.0, |document| document.relevance);
        let mut order: Vec<usize> = (0..all.len()).collect();
        order.sort_by(|a, b| relevance(b).total_cmp(&relevance(a)));
        chosen.documents = vec![None; all.len()];
        let mut used = messages.saturating_add(self.document_frame);
        for at in order {
            // The parts add up to the whole, or nearly, so most of what does not fit is known without a count of all.
            let tokens = self.document_pieces.get(at).copied().unwrap_or(0);
            if used.saturating_add(tokens) > self.budget {
                continue;
            }
            used += tokens;
            if let (Some(slot), Some(document)) = (chosen.documents.get_mut(at), all.get(at)) {
                slot.clone_from(document);
            }
            if self.total(chosen)? > self.budget
                && let Some(slot) = chosen.documents.get_mut(at)
            {
                used -= tokens;
                *slot = None;
            }
        }
        Ok(())
    }

    /// The tools as they were shown, if they take no more than `limit` and every call that is in names a shown one.
    pub(super) fn tools_before(
        &self,
        tooling: &Tooling<'_>,
        is_in: impl Fn(usize) -> bool,
        limit: u64,
    ) -> Result<Option<Fit>> {
        let shown = &self.sticky.tools;
        if shown.len() != tooling.set.len() {
            return Ok(None);
        }
        let tokens = tooling.tokens(shown)?;
        let hidden = tooling.hidden(shown);
        let entries = self.it.messages.iter().enumerate().filter(|(index, _)| is_in(*index));
        let is_missing = entries.flat_map(|(_, entry)| &entry.message.calls).any(|call| hidden.contains(&*call.name));
        Ok((tokens <= limit && !is_missing).then(|| Fit { shown: shown.clone(), tokens }))
    }

    fn low_water(&self) -> u64 {
        (self.budget as f64 * self.settings.low_water) as u64
    }

    /// What a window is cut to: the low-water mark, or above it where what must be in is. A first window is cut to halfway
    /// between the mark and the budget: nothing was sent that a second cut would lose, and more of the past is in it.
    pub(super) fn mark(&self, is_first: bool) -> u64 {
        let low = self.low_water();
        let low = if is_first { low + self.budget.saturating_sub(low) / 2 } else { low };
        let tools = self.sticky.steady.as_ref().map_or(0, |tools| tools.tokens);
        let must = self.must().saturating_add(self.base).saturating_add(tools);
        if must <= low {
            return low;
        }
        let rest = self.budget.saturating_sub(must);
        self.budget.min(must.saturating_add((rest as f64 * SHARE_BESIDE_REQUIRED) as u64))
    }

    /// Tokens of what must be in, in full.
    fn must(&self) -> u64 {
        let groups = self.full.iter().zip(&self.is_required);
        groups.filter(|(_, is_required)| **is_required).fold(0_u64, |sum, (tokens, _)| sum.saturating_add(*tokens))
    }

    /// The tools, as they are shown from a cut on: as before where that leaves the messages half of what they may have and no
    /// call needs another; else every tool, the others in their smallest form, where that does; else what fits the tools'
    /// share, with those that were shown before the ones that were not. Tools come before everything else, so a prompt cache
    /// loses all when they change: they are chosen for the whole budget, not for the mark that the messages are cut to, and not
    /// by what is asked now alone. None: what must be in leaves no room for them, or there are none.
    pub(super) fn steady_tools(&self, scores: &[f64]) -> Result<Option<Fit>> {
        let Some(tooling) = self.tooling(scores).filter(|tooling| !tooling.set.is_empty()) else { return Ok(None) };
        let used = self.used();
        let least = tooling.least(used.names.get(..used.n_required).unwrap_or_default())?;
        let room = self.budget.saturating_sub(self.base);
        let Some(left) = room.checked_sub(self.must()).filter(|left| *left >= least) else { return Ok(None) };
        let limit = ((left as f64 * self.settings.tools_share) as u64).max(least);
        if let Some(before) = self.tools_before(&tooling, |index| self.is_in_required(index), limit.max(left / 2))? {
            return Ok(Some(before));
        }
        let mut names = used.names;
        let hidden = tooling.hidden(&self.sticky.tools);
        let (shown, others): (Vec<&str>, Vec<&str>) =
            tooling.set.iter().map(crate::tools::Tool::name).partition(|name| !hidden.contains(name));
        let known: HashSet<&str> = names.iter().copied().collect();
        if self.sticky.tools.len() == tooling.set.len() {
            names.extend(shown.iter().filter(|name| !known.contains(*name)));
        }
        let mut all = names.clone();
        all.extend(shown.iter().chain(&others).filter(|name| !known.contains(*name)));
        let all_least = tooling.least(&all)?;
        if all_least <= left / 2 {
            return Ok(Some(tooling.fit(limit.max(all_least), &all)?));
        }
        Ok(Some(tooling.fit(limit, &tooling.keep(&names, used.n_required, limit)?)?))
    }

    /// Whether any of a group's messages is shown.
    pub(super) fn is_shown(chosen: &Chosen, group: &Group) -> bool {
        group.indices().any(|index| chosen.forms.get(index).is_some_and(|form| *form != Form::Out))
    }
}
