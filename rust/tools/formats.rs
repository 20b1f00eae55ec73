//! The formats a tool comes in, and where each keeps its name, description and schema.

use crate::chat::{Key, Kind, Node};
use crate::{Error, Result};

/// How a tool is written. What comes in one format goes out in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// `{"type": "function", "function": {"name", "description", "parameters"}}`.
    OpenAi,
    /// `{"type": "function", "name", "description", "parameters"}` (Responses), or the same without a type.
    Flat,
    /// `{"name", "description", "input_schema"}`.
    Anthropic,
    /// `{"name", "description", "inputSchema"}`.
    Mcp,
    /// A tool of the provider's own (web search, computer use), known by its type: kept whole or left out.
    Opaque,
}

impl Format {
    /// The key that holds the parameters' schema.
    pub(super) const fn schema_key(self) -> Key {
        match self {
            Self::OpenAi | Self::Flat | Self::Opaque => Key::Parameters,
            Self::Anthropic => Key::InputSchema,
            Self::Mcp => Key::InputSchemaCamel,
        }
    }

    const fn prefix(self) -> &'static str {
        match self {
            Self::OpenAi => "/function",
            _ => "",
        }
    }
}

/// What `read` found.
pub(super) struct Head {
    pub(super) format: Format,
    pub(super) name: String,
}

/// Tell the format of a tool that is JSON all through, and check what the rest relies on.
///
/// `index` names a tool that has no name.
pub(super) fn read<N: Node>(tool: &N, index: usize) -> Result<Head> {
    let unnamed = |path: &str, reason: &str| Error::ToolSchema {
        tool: index.to_string(),
        path: path.to_owned(),
        reason: reason.to_owned(),
    };
    if tool.kind() != Kind::Object {
        return Err(unnamed("", &format!("a tool is an object with a name, not {}", tool.kind().name())));
    }
    let (kind, function) = (tool.text_at(Key::Type), tool.get(Key::Function));
    let format = detect(tool, kind.as_deref(), function.is_some());
    let inner = if format == Format::OpenAi { function } else { None };
    let body = inner.as_ref().unwrap_or(tool);
    if body.kind() != Kind::Object {
        return Err(unnamed("/function", "\"function\" must be an object with a name"));
    }
    let path = |key: Key| format!("{}/{}", format.prefix(), key.text());
    let name = match body.get(Key::Name) {
        Some(name) => {
            let text = name.text().unwrap_or_default();
            if text.is_empty() {
                let found = if name.kind() == Kind::Text { "empty" } else { name.kind().name() };
                return Err(unnamed(&path(Key::Name), &format!("the name is {found}; it must be text")));
            }
            text.into_owned()
        }
        None if format == Format::Opaque => opaque_name(tool, kind.unwrap_or_default()),
        None => return Err(unnamed(&path(Key::Name), "the tool has no name; give \"name\": \"...\"")),
    };
    let fault = |key: Key, reason: String| Err(Error::ToolSchema { tool: name.clone(), path: path(key), reason });
    if format != Format::Opaque {
        let kind_at = |key: Key| body.get(key).map_or(Kind::Null, |value| value.kind());
        let description = kind_at(Key::Description);
        if !matches!(description, Kind::Text | Kind::Null) {
            return fault(Key::Description, format!("the description is {}; it must be text", description.name()));
        }
        let schema = kind_at(format.schema_key());
        if !matches!(schema, Kind::Object | Kind::Null) {
            let reason = format!("the schema is {}; it must be a JSON Schema object", schema.name());
            return fault(format.schema_key(), reason);
        }
    }
    Ok(Head { format, name })
}

/// `{"type": "custom", "custom": {"name": ...}}` has its name inside; others are known by their type.
fn opaque_name<N: Node>(tool: &N, kind: String) -> String {
    let inner = tool.entries().filter(|(key, _)| key.text().is_some_and(|key| key == kind)).last();
    inner.and_then(|(_, inner)| inner.text_at(Key::Name)).unwrap_or(kind)
}

fn detect<N: Node>(tool: &N, kind: Option<&str>, has_function: bool) -> Format {
    let is_function = matches!(kind, None | Some("function"));
    if tool.get(Key::InputSchema).is_some() {
        Format::Anthropic
    } else if tool.get(Key::InputSchemaCamel).is_some() {
        Format::Mcp
    } else if !is_function {
        Format::Opaque
    } else if has_function {
        Format::OpenAi
    } else {
        Format::Flat
    }
}
