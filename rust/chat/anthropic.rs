//! Anthropic messages: roles that alternate, content blocks, the system prompt apart.

use super::fault::Fault;
use super::model::{Format, Message, PartKind, Role};
use super::node::{Key, Node};
use super::openai::{object, role};
use super::path::Path;
use super::reader::{Reader, Voice};

const ROLES: &[(&str, Role)] = &[("user", Role::User), ("assistant", Role::Assistant), ("system", Role::System)];

pub(super) fn read<N: Node>(node: &N) -> Result<Message, Fault> {
    object(node)?;
    let (word, role) = role(node, ROLES).map_err(|mut fault| {
        if node.text_at(Key::Role).as_deref() == Some("tool") {
            fault.reason.push_str("; here a result is a tool_result block of a user message");
        }
        fault
    })?;
    let mut reader = Reader::default();
    let mut is_named = false;
    for (key, value) in node.entries() {
        let name = key.text().unwrap_or_default();
        match name.as_ref() {
            "role" => reader.rest.strings.push(word.into()),
            "content" => reader.content(&value, &Path::root().key(Key::Content), Voice::Text)?,
            _ => {
                is_named |= name == "name" && value.text().is_some();
                reader.field(&key, "", &value)?;
            }
        }
    }
    // Only the model calls, and only the user brings results; elsewhere such a block is kept as it is.
    if role != Role::Assistant {
        reader.calls.clear();
    }
    if role != Role::User {
        reader.answers.clear();
    }
    let is_empty = !reader.says_something();
    let thinks = reader.parts.iter().any(|part| part.kind == PartKind::Thinking);
    Ok(Message {
        format: Format::Anthropic,
        role,
        is_named,
        links_next: role == Role::Assistant && is_empty && thinks,
        is_empty: is_empty && !thinks,
        parts: reader.parts,
        rest: reader.rest,
        calls: reader.calls,
        answers: reader.answers,
        is_reference: false,
        is_compaction: role == Role::Assistant && reader.has_compaction,
    })
}

/// Read the system prompt that goes beside the messages: text, or a list of blocks. It costs as much as a message with
/// role `system`.
pub(super) fn read_system<N: Node>(node: &N) -> Result<Message, Fault> {
    let mut reader = Reader::default();
    reader.rest.strings.push("system".into());
    reader.content(node, &Path::root(), Voice::Text).map_err(|fault| fault.within("system"))?;
    Ok(Message {
        format: Format::Anthropic,
        role: Role::System,
        is_named: false,
        is_empty: !reader.says_something(),
        parts: reader.parts,
        rest: reader.rest,
        calls: Vec::new(),
        answers: Vec::new(),
        links_next: false,
        is_reference: false,
        is_compaction: false,
    })
}
