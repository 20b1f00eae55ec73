//! From a caller's value to the JSON of a tool.

use std::cell::RefCell;

use serde_json::Number;

use super::formats::Shallow;
use crate::chat::{Key, Kind, Node, push_quoted};
use crate::{Error, Result};

/// A value that shares its parts can stand for exponentially many: past so many, a tool is refused.
const MOST_VALUES: usize = 200_000;

/// Nested deeper than this, a tool is refused: no provider takes it, and JSON parsers give up at 128.
const DEEPEST: usize = 120;

/// What stands above this depth tells the format, and is handed out as a value too: a tool, and its `function`.
const SHALLOW: usize = 2;

/// The compact JSON of a tool that a caller gave, as it is sent, and its outermost two levels; `index` names it in errors.
///
/// One walk over the caller's value writes one string. Of five hundred tools some fifty are shortened: only those are made into
/// trees, later and from the string.
///
/// # Errors
/// `Error::ToolSchema` with the JSON pointer of what JSON does not know: a set, a NaN, an object of the caller's own.
pub(super) fn read<N: Node>(node: &N, index: usize) -> Result<(Box<str>, Shallow)> {
    let mut reading = Reading { left: MOST_VALUES, out: OUT.take() };
    let shallow = reading.value(node, 0, false).map_err(|Fault { mut path, reason }| {
        path.reverse();
        let tool = name_of(node).unwrap_or_else(|| index.to_string());
        Error::ToolSchema { tool, path: path.concat(), reason }
    })?;
    let text = Box::from(reading.out.as_str());
    if reading.out.len() <= ROOM_KEPT {
        reading.out.clear();
        OUT.set(reading.out);
    }
    Ok((text, shallow))
}

/// Bytes of JSON for which the room is kept.
const ROOM_KEPT: usize = 1 << 16;

thread_local! {
    /// Room to write JSON in, kept from one tool to the next: one that grew anew for each would be copied many times.
    static OUT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// What is wrong, and the steps to it, innermost first.
struct Fault {
    path: Vec<String>,
    reason: String,
}

impl From<String> for Fault {
    fn from(reason: String) -> Self {
        Self { path: Vec::new(), reason }
    }
}

impl Fault {
    fn under(mut self, step: &str) -> Self {
        self.path.push(format!("/{}", step.replace('~', "~0").replace('/', "~1")));
        self
    }
}

/// The name, wherever the format keeps it.
fn name_of<N: Node>(node: &N) -> Option<String> {
    node.text_at(Key::Name).or_else(|| node.get(Key::Function)?.text_at(Key::Name)).filter(|name| !name.is_empty())
}

struct Reading {
    left: usize,
    out: String,
}

impl Reading {
    /// Write a value; what is below `SHALLOW` comes back without its content, and a text only if it is `telling`.
    fn value<N: Node>(&mut self, node: &N, depth: usize, telling: bool) -> Result<Shallow, Fault> {
        if depth > DEEPEST {
            return Err(format!("nested deeper than {DEEPEST}").into());
        }
        self.left = self.left.checked_sub(1).ok_or_else(|| format!("holds more than {MOST_VALUES} values"))?;
        match node.kind() {
            Kind::Null => {
                self.out.push_str("null");
                Ok(Shallow::Null)
            }
            Kind::Text => {
                let text = node.text().unwrap_or_default();
                push_quoted(&text, &mut self.out);
                Ok(Shallow::Text(if telling { text.into_owned() } else { String::new() }))
            }
            Kind::Bool => {
                let is_true = node.scalar().is_some_and(|text| text == "true");
                self.out.push_str(if is_true { "true" } else { "false" });
                Ok(Shallow::Bool)
            }
            Kind::Number => {
                let text = node.scalar().unwrap_or_default();
                let is_natural =
                    !text.is_empty() && !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
                if !is_natural && serde_json::from_str::<Number>(&text).is_err() {
                    return Err(format!("{text} is not a JSON number").into());
                }
                self.out.push_str(&text);
                Ok(Shallow::Number)
            }
            Kind::List => {
                self.out.push('[');
                for (at, item) in node.items().enumerate() {
                    if at > 0 {
                        self.out.push(',');
                    }
                    self.value(&item, depth + 1, false).map_err(|fault| fault.under(&at.to_string()))?;
                }
                self.out.push(']');
                Ok(Shallow::List)
            }
            Kind::Object => self.object(node, depth).map(Shallow::Object),
            Kind::Other => Err(format!("{} is not a JSON value", node.type_name()).into()),
        }
    }

    fn object<N: Node>(&mut self, node: &N, depth: usize) -> Result<Vec<(String, Shallow)>, Fault> {
        let mut shallow = Vec::new();
        self.out.push('{');
        for (at, (key, value)) in node.entries().enumerate() {
            if at > 0 {
                self.out.push(',');
            }
            let key = key.text().unwrap_or_default();
            push_quoted(&key, &mut self.out);
            self.out.push(':');
            let telling = depth < SHALLOW && matches!(&*key, "name" | "type");
            let value = self.value(&value, depth + 1, telling).map_err(|fault| fault.under(&key))?;
            if depth < SHALLOW {
                shallow.push((key.into_owned(), value));
            }
        }
        self.out.push('}');
        Ok(shallow)
    }
}
