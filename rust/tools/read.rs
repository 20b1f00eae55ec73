//! From a caller's value to the JSON of a tool.

use std::cell::RefCell;

use serde_json::Number;

use crate::chat::{Key, Kind, Node, push_quoted};
use crate::{Error, Result};

/// A value that shares its parts can stand for exponentially many: past so many, a tool is refused.
const MOST_VALUES: usize = 200_000;

/// Nested deeper than this, a tool is refused: no provider takes it, and JSON parsers give up at 128.
const DEEPEST: usize = 120;

/// Do this with the compact JSON of a tool that a caller gave, as it is sent, and with whether two keys of an object in it may be
/// equal; `index` names the tool in errors.
///
/// One walk over the caller's value writes one string. Of five hundred tools some fifty are shortened, later and from
/// the string.
///
/// # Errors
/// `Error::ToolSchema` with the JSON pointer of what JSON does not know: a set, a NaN, an object of the caller's own.
pub(super) fn with_json<N: Node, R>(node: &N, index: usize, act: impl FnOnce(&str, bool) -> Result<R>) -> Result<R> {
    let mut out = OUT.take();
    out.clear();
    let is_written = node.push_json(&mut out, MOST_VALUES, DEEPEST);
    if !is_written {
        out.clear();
        let mut reading = Reading { left: MOST_VALUES, out: &mut out };
        reading.value(node, 0).map_err(|Fault { mut path, reason }| {
            path.reverse();
            let tool = name_of(node).unwrap_or_else(|| index.to_string());
            Error::ToolSchema { tool, path: path.concat(), reason }
        })?;
    }
    let done = act(&out, N::MAY_REPEAT_KEYS && !is_written);
    if out.len() <= ROOM_KEPT {
        OUT.set(out);
    }
    done
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

struct Reading<'a> {
    left: usize,
    out: &'a mut String,
}

impl Reading<'_> {
    fn value<N: Node>(&mut self, node: &N, depth: usize) -> Result<(), Fault> {
        if depth > DEEPEST {
            return Err(format!("nested deeper than {DEEPEST}").into());
        }
        self.left = self.left.checked_sub(1).ok_or_else(|| format!("holds more than {MOST_VALUES} values"))?;
        match node.kind() {
            Kind::Null => self.out.push_str("null"),
            Kind::Text => push_quoted(&node.text().unwrap_or_default(), self.out),
            Kind::Bool | Kind::Number => {
                let text = node.scalar().unwrap_or_default();
                if node.kind() == Kind::Number && serde_json::from_str::<Number>(&text).is_err() {
                    return Err(format!("{text} is not a JSON number").into());
                }
                self.out.push_str(&text);
            }
            Kind::List => {
                self.out.push('[');
                for (at, item) in node.items().enumerate() {
                    if at > 0 {
                        self.out.push(',');
                    }
                    self.value(&item, depth + 1).map_err(|fault| fault.under(&at.to_string()))?;
                }
                self.out.push(']');
            }
            Kind::Object => {
                self.out.push('{');
                for (at, (key, value)) in node.entries().enumerate() {
                    if at > 0 {
                        self.out.push(',');
                    }
                    let key = key.text().unwrap_or_default();
                    push_quoted(&key, self.out);
                    self.out.push(':');
                    self.value(&value, depth + 1).map_err(|fault| fault.under(&key))?;
                }
                self.out.push('}');
            }
            Kind::Other => return Err(format!("{} is not a JSON value", node.type_name()).into()),
        }
        Ok(())
    }
}
