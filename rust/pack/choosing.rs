//! Choosing what of a conversation is in: tools and messages share the budget, and the exact choice is made once.

use std::collections::HashSet;

use crate::chat::group::{Group, before_first_user};
use crate::relevance::Terms;
use crate::tools::{Fit, Shown};
use crate::{Error, Result};

use super::conversation::Packing;
use super::history::Histories;
use super::memo::{Form, Memo};
use super::plan::{Candidates, Plan, choose};
use super::report::Label;
use super::tooling::Tooling;

/// Attempts to give tools that lost their place what the messages did not take, and to start on a user message.
const MOST_ATTEMPTS: usize = 4;

/// Less than this share of the budget is not worth another attempt.
const WORTH_AN_ATTEMPT: f64 = 0.02;

/// A rendition of a document or of the summary.
#[derive(Debug, Clone)]
pub(super) struct Shortened {
    pub(super) text: String,
    pub(super) label: Label,
    /// Of the text in what it is wrapped in.
    pub(super) tokens: u64,
}

/// What was chosen of a conversation.
#[derive(Debug, Default)]
pub(super) struct Chosen {
    /// Per message.
    pub(super) forms: Vec<Form>,
    /// Per document.
    pub(super) documents: Vec<Option<Shortened>>,
    pub(super) summary: Option<Shortened>,
    /// The tools, where there are any.
    pub(super) tools: Option<Fit>,
    pub(super) value: f64,
    pub(super) bound: f64,
    /// Groups that call a tool that found no place.
    pub(super) toolless: HashSet<usize>,
    /// Groups that stood before the first user message.
    pub(super) before_user: HashSet<usize>,
    /// What was chosen from, and within how much, where the choice has no bound of its own.
    pub(super) open: Option<(Candidates, u64)>,
}

impl Packing<'_> {
    /// Choose what is in.
    pub(super) fn choose(&mut self, histories: &mut Histories) -> Result<Chosen> {
        self.check_relevance()?;
        if let Some(chosen) = self.all_in()? {
            return Ok(chosen);
        }
        let query = Terms::of(&self.query());
        self.relevance = self.score(histories, &query)?;
        let scores = self.it.tools.map(|set| set.scores(&query)).unwrap_or_default();
        if self.settings.is_stable {
            let memo = self.memo();
            if let Some(memo) = memo {
                self.stick(memo)?;
                if let Some(mut chosen) = self.as_before(memo)? {
                    self.recall(&mut chosen, Some(memo))?;
                    return Ok(chosen);
                }
                // What is cut now is gone when the next question comes: what says much stays, whatever was asked last.
                self.information = self.informing(&histories.information());
            }
            self.sticky.steady = self.steady_tools(&scores)?;
            let mark = self.mark(memo.is_none());
            match self.choose_within(mark, &scores) {
                Err(Error::RequiredOverflow { .. }) => {}
                other => {
                    let mut chosen = other?;
                    self.information.clear();
                    self.recall(&mut chosen, memo)?;
                    return Ok(chosen);
                }
            }
        }
        self.choose_within(self.budget, &scores)
    }

    /// Everything in full, if that fits.
    fn all_in(&self) -> Result<Option<Chosen>> {
        let scores = vec![0.0; self.it.tools.map_or(0, crate::tools::ToolSet::len)];
        let tools = self.tooling(&scores).map(|tooling| tooling.full()).transpose()?;
        let tool_tokens = tools.as_ref().map_or(0, |tools| tools.tokens);
        let parts = self.full.iter().chain(&self.document_pieces).chain([
            &self.document_frame,
            &self.summary_tokens,
            &tool_tokens,
        ]);
        if parts.fold(self.base, |sum, tokens| sum.saturating_add(*tokens)) > self.budget {
            return Ok(None);
        }
        let mut chosen = self.whole(&HashSet::new())?;
        if self.it.start_on_user {
            let early: HashSet<usize> = self.early(&chosen).into_iter().collect();
            if !early.is_empty() {
                chosen = self.whole(&early)?;
                chosen.before_user = early;
            }
        }
        chosen.tools = tools;
        // Templates other than ours may cost a token at the seams of the documents.
        Ok((self.total(&chosen)? <= self.budget).then_some(chosen))
    }

    /// Everything in full but the groups in `left_out`.
    fn whole(&self, left_out: &HashSet<usize>) -> Result<Chosen> {
        let field = self.field(left_out, false, false)?;
        let value = field.whats.iter().map(|what| self.worth(*what)).sum();
        let plan = Plan { chosen: vec![Some(0); field.whats.len()], tokens: 0, value, bound: value };
        Ok(self.chosen(field, &plan))
    }

    pub(super) fn whole_summary(&self, text: &str) -> Shortened {
        Shortened { text: text.to_owned(), label: Label::Full, tokens: self.summary_tokens }
    }

    pub(super) fn tooling<'b>(&'b self, scores: &'b [f64]) -> Option<Tooling<'b>> {
        let set = self.it.tools?;
        Some(Tooling { set, scores, counter: self.counter, costs: &self.settings.tool_costs })
    }

    /// Choose within `budget`, again where that may still gain something.
    fn choose_within(&self, budget: u64, scores: &[f64]) -> Result<Chosen> {
        let mut before_user: HashSet<usize> = HashSet::new();
        let mut for_tools = 0_u64;
        for attempt in 1.. {
            let mut chosen = self.attempt(budget, scores, &before_user, for_tools)?;
            let is_last = attempt >= MOST_ATTEMPTS;
            if self.it.start_on_user {
                let early = self.early(&chosen);
                if !early.is_empty() {
                    before_user.extend(early);
                    if !is_last {
                        continue;
                    }
                    self.take_out(&mut chosen, &before_user);
                }
            }
            chosen.before_user.clone_from(&before_user);
            while self.total(&chosen)? > budget {
                // Only where documents cost more together than apart.
                let Some(last) = chosen.documents.iter_mut().rev().find(|document| document.is_some()) else { break };
                *last = None;
            }
            let left = budget.saturating_sub(self.total(&chosen)?);
            if is_last || chosen.toolless.is_empty() || (left as f64) < budget as f64 * WORTH_AN_ATTEMPT {
                return Ok(chosen);
            }
            for_tools = for_tools.saturating_add(left);
        }
        self.attempt(budget, scores, &before_user, for_tools)
    }

    /// Groups among the chosen that stand before the first user message.
    pub(super) fn early(&self, chosen: &Chosen) -> Vec<usize> {
        let groups = self.found.groups.iter().enumerate();
        let kept: Vec<usize> = groups.filter(|(_, group)| Self::is_shown(chosen, group)).map(|(at, _)| at).collect();
        let early = before_first_user(kept.iter().filter_map(|at| self.found.groups.get(*at)));
        early
            .into_iter()
            .filter_map(|at| kept.get(at).copied())
            .filter(|at| self.is_required.get(*at) != Some(&true))
            .collect()
    }

    fn take_out(&self, chosen: &mut Chosen, groups: &HashSet<usize>) {
        for group in groups.iter().filter_map(|at| self.found.groups.get(*at)) {
            for index in group.indices() {
                if let Some(form) = chosen.forms.get_mut(index) {
                    *form = Form::Out;
                }
            }
        }
    }

    fn attempt(&self, budget: u64, scores: &[f64], before_user: &HashSet<usize>, for_tools: u64) -> Result<Chosen> {
        let required = || (0..self.found.groups.len()).filter(|at| self.is_required.get(*at) == Some(&true));
        let tokens = |at: usize| self.full.get(at).copied().unwrap_or(0);
        let must_full = required().fold(0_u64, |sum, at| sum.saturating_add(tokens(at)));
        let room = budget.saturating_sub(self.base);
        let tooling = self.tooling(scores).filter(|tooling| !tooling.set.is_empty());
        let used = self.used();
        let n_required = used.n_required;
        let tools_least = match &tooling {
            Some(tooling) => tooling.least(used.names.get(..n_required).unwrap_or_default())?,
            None => 0,
        };
        if self.base > budget {
            return Err(self.overflow(tools_least)?);
        }
        let is_tight = must_full.saturating_add(tools_least) > room;
        let mut must = must_full;
        if is_tight {
            must = 0;
            for at in required() {
                must = must.saturating_add(self.least(at)?);
            }
            if must.saturating_add(tools_least) > room {
                return Err(self.overflow(tools_least)?);
            }
        }
        let mut tools = None;
        let mut hidden = HashSet::new();
        let mut is_steady = false;
        if let Some(tooling) = &tooling {
            let left = room.saturating_sub(must);
            let share = ((left as f64 * self.settings.tools_share) as u64).saturating_add(for_tools);
            let limit = share.max(tools_least).min(left);
            let steady = self.sticky.steady.clone().filter(|steady| steady.tokens <= left);
            is_steady = steady.is_some();
            let fit = match steady {
                Some(steady) => steady,
                None => tooling.fit(limit, &tooling.keep(&used.names, n_required, limit)?)?,
            };
            hidden = tooling.hidden(&fit.shown);
            tools = Some(fit);
        }
        let toolless: HashSet<usize> = (0..self.found.groups.len())
            .filter(|at| self.is_required.get(*at) != Some(&true) && self.calls(*at).any(|name| hidden.contains(name)))
            .collect();
        let mut room = room.saturating_sub(tools.as_ref().map_or(0, |tools| tools.tokens));
        let has_documents =
            self.document_pieces.iter().any(|tokens| *tokens > 0) && must.saturating_add(self.document_frame) < room;
        if has_documents {
            room -= self.document_frame;
        }
        let mut left_out: HashSet<usize> = toolless.union(before_user).copied().collect();
        left_out.extend(&self.sticky.gone);
        let mut field = self.field(&left_out, true, must_full > room)?;
        if !has_documents {
            field.drop_documents();
        }
        let Ok(plan) = choose(&field.candidates, room, self.settings.strategy, self.settings.limits)? else {
            return Err(self.overflow(tools_least)?);
        };
        let open = plan.bound.is_nan().then(|| (field.candidates.clone(), room));
        let mut chosen = self.chosen(field, &plan);
        chosen.open = open;
        chosen.toolless = toolless;
        chosen.tools = tools;
        if !is_steady {
            self.refit(&mut chosen, tooling.as_ref(), budget)?;
        }
        if let (None, Some(set)) = (&chosen.tools, self.it.tools) {
            chosen.tools = Some(Fit { shown: vec![Shown::Dropped; set.len()], tokens: 0 });
        }
        Ok(chosen)
    }

    /// Give the tools what the messages did not take.
    fn refit(&self, chosen: &mut Chosen, tooling: Option<&Tooling<'_>>, budget: u64) -> Result<()> {
        let (Some(tooling), Some(now)) = (tooling, &chosen.tools) else { return Ok(()) };
        let left = budget.saturating_sub(self.total(chosen)?);
        if left == 0 {
            return Ok(());
        }
        let is_in = |index: usize| chosen.forms.get(index).is_some_and(|form| *form != Form::Out);
        let hidden = tooling.hidden(&now.shown);
        // What a kept call names and what has its place keeps it.
        let used: Vec<&str> = self.used().names.into_iter().filter(|name| !hidden.contains(name)).collect();
        if let Ok(fuller) = tooling.fit(now.tokens.saturating_add(left), &used) {
            let hidden = tooling.hidden(&fuller.shown);
            let entries = self.it.messages.iter().enumerate().filter(|(index, _)| is_in(*index));
            if !entries.flat_map(|(_, entry)| &entry.message.calls).any(|call| hidden.contains(&*call.name)) {
                chosen.tools = Some(fuller);
            }
        }
        Ok(())
    }

    pub(super) fn is_in_required(&self, index: usize) -> bool {
        let groups = self.found.groups.iter().zip(&self.is_required);
        groups.filter(|(_, is_required)| **is_required).any(|(group, _)| group.indices().any(|one| one == index))
    }

    /// Names of the tools that group `at` calls.
    pub(super) fn calls(&self, at: usize) -> impl Iterator<Item = &str> {
        let group = self.found.groups.get(at);
        let entries = group.into_iter().flat_map(Group::indices).filter_map(|index| self.it.messages.get(index));
        entries.flat_map(|entry| entry.message.calls.iter().map(|call| &*call.name))
    }

    /// The error of what must be in and does not fit.
    fn overflow(&self, tools_least: u64) -> Result<Error> {
        let mut items = vec![("framing and system prompt".to_owned(), self.base)];
        if tools_least > 0 {
            items.push(("tools that are called".to_owned(), tools_least));
        }
        for (at, group) in self.found.groups.iter().enumerate() {
            if self.is_required.get(at) == Some(&true) {
                let kind = self.kinds.get(at).and_then(|kind| kind.name()).unwrap_or("required");
                let first = group.indices().next().unwrap_or(0);
                let label = match group.members.len() {
                    0 | 1 => format!("message {first} ({kind})"),
                    n => format!("messages {first} to {} ({kind})", group.indices().last().unwrap_or(first + n - 1)),
                };
                items.push((label, self.least(at)?));
            }
        }
        let total = items.iter().fold(0_u64, |sum, (_, tokens)| sum.saturating_add(*tokens));
        Ok(Error::RequiredOverflow { budget: self.budget, total, items })
    }

    /// Names of tools that calls name, those of required groups first, then by their latest call.
    pub(super) fn used(&self) -> Used<'_> {
        let mut used = Used { names: Vec::new(), n_required: 0 };
        if self.it.tools.is_none_or(crate::tools::ToolSet::is_empty) {
            return used;
        }
        let mut seen: HashSet<&str> = HashSet::new();
        for wants_required in [true, false] {
            for at in (0..self.found.groups.len()).rev() {
                if (self.is_required.get(at) == Some(&true)) == wants_required {
                    used.names.extend(self.calls(at).filter(|name| seen.insert(name)));
                }
            }
            if wants_required {
                used.n_required = used.names.len();
            }
        }
        used.names.extend(self.it.used_tools.iter().map(String::as_str).filter(|name| seen.insert(name)));
        used
    }
}

pub(super) struct Used<'a> {
    pub(super) names: Vec<&'a str>,
    pub(super) n_required: usize,
}

/// The memo of what was chosen.
pub(super) fn memo_of(packing: &Packing<'_>, chosen: &Chosen) -> Memo {
    Memo {
        key: Memo::key_of(packing.it.keys),
        forms: chosen.forms.clone(),
        tools: chosen.tools.as_ref().map(|tools| tools.shown.clone()).unwrap_or_default(),
        tools_key: Memo::key_of_tools(packing.it.tools),
        has_summary: chosen.summary.is_some(),
    }
}
