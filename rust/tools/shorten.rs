//! Smaller forms of a tool that still say how to call it.
//!
//! Kept in every form: names, types, `required`, enums and constants, the shape (properties, items, anyOf ...), and the
//! definitions that a reference reaches. What goes, step by step, is said at [`Step`]. A property that is *named*
//! `description`, `title` or `examples` is a property, and stays.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::formats::Format;
use super::refs;

/// How a tool is shown, from the full form to the smallest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// As it came.
    Full,
    /// Descriptions cut at a sentence's end; titles, examples, defaults, comments and unreachable definitions dropped.
    Trimmed,
    /// Descriptions of parameters dropped too, the tool's own down to its first sentence.
    Brief,
    /// No descriptions; limits on values (patterns, lengths, ranges, formats) dropped too.
    Bare,
}

impl Step {
    /// From the fullest to the smallest.
    pub const ALL: [Self; 4] = [Self::Full, Self::Trimmed, Self::Brief, Self::Bare];

    const fn limits(self) -> Limits {
        match self {
            Self::Full => Limits { tool: usize::MAX, parameter: usize::MAX },
            Self::Trimmed => Limits { tool: 60, parameter: 16 },
            Self::Brief => Limits { tool: 20, parameter: 0 },
            Self::Bare => Limits { tool: 0, parameter: 0 },
        }
    }
}

/// The longest descriptions, in tokens by estimate.
#[derive(Clone, Copy)]
struct Limits {
    tool: usize,
    parameter: usize,
}

/// Notes for people, which no validator reads.
const NOTES: &[&str] = &[
    "title",
    "examples",
    "example",
    "default",
    "$comment",
    "deprecated",
    "readOnly",
    "writeOnly",
    "markdownDescription",
    "errorMessage",
];

/// What limits a value beyond its type.
const VALUE_LIMITS: &[&str] = &[
    "pattern",
    "format",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minItems",
    "maxItems",
    "uniqueItems",
    "minProperties",
    "maxProperties",
    "contentEncoding",
    "contentMediaType",
];

/// What stands beside the schema for clients, not for the model.
const CLIENT_NOTES: &[&str] =
    &["title", "annotations", "outputSchema", "output_schema", "icons", "_meta", "input_examples"];

/// The form of `tool` at `step`, or `None` where there is none: the tool is the provider's own, or its references
/// would break.
pub(super) fn shorten(tool: &Value, format: Format, step: Step) -> Option<Value> {
    let Value::Object(entries) = tool else { return None };
    match format {
        Format::Opaque => None,
        Format::OpenAi => {
            let mut short = Map::new();
            for (key, value) in entries {
                match (key.as_str(), value) {
                    ("function", Value::Object(body)) => {
                        short.insert(key.clone(), Value::Object(shorten_body(body, format, step)?));
                    }
                    _ => {
                        short.insert(key.clone(), value.clone());
                    }
                }
            }
            Some(Value::Object(short))
        }
        _ => Some(Value::Object(shorten_body(entries, format, step)?)),
    }
}

fn shorten_body(body: &Map<String, Value>, format: Format, step: Step) -> Option<Map<String, Value>> {
    let mut short = Map::new();
    for (key, value) in body {
        let shown = match (key.as_str(), value) {
            ("description", Value::String(text)) => cut(text, step.limits().tool).map(Value::String),
            (key, Value::Object(schema)) if key == format.schema_key().text() => {
                Some(Value::Object(shorten_root(schema, step)?))
            }
            (key, _) if CLIENT_NOTES.contains(&key) => None,
            _ => Some(value.clone()),
        };
        if let Some(shown) = shown {
            short.insert(key.clone(), shown);
        }
    }
    Some(short)
}

fn shorten_root(schema: &Map<String, Value>, step: Step) -> Option<Map<String, Value>> {
    let reachable = refs::reachable(schema);
    let walk = Walk { step, keeps_dialect: schema.contains_key("$schema") && needs_dialect(schema) };
    let mut short = walk.schema(schema);
    if let Some(reachable) = &reachable {
        for key in refs::DEFINITIONS {
            keep_definitions(&mut short, key, reachable);
        }
    }
    refs::all_resolve(schema, &short).then_some(short)
}

fn keep_definitions(short: &mut Map<String, Value>, key: &'static str, reachable: &HashSet<(&'static str, &str)>) {
    if let Some(Value::Object(all)) = short.get_mut(key) {
        all.retain(|name, _| reachable.contains(&(key, name.as_str())));
        if all.is_empty() {
            short.shift_remove(key);
        }
    }
}

/// Whether a schema uses what newer dialects read differently, so that its `$schema` must stay.
fn needs_dialect(schema: &Map<String, Value>) -> bool {
    schema.iter().any(|(key, value)| match (key.as_str(), value) {
        ("items", Value::Array(_)) | ("exclusiveMinimum" | "exclusiveMaximum", Value::Bool(_)) => true,
        (_, value) => value_needs_dialect(value),
    })
}

fn value_needs_dialect(value: &Value) -> bool {
    match value {
        Value::Object(entries) => needs_dialect(entries),
        Value::Array(items) => items.iter().any(value_needs_dialect),
        _ => false,
    }
}

struct Walk {
    step: Step,
    keeps_dialect: bool,
}

impl Walk {
    fn schema(&self, schema: &Map<String, Value>) -> Map<String, Value> {
        let mut short = Map::with_capacity(schema.len());
        for (key, value) in schema {
            if let Some(shown) = self.keyword(key, value) {
                short.insert(key.clone(), shown);
            }
        }
        short
    }

    /// The value of a keyword in this form, or `None` where the keyword goes.
    fn keyword(&self, key: &str, value: &Value) -> Option<Value> {
        match (key, value) {
            ("description", Value::String(text)) => cut(text, self.step.limits().parameter).map(Value::String),
            ("$schema", _) => self.keeps_dialect.then(|| value.clone()),
            (key, _) if NOTES.contains(&key) => None,
            (key, _) if self.step == Step::Bare && VALUE_LIMITS.contains(&key) => None,
            (
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" | "dependencies",
                Value::Object(named),
            ) => Some(Value::Object(named.iter().map(|(name, inner)| (name.clone(), self.inner(inner))).collect())),
            (
                "items"
                | "additionalItems"
                | "additionalProperties"
                | "unevaluatedItems"
                | "unevaluatedProperties"
                | "contains"
                | "propertyNames"
                | "not"
                | "if"
                | "then"
                | "else"
                | "contentSchema",
                _,
            )
            | ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(_)) => Some(self.inner(value)),
            // Enums, constants and whatever we do not know are data: an object in there is no schema.
            _ => Some(value.clone()),
        }
    }

    /// A schema, or a list of schemas, or a boolean in a schema's place.
    fn inner(&self, value: &Value) -> Value {
        match value {
            Value::Object(schema) => Value::Object(self.schema(schema)),
            Value::Array(schemas) => Value::Array(schemas.iter().map(|schema| self.inner(schema)).collect()),
            other => other.clone(),
        }
    }
}

/// `text` up to a sentence's end within `limit` tokens, or `None` where nothing of it stays.
///
/// Tokens are estimated (four ASCII characters, or one other, are one), so that a form does not depend on the tokenizer;
/// what it costs is counted exactly afterwards. Without a sentence's end in the second half, cut at a space and marked.
pub(super) fn cut(text: &str, limit: usize) -> Option<String> {
    let text = text.trim();
    if limit == 0 || text.is_empty() {
        return None;
    }
    let Some(end) = end_within(text, limit.saturating_mul(4)) else { return Some(text.to_owned()) };
    let prefix = text.get(..end).unwrap_or_default();
    if let Some(sentence) = last_sentence(prefix, text.get(end..).unwrap_or_default()) {
        return Some(sentence.to_owned());
    }
    let word = prefix.rfind(char::is_whitespace).filter(|at| at * 2 > prefix.len()).unwrap_or(prefix.len());
    let word = prefix.get(..word).unwrap_or_default().trim_end_matches(|c: char| c.is_whitespace() || c == ',');
    Some(format!("{word}…"))
}

/// Where the quarter tokens run out, or `None` when the whole text fits.
fn end_within(text: &str, quarters: usize) -> Option<usize> {
    if text.len() <= quarters / 4 {
        return None;
    }
    let mut spent = 0_usize;
    for (at, c) in text.char_indices() {
        spent += if c.is_ascii() { 1 } else { 4 };
        if spent > quarters {
            return Some(at);
        }
    }
    None
}

/// `prefix` up to the last sentence end in it, if that leaves at least a quarter of it.
fn last_sentence<'a>(prefix: &'a str, rest: &str) -> Option<&'a str> {
    let mut next = rest.chars().next();
    for (at, c) in prefix.char_indices().rev() {
        let ends = match c {
            '.' | '!' | '?' | ';' => next.is_none_or(char::is_whitespace),
            '。' | '！' | '？' | '；' => true,
            '\n' => next == Some('\n'),
            _ => false,
        };
        if ends {
            let end = at + c.len_utf8();
            let sentence = prefix.get(..end)?.trim_end();
            return (end * 4 >= prefix.len()).then_some(sentence);
        }
        next = Some(c);
    }
    None
}
