//! Items of the `OpenAI` Responses API: messages, calls and their outputs, reasoning.

use super::fault::Fault;
use super::model::{Answer, Call, Format, Message, PartKind, Role};
use super::node::{Key, Kind, Node};
use super::openai::{object, role};
use super::path::Path;
use super::reader::{Reader, Voice, shared};

const ROLES: &[(&str, Role)] =
    &[("user", Role::User), ("assistant", Role::Assistant), ("system", Role::System), ("developer", Role::System)];

/// Whether an item of this type is a call that the request must answer.
fn needs_answer(kind: &str) -> bool {
    matches!(
        kind,
        "function_call" | "custom_tool_call" | "computer_call" | "local_shell_call" | "shell_call" | "apply_patch_call"
    )
}

/// Whether an item of this type, which has no role, belongs to the Responses format.
pub(super) fn is_item(kind: &str) -> bool {
    matches!(kind, "reasoning" | "item_reference" | "compaction" | "mcp_list_tools")
        || kind.ends_with("_call")
        || kind.ends_with("_call_output")
        || kind.starts_with("mcp_approval_")
}

pub(super) fn read<N: Node>(node: &N) -> Result<Message, Fault> {
    object(node)?;
    let kind = match node.given(Key::Type) {
        None => String::new(),
        Some(kind) => kind
            .text()
            .map(std::borrow::Cow::into_owned)
            .ok_or_else(|| Fault::at("type", format!("must be text, not {}", kind.type_name())))?,
    };
    if kind.is_empty() || kind == "message" { message(node) } else { item(node, &kind) }
}

fn message<N: Node>(node: &N) -> Result<Message, Fault> {
    let (word, role) = role(node, ROLES).map_err(|mut fault| {
        if node.given(Key::Role).is_none() {
            "an item without a type needs a role".clone_into(&mut fault.reason);
        }
        fault
    })?;
    let mut reader = Reader::default();
    let mut is_named = false;
    for (key, value) in node.entries() {
        let name = key.text().unwrap_or_default();
        match name.as_ref() {
            "role" => reader.rest.strings.push(word.into()),
            "content" => reader.quoted(&value, &Path::root().key(Key::Content), Voice::Text)?,
            _ => {
                is_named |= name == "name" && value.text().is_some();
                reader.field(&key, "message", &value)?;
            }
        }
    }
    let is_empty = !reader.says_something();
    Ok(build(reader, role, is_named, is_empty))
}

fn build(reader: Reader, role: Role, is_named: bool, is_empty: bool) -> Message {
    Message {
        format: Format::Responses,
        role,
        is_named,
        is_empty,
        parts: reader.parts,
        rest: reader.rest,
        calls: reader.calls,
        answers: reader.answers,
        links_next: false,
        is_reference: false,
        is_compaction: false,
    }
}

fn item<N: Node>(node: &N, kind: &str) -> Result<Message, Fault> {
    let root = Path::root();
    let mut reader = Reader::default();
    let is_output = kind.ends_with("_output") || kind.ends_with("_response");
    let is_call = !is_output && (kind.ends_with("_call") || kind == "mcp_approval_request");
    let mut is_named = false;
    for (key, value) in node.entries() {
        let name = key.text().unwrap_or_default();
        let is_text = value.kind() == Kind::Text;
        match name.as_ref() {
            "arguments" | "input" if is_call && is_text => {
                let at = root.key(if name == "input" { Key::Input } else { Key::Arguments });
                reader.text(&value, at, [None; 2], PartKind::Call, <_>::default());
            }
            "arguments" if needs_answer(kind) && !matches!(value.kind(), Kind::Null | Kind::Object) => {
                return Err(Fault::at(
                    "arguments",
                    format!("arguments must be JSON text or an object, not {}", value.type_name()),
                ));
            }
            "output" if is_output && value.kind() == Kind::Object => {
                reader.part(&value, root.key(Key::Output), Voice::Result, 1)?;
            }
            "output" if is_output => reader.content(&value, &root.key(Key::Output), Voice::Result)?,
            "summary" | "content" if kind == "reasoning" => {
                let at = root.key(if name == "summary" { Key::Summary } else { Key::Content });
                reader.content(&value, &at, Voice::Thinking)?;
            }
            _ => {
                if name == "name" && is_text {
                    is_named = true;
                    reader.rest.strings.push(shared(&value.text().unwrap_or_default()));
                    continue;
                }
                reader.field(&key, kind, &value)?;
            }
        }
    }
    // The item is the call or the result; blocks inside it are neither.
    reader.calls.clear();
    reader.answers.clear();
    reader.rest.calls += u32::from(is_call);
    let approval = kind.starts_with("mcp_approval_");
    let id = match (approval, is_call) {
        (true, true) => node.text_at(Key::Id),
        (true, false) => node.text_at(Key::ApprovalRequestId),
        // A hosted shell call of older API versions has only its id.
        (false, _) => node.text_at(Key::CallId).or_else(|| node.text_at(Key::Id)),
    };
    let id: Box<str> = id.unwrap_or_default().into();
    if is_call {
        let name = node.text_at(Key::Name).unwrap_or_default().into();
        reader.calls.push(Call { id, name, part: None, needs_answer: needs_answer(kind) });
    } else if is_output {
        reader.answers.push(Answer { id, part: None });
    }
    let role = if is_output { Role::Tool } else { Role::Assistant };
    let mut message = build(reader, role, is_named, false);
    message.links_next = kind == "reasoning";
    message.is_reference = kind == "item_reference";
    message.is_compaction = kind == "compaction";
    Ok(message)
}
