//! The formats a tool comes in, and where each keeps its name, description and schema.

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

    const fn prefix(self) -> &'static str {
        match self {
            Self::OpenAi => "/function",
            _ => "",
        }
    }
}

/// The outermost two levels of a tool, in which no text is but names and types. Its few keys are found by looking at each.
#[derive(Debug)]
pub(super) enum Shallow {
    Null,
    Bool,
    Number,
    Text(String),
    List,
    Object(Vec<(String, Shallow)>),
}

impl Shallow {
    /// What stands under a key; of equal ones the last.
    fn get(&self, key: &str) -> Option<&Self> {
        let Self::Object(entries) = self else { return None };
        entries.iter().rev().find(|(known, _)| known == key).map(|(_, value)| value)
    }

    fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    /// The word for messages to people.
    const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "a boolean",
            Self::Number => "a number",
            Self::Text(_) => "text",
            Self::List => "a list",
            Self::Object(_) => "an object",
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
/// `index` names a tool that has no name.
pub(super) fn read(tool: &Shallow, index: usize) -> Result<Head> {
    let unnamed = |path: &str, reason: &str| Error::ToolSchema {
        tool: index.to_string(),
        path: path.to_owned(),
        reason: reason.to_owned(),
    };
    if !matches!(tool, Shallow::Object(_)) {
        return Err(unnamed("", &format!("a tool is an object with a name, not {}", tool.kind())));
    }
    let format = detect(tool);
    let body = if format == Format::OpenAi { tool.get("function") } else { Some(tool) };
    let Some(body @ Shallow::Object(_)) = body else {
        return Err(unnamed("/function", "\"function\" must be an object with a name"));
    };
    let path = |key: &str| format!("{}/{key}", format.prefix());
    let name = match (body.get("name"), format) {
        (Some(Shallow::Text(name)), _) if !name.is_empty() => name.clone(),
        (None, Format::Opaque) => opaque_name(tool).to_owned(),
        (None, _) => return Err(unnamed(&path("name"), "the tool has no name; give \"name\": \"...\"")),
        (Some(other), _) => {
            let found = if other.text().is_some() { "empty" } else { other.kind() };
            return Err(unnamed(&path("name"), &format!("the name is {found}; it must be text")));
        }
    };
    let fault = |key: &str, reason: String| Err(Error::ToolSchema { tool: name.clone(), path: path(key), reason });
    if format != Format::Opaque {
        match body.get("description") {
            None | Some(Shallow::Text(_) | Shallow::Null) => {}
            Some(other) => {
                return fault("description", format!("the description is {}; it must be text", other.kind()));
            }
        }
        match body.get(format.schema_key()) {
            None | Some(Shallow::Object(_) | Shallow::Null) => {}
            Some(other) => {
                let reason = format!("the schema is {}; it must be a JSON Schema object", other.kind());
                return fault(format.schema_key(), reason);
            }
        }
    }
    Ok(Head { format, name })
}

/// `{"type": "custom", "custom": {"name": ...}}` has its name inside; others are known by their type.
fn opaque_name(tool: &Shallow) -> &str {
    let kind = tool.get("type").and_then(Shallow::text).unwrap_or_default();
    tool.get(kind).and_then(|inner| inner.get("name")).and_then(Shallow::text).unwrap_or(kind)
}

fn detect(tool: &Shallow) -> Format {
    let kind = tool.get("type").and_then(Shallow::text);
    if tool.get("input_schema").is_some() {
        Format::Anthropic
    } else if tool.get("inputSchema").is_some() {
        Format::Mcp
    } else if tool.get("function").is_some() && matches!(kind, None | Some("function")) {
        Format::OpenAi
    } else if matches!(kind, None | Some("function")) {
        Format::Flat
    } else {
        Format::Opaque
    }
}
