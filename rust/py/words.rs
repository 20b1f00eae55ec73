//! The first words of an input, as a report shows them.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};

use super::tokens::text_of;

/// The beginning of a text on one line, control characters escaped: it may be hostile.
pub(super) fn first_words(text: &str) -> String {
    const LONGEST: usize = 50;
    let mut line = String::new();
    let mut words = text.split_whitespace();
    while line.chars().count() <= LONGEST {
        let Some(word) = words.next() else { break };
        if !line.is_empty() {
            line.push(' ');
        }
        line.extend(word.chars().take(LONGEST + 1));
    }
    let cut = line.chars().count() > LONGEST;
    let mut shown: String = line.chars().take(LONGEST).flat_map(escaped).collect();
    if cut {
        shown.push('…');
    }
    shown
}

/// Control and direction characters as escapes, everything else as it is.
fn escaped(c: char) -> Vec<char> {
    let invisible =
        matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    if c.is_control() || invisible { c.escape_default().collect() } else { vec![c] }
}

/// Role and first words of a message.
pub(super) fn message_words(message: &Bound<'_, PyAny>) -> PyResult<String> {
    let Ok(fields) = message.cast::<PyDict>() else { return Ok(String::new()) };
    let role = match fields.get_item("role")?.or(fields.get_item("type")?) {
        Some(role) => role.str()?.to_string_lossy().into_owned(),
        None => String::new(),
    };
    let mut text = String::new();
    for key in ["content", "output", "arguments"] {
        if let Some(value) = fields.get_item(key)? {
            collect_text(&value, &mut text, 0)?;
        }
    }
    if text.trim().is_empty()
        && let Some(calls) = fields.get_item("tool_calls")?
        && let Ok(calls) = calls.cast::<PyList>()
    {
        for call in calls {
            text.push_str(&tool_name(&call)?);
            text.push(' ');
        }
    }
    Ok(first_words(&format!("{role}: {text}")))
}

fn collect_text(value: &Bound<'_, PyAny>, text: &mut String, depth: usize) -> PyResult<()> {
    const ENOUGH: usize = 200;
    if text.len() > ENOUGH || depth > 3 {
        return Ok(());
    }
    if let Ok(words) = value.cast::<PyString>() {
        text.extend(text_of(words)?.chars().take(ENOUGH));
        text.push(' ');
    } else if let Ok(parts) = value.cast::<PyList>() {
        for part in parts {
            collect_text(&part, text, depth + 1)?;
        }
    } else if let Ok(fields) = value.cast::<PyDict>() {
        for key in ["text", "content", "thinking", "name"] {
            if let Some(inner) = fields.get_item(key)? {
                collect_text(&inner, text, depth + 1)?;
            }
        }
    }
    Ok(())
}

/// The name of a tool schema or of a call.
fn tool_name(tool: &Bound<'_, PyAny>) -> PyResult<String> {
    let Ok(fields) = tool.cast::<PyDict>() else { return Ok(String::new()) };
    let inner = fields.get_item("function")?;
    let fields = inner.as_ref().and_then(|inner| inner.cast::<PyDict>().ok()).unwrap_or(fields);
    match fields.get_item("name")? {
        Some(name) => Ok(first_words(&name.str()?.to_string_lossy())),
        None => Ok(String::new()),
    }
}
