//! Forms written from JSON against those made as trees.

use std::collections::HashSet;

use proptest::prelude::*;
use serde_json::{Map, Value};

use super::refs;
use super::shorten::{CLIENT_NOTES, Full, NOTES, VALUE_LIMITS, cut, needs_dialect};
use super::tests::anything;
use super::*;
use crate::chat::Json;

/// The form of a tool by making a tree from a tree.
fn shorten(tool: &Value, format: Format, step: Step) -> Option<Value> {
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
            ("description", Value::String(text)) => {
                cut(text, step.limits().tool).map(|text| Value::String(text.into_owned()))
            }
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
            ("description", Value::String(text)) => {
                cut(text, self.step.limits().parameter).map(|text| Value::String(text.into_owned()))
            }
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

proptest! {
    #[test]
    fn a_form_is_that_of_the_tree(value in anything()) {
        let Ok(tool) = Tool::read(&Json::Value(&value), 0) else { return Ok(()) };
        for step in [Step::Trimmed, Step::Brief, Step::Bare] {
            let expected = shorten(&value, tool.format(), step).map(|short| short.to_string());
            let json = value.to_string();
            let found = Full { json: &json, format: tool.format(), tree: &|| &value }.shorten(step);
            prop_assert_eq!(found, expected);
        }
    }
}
