//! From a caller's value to the JSON of a tool.

use serde_json::{Map, Number, Value};

use crate::chat::{Key, Kind, MAX_DEPTH, Node};
use crate::{Error, Result};

/// A value that shares its parts can stand for exponentially many: past so many, a tool is refused.
const MOST_VALUES: usize = 200_000;

/// The JSON of a tool that a caller gave; `index` names it in errors.
///
/// # Errors
/// `Error::ToolSchema` with the JSON pointer of what JSON does not know: a set, a NaN, an object of the caller's own.
pub fn json_of<N: Node>(node: &N, index: usize) -> Result<Value> {
    let mut left = MOST_VALUES;
    read(node, &mut left, 0).map_err(|Fault { mut path, reason }| {
        path.reverse();
        let tool = name_of(node).unwrap_or_else(|| index.to_string());
        Error::ToolSchema { tool, path: path.concat(), reason }
    })
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

fn read<N: Node>(node: &N, left: &mut usize, depth: usize) -> Result<Value, Fault> {
    if depth > MAX_DEPTH {
        return Err(format!("nested deeper than {MAX_DEPTH}").into());
    }
    *left = left.checked_sub(1).ok_or_else(|| format!("holds more than {MOST_VALUES} values"))?;
    match node.kind() {
        Kind::Null => Ok(Value::Null),
        Kind::Text => Ok(Value::String(node.text().unwrap_or_default().into_owned())),
        Kind::Bool => Ok(Value::Bool(node.scalar().is_some_and(|text| text == "true"))),
        Kind::Number => {
            let text = node.scalar().unwrap_or_default();
            let number: Result<Number, _> = serde_json::from_str(&text);
            number.map(Value::Number).map_err(|_| format!("{text} is not a JSON number").into())
        }
        Kind::List => {
            let mut list = Vec::new();
            for (at, item) in node.items().enumerate() {
                list.push(read(&item, left, depth + 1).map_err(|fault| fault.under(&at.to_string()))?);
            }
            Ok(Value::Array(list))
        }
        Kind::Object => {
            let mut object = Map::new();
            for (key, value) in node.entries() {
                let key = key.text().unwrap_or_default();
                let value = read(&value, left, depth + 1).map_err(|fault| fault.under(&key))?;
                object.insert(key.into_owned(), value);
            }
            Ok(Value::Object(object))
        }
        Kind::Other => Err(format!("{} is not a JSON value", node.type_name()).into()),
    }
}
