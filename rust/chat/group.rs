//! What lives or dies together, what nothing can be done with, and which round each belongs to.
//!
//! - **Chat.** An assistant message with calls and the tool messages right after it. Ids repeat across turns, so a result
//!   belongs to the block it stands in and to no other; results may come in any order.
//! - **Anthropic.** The provider reads messages of one role in a row as one turn. A block is the calls of such an assistant turn
//!   and the results in the user turn right after it; a user message that carries results belongs to the block with whatever
//!   else it says. A turn of thinking alone belongs to the assistant message after it.
//! - **Responses.** The calls of one answer and their outputs, wherever those stand: pairs are found by `call_id`, the latest
//!   unanswered call first. Reasoning belongs to all that the same answer goes on to say, since the provider refuses either
//!   without the other.
//!
//! A past block whose calls were not all answered (the turn was interrupted) is invalid as it stands. It is **repaired**: the
//! unanswered calls are taken out; a message that then says nothing is dropped. The last block is **open** instead: its
//! answers are still to come, it is kept as it is and is required.

use std::borrow::Borrow;
use std::fmt;

use super::blocks::Builder;
use super::edit::Edit;
use super::model::Message;
use super::path::Path;

/// What a group is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupKind {
    /// A system or developer message.
    System,
    /// A user message.
    User,
    /// An answer without calls.
    Assistant,
    /// Calls with their results.
    Turn,
}

/// A message of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its index in the input.
    pub index: usize,
    /// What must be changed for it to be valid; empty for nearly all.
    pub repairs: Vec<Edit>,
}

/// Messages that live or die together.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own; no two make a state")]
pub struct Group {
    /// What it is.
    pub kind: GroupKind,
    /// Its messages, ascending. Others may stand between them.
    pub members: Vec<Member>,
    /// Counted from 0: each user message and each assistant message with its results starts one.
    pub round: usize,
    /// Whether it is one of the system messages that the conversation starts with.
    pub is_prompt: bool,
    /// Whether it ends the conversation with calls that are still to be answered.
    pub is_open: bool,
    /// Whether a user says something in it.
    pub is_user_turn: bool,
    /// Whether it is the latest that stands for all that was said before it.
    pub is_compaction: bool,
}

impl Group {
    /// The indices of its messages, ascending.
    pub fn indices(&self) -> impl Iterator<Item = usize> {
        self.members.iter().map(|member| member.index)
    }
}

/// Why something cannot be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// No calls, and no text but white space.
    Empty,
    /// A result whose call is not in its block.
    OrphanResult,
    /// A second result of one call.
    DuplicateResult,
    /// A call that was never answered, before the end of the conversation.
    UnansweredCall,
    /// Reasoning that nothing follows.
    DanglingReasoning,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "empty: it says nothing",
            Self::OrphanResult => "orphan: the call of this result is not in its block",
            Self::DuplicateResult => "duplicate: its call has been answered",
            Self::UnansweredCall => "unanswered call: the turn was interrupted",
            Self::DanglingReasoning => "dangling: nothing follows this reasoning",
        })
    }
}

/// Something that was taken out, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The message.
    pub index: usize,
    /// What of it. None: all of it; the message is in no group.
    pub at: Option<Path>,
    /// Why.
    pub reason: Reason,
}

/// A conversation as groups. Every message is in exactly one group, or found faulty as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Groups {
    /// By their first message, ascending.
    pub groups: Vec<Group>,
    /// What was taken out, by message.
    pub findings: Vec<Finding>,
}

impl Groups {
    /// Where the user says what is to be done now, ascending: the last message of the user's own, and what was said later beside
    /// the results of tools. The latter may be a reminder that a program adds to every result, so it never stands alone.
    #[must_use]
    pub fn current_turn(&self) -> Vec<usize> {
        let last = self.groups.iter().rposition(|group| group.is_user_turn);
        let own = self.groups.iter().rposition(|group| group.is_user_turn && group.kind != GroupKind::Turn);
        own.into_iter().chain(last.filter(|last| Some(*last) != own)).collect()
    }

    /// The groups of the current turn; the last group where no user says anything.
    #[must_use]
    pub fn current_or_last(&self) -> Vec<&Group> {
        let mut current = self.current_turn();
        if current.is_empty() {
            current.extend(self.groups.len().checked_sub(1));
        }
        current.into_iter().filter_map(|at| self.groups.get(at)).collect()
    }
}

/// Which of the kept groups stand before the first user message and would make the request start with an assistant, which
/// Anthropic and others refuse: their positions in `kept`. Nothing if there is no user message to start on.
pub fn before_first_user<'a>(kept: impl IntoIterator<Item = &'a Group>) -> Vec<usize> {
    let mut before = Vec::new();
    for (position, group) in kept.into_iter().enumerate() {
        match group.kind {
            GroupKind::User => return before,
            GroupKind::System => {}
            GroupKind::Assistant | GroupKind::Turn => before.push(position),
        }
    }
    Vec::new()
}

/// Find the groups of a conversation, in time linear in it. All messages are of one format.
#[must_use]
pub fn group<M: Borrow<Message>>(messages: &[M]) -> Groups {
    Builder::new(messages).read()
}
