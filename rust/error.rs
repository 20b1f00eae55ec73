//! The one error type of the crate: data first, the human line written only when someone asks.

use std::fmt;

/// What went wrong, with the figures a caller needs to mend it.
///
/// Each variant becomes one class of `holdall.errors` in `py/error.rs`, the only place where errors cross.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// An argument is outside its domain; the text says which, what it was, and what is allowed.
    Argument(String),
    /// A name is not one of the known ones.
    UnknownName {
        /// What kind of thing was named, for example "encoding".
        what: &'static str,
        /// The name that was given.
        name: String,
        /// The names that would have been accepted.
        known: Vec<String>,
    },
    /// A message cannot be read as the chat format it was given as.
    Message {
        /// Index of the message in the input.
        index: usize,
        /// Where inside the message, for example `content[2].type`.
        path: String,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// The required items alone exceed the budget.
    RequiredOverflow {
        /// Tokens that were available.
        budget: u64,
        /// Tokens that the smallest allowed form of the required items needs.
        total: u64,
        /// (label, tokens) of each required item, in input order.
        items: Vec<(String, u64)>,
    },
    /// A tool schema cannot be read, or a used tool cannot be made to fit.
    ToolSchema {
        /// Name of the tool, or its index where it has no name.
        tool: String,
        /// JSON pointer to the offending place, empty for the tool itself.
        path: String,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// Bytes that are not what they claim to be.
    Decode {
        /// Byte offset of the fault.
        offset: usize,
        /// What was wrong there.
        reason: String,
    },
    /// A summarizer did not give text.
    Summarizer(String),
    /// A value that cannot be stored so that it comes back equal.
    Encode {
        /// Where it stands, for example `messages[3].content`; empty for the value itself.
        path: String,
        /// What is wrong, as the end of a sentence that begins with the path.
        reason: String,
    },
    /// A caller's token counter failed; the binding restores the caller's own exception.
    Counter(String),
}

/// The result of everything here that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Argument(text) | Self::Summarizer(text) | Self::Counter(text) => f.write_str(text),
            Self::UnknownName { what, name, known } => {
                write!(f, "unknown {what} {name:?}; known: {}", known.join(", "))?;
                if *what == "model" {
                    f.write_str(
                        "; for any other use Tokenizer.from_callable(count, margin=...), the margin 0 if exact",
                    )?;
                }
                Ok(())
            }
            Self::Message { index, path, reason } => {
                write!(f, "message {index}")?;
                if !path.is_empty() {
                    write!(f, ", {path}")?;
                }
                write!(f, ": {reason}")
            }
            Self::RequiredOverflow { budget, total, items } => {
                write!(f, "the required items need {total} tokens but the budget is {budget}")?;
                for (n, (label, tokens)) in items.iter().enumerate() {
                    f.write_str(if n == 0 { ": " } else { ", " })?;
                    if n == 8 {
                        return write!(f, "and {} more", items.len() - n);
                    }
                    write!(f, "{label} {tokens}")?;
                }
                f.write_str("; raise max_tokens, lower output_reserve, or shorten a required item")
            }
            Self::ToolSchema { tool, path, reason } => {
                write!(f, "tool {tool:?}")?;
                if !path.is_empty() {
                    write!(f, " at {path}")?;
                }
                write!(f, ": {reason}")
            }
            Self::Encode { path, reason } if path.is_empty() => write!(f, "the value {reason}"),
            Self::Encode { path, reason } => write!(f, "{path} {reason}"),
            Self::Decode { offset, reason } => write!(f, "{reason} (at byte {offset})"),
        }
    }
}

impl std::error::Error for Error {}
