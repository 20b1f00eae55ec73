//! Chat formats in and out, groups, and what a message costs.
//!
//! [`parse`] reads one message of any [`Format`] into a [`Message`]: its parts, each with the [`Path`] where it stands, its
//! calls and the results it brings. [`group`](group::group) finds what lives or dies together. [`framing`] says what it costs.
//! What is kept whole is the caller's own object; a smaller rendition is a list of [`Edit`]s on it.
//!
//! ```
//! use holdall::chat::{self, Format, group::group};
//!
//! let input = serde_json::json!([
//!     {"role": "user", "content": "What time is it?"},
//!     {"role": "assistant", "content": null, "tool_calls": [
//!         {"id": "a", "type": "function", "function": {"name": "clock", "arguments": "{}"}}]},
//!     {"role": "tool", "tool_call_id": "a", "content": "12:04"}
//! ]);
//! let nodes: Vec<_> = input.as_array().into_iter().flatten().map(chat::Json::Value).collect();
//! assert_eq!(chat::detect(&nodes, false), Format::OpenAi);
//! let messages = chat::parse_all(Format::OpenAi, &nodes)?;
//! let groups = group(&messages);
//! assert_eq!(groups.groups[1].indices().collect::<Vec<_>>(), [1, 2]);
//! # Ok::<(), holdall::Error>(())
//! ```

mod anthropic;
mod blocks;
mod detect;
mod edit;
mod fault;
mod fingerprint;
pub mod framing;
pub mod group;
mod json;
mod known;
mod media;
mod model;
mod node;
mod openai;
mod path;
mod reader;
mod responses;
mod settle;

#[cfg(test)]
mod tests;

pub use detect::detect;
pub use edit::{Edit, EditTree, apply};
pub use fingerprint::Fingerprinter;
pub use json::{MAX_DEPTH, MAX_VALUES};
pub(crate) use json::{first_escape, push_quoted};
pub(crate) use known::{Known, locked};
pub use media::{Media, MediaKind};
pub use model::{Answer, Call, Format, Message, Part, PartKind, Rest, Role};
pub use node::{Json, Key, Kind, Node};
pub use path::{Path, Step};

use crate::Result;

/// Read message `index` of a conversation.
///
/// # Errors
/// `Error::Message` says where in which message what is wrong.
pub fn parse<N: Node>(format: Format, index: usize, node: &N) -> Result<Message> {
    match format {
        Format::OpenAi => openai::read(node),
        Format::Responses => responses::read(node),
        Format::Anthropic => anthropic::read(node),
    }
    .map_err(|fault| fault.of(index))
}

/// Read every message of a conversation.
///
/// # Errors
/// As [`parse`].
pub fn parse_all<N: Node>(format: Format, nodes: &[N]) -> Result<Vec<Message>> {
    nodes.iter().enumerate().map(|(index, node)| parse(format, index, node)).collect()
}

/// Read a system prompt that stands beside the messages: text, or a list of blocks. The paths of its parts start in it.
///
/// # Errors
/// `Error::Argument` says what is wrong with it.
pub fn parse_system<N: Node>(node: &N) -> Result<Message> {
    anthropic::read_system(node).map_err(|fault| {
        let at = if fault.path.is_empty() || fault.path == "system" { String::new() } else { fault.path };
        crate::Error::Argument(format!("system{at}: {}", fault.reason))
    })
}

/// A value as compact JSON, as it is sent: no spaces, non-ASCII unescaped. The same bytes as Python's
/// `json.dumps(value, ensure_ascii=False, separators=(",", ":"))`.
///
/// # Errors
/// `Error::Argument` when the value is nested too deep or holds something that JSON does not know.
pub fn compact_json<N: Node>(value: &N) -> Result<String> {
    let mut out = String::new();
    json::write(value, &mut out, &mut json::Fuel::default(), 0)
        .map_err(|fault| crate::Error::Argument(fault.reason))?;
    Ok(out)
}
