//! The formats a tool comes in, and where each keeps its name, description and schema.

use serde_json::{Map, Value};

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
    pub(super) const fn schema_key(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Flat | Self::Opaque => "parameters",
            Self::Anthropic => "input_schema",
            Self::Mcp => "inputSchema",
        }
    }

    /// The object inside `tool` that has name, description and schema.
    pub(super) fn body(self, tool: &Map<String, Value>) -> Option<&Map<String, Value>> {
        match self {
            Self::OpenAi => tool.get("function").and_then(Value::as_object),
            _ => Some(tool),
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

/// Tell the format of a tool and check what the rest relies on.
///
/// Looks at the outermost two levels of `value` only; `index` names a tool that has no name.
pub(super) fn read(value: &Value, index: usize) -> Result<Head> {
    let unnamed = |path: &str, reason: &str| Error::ToolSchema {
        tool: index.to_string(),
        path: path.to_owned(),
        reason: reason.to_owned(),
    };
    let Value::Object(tool) = value else {
        return Err(unnamed("", &format!("a tool is an object with a name, not {}", kind(value))));
    };
    let format = detect(tool);
    let Some(body) = format.body(tool) else {
        return Err(unnamed("/function", "\"function\" must be an object with a name"));
    };
    let path = |key: &str| format!("{}/{key}", format.prefix());
    let name = match (body.get("name"), format) {
        (Some(Value::String(name)), _) if !name.is_empty() => name.clone(),
        (None, Format::Opaque) => opaque_name(tool).to_owned(),
        (None, _) => return Err(unnamed(&path("name"), "the tool has no name; give \"name\": \"...\"")),
        (Some(other), _) => {
            let found = if other.is_string() { "empty" } else { kind(other) };
            return Err(unnamed(&path("name"), &format!("the name is {found}; it must be text")));
        }
    };
    let fault = |key: &str, reason: String| Err(Error::ToolSchema { tool: name.clone(), path: path(key), reason });
    if format != Format::Opaque {
        match body.get("description") {
            None | Some(Value::String(_) | Value::Null) => {}
            Some(other) => return fault("description", format!("the description is {}; it must be text", kind(other))),
        }
        match body.get(format.schema_key()) {
            None | Some(Value::Object(_) | Value::Null) => {}
            Some(other) => {
                let reason = format!("the schema is {}; it must be a JSON Schema object", kind(other));
                return fault(format.schema_key(), reason);
            }
        }
    }
    Ok(Head { format, name })
}

/// `{"type": "custom", "custom": {"name": ...}}` has its name inside; others are known by their type.
fn opaque_name(tool: &Map<String, Value>) -> &str {
    let kind = tool.get("type").and_then(Value::as_str).unwrap_or_default();
    tool.get(kind).and_then(|inner| inner.get("name")).and_then(Value::as_str).unwrap_or(kind)
}

fn detect(tool: &Map<String, Value>) -> Format {
    let kind = tool.get("type").and_then(Value::as_str);
    if tool.contains_key("input_schema") {
        Format::Anthropic
    } else if tool.contains_key("inputSchema") {
        Format::Mcp
    } else if tool.contains_key("function") && matches!(kind, None | Some("function")) {
        Format::OpenAi
    } else if matches!(kind, None | Some("function")) {
        Format::Flat
    } else {
        Format::Opaque
    }
}

/// The word for messages to people.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
