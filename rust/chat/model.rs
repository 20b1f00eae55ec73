//! What a message is, whichever format it came in.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use super::media::Media;
use super::node::Key;
use super::path::{Path, Step};

/// A chat format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Format {
    /// `OpenAI` chat completions, and what speaks like them.
    #[default]
    OpenAi,
    /// Items of the `OpenAI` Responses API.
    Responses,
    /// Anthropic messages: content blocks, the system prompt apart.
    Anthropic,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 3] = [Self::OpenAi, Self::Responses, Self::Anthropic];

    /// The name that users write.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Responses => "responses",
            Self::Anthropic => "anthropic",
        }
    }

    /// The format called `name`.
    ///
    /// # Errors
    /// `Error::UnknownName` with the known ones.
    pub fn named(name: &str) -> crate::Result<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name).ok_or_else(|| crate::Error::UnknownName {
            what: "message format",
            name: name.to_owned(),
            known: Self::ALL.iter().map(|format| format.name().to_owned()).collect(),
        })
    }
}

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// Instructions: system or developer.
    System,
    /// The user; in the Anthropic format also who brings tool results.
    User,
    /// The model, with its calls and its reasoning.
    Assistant,
    /// Nothing but a tool's result.
    Tool,
}

/// What a part is.
#[derive(Debug, Clone, PartialEq)]
pub enum PartKind {
    /// Text that anyone wrote.
    Text,
    /// Text of a tool's result.
    Result,
    /// The model's reasoning. It can be left out; it cannot be changed, since it may be signed.
    Thinking,
    /// A refusal.
    Refusal,
    /// An image, a recording or a file.
    Media(Media),
    /// A call; its text is the arguments as JSON.
    Call,
    /// Kept as it is: a result's envelope, or a part of a type that is not known here.
    Opaque,
}

/// What of a message or a part is counted, besides its text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rest {
    /// Strings: roles, types, names, ids and whatever else is sent.
    pub strings: Vec<Cow<'static, str>>,
    /// Media that stand where no part can be named.
    pub media: Vec<Media>,
    /// Tokens of encrypted reasoning and signatures: 3 for each 16 characters, rounded up for each.
    pub encrypted: u64,
    /// How many elements of content lists this stands for.
    pub parts: u32,
    /// How many calls this stands for.
    pub calls: u32,
}

/// A piece of a message.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// The element that is the part: what to remove to be rid of it.
    pub at: Path,
    /// From `at` to the text: two keys at the most.
    pub inner: [Option<Key>; 2],
    /// What it is.
    pub kind: PartKind,
    /// Its text; empty for what has none.
    pub text: Arc<str>,
    /// What else of it is counted.
    pub rest: Rest,
}

impl Part {
    /// Where the text itself stands.
    #[must_use]
    pub fn text_path(&self) -> Path {
        self.inner.iter().flatten().fold(self.at.clone(), |path, key| path.key(*key))
    }

    /// Whether its text may be replaced by a shorter one without breaking the message.
    #[must_use]
    pub const fn is_editable(&self) -> bool {
        matches!(self.kind, PartKind::Text | PartKind::Result | PartKind::Refusal)
    }
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The id that its result names; empty where the format has none.
    pub id: Box<str>,
    /// The tool's name; empty where the call has none.
    pub name: Box<str>,
    /// Which part it is; none if it is the whole message.
    pub part: Option<usize>,
    /// Whether the request is invalid without its result.
    pub needs_answer: bool,
}

/// A tool's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The id of the call that it answers; empty where the format has none.
    pub id: Box<str>,
    /// Which part it is; none if it is the whole message.
    pub part: Option<usize>,
}

/// One message, read.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own; no two make a state")]
pub struct Message {
    /// The format that it came in.
    pub format: Format,
    /// Who speaks.
    pub role: Role,
    /// Its pieces, in order.
    pub parts: Vec<Part>,
    /// What is counted of it besides.
    pub rest: Rest,
    /// Whether it carries a name of its own.
    pub is_named: bool,
    /// The calls that it makes.
    pub calls: Vec<Call>,
    /// The results that it brings.
    pub answers: Vec<Answer>,
    /// Whether it lives or dies with what follows it: a reasoning item, a turn of thinking alone.
    pub links_next: bool,
    /// Whether it stands for an item that the provider holds, which may be a call.
    pub is_reference: bool,
    /// Whether it stands for all that was said before it: what a provider's own compaction gave back.
    pub is_compaction: bool,
    /// Whether it says nothing: no calls, no results, no media, and no text but white space.
    pub is_empty: bool,
}

impl Message {
    /// The arguments, results and texts that a search should see, a line for each.
    #[must_use]
    pub fn searchable(&self) -> String {
        let mut out = String::new();
        let mut line = |text: &str| {
            if !text.trim().is_empty() {
                if !out.is_empty() {
                    out.push('\n');
                }
                out.push_str(text);
            }
        };
        for call in &self.calls {
            line(&call.name);
        }
        for part in &self.parts {
            if part.kind != PartKind::Thinking {
                line(&part.text);
            }
        }
        out
    }

    /// Whether a user, not a tool, says something here.
    #[must_use]
    pub fn is_user_turn(&self) -> bool {
        if self.role != Role::User || self.is_empty || self.answers.is_empty() {
            return self.role == Role::User && !self.is_empty;
        }
        let answers = self.answers.iter().filter_map(|answer| self.parts.get(answer.part?));
        let answers: HashSet<&[Step]> = answers.map(|outer| outer.at.steps()).collect();
        let is_inside = |part: &Part| {
            let steps = part.at.steps();
            (0..=steps.len()).any(|n| steps.get(..n).is_some_and(|outer| answers.contains(outer)))
        };
        self.parts.iter().any(|part| match part.kind {
            PartKind::Text => !part.text.trim().is_empty(),
            PartKind::Media(_) => !is_inside(part),
            _ => false,
        })
    }
}
