//! Finds the blocks that `group` describes.

use std::borrow::Borrow;
use std::collections::{HashMap, HashSet, VecDeque};

use super::edit::Edit;
use super::group::{Finding, Group, GroupKind, Groups, Member, Reason};
use super::model::{Format, Message, PartKind, Role};
use super::path::{Path, Step};
use super::settle::says_without;

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
    pub(super) messages: &'a [M],
    pub(super) out: Groups,
    run: Option<Run>,
    /// Calls to be answered: id to (group, message, number of the call).
    pending: HashMap<&'a str, VecDeque<(usize, usize, usize)>>,
    answered_ids: HashSet<&'a str>,
    /// Calls that were answered: (message, number of the call).
    pub(super) answered: HashSet<(usize, usize)>,
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

    pub(super) fn find(&mut self, index: usize, at: Option<Path>, reason: Reason) {
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
}

fn kind_of(message: &Message) -> GroupKind {
    match message.role {
        Role::System => GroupKind::System,
        Role::User => GroupKind::User,
        Role::Assistant | Role::Tool => GroupKind::Assistant,
    }
}
