//! Python values as `chat::Node`s, read in place.

use std::borrow::Cow;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyMapping, PySequence, PyString, PyTuple};

use super::json;
use super::tokens::text_of;
use crate::chat::{Key, Kind, MAX_DEPTH, Node};

/// A Python value: a dict, a list or tuple, a str, None, a bool, an int or a float as they are; another mapping or sequence, or
/// an object that `model_dump` turns into a dict (a message of a provider's SDK), through a copy.
#[derive(Clone)]
pub(super) struct PyNode<'py> {
    value: Bound<'py, PyAny>,
    kind: Kind,
}

impl<'py> PyNode<'py> {
    pub(super) fn new(value: Bound<'py, PyAny>) -> Self {
        let kind = if value.is_instance_of::<PyString>() {
            Kind::Text
        } else if value.is_instance_of::<PyDict>() {
            Kind::Object
        } else if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
            Kind::List
        } else if value.is_none() {
            Kind::Null
        } else if value.is_instance_of::<PyBool>() {
            Kind::Bool
        } else if value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>() {
            Kind::Number
        } else {
            return Self::converted(value);
        };
        Self { value, kind }
    }

    /// A value that is not what JSON parsers make, as what it stands for; `Kind::Other` if that fails.
    fn converted(value: Bound<'py, PyAny>) -> Self {
        if let Some(plain) = plain(&value) {
            let kind = if plain.is_instance_of::<PyDict>() { Kind::Object } else { Kind::List };
            return Self { value: plain, kind };
        }
        Self { value, kind: Kind::Other }
    }
}

/// The dict or list that a mapping, a sequence or an SDK's model stands for; none if it is none of them or refuses.
pub(super) fn plain<'py>(value: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let py = value.py();
    if value.cast::<PyMapping>().is_ok() {
        let copy = PyDict::new(py);
        copy.update(value.cast::<PyMapping>().ok()?).ok()?;
        return Some(copy.into_any());
    }
    let is_type = value.is_instance_of::<pyo3::types::PyType>();
    if !is_type && value.hasattr(intern!(py, "model_dump")).unwrap_or(false) {
        let options = PyDict::new(py);
        options.set_item(intern!(py, "mode"), "json").ok()?;
        // Null stands for what is not there. What was not given but has a default is kept: a block's type often has one.
        options.set_item(intern!(py, "exclude_none"), true).ok()?;
        let dumped = value.call_method(intern!(py, "model_dump"), (), Some(&options)).ok()?;
        return dumped.is_instance_of::<PyDict>().then_some(dumped);
    }
    let is_bytes = value.is_instance_of::<pyo3::types::PyBytes>() || value.is_instance_of::<pyo3::types::PyByteArray>();
    if !is_bytes && let Ok(sequence) = value.cast::<PySequence>() {
        return sequence.to_list().ok().map(Bound::into_any);
    }
    None
}

/// The text of a str; empty if Python refuses to encode it.
fn read_text<'a>(text: &'a Bound<'_, PyString>) -> Cow<'a, str> {
    text_of(text).unwrap_or_default()
}

/// The interned strings of every `Key`, in their order.
pub(super) fn key(py: Python<'_>, key: Key) -> &Bound<'_, PyString> {
    static KEYS: PyOnceLock<Vec<Py<PyString>>> = PyOnceLock::new();
    let keys = KEYS.get_or_init(py, || Key::ALL.iter().map(|key| PyString::intern(py, key.text()).unbind()).collect());
    keys[key as usize].bind(py)
}

/// The text that `json.dumps` writes for a scalar: of an int its decimals, of a float Python's shortest repr.
pub(super) fn scalar_text(value: &Bound<'_, PyAny>) -> Option<String> {
    if let Ok(value) = value.cast::<PyBool>() {
        return Some(if value.is_true() { "true" } else { "false" }.to_owned());
    }
    if let Ok(value) = value.cast::<PyFloat>() {
        let number = value.value();
        if number.is_nan() {
            return Some("NaN".to_owned());
        }
        if number.is_infinite() {
            return Some(if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned());
        }
        let exact = PyFloat::new(value.py(), number);
        return exact.repr().ok().map(|text| read_text(&text).into_owned());
    }
    if let Ok(number) = value.extract::<i64>() {
        return Some(number.to_string());
    }
    // int.__repr__, since a subclass such as IntEnum writes itself otherwise. Python refuses to write out a number of more
    // than 4300 digits; no JSON sender gets past that either.
    let repr = value.py().get_type::<PyInt>().call_method1(intern!(value.py(), "__repr__"), (value,)).ok()?;
    repr.cast::<PyString>().ok().map(|text| read_text(text).into_owned())
}

impl Node for PyNode<'_> {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn text(&self) -> Option<Cow<'_, str>> {
        self.value.cast::<PyString>().ok().map(read_text)
    }

    fn scalar(&self) -> Option<Cow<'_, str>> {
        match self.kind {
            Kind::Bool | Kind::Number => scalar_text(&self.value).map(Cow::Owned),
            _ => None,
        }
    }

    fn get(&self, name: Key) -> Option<Self> {
        let dict = self.value.cast::<PyDict>().ok()?;
        dict.get_item(key(dict.py(), name)).ok()?.map(Self::new)
    }

    fn items(&self) -> impl Iterator<Item = Self> {
        let list = self.value.cast::<PyList>().ok();
        let tuple = self.value.cast::<PyTuple>().ok();
        let n_items = list.map(PyListMethods::len).or_else(|| tuple.map(PyTupleMethods::len)).unwrap_or(0);
        (0..n_items).map_while(move |index| {
            let item = match (list, tuple) {
                (Some(list), _) => list.get_item(index),
                (_, Some(tuple)) => tuple.get_item(index),
                _ => return None,
            };
            item.ok().map(Self::new)
        })
    }

    fn entries(&self) -> impl Iterator<Item = (Self, Self)> {
        // A snapshot: converting a value runs the caller's code, which may change the dict.
        let entries: Vec<_> = self.value.cast::<PyDict>().map(|dict| dict.iter().collect()).unwrap_or_default();
        entries.into_iter().map(|(key, value)| (key_node(key), Self::new(value)))
    }

    fn passing_hash(&self) -> Option<u128> {
        let mut mix = Mix::default();
        mix.value(&self.value, 0)?;
        Some(u128::from(mix.high) << 64 | u128::from(mix.low))
    }

    fn push_json(&self, out: &mut String, most_values: usize, deepest: usize) -> bool {
        json::push_json(&self.value, out, most_values, deepest)
    }

    fn type_name(&self) -> String {
        match self.kind {
            Kind::Other => self.value.get_type().name().map_or_else(
                |_| "an object of an unnamed type".to_owned(),
                |name| format!("an object of type {}", read_text(&name)),
            ),
            kind => kind.name().to_owned(),
        }
    }
}

/// A key as `json.dumps` writes it: text as it is, a scalar as its text.
fn key_node(key: Bound<'_, PyAny>) -> PyNode<'_> {
    let node = PyNode::new(key);
    let text = match node.kind {
        Kind::Text => return node,
        Kind::Null => Some("null".to_owned()),
        Kind::Bool | Kind::Number => scalar_text(&node.value),
        Kind::List | Kind::Object | Kind::Other => None,
    };
    let text = PyString::new(node.value.py(), &text.unwrap_or_default());
    PyNode { value: text.into_any(), kind: Kind::Text }
}

/// A message has some ten values; one of more than this many is read in full instead.
const MOST_VISITED: usize = 1 << 16;

/// Hashes a value of exact builtin types by the hash that each str keeps of itself (keyed, and computed once in its life), so
/// that a message that was seen before is known again without reading its text.
struct Mix {
    low: u64,
    high: u64,
    n_visited: usize,
}

impl Default for Mix {
    fn default() -> Self {
        Self { low: 0x9e37_79b9_7f4a_7c15, high: 0xc2b2_ae3d_27d4_eb4f, n_visited: 0 }
    }
}

impl Mix {
    fn add(&mut self, value: u64) {
        let product = u128::from(self.low ^ value) * 0xa076_1d64_78bd_642f_u128;
        self.low = (product as u64 ^ (product >> 64) as u64).wrapping_add(self.high);
        self.high = (self.high.rotate_left(29) ^ value).wrapping_mul(0xe703_7ed1_a0b4_28db);
    }

    /// None: not of exact builtin types all through, or nested too deep, or more than is worth it (lists that share their
    /// parts can stand for exponentially many values).
    fn value(&mut self, value: &Bound<'_, PyAny>, depth: usize) -> Option<()> {
        self.n_visited += 1;
        if depth > MAX_DEPTH || self.n_visited > MOST_VISITED {
            return None;
        }
        if let Ok(text) = value.cast_exact::<PyString>() {
            self.add(1);
            self.add(text.hash().ok()? as u64);
            self.add(text.len().ok()? as u64);
        } else if let Ok(dict) = value.cast_exact::<PyDict>() {
            self.add(2);
            self.add(dict.len() as u64);
            for (key, value) in dict {
                key.cast_exact::<PyString>().ok()?;
                self.value(&key, depth)?;
                self.value(&value, depth + 1)?;
            }
        } else if let Ok(list) = value.cast_exact::<PyList>() {
            self.add(3);
            self.add(list.len() as u64);
            for item in list {
                self.value(&item, depth + 1)?;
            }
        } else if value.is_none() {
            self.add(4);
        } else if let Ok(truth) = value.cast_exact::<PyBool>() {
            self.add(5 + u64::from(truth.is_true()));
        } else if let Ok(number) = value.cast_exact::<PyInt>() {
            self.add(7);
            self.add(number.extract::<i64>().ok()? as u64);
        } else if let Ok(number) = value.cast_exact::<PyFloat>() {
            self.add(8);
            self.add(number.value().to_bits());
        } else {
            return None;
        }
        Some(())
    }
}
