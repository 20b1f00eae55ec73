//! What a tool is about, as terms that a query can meet.

use serde_json::{Map, Value};

use super::formats::Format;
use crate::relevance::{Terms, TermsBuilder};

/// How often the tool's name counts: it says in two words what the description says in thirty.
const NAME_WEIGHT: u16 = 3;

/// The terms of a tool: its name, its description, and the names, descriptions and enums of its parameters.
///
/// Over 532 tools and 702 queries this found the expected tool more often than name and description alone (.89 against
/// .83 within 1,000 tokens of whole schemas).
pub(super) fn terms(tool: &Value, format: Format, name: &str) -> Terms {
    let mut terms = TermsBuilder::default();
    terms.add(name, NAME_WEIGHT);
    if let Some(body) = tool.as_object().and_then(|tool| format.body(tool)) {
        if let Some(Value::String(description)) = body.get("description") {
            terms.add(description, 1);
        }
        match body.get(format.schema_key()) {
            Some(Value::Object(schema)) => add_schema(schema, &mut terms),
            _ if format == Format::Opaque => terms.add(tool.get("type").and_then(Value::as_str).unwrap_or_default(), 1),
            _ => {}
        }
    }
    terms.finish()
}

fn add_schema(schema: &Map<String, Value>, terms: &mut TermsBuilder) {
    for (key, value) in schema {
        match (key.as_str(), value) {
            ("description" | "title", Value::String(text)) => terms.add(text, 1),
            ("enum", Value::Array(values)) => {
                values.iter().filter_map(Value::as_str).for_each(|value| terms.add(value, 1));
            }
            ("properties" | "$defs" | "definitions", Value::Object(named)) => {
                for (name, inner) in named {
                    if key == "properties" {
                        terms.add(name, 1);
                    }
                    add_inner(inner, terms);
                }
            }
            ("items" | "additionalProperties" | "anyOf" | "oneOf" | "allOf" | "prefixItems", inner) => {
                add_inner(inner, terms);
            }
            _ => {}
        }
    }
}

fn add_inner(value: &Value, terms: &mut TermsBuilder) {
    match value {
        Value::Object(schema) => add_schema(schema, terms),
        Value::Array(schemas) => schemas.iter().for_each(|schema| add_inner(schema, terms)),
        _ => {}
    }
}
