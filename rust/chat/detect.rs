//! Which format messages are in, from the messages themselves.

use super::model::Format;
use super::node::{Key, Kind, Node};
use super::responses;

/// The format that the first telling message is in. Nothing telling: Responses if items call themselves messages, Anthropic
/// if `has_system` (a system prompt beside the messages) and no message is a developer's, else `OpenAI` chat, which reads plain
/// conversations of all three.
#[must_use]
pub fn detect<N: Node>(messages: &[N], has_system: bool) -> Format {
    let mut hints = Hints::default();
    for message in messages {
        if let Some(format) = telling(message, &mut hints) {
            return format;
        }
    }
    if hints.is_called_message {
        Format::Responses
    } else if has_system && !hints.is_of_developer {
        Format::Anthropic
    } else {
        Format::OpenAi
    }
}

/// What tells something where nothing tells all.
#[derive(Default)]
struct Hints {
    is_called_message: bool,
    is_of_developer: bool,
}

fn telling<N: Node>(message: &N, hints: &mut Hints) -> Option<Format> {
    let kind = message.text_at(Key::Type);
    let Some(role) = message.given(Key::Role) else {
        return kind.filter(|kind| responses::is_item(kind)).map(|_| Format::Responses);
    };
    match role.text().as_deref() {
        Some("tool" | "function") => return Some(Format::OpenAi),
        Some("developer") => hints.is_of_developer = true,
        _ => {}
    }
    if message.given(Key::ToolCalls).is_some_and(|calls| calls.items().next().is_some())
        || message.given(Key::FunctionCall).is_some()
    {
        return Some(Format::OpenAi);
    }
    let content = message.given(Key::Content)?;
    if content.kind() == Kind::List {
        let mut has_bare_text = false;
        for part in content.items() {
            match part.text_at(Key::Type).as_deref() {
                Some("input_text" | "output_text" | "input_image" | "input_file") => return Some(Format::Responses),
                Some("image_url" | "file") => return Some(Format::OpenAi),
                Some("image") if part.given(Key::Source).is_some() => return Some(Format::Anthropic),
                Some("tool_use" | "tool_result" | "thinking" | "redacted_thinking" | "document" | "compaction") => {
                    return Some(Format::Anthropic);
                }
                Some(other) if other.ends_with("_tool_use") || other.ends_with("_tool_result") => {
                    return Some(Format::Anthropic);
                }
                Some("text") => has_bare_text = true,
                _ => {}
            }
        }
        if has_bare_text {
            return None;
        }
    }
    hints.is_called_message |= kind.as_deref() == Some("message");
    None
}
