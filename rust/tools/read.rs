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
    let mut reading = Reading { left: MOST_VALUES, path: Vec::new() };
    reading.value(node).map_err(|reason| Error::ToolSchema {
        tool: name_of(node).unwrap_or_else(|| index.to_string()),
        path: reading
            .path
            .iter()
            .flat_map(|step| ["/".to_owned(), step.replace('~', "~0").replace('/', "~1")])
            .collect(),
        reason,
    })
}

/// The name, wherever the format keeps it.
fn name_of<N: Node>(node: &N) -> Option<String> {
    node.text_at(Key::Name).or_else(|| node.get(Key::Function)?.text_at(Key::Name)).filter(|name| !name.is_empty())
}

struct Reading {
    left: usize,
    /// Where the reading is, and after a failure where that was.
    path: Vec<String>,
}

impl Reading {
    fn value<N: Node>(&mut self, node: &N) -> Result<Value, String> {
        if self.path.len() > MAX_DEPTH {
            return Err(format!("nested deeper than {MAX_DEPTH}"));
        }
        self.left = self.left.checked_sub(1).ok_or_else(|| format!("holds more than {MOST_VALUES} values"))?;
        match node.kind() {
            Kind::Null => Ok(Value::Null),
            Kind::Text => Ok(Value::String(node.text().unwrap_or_default().into_owned())),
            Kind::Bool => Ok(Value::Bool(node.scalar().is_some_and(|text| text == "true"))),
            Kind::Number => {
                let text = node.scalar().unwrap_or_default();
                let number: Result<Number, _> = serde_json::from_str(&text);
                number.map(Value::Number).map_err(|_| format!("{text} is not a JSON number"))
            }
            Kind::List => {
                let mut list = Vec::new();
                for (at, item) in node.items().enumerate() {
                    list.push(self.inner(&item, || at.to_string())?);
                }
                Ok(Value::Array(list))
            }
            Kind::Object => {
                let mut object = Map::new();
                for (key, value) in node.entries() {
                    let key = key.text().unwrap_or_default().into_owned();
                    let value = self.inner(&value, || key.clone())?;
                    object.insert(key, value);
                }
                Ok(Value::Object(object))
            }
            Kind::Other => Err(format!("{} is not a JSON value", node.type_name())),
        }
    }

    fn inner<N: Node>(&mut self, node: &N, step: impl Fn() -> String) -> Result<Value, String> {
        // A leaf that is fine needs no path.
        if matches!(node.kind(), Kind::Null | Kind::Text | Kind::Bool) {
            return self.value(node);
        }
        self.path.push(step());
        let value = self.value(node)?;
        self.path.pop();
        Ok(value)
    }
}
