//! The blocks that were found, as they can be sent: whole, without what was never answered, or not at all.

use std::borrow::Borrow;
use std::collections::HashSet;

use super::blocks::Builder;
use super::edit::Edit;
use super::group::{Group, GroupKind, Groups, Member, Reason};
use super::model::{Format, Message, PartKind, Role};
use super::node::Key;
use super::path::{Path, Step};

impl<M: Borrow<Message>> Builder<'_, M> {
    /// Settle every group, and count the rounds.
    pub(super) fn finish(mut self) -> Groups {
        let last = self.out.groups.iter().filter_map(|group| Some(group.members.last()?.index)).max();
        let groups = std::mem::take(&mut self.out.groups);
        let mut kept = Vec::with_capacity(groups.len());
        for group in groups {
            let is_last = group.members.last().map(|member| member.index) == last;
            kept.extend(self.settle(group, is_last));
        }
        let mut round = None;
        let mut is_prompt = true;
        for group in &mut kept {
            if group.kind == GroupKind::System {
                group.is_prompt = is_prompt;
            } else {
                is_prompt = false;
                round = Some(round.map_or(0, |round: usize| round + 1));
            }
            group.round = round.unwrap_or(0);
            group.is_user_turn = group
                .members
                .iter()
                .any(|m| self.messages.get(m.index).is_some_and(|message| message.borrow().is_user_turn()));
        }
        let compacts = |m: &Member| self.messages.get(m.index).is_some_and(|message| message.borrow().is_compaction);
        if let Some(latest) = kept.iter_mut().rev().find(|group| group.members.iter().any(compacts)) {
            latest.is_compaction = true;
        }
        let dropped: HashSet<usize> =
            self.out.findings.iter().filter(|finding| finding.at.is_none()).map(|finding| finding.index).collect();
        self.out.findings.retain(|finding| finding.at.is_none() || !dropped.contains(&finding.index));
        self.out.findings.sort_by_key(|finding| finding.index);
        Groups { groups: kept, findings: self.out.findings }
    }

    /// The group as it can be sent: open, repaired, or not at all.
    fn settle(&mut self, mut group: Group, is_last: bool) -> Option<Group> {
        let messages = self.messages;
        let mut unanswered = Vec::new();
        for member in &group.members {
            let Some(message) = messages.get(member.index) else { continue };
            for (number, call) in message.borrow().calls.iter().enumerate() {
                if call.needs_answer && !self.answered.contains(&(member.index, number)) {
                    unanswered.push((member.index, call.part));
                }
            }
        }
        let is_open = is_last && !unanswered.is_empty();
        let mut gone = HashSet::new();
        let mut start = 0;
        while let Some(&(index, _)) = unanswered.get(start).filter(|_| !is_open) {
            let end = start + unanswered.iter().skip(start).take_while(|(other, _)| *other == index).count();
            self.take_calls(&mut group, index, unanswered.get(start..end).unwrap_or_default(), &mut gone);
            start = end;
        }
        group.members.retain(|member| !gone.contains(&member.index));
        let reason = if gone.is_empty() { Reason::DanglingReasoning } else { Reason::UnansweredCall };
        self.drop_dangling(&mut group, reason);
        if group.members.is_empty() {
            return None;
        }
        group.is_open = is_open;
        if is_open {
            return Some(group);
        }
        if !unanswered.is_empty() && !group.members.iter().any(|member| self.is_answered(member)) {
            group.kind = GroupKind::Assistant;
        }
        Some(group)
    }

    /// Drop the reasoning that nothing of the same answer follows any more.
    fn drop_dangling(&mut self, group: &mut Group, reason: Reason) {
        let mut is_followed = false;
        let mut dangling = HashSet::new();
        for member in group.members.iter().rev() {
            let Some(message) = self.messages.get(member.index) else { continue };
            let message: &Message = message.borrow();
            if message.links_next && !is_followed {
                dangling.insert(member.index);
            }
            is_followed = message.role == Role::Assistant && (is_followed || !message.links_next);
        }
        for index in &dangling {
            self.find(*index, None, reason);
        }
        group.members.retain(|member| !dangling.contains(&member.index));
    }

    fn is_answered(&self, member: &Member) -> bool {
        self.messages.get(member.index).is_some_and(|message| {
            let message: &Message = message.borrow();
            !message.answers.is_empty()
                || (0..message.calls.len()).any(|number| self.answered.contains(&(member.index, number)))
        })
    }

    /// Take the unanswered calls out of message `index`, or the message if nothing is left of it.
    fn take_calls(
        &mut self,
        group: &mut Group,
        index: usize,
        calls: &[(usize, Option<usize>)],
        gone: &mut HashSet<usize>,
    ) {
        let Some(message) = self.messages.get(index) else { return };
        let message: &Message = message.borrow();
        let places: Vec<&Path> =
            calls.iter().filter_map(|(_, part)| message.parts.get((*part)?)).map(|part| &part.at).collect();
        if places.len() < calls.len() || !says_without(message, places.iter().copied()) {
            self.find(index, None, Reason::UnansweredCall);
            gone.insert(index);
            return;
        }
        for at in &places {
            self.find(index, Some((*at).clone()), Reason::UnansweredCall);
        }
        // An empty list of calls is refused by the provider: the whole entry goes with the last of them.
        let is_all = places.len() == message.calls.len() && message.format == Format::OpenAi;
        let mut removed: Vec<Path> = places
            .into_iter()
            .map(|at| match at.steps() {
                [Step::Key(key @ Key::ToolCalls), Step::Index(_)] if is_all => Path::root().key(*key),
                _ => at.clone(),
            })
            .collect();
        removed.dedup();
        let place = group.members.binary_search_by_key(&index, |member| member.index).ok();
        if let Some(member) = place.and_then(|place| group.members.get_mut(place)) {
            member.repairs.extend(removed.into_iter().map(|at| Edit::Remove { at }));
        }
    }
}

/// Whether a message still says something when what stands at `removed` is gone.
pub(super) fn says_without<'p>(message: &Message, removed: impl Iterator<Item = &'p Path>) -> bool {
    let removed: HashSet<&[Step]> = removed.map(Path::steps).collect();
    let is_gone = |at: &Path| {
        let steps = at.steps();
        (0..=steps.len()).any(|n_steps| steps.get(..n_steps).is_some_and(|outer| removed.contains(outer)))
    };
    message.parts.iter().any(|part| match part.kind {
        PartKind::Text | PartKind::Refusal => !part.text.trim().is_empty() && !is_gone(&part.at),
        PartKind::Thinking => false,
        PartKind::Result | PartKind::Media(_) | PartKind::Call | PartKind::Opaque => !is_gone(&part.at),
    })
}
