//! `OpenAI` chat completions, and what speaks like them.

use super::fault::Fault;
use super::model::{Answer, Format, Message, PartKind, Role};
use super::node::{Key, Kind, Node};
use super::path::Path;
use super::reader::{Reader, Voice, shared};

/// Read the role of a message, the word as it was sent included.
pub(super) fn role<N: Node>(node: &N, known: &'static [(&'static str, Role)]) -> Result<(&'static str, Role), Fault> {
    let expected = || known.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let Some(role) = node.given(Key::Role) else {
        return Err(Fault::at("role", format!("missing; expected one of {}", expected())));
    };
    let Some(text) = role.text() else {
        return Err(Fault::at("role", format!("must be text, not {}", role.type_name())));
    };
    known
        .iter()
        .find(|(name, _)| *name == text)
        .copied()
        .ok_or_else(|| Fault::at("role", format!("unknown role {text:?}; expected one of {}", expected())))
}

/// Check that a message is an object.
pub(super) fn object<N: Node>(node: &N) -> Result<(), Fault> {
    if node.kind() == Kind::Object {
        return Ok(());
    }
    Err(Fault::new(format!("a message is an object with a role, not {}", node.type_name())))
}

const ROLES: &[(&str, Role)] = &[
    ("system", Role::System),
    ("developer", Role::System),
    ("user", Role::User),
    ("assistant", Role::Assistant),
    ("tool", Role::Tool),
    ("function", Role::Tool),
];

pub(super) fn read<N: Node>(node: &N) -> Result<Message, Fault> {
    object(node)?;
    let (word, role) = role(node, ROLES)?;
    let mut reader = Reader::default();
    let root = Path::root();
    let voice = if role == Role::Tool { Voice::Result } else { Voice::Text };
    let mut is_named = false;
    for (key, value) in node.entries() {
        let name = key.text().unwrap_or_default();
        let is_text = value.kind() == Kind::Text;
        match name.as_ref() {
            "role" => reader.rest.strings.push(word.into()),
            "content" => reader.quoted(&value, &root.key(Key::Content), voice)?,
            "name" if is_text => {
                is_named = true;
                reader.rest.strings.push(shared(&value.text().unwrap_or_default()));
            }
            "tool_calls" if role == Role::Assistant => calls(&mut reader, &value, &root.key(Key::ToolCalls))?,
            "function_call" if role == Role::Assistant && value.kind() != Kind::Null => {
                reader.call(&value, root.key(Key::FunctionCall), [Some(Key::Arguments), None], 0, 1)?;
                if let Some(call) = reader.calls.last_mut() {
                    call.id = call.name.clone();
                }
            }
            "refusal" if is_text => {
                reader.text(&value, root.key(Key::Refusal), [None; 2], PartKind::Refusal, <_>::default());
            }
            "reasoning_content" if is_text => {
                reader.text(&value, root.key(Key::ReasoningContent), [None; 2], PartKind::Thinking, <_>::default());
            }
            "reasoning" if is_text => {
                reader.text(&value, root.key(Key::Reasoning), [None; 2], PartKind::Thinking, <_>::default());
            }
            _ => reader.field(&key, "", &value)?,
        }
    }
    if role == Role::Tool {
        // A legacy result names the function; a tool's result names the call.
        let id = if word == "function" { Key::Name } else { Key::ToolCallId };
        reader.answers.push(Answer { id: node.text_at(id).unwrap_or_default().into(), part: None });
    }
    let speaks = node.given(Key::Audio).is_some_and(|audio| audio.kind() == Kind::Object);
    let is_empty = role != Role::Tool && !speaks && !reader.says_something();
    Ok(Message {
        format: Format::OpenAi,
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
    })
}

fn calls<N: Node>(reader: &mut Reader, list: &N, at: &Path) -> Result<(), Fault> {
    match list.kind() {
        Kind::Null => return Ok(()),
        Kind::List => {}
        _ => return Err(Fault::at(at, format!("must be a list of calls or null, not {}", list.type_name()))),
    }
    for (index, call) in list.items().enumerate() {
        let inner = if call.given(Key::Function).is_none() && call.given(Key::Custom).is_some() {
            [Some(Key::Custom), Some(Key::Input)]
        } else {
            [Some(Key::Function), Some(Key::Arguments)]
        };
        reader.call(&call, at.index(index), inner, 0, 1)?;
    }
    Ok(())
}
