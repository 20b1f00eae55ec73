//! Finds the blocks that `group` describes.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet, VecDeque};

use super::edit::Edit;
use super::group::{Finding, Group, GroupKind, Groups, Member, Reason};
use super::model::{Format, Message, PartKind, Role};
use super::node::Key;
use super::path::{Path, Step};

/// The answer that is being read.
#[derive(Debug, Clone, Copy)]
struct Run {
    group: usize,
    /// What follows belongs to it, because of reasoning or of calls.
    is_linked: bool,
    /// Results have come: the answer is over.
    has_results: bool,
    /// Items that the provider holds, each of which may be a call that an output here answers.
    n_references: usize,
}

/// Reads messages in order; each is put into a group, or found faulty.
pub(super) struct Builder<'a, M> {
    messages: &'a [M],
    out: Groups,
    run: Option<Run>,
    /// Calls to be answered: id to (group, message, number of the call).
    pending: HashMap<&'a str, VecDeque<(usize, usize, usize)>>,
    answered_ids: HashSet<&'a str>,
    answered: HashSet<(usize, usize)>,
}

impl<'a, M: Borrow<Message>> Builder<'a, M> {
    pub(super) fn new(messages: &'a [M]) -> Self {
        Self {
            messages,
            out: Groups::default(),
            run: None,
            pending: HashMap::new(),
            answered_ids: HashSet::new(),
            answered: HashSet::new(),
        }
    }

    pub(super) fn read(mut self) -> Groups {
        let messages = self.messages;
        for (index, message) in messages.iter().enumerate() {
            let message: &Message = message.borrow();
            if message.is_empty {
                self.find(index, None, Reason::Empty);
                continue;
            }
            match message.format {
                Format::OpenAi => self.openai(index, message),
                Format::Anthropic => self.anthropic(index, message),
                Format::Responses => self.responses(index, message),
            }
        }
        self.finish()
    }

    fn find(&mut self, index: usize, at: Option<Path>, reason: Reason) {
        self.out.findings.push(Finding { index, at, reason });
    }

    /// Start a group with message `index`.
    fn start(&mut self, kind: GroupKind, index: usize) -> usize {
        self.out.groups.push(Group {
            kind,
            members: vec![Member { index, repairs: Vec::new() }],
            round: 0,
            is_prompt: false,
            is_open: false,
            is_user_turn: false,
            is_compaction: false,
        });
        self.out.groups.len() - 1
    }

    fn join(&mut self, group: usize, index: usize) {
        if let Some(group) = self.out.groups.get_mut(group)
            && group.members.last().is_none_or(|last| last.index != index)
        {
            group.members.push(Member { index, repairs: Vec::new() });
        }
    }

    fn repair(&mut self, group: usize, index: usize, at: Path, reason: Reason) {
        let members = self.out.groups.get_mut(group).map(|group| &mut group.members);
        if let Some(member) = members.and_then(|members| members.iter_mut().rev().find(|member| member.index == index))
        {
            member.repairs.push(Edit::Remove { at: at.clone() });
        }
        self.find(index, Some(at), reason);
    }

    fn close(&mut self) {
        self.run = None;
        self.pending.clear();
        self.answered_ids.clear();
    }

    /// Wait for the answers to the calls of message `index`.
    fn wait(&mut self, group: usize, index: usize) {
        let Some(message) = self.messages.get(index) else { return };
        for (number, call) in message.borrow().calls.iter().enumerate() {
            self.pending.entry(&call.id).or_default().push_back((group, index, number));
        }
        if let Some(group) = self.out.groups.get_mut(group)
            && message.borrow().calls.iter().any(|call| call.needs_answer)
        {
            group.kind = GroupKind::Turn;
        }
    }

    /// The group that waits for an answer to `id`.
    fn answer(&mut self, id: &'a str, is_latest_first: bool) -> Result<usize, Reason> {
        let found = self
            .pending
            .get_mut(id)
            .and_then(|waiting| if is_latest_first { waiting.pop_back() } else { waiting.pop_front() });
        if let Some((group, index, number)) = found {
            self.answered.insert((index, number));
            self.answered_ids.insert(id);
            if let Some(group) = self.out.groups.get_mut(group) {
                group.kind = GroupKind::Turn;
            }
            return Ok(group);
        }
        Err(if self.answered_ids.contains(id) { Reason::DuplicateResult } else { Reason::OrphanResult })
    }

    fn openai(&mut self, index: usize, message: &'a Message) {
        if message.role == Role::Tool {
            let id = message.answers.first().map_or("", |answer| &*answer.id);
            match self.answer(id, false) {
                Ok(group) => self.join(group, index),
                Err(reason) => self.find(index, None, reason),
            }
            return;
        }
        self.close();
        let group = self.start(kind_of(message), index);
        self.wait(group, index);
    }

    fn anthropic(&mut self, index: usize, message: &'a Message) {
        if message.role != Role::User {
            let run = self.run.filter(|run| !run.has_results && message.role == Role::Assistant);
            let linked = run.filter(|run| run.is_linked);
            if run.is_none() {
                self.close();
            }
            let group = if let Some(run) = linked {
                self.join(run.group, index);
                run.group
            } else {
                self.start(kind_of(message), index)
            };
            let is_linked = linked.is_some() || message.links_next || !message.calls.is_empty();
            self.wait(group, index);
            self.run = (message.role == Role::Assistant).then_some(Run {
                group,
                is_linked,
                has_results: false,
                n_references: 0,
            });
            self.mend_blanks(group, index, message);
            return;
        }
        if let Some(run) = &mut self.run {
            run.has_results = true;
        }
        let mut home = None;
        let mut faults = Vec::new();
        for answer in &message.answers {
            let at =
                answer.part.and_then(|part| message.parts.get(part)).map(|part| part.at.clone()).unwrap_or_default();
            match self.answer(&answer.id, false) {
                Ok(group) => home = Some(group),
                Err(reason) => faults.push((at, reason)),
            }
        }
        let group = match home {
            Some(group) => {
                self.join(group, index);
                group
            }
            None if !faults.is_empty() && !says_without(message, faults.iter().map(|(at, _)| at)) => {
                let reason = faults.first().map_or(Reason::OrphanResult, |(_, reason)| *reason);
                return self.find(index, None, reason);
            }
            None => self.start(GroupKind::User, index),
        };
        for (at, reason) in faults {
            self.repair(group, index, at, reason);
        }
        self.mend_blanks(group, index, message);
    }

    /// Take blank text blocks out: the provider refuses them.
    fn mend_blanks(&mut self, group: usize, index: usize, message: &'a Message) {
        for part in &message.parts {
            let is_blank = match part.kind {
                PartKind::Text => part.text.trim().is_empty(),
                PartKind::Result => part.text.is_empty(),
                _ => false,
            };
            if is_blank && matches!(part.at.steps().last(), Some(Step::Index(_))) {
                self.repair(group, index, part.at.clone(), Reason::Empty);
            }
        }
    }

    fn responses(&mut self, index: usize, message: &'a Message) {
        match message.role {
            Role::System | Role::User => {
                self.run = None;
                self.start(kind_of(message), index);
            }
            Role::Tool => {
                let id = message.answers.first().map_or("", |answer| &*answer.id);
                let group = match (self.answer(id, true), &mut self.run) {
                    (Ok(group), _) => group,
                    (Err(Reason::OrphanResult), Some(run)) if run.n_references > 0 => {
                        run.n_references -= 1;
                        run.group
                    }
                    (Err(reason), _) => return self.find(index, None, reason),
                };
                self.join(group, index);
                match self.run.as_mut().filter(|run| run.group == group) {
                    Some(run) => run.has_results = true,
                    None => self.run = None,
                }
            }
            Role::Assistant => {
                let linked = self.run.filter(|run| !run.has_results && run.is_linked);
                let mut run = if let Some(run) = linked {
                    self.join(run.group, index);
                    run
                } else {
                    let group = self.start(kind_of(message), index);
                    Run { group, is_linked: false, has_results: false, n_references: 0 }
                };
                run.is_linked |=
                    message.links_next || message.is_reference || message.calls.iter().any(|c| c.needs_answer);
                run.n_references += usize::from(message.is_reference);
                self.wait(run.group, index);
                self.run = Some(run);
            }
        }
    }

    fn finish(mut self) -> Groups {
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

fn kind_of(message: &Message) -> GroupKind {
    match message.role {
        Role::System => GroupKind::System,
        Role::User => GroupKind::User,
        Role::Assistant | Role::Tool => GroupKind::Assistant,
    }
}

/// Whether a message still says something when what stands at `removed` is gone.
fn says_without<'p>(message: &Message, removed: impl Iterator<Item = &'p Path>) -> bool {
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
