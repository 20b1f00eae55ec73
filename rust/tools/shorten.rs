//! Smaller forms of a tool that still say how to call it.
//!
//! Kept in every form: names, types, `required`, enums and constants, the shape (properties, items, anyOf ...), and the
//! definitions that a reference reaches. What goes, step by step, is said at [`Step`]. A property that is *named*
//! `description`, `title` or `examples` is a property, and stays.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Map, Value};

use super::formats::Format;
use super::refs;
use super::scan::Scan;
use crate::chat::push_quoted;

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

    pub(super) const fn limits(self) -> Limits {
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
pub(super) struct Limits {
    pub(super) tool: usize,
    pub(super) parameter: usize,
}

/// Notes for people, which no validator reads.
pub(super) const NOTES: &[&str] = &[
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
pub(super) const VALUE_LIMITS: &[&str] = &[
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
pub(super) const CLIENT_NOTES: &[&str] =
    &["title", "annotations", "outputSchema", "output_schema", "icons", "_meta", "input_examples"];

/// A tool in full, and what is to be made of it.
pub(super) struct Full<'a> {
    /// Compact JSON in which no object has two equal keys.
    pub(super) json: &'a str,
    pub(super) format: Format,
    /// The same as a tree, for schemas whose parts refer to each other.
    pub(super) tree: &'a dyn Fn() -> &'a Value,
}

impl Full<'_> {
    /// Compact JSON of the form at `step`, or `None` where there is none: the tool is the provider's own, or its references
    /// would break.
    ///
    /// Written from the JSON of the full form in one walk: nearly all of a shorter form is what stands there.
    pub(super) fn shorten(&self, step: Step) -> Option<String> {
        if self.format == Format::Opaque {
            return None;
        }
        // Names of definitions and references: without those there is nothing to find out.
        let has_references = self.json.contains("\"$") || self.json.contains("\"definitions\"");
        let schema = if has_references { self.schema_of((self.tree)()) } else { None };
        let mut walk = Walk {
            scan: Scan::new(self.json),
            out: String::with_capacity(self.json.len()),
            step,
            schema_key: self.format.schema_key().text(),
            keeps_dialect: schema.is_some_and(|schema| schema.contains_key("$schema") && needs_dialect(schema)),
            reachable: schema.and_then(refs::reachable),
        };
        if self.format == Format::OpenAi {
            walk.object(|walk, key| match key {
                "function" if walk.scan.next() == b'{' => walk.body(),
                _ => walk.copy(),
            });
        } else {
            walk.body();
        }
        let short = walk.out;
        if let Some(schema) = schema {
            let after: Value = serde_json::from_str(&short).ok()?;
            if !self.schema_of(&after).is_some_and(|after| refs::all_resolve(schema, after)) {
                return None;
            }
        }
        Some(short)
    }

    /// The schema of the parameters, if it is an object.
    fn schema_of<'t>(&self, tool: &'t Value) -> Option<&'t Map<String, Value>> {
        let body = if self.format == Format::OpenAi { tool.get("function")? } else { tool };
        body.get(self.format.schema_key().text())?.as_object()
    }
}

/// Whether a schema uses what newer dialects read differently, so that its `$schema` must stay.
pub(super) fn needs_dialect(schema: &Map<String, Value>) -> bool {
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

/// Writes what stays. Keys are compared as they are written: none of ours needs an escape.
struct Walk<'a> {
    scan: Scan<'a>,
    out: String,
    step: Step,
    schema_key: &'static str,
    keeps_dialect: bool,
    /// The definitions to keep; all where none is given.
    reachable: Option<HashSet<refs::Definition<'a>>>,
}

impl<'a> Walk<'a> {
    /// Write an object, of each entry what `write` writes of its value; where it writes nothing the entry goes.
    fn object(&mut self, mut write: impl FnMut(&mut Self, &'a str)) {
        self.out.push('{');
        let start = self.out.len();
        self.scan.enter();
        while let Some(key) = self.scan.key() {
            let before = self.out.len();
            if before > start {
                self.out.push(',');
            }
            self.out.push('"');
            self.out.push_str(key);
            self.out.push_str("\":");
            let at = self.out.len();
            write(self, key);
            if self.out.len() == at {
                self.out.truncate(before);
            }
        }
        self.out.push('}');
    }

    fn copy(&mut self) {
        let value = self.scan.value();
        self.out.push_str(value);
    }

    /// What holds name, description and schema.
    fn body(&mut self) {
        self.object(|walk, key| match (key, walk.scan.next()) {
            ("description", b'"') => walk.description(walk.step.limits().tool),
            (key, b'{') if key == walk.schema_key => walk.object(|walk, key| match (key, walk.scan.next()) {
                ("$defs" | "definitions", b'{') if walk.reachable.is_some() => walk.definitions(key),
                (key, first) => walk.keyword(key, first),
            }),
            (key, _) if CLIENT_NOTES.contains(&key) => _ = walk.scan.value(),
            _ => walk.copy(),
        });
    }

    /// The definitions that something refers to, or nothing.
    fn definitions(&mut self, under: &str) {
        let before = self.out.len();
        self.object(|walk, name| {
            let is_kept = |all: &HashSet<refs::Definition<'_>>| {
                // A name is compared as it reads.
                let read = serde_json::from_str::<String>(&format!("\"{name}\"")).unwrap_or_default();
                refs::DEFINITIONS.iter().any(|key| *key == under && all.contains(&(*key, read.as_str())))
            };
            if walk.reachable.as_ref().is_some_and(is_kept) {
                walk.schema();
            } else {
                walk.scan.value();
            }
        });
        if self.out.ends_with("{}") {
            self.out.truncate(before);
        }
    }

    /// The value of a keyword in this form, which starts with `first`; nothing where the keyword goes.
    fn keyword(&mut self, key: &str, first: u8) {
        match (key, first) {
            ("description", b'"') => self.description(self.step.limits().parameter),
            ("$schema", _) if !self.keeps_dialect => _ = self.scan.value(),
            (key, _) if NOTES.contains(&key) => _ = self.scan.value(),
            (key, _) if self.step == Step::Bare && VALUE_LIMITS.contains(&key) => _ = self.scan.value(),
            (
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" | "dependencies",
                b'{',
            ) => self.object(|walk, _| walk.schema()),
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
            | ("anyOf" | "oneOf" | "allOf" | "prefixItems", b'[') => self.schema(),
            // Enums, constants and whatever we do not know are data: an object in there is no schema.
            _ => self.copy(),
        }
    }

    /// A schema, or a list of schemas, or a boolean in a schema's place.
    fn schema(&mut self) {
        match self.scan.next() {
            b'{' => self.object(|walk, key| walk.keyword(key, walk.scan.next())),
            b'[' => {
                self.out.push('[');
                self.scan.enter();
                let start = self.out.len();
                while self.scan.element() {
                    if self.out.len() > start {
                        self.out.push(',');
                    }
                    self.schema();
                }
                self.out.push(']');
            }
            _ => self.copy(),
        }
    }

    fn description(&mut self, limit: usize) {
        let written = self.scan.string();
        if written.contains('\\') {
            let text: String = serde_json::from_str(&format!("\"{written}\"")).unwrap_or_default();
            if let Some(text) = cut(&text, limit) {
                push_quoted(&text, &mut self.out);
            }
        } else if let Some(text) = cut(written, limit) {
            push_quoted(&text, &mut self.out);
        }
    }
}

/// `text` up to a sentence's end within `limit` tokens, or `None` where nothing of it stays.
///
/// Tokens are estimated (four ASCII characters, or one other, are one), so that a form does not depend on the tokenizer;
/// what it costs is counted exactly afterwards. Without a sentence's end in the second half, cut at a space and marked.
pub(super) fn cut(text: &str, limit: usize) -> Option<Cow<'_, str>> {
    let text = text.trim();
    if limit == 0 || text.is_empty() {
        return None;
    }
    let Some(end) = end_within(text, limit.saturating_mul(4)) else { return Some(Cow::Borrowed(text)) };
    let prefix = text.get(..end).unwrap_or_default();
    if let Some(sentence) = last_sentence(prefix, text.get(end..).unwrap_or_default()) {
        return Some(Cow::Borrowed(sentence));
    }
    let word = prefix.rfind(char::is_whitespace).filter(|at| at * 2 > prefix.len()).unwrap_or(prefix.len());
    let word = prefix.get(..word).unwrap_or_default().trim_end_matches(|c: char| c.is_whitespace() || c == ',');
    Some(Cow::Owned(format!("{word}…")))
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
