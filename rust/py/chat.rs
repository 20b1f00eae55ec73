//! The binding of `chat`: messages in, edited copies out, and what a conversation costs.

use std::hash::Hash;
use std::sync::Mutex;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};
use xxhash_rust::xxh3::Xxh3Default;

use super::node::{PyNode, key, plain};
use super::tokens::Tokenizer;
use crate::chat::framing::{ImageRule, Overhead, cost};
use crate::chat::group::{GroupKind, group};
use crate::chat::{self, Edit, EditTree, Fingerprinter, Format, Key, Known, Message, Path, locked};
use crate::tokens::Counter;
use crate::tools::Costs;
use crate::{Error, Result};

/// A conversation as the caller gave it, and as it was read. The nodes are the caller's own objects.
struct Conversation<'py> {
    format: Format,
    nodes: Vec<Bound<'py, PyAny>>,
    messages: Vec<Message>,
}

/// The messages of a list, a tuple or another sequence.
pub(super) fn nodes<'py>(messages: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    listed(messages, "messages must be a list of messages")
}

fn listed<'py>(messages: &Bound<'py, PyAny>, wanted: &str) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if !messages.is_instance_of::<PyString>() && !messages.is_instance_of::<PyDict>() {
        if let Ok(list) = messages.cast::<PyList>() {
            return Ok(list.iter().collect());
        }
        if let Ok(tuple) = messages.cast::<PyTuple>() {
            return Ok(tuple.iter().collect());
        }
        if let Some(list) = plain(messages)
            && let Ok(list) = list.cast::<PyList>()
        {
            return Ok(list.iter().collect());
        }
    }
    let kind = messages.get_type().name()?;
    Err(Error::Argument(format!("{wanted}, not {kind}")).into())
}

/// Read a conversation. `format` is found from the messages when none is named.
fn read<'py>(
    messages: &Bound<'py, PyAny>,
    format: Option<&str>,
    system: Option<&Bound<'py, PyAny>>,
) -> PyResult<Conversation<'py>> {
    let nodes = nodes(messages)?;
    let views: Vec<PyNode<'_>> = nodes.iter().cloned().map(PyNode::new).collect();
    let format = match format {
        Some(name) => Format::named(name)?,
        None => chat::detect(&views, system.is_some()),
    };
    let messages = chat::parse_all(format, &views)?;
    Ok(Conversation { format, nodes, messages })
}

/// A copy of `value` with the edits made. Only what lies on a path is copied, as plain dicts and lists; the rest is shared.
pub(super) fn edited<'py>(value: &Bound<'py, PyAny>, edits: &[Edit]) -> PyResult<Bound<'py, PyAny>> {
    if edits.is_empty() {
        return Ok(value.clone());
    }
    copied(value, &EditTree::new(edits))
}

fn copied<'py>(value: &Bound<'py, PyAny>, tree: &EditTree<'_>) -> PyResult<Bound<'py, PyAny>> {
    let py = value.py();
    if let Some(text) = tree.text {
        return Ok(PyString::new(py, text).into_any());
    }
    let is_plain =
        value.is_instance_of::<PyDict>() || value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>();
    let value = if is_plain { value.clone() } else { plain(value).unwrap_or_else(|| value.clone()) };
    if let Ok(dict) = value.cast::<PyDict>() {
        let copy = PyDict::new(py);
        copy.update(dict.as_mapping())?;
        for (name, tree) in tree.keys() {
            let name = key(py, name);
            let Some(inner) = copy.get_item(name)? else { continue };
            if tree.is_removed {
                copy.del_item(name)?;
            } else {
                copy.set_item(name, copied(&inner, tree)?)?;
            }
        }
        return Ok(copy.into_any());
    }
    let items: Vec<_> = match (value.cast::<PyList>(), value.cast::<PyTuple>()) {
        (Ok(list), _) => list.iter().collect(),
        (_, Ok(tuple)) => tuple.iter().collect(),
        _ => return Ok(value),
    };
    let copy = PyList::empty(py);
    for (index, item) in items.into_iter().enumerate() {
        match tree.index(index) {
            None => copy.append(item)?,
            Some(tree) if tree.is_removed => {}
            Some(tree) => copy.append(copied(&item, tree)?)?,
        }
    }
    Ok(copy.into_any())
}

/// The overhead that a caller gives as a mapping of figures; what it does not name keeps its default.
pub(super) fn overhead(figures: Option<&Bound<'_, PyAny>>) -> PyResult<Overhead> {
    let mut overhead = Overhead::default();
    let Some(figures) = figures.filter(|figures| !figures.is_none()) else { return Ok(overhead) };
    let not_a_mapping =
        || Error::Argument("overhead must be a mapping of figures, for example {'per_message': 4}".into());
    let figures =
        if figures.is_instance_of::<PyDict>() { figures.clone() } else { plain(figures).ok_or_else(not_a_mapping)? };
    for (name, value) in figures.cast::<PyDict>().map_err(|_| not_a_mapping())? {
        let name: String = name.extract().map_err(|_| not_a_mapping())?;
        if name == "image" {
            overhead.image = Some(match value.extract::<u64>() {
                Ok(tokens) => ImageRule::Flat(tokens),
                Err(_) => ImageRule::of(Format::named(&value.extract::<String>().map_err(|_| {
                    Error::Argument("overhead['image'] must be tokens for each image, or a format's name".into())
                })?)?),
            });
            continue;
        }
        let field = overhead.field(&name)?;
        *field = value
            .extract::<u64>()
            .map_err(|_| Error::Argument(format!("overhead[{name:?}] must be an integer of at least 0")))?;
    }
    Ok(overhead)
}

const fn kind_name(kind: GroupKind) -> &'static str {
    match kind {
        GroupKind::System => "system",
        GroupKind::User => "user",
        GroupKind::Assistant => "assistant",
        GroupKind::Turn => "turn",
    }
}

/// Tokens of a conversation as it is sent.
#[pyfunction]
#[pyo3(signature = (messages, *, tokenizer=None, system=None, tools=None, format=None, overhead=None))]
fn count_messages<'py>(
    py: Python<'py>,
    messages: &Bound<'py, PyAny>,
    tokenizer: Option<Py<Tokenizer>>,
    system: Option<&Bound<'py, PyAny>>,
    tools: Option<&Bound<'py, PyAny>>,
    format: Option<&str>,
    overhead: Option<&Bound<'py, PyAny>>,
) -> PyResult<u64> {
    let overhead = self::overhead(overhead)?;
    let tokenizer = tokenizer.map_or_else(|| Tokenizer::default_one(py), Ok)?;
    let counter = tokenizer.get().counter();
    let schemas = tools.map(tool_texts).transpose()?.unwrap_or_default();
    let views: Vec<PyNode<'_>> = nodes(messages)?.into_iter().map(PyNode::new).collect();
    let format = match format {
        Some(name) => Format::named(name)?,
        None => chat::detect(&views, system.is_some()),
    };
    let mut total = overhead.per_request;
    let salt = salt(&*counter, format, &overhead);
    let mut fingerprinter = Fingerprinter::default();
    let mut unknown = Vec::new();
    for (index, view) in views.iter().enumerate() {
        let key = fingerprinter.hash(index, view)? ^ salt;
        match locked(&COUNTED).get(key) {
            Some(tokens) => total = total.saturating_add(tokens),
            None => unknown.push((key, chat::parse(format, index, view)?)),
        }
    }
    let system = system.map(|system| chat::parse_system(&PyNode::new(system.clone()))).transpose()?;
    let mut count = || -> Result<u64> {
        for (key, message) in &unknown {
            let tokens = cost(message, &*counter, &overhead)?.total;
            locked(&COUNTED).put(*key, tokens);
            total = total.saturating_add(tokens);
        }
        if let Some(system) = &system {
            total = total.saturating_add(cost(system, &*counter, &overhead)?.total);
        }
        let costs = Costs::default();
        total = total.saturating_add(if schemas.is_empty() { 0 } else { costs.once });
        for schema in &schemas {
            total = total.saturating_add(costs.per_tool).saturating_add(counter.count(schema)?);
        }
        Ok(total)
    };
    let is_quick = unknown.is_empty() && system.is_none() && schemas.is_empty();
    if is_quick || counter.calls_back() { Ok(count()?) } else { Ok(py.detach(count)?) }
}

/// Tokens of the messages that were counted before, by fingerprint and salt.
static COUNTED: Mutex<Known<u64>> = Mutex::new(Known::new(1 << 16));

/// Tells counts of one counter, format and overhead from those of others.
fn salt(counter: &dyn Counter, format: Format, overhead: &Overhead) -> u128 {
    let mut hasher = Xxh3Default::new();
    (counter.id(), format, overhead).hash(&mut hasher);
    hasher.digest128()
}

/// Each tool of a list as its compact JSON.
fn tool_texts(tools: &Bound<'_, PyAny>) -> PyResult<Vec<String>> {
    let text = |(index, tool): (usize, Bound<'_, PyAny>)| match chat::compact_json(&PyNode::new(tool)) {
        Err(Error::Argument(reason)) => Err(Error::ToolSchema { tool: index.to_string(), path: String::new(), reason }),
        text => text,
    };
    let list = listed(tools, "tools must be a list of tool schemas")?;
    Ok(list.into_iter().enumerate().map(text).collect::<Result<_>>()?)
}

/// The groups of a conversation and what is wrong with it.
#[pyfunction]
#[pyo3(signature = (messages, *, format=None, system=None))]
fn _chat_groups<'py>(
    py: Python<'py>,
    messages: &Bound<'py, PyAny>,
    format: Option<&str>,
    system: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let conversation = read(messages, format, system)?;
    let found = group(&conversation.messages);
    let groups = PyList::empty(py);
    let current = found.current_turn();
    for (at, group) in found.groups.iter().enumerate() {
        let figures = PyDict::new(py);
        figures.set_item("kind", kind_name(group.kind))?;
        figures.set_item("indices", group.indices().collect::<Vec<_>>())?;
        figures.set_item("round", group.round)?;
        figures.set_item("is_prompt", group.is_prompt)?;
        figures.set_item("is_open", group.is_open)?;
        figures.set_item("is_user_turn", group.is_user_turn)?;
        figures.set_item("is_current_turn", current.contains(&at))?;
        figures.set_item("is_compaction", group.is_compaction)?;
        groups.append(figures)?;
    }
    let findings: Vec<_> = found
        .findings
        .iter()
        .map(|finding| (finding.index, finding.at.as_ref().map(ToString::to_string), finding.reason.to_string()))
        .collect();
    let out = PyDict::new(py);
    out.set_item("format", conversation.format.name())?;
    out.set_item("groups", groups)?;
    out.set_item("findings", findings)?;
    Ok(out)
}

/// The messages that can be sent, in order: what is whole is the caller's own object, what was repaired a copy.
#[pyfunction]
#[pyo3(signature = (messages, *, format=None, system=None))]
fn _chat_sendable<'py>(
    messages: &Bound<'py, PyAny>,
    format: Option<&str>,
    system: Option<&Bound<'py, PyAny>>,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let conversation = read(messages, format, system)?;
    let mut members: Vec<_> =
        group(&conversation.messages).groups.into_iter().flat_map(|group| group.members).collect();
    members.sort_by_key(|member| member.index);
    members
        .iter()
        .filter_map(|member| conversation.nodes.get(member.index).map(|node| edited(node, &member.repairs)))
        .collect()
}

/// The parts of a message: (path of the part, path of its text, text, whether the text may be changed).
#[pyfunction]
#[pyo3(signature = (message, *, format="openai"))]
fn _chat_parts(message: Bound<'_, PyAny>, format: &str) -> PyResult<Vec<(String, String, String, bool)>> {
    let message = chat::parse(Format::named(format)?, 0, &PyNode::new(message))?;
    let row = |part: &chat::Part| {
        (part.at.to_string(), part.text_path().to_string(), part.text.to_string(), part.is_editable())
    };
    Ok(message.parts.iter().map(row).collect())
}

/// A copy of a message with the text at each path replaced, or what stands there removed where the text is None.
#[pyfunction]
fn _chat_edit<'py>(
    message: &Bound<'py, PyAny>,
    edits: Vec<(Vec<Bound<'py, PyAny>>, Option<String>)>,
) -> PyResult<Bound<'py, PyAny>> {
    let edits = edits
        .into_iter()
        .map(|(steps, text)| {
            let mut at = Path::root();
            for step in steps {
                at = match step.extract::<usize>() {
                    Ok(index) => at.index(index),
                    Err(_) => at.key(named_key(&step.extract::<String>()?)?),
                };
            }
            Ok(match text {
                Some(text) => Edit::Text { at, text },
                None => Edit::Remove { at },
            })
        })
        .collect::<PyResult<Vec<_>>>()?;
    edited(message, &edits)
}

fn named_key(name: &str) -> Result<Key> {
    Key::ALL.iter().find(|key| key.text() == name).copied().ok_or_else(|| Error::UnknownName {
        what: "key",
        name: name.to_owned(),
        known: Key::ALL.iter().map(|key| key.text().to_owned()).collect(),
    })
}

/// A hash of a message's content, order and shape.
#[pyfunction]
fn _chat_fingerprint(message: Bound<'_, PyAny>) -> PyResult<u128> {
    Ok(Fingerprinter::default().hash(0, &PyNode::new(message))?)
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(count_messages, module)?)?;
    module.add_function(wrap_pyfunction!(_chat_groups, module)?)?;
    module.add_function(wrap_pyfunction!(_chat_sendable, module)?)?;
    module.add_function(wrap_pyfunction!(_chat_parts, module)?)?;
    module.add_function(wrap_pyfunction!(_chat_edit, module)?)?;
    module.add_function(wrap_pyfunction!(_chat_fingerprint, module)?)
}
