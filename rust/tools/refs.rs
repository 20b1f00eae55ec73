//! Which definitions of a schema are needed: those that a `$ref` reaches.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::{Map, Value};

/// The keys that hold definitions.
pub(super) const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// A definition of the schema: the key it is under, and its name.
pub(super) type Definition<'a> = (&'static str, &'a str);

/// The definitions at the root of `schema` that its other parts reach, or `None` when all must stay.
///
/// All stay when a reference is not a JSON pointer into this document: an anchor or an id may be anywhere. References
/// are followed once each, so cycles end. Time linear in the schema.
pub(super) fn reachable(schema: &Map<String, Value>) -> Option<HashSet<Definition<'_>>> {
    let mut found = HashSet::new();
    let mut waiting: Vec<&Value> =
        schema.iter().filter(|(key, _)| !DEFINITIONS.contains(&key.as_str())).map(|(_, value)| value).collect();
    let mut refs = Vec::new();
    // A `$ref` that stands at the root itself.
    root_refs(schema, &mut refs)?;
    loop {
        for value in waiting.drain(..) {
            collect(value, &mut refs)?;
        }
        for pointer in refs.drain(..) {
            let Some(definition) = definition_of(schema, &pointer) else { continue };
            if found.insert(definition)
                && let Some(body) = schema.get(definition.0).and_then(|all| all.get(definition.1))
            {
                waiting.push(body);
            }
        }
        if waiting.is_empty() {
            return Some(found);
        }
    }
}

fn root_refs(schema: &Map<String, Value>, refs: &mut Vec<String>) -> Option<()> {
    for (key, value) in schema {
        if let (true, Value::String(target)) = (is_reference(key), value) {
            refs.push(pointer(target)?);
        }
    }
    Some(())
}

fn is_reference(key: &str) -> bool {
    matches!(key, "$ref" | "$dynamicRef" | "$recursiveRef")
}

/// Every `$ref` under `value`, wherever it stands: one found in an example keeps a definition too many, never too few.
fn collect(value: &Value, refs: &mut Vec<String>) -> Option<()> {
    match value {
        Value::Array(items) => items.iter().try_for_each(|item| collect(item, refs)),
        Value::Object(entries) => {
            root_refs(entries, refs)?;
            entries.values().try_for_each(|entry| collect(entry, refs))
        }
        _ => Some(()),
    }
}

/// The JSON pointer of a reference into this document, percent signs decoded; `None` for any other reference.
fn pointer(target: &str) -> Option<String> {
    let fragment = target.strip_prefix('#')?;
    (fragment.is_empty() || fragment.starts_with('/')).then(|| decode_percent(fragment).into_owned())
}

fn decode_percent(text: &str) -> Cow<'_, str> {
    if !text.contains('%') {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let digit = |at: usize| tail.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        if let (b'%', Some(high), Some(low)) = (first, digit(0), digit(1)) {
            bytes.push((high * 16 + low) as u8);
            rest = tail.get(2..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

/// The definition that a pointer leads into.
fn definition_of<'a>(schema: &'a Map<String, Value>, pointer: &str) -> Option<Definition<'a>> {
    let mut steps = pointer.strip_prefix('/')?.split('/');
    let key = DEFINITIONS.into_iter().find(|key| steps.clone().next() == Some(key))?;
    let name = unescape(steps.nth(1)?);
    let (name, _) = schema.get(key)?.as_object()?.get_key_value(name.as_ref())?;
    Some((key, name))
}

/// `~1` is a slash and `~0` a tilde, decoded in this order.
fn unescape(step: &str) -> Cow<'_, str> {
    if step.contains('~') { Cow::Owned(step.replace("~1", "/").replace("~0", "~")) } else { Cow::Borrowed(step) }
}

/// Whether every reference of `before` that leads somewhere still does in `after`.
pub(super) fn all_resolve(before: &Map<String, Value>, after: &Map<String, Value>) -> bool {
    let mut refs = Vec::new();
    let mut read = || -> Option<()> {
        root_refs(after, &mut refs)?;
        after.values().try_for_each(|value| collect(value, &mut refs))
    };
    // References that are not pointers lead through anchors, which shortening keeps along with all definitions.
    if read().is_none() {
        return true;
    }
    refs.iter().all(|pointer| resolve(before, pointer).is_none() || resolve(after, pointer).is_some())
}

fn resolve<'a>(schema: &'a Map<String, Value>, pointer: &str) -> Option<&'a Value> {
    let mut steps = pointer.strip_prefix('/')?.split('/');
    let first = schema.get(unescape(steps.next()?).as_ref())?;
    steps.try_fold(first, |value, step| match value {
        Value::Object(entries) => entries.get(unescape(step).as_ref()),
        Value::Array(items) => step.parse::<usize>().ok().and_then(|at| items.get(at)),
        _ => None,
    })
}
