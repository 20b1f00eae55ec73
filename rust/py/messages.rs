//! The binding of `pack` for conversations: messages in, the request out.

use std::sync::{Arc, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use super::chat::{edited, nodes};
use super::documents;
use super::held::{Asked, Conversations, Held, MOST};
use super::late::{Open, Pending};
use super::node::PyNode;
use super::pack::Packer;
use super::request::Request;
use super::result::{Inputs, PackResult, Packed};
use super::tokens::text_of;
use super::tools::{self, Given};
use crate::chat::{self, Fingerprinter, Format, Message};
use crate::pack::{
    Cache, Conversation, Entry, Histories, Memo, Placed, SYSTEM_JOINER, Settings, Window, pack_conversation, shorten,
};
use crate::tokens::Counter;
use crate::{Error, Result};

/// What a packer remembers of messages by default: about 100,000 messages of a kilobyte.
pub(super) const DEFAULT_CACHE_BYTES: usize = 256 << 20;

/// Less text than this is counted by one thread: starting another costs as much.
const PARALLEL_BYTES: usize = 64 << 10;

/// Sets the fingerprints of system prompts beside the messages apart from those of messages.
const SYSTEM_TAG: u128 = 0x5359_5354_454d;

/// What a packer remembers between packs.
pub(super) struct Memory {
    cache: Cache,
    conversations: Conversations,
    histories: Histories,
}

impl Memory {
    pub(super) fn new(cache_bytes: usize) -> Self {
        let conversations = Conversations::new(cache_bytes / MOST);
        Self { cache: Cache::new(cache_bytes), conversations, histories: Histories::default() }
    }
}

/// A packed conversation that is still to be rendered, perhaps after a summary has come.
pub(super) struct OpenWindow {
    window: Arc<Window>,
    format: Format,
    system: Option<(Py<PyAny>, Arc<Entry>)>,
    settings: Arc<Settings>,
    objects: Py<PyTuple>,
    tools: Option<Given>,
    documents: Option<Vec<Py<PyAny>>>,
}

/// Messages, as they were read now or before.
struct Entries {
    keys: Vec<u128>,
    entries: Vec<Arc<Entry>>,
}

impl Packer {
    /// Choose what of a conversation is in.
    pub(super) fn open(&self, py: Python<'_>, request: &Request<'_, '_>) -> PyResult<OpenWindow> {
        let settings = self.settings();
        let summary = request.summary.map(text_of).transpose()?;
        let query = request.query.map(text_of).transpose()?;
        let snapshot = snapshot(request.messages)?;
        let objects = snapshot.as_slice();
        // Taken out while they are worked with: a callback may let another thread run, which must not wait for a lock.
        let mut held = self.lock().conversations.take(objects);
        let format = self.bring_up(py, &mut held, objects, request, &settings)?;
        let system = match request.system {
            Some(system) => Some((system.clone().unbind(), self.system(system, &settings)?)),
            None => None,
        };
        let tools = request.tools.map(tools::read).transpose()?;
        let documents = request.documents.map(documents::read).transpose()?;
        let previous = request.previous.map(read_memo).transpose()?.flatten();
        let is_alone = tools.is_none() && documents.is_none() && summary.is_none() && request.relevance.is_none();
        let asked = is_alone.then(|| Asked {
            settings: Arc::clone(&settings),
            budget: self.budget(),
            system: system.as_ref().map(|(_, entry)| Arc::clone(entry)),
            query: query.as_deref().map(str::to_owned),
            previous: previous.clone(),
            start_on_user: request.start_on_user,
        });
        let window = if let Some(known) = asked.as_ref().and_then(|asked| held.window(asked)) {
            Ok(known)
        } else {
            let conversation = Conversation {
                format,
                messages: &held.entries,
                keys: &held.keys,
                system: system.as_ref().map(|(_, entry)| &**entry),
                documents: documents.as_ref().map(|(documents, _)| documents.as_slice()).unwrap_or_default(),
                summary: summary.as_deref(),
                tools: tools.as_ref().map(|given| &*given.set),
                used_tools: &request.used_tools,
                query: query.as_deref(),
                relevance: request.relevance.as_deref(),
                start_on_user: request.start_on_user,
                previous: previous.as_ref(),
            };
            let made = self.choose_window(py, &conversation, &settings);
            if let (Some(asked), Ok(window)) = (asked, &made) {
                held.keep(asked, window);
            }
            made
        };
        let let_go = self.lock().conversations.put(held);
        drop(let_go);
        Ok(OpenWindow {
            window: window?,
            format,
            system,
            settings,
            objects: snapshot.unbind(),
            tools,
            documents: documents.map(|(_, given)| given),
        })
    }

    /// Read the messages that are not as they were; the format of all.
    fn bring_up(
        &self,
        py: Python<'_>,
        held: &mut Held,
        objects: &[Bound<'_, PyAny>],
        request: &Request<'_, '_>,
        settings: &Settings,
    ) -> PyResult<Format> {
        let has_system = request.system.is_some();
        let known = if held.len() == objects.len() { held.found(has_system) } else { None };
        let format = match (&request.format, known) {
            (Some(name), _) => Format::named(name)?,
            (None, Some(format)) => return Ok(format),
            (None, None) => {
                let views: Vec<PyNode<'_>> = objects.iter().cloned().map(PyNode::new).collect();
                chat::detect(&views, has_system)
            }
        };
        held.set_format(format, request.format.is_none().then_some(has_system));
        let first = held.len();
        let new = objects.get(first..).unwrap_or_default();
        if !new.is_empty() {
            held.note(new);
            let read = self.entries(py, new, first, format, settings)?;
            held.extend(read.keys, read.entries);
        }
        Ok(format)
    }

    fn choose_window(
        &self,
        py: Python<'_>,
        conversation: &Conversation<'_>,
        settings: &Settings,
    ) -> PyResult<Arc<Window>> {
        let counter = &*self.counter;
        let budget = self.budget();
        let mut histories = std::mem::take(&mut self.lock().histories);
        let mut pack = || pack_conversation(conversation, settings, counter, budget, &mut histories);
        let packed = if counter.calls_back() { pack() } else { py.detach(pack) };
        self.lock().histories.take_back(histories);
        let mut window = packed?;
        if !self.is_summarising() {
            window.late = None;
        }
        Ok(Arc::new(window))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tokens of a conversation as it would be sent whole.
    pub(super) fn counted_request(&self, py: Python<'_>, messages: &Bound<'_, PyAny>) -> PyResult<u64> {
        let settings = self.settings();
        let objects = nodes(messages)?;
        let views: Vec<PyNode<'_>> = objects.iter().cloned().map(PyNode::new).collect();
        let read = self.entries(py, &objects, 0, chat::detect(&views, false), &settings)?;
        let tokens = read.entries.iter().map(|entry| entry.cost.total);
        Ok(tokens.fold(settings.overhead.per_request, u64::saturating_add))
    }

    /// Read and count messages, those that are known from before excepted. The first of them is message `first`.
    fn entries(
        &self,
        py: Python<'_>,
        objects: &[Bound<'_, PyAny>],
        first: usize,
        format: Format,
        settings: &Settings,
    ) -> PyResult<Entries> {
        let views: Vec<PyNode<'_>> = objects.iter().cloned().map(PyNode::new).collect();
        let mut fingerprints = Fingerprinter::default();
        let tag = format as u128;
        let keys: Vec<u128> = views
            .iter()
            .enumerate()
            .map(|(index, view)| Ok(fingerprints.hash(first + index, view)? ^ tag))
            .collect::<Result<_>>()?;
        let mut known: Vec<Option<Arc<Entry>>> = {
            let mut memory = self.lock();
            keys.iter().map(|key| memory.cache.get(*key)).collect()
        };
        let mut missing: Vec<usize> = Vec::new();
        let mut messages: Vec<Message> = Vec::new();
        for (index, (view, known)) in views.iter().zip(&known).enumerate() {
            if known.is_none() {
                messages.push(chat::parse(format, first + index, view)?);
                missing.push(index);
            }
        }
        let made = self.counted(py, messages, settings)?;
        let mut memory = self.lock();
        for (index, entry) in missing.into_iter().zip(made) {
            if let (Some(key), Some(slot)) = (keys.get(index), known.get_mut(index)) {
                memory.cache.put(*key, Arc::clone(&entry));
                *slot = Some(entry);
            }
        }
        Ok(Entries { keys, entries: known.into_iter().flatten().collect() })
    }

    /// Count messages, with other threads running and with their help where there is much to count.
    fn counted(&self, py: Python<'_>, messages: Vec<Message>, settings: &Settings) -> PyResult<Vec<Arc<Entry>>> {
        let counter = &*self.counter;
        let make = |message: Message| Entry::new(message, counter, &settings.overhead).map(Arc::new);
        if counter.calls_back() {
            return Ok(messages.into_iter().map(make).collect::<Result<_>>()?);
        }
        let bytes: usize = messages.iter().flat_map(|message| &message.parts).map(|part| part.text.len()).sum();
        if bytes < PARALLEL_BYTES {
            return Ok(messages.into_iter().map(make).collect::<Result<_>>()?);
        }
        Ok(py.detach(|| super::parallel::in_parallel(messages, make).into_iter().collect::<Result<_>>())?)
    }

    fn system(&self, system: &Bound<'_, PyAny>, settings: &Settings) -> PyResult<Arc<Entry>> {
        let view = PyNode::new(system.clone());
        let key = Fingerprinter::default().hash(0, &view)? ^ SYSTEM_TAG;
        if let Some(entry) = self.lock().cache.get(key) {
            return Ok(entry);
        }
        let entry = Arc::new(Entry::new(chat::parse_system(&view)?, &*self.counter, &settings.overhead)?);
        self.lock().cache.put(key, Arc::clone(&entry));
        Ok(entry)
    }
}

impl OpenWindow {
    /// What the summarizer is to be given.
    pub(super) fn late_text(&self) -> Option<String> {
        self.window.late.as_ref().map(|late| late.texts.join("\n\n"))
    }

    /// Put in the caller's summary of what was dropped.
    pub(super) fn summarise(&mut self, summary: &str, counter: &dyn Counter) -> Result<()> {
        let system = self.system.as_ref().map(|(_, entry)| entry);
        Arc::make_mut(&mut self.window).add_late(summary, self.format, system, &self.settings, counter)
    }

    /// Put in a summary made of the weightiest sentences.
    pub(super) fn extract(&mut self, counter: &dyn Counter) -> Result<()> {
        let Some(late) = &self.window.late else { return Ok(()) };
        match shorten::summarise(&late.texts, self.window.late_limit(), counter)? {
            Some(summary) => self.summarise(&summary.text, counter),
            None => Ok(()),
        }
    }

    /// What is sent.
    fn sequence(&self, py: Python<'_>) -> PyResult<Py<PyTuple>> {
        let placed = &self.window.placed;
        let objects = self.objects.bind(py).as_slice();
        if self.window.is_as_given(objects.len()) {
            return Ok(self.objects.clone_ref(py));
        }
        let mut messages = Vec::with_capacity(placed.len());
        for placed in placed {
            match placed {
                Placed::Message { index, edits } => {
                    let Some(object) = objects.get(*index) else { continue };
                    messages.push(edited(object, edits)?.unbind());
                }
                Placed::Documents(text) | Placed::Recalled(text) => messages.push(plain_message(py, "user", text)?),
                Placed::Summary(text) => messages.push(plain_message(py, "system", text)?),
            }
        }
        Ok(PyTuple::new(py, messages)?.unbind())
    }

    /// The request and its report.
    pub(super) fn render(self, py: Python<'_>) -> PyResult<PackResult> {
        let sequence = self.sequence(py)?;
        let system = match (&self.system, &self.window.system_summary) {
            (Some((given, _)), None) => Some(given.clone_ref(py)),
            (Some((given, _)), Some(summary)) => Some(with_summary(given.bind(py), summary)?),
            (None, Some(summary)) => Some(PyString::new(py, summary).into_any().unbind()),
            (None, None) => None,
        };
        let tools = match (&self.tools, &self.window.tools) {
            (Some(given), Some(fit)) => Some(given.show(py, fit)?.unbind()),
            _ => None,
        };
        let inputs = Inputs::Conversation {
            messages: self.objects,
            tools: self.tools.iter().flat_map(|given| given.set.iter().map(|tool| tool.name().to_owned())).collect(),
            documents: self.documents.map(|given| PyList::new(py, given).map(Bound::unbind)).transpose()?,
        };
        let mut result = PackResult::new(sequence, Packed::Window(self.window), inputs);
        result.system = system;
        result.tools = tools;
        Ok(result)
    }
}

/// `pack_messages`: all at once, or up to where a summary is awaited.
pub(super) fn pack(packer: &Bound<'_, Packer>, request: &Request<'_, '_>) -> PyResult<PackResult> {
    let py = packer.py();
    let it = packer.get();
    let mut open = it.open(py, request)?;
    if let Some(text) = open.late_text() {
        match it.summarise(py, &text)? {
            Some(summary) => open.summarise(&summary, &*it.counter)?,
            None => open.extract(&*it.counter)?,
        }
    }
    open.render(py)
}

pub(super) fn begin(packer: &Bound<'_, Packer>, request: &Request<'_, '_>) -> PyResult<Pending> {
    let open = packer.get().open(packer.py(), request)?;
    Ok(Pending::new(packer.clone().unbind(), Open::Window(Box::new(open))))
}

/// The messages as they are now: a list may change while a callback runs.
fn snapshot<'py>(messages: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
    if let Ok(tuple) = messages.cast_exact::<PyTuple>() {
        return Ok(tuple.clone());
    }
    match messages.cast::<PyList>() {
        Ok(list) => Ok(list.to_tuple()),
        Err(_) => PyTuple::new(messages.py(), nodes(messages)?),
    }
}

fn plain_message(py: Python<'_>, role: &str, text: &str) -> PyResult<Py<PyAny>> {
    let message = PyDict::new(py);
    message.set_item("role", role)?;
    message.set_item("content", text)?;
    Ok(message.into_any().unbind())
}

/// A system prompt beside the messages, the summary after it.
fn with_summary(system: &Bound<'_, PyAny>, summary: &str) -> PyResult<Py<PyAny>> {
    let py = system.py();
    if let Ok(text) = system.cast::<PyString>() {
        let tail = PyString::new(py, &format!("{SYSTEM_JOINER}{summary}"));
        return Ok(text.add(tail)?.unbind());
    }
    let blocks = PyList::new(py, system.try_iter()?.collect::<PyResult<Vec<_>>>()?)?;
    let block = PyDict::new(py);
    block.set_item("type", "text")?;
    block.set_item("text", summary)?;
    blocks.append(block)?;
    Ok(blocks.into_any().unbind())
}

/// What the last pack came to: its result, or the memo of it.
fn read_memo(previous: &Bound<'_, PyAny>) -> PyResult<Option<Memo>> {
    if let Ok(result) = previous.cast::<PackResult>() {
        return Ok(result.get().packed.memo().cloned());
    }
    if let Ok(text) = previous.cast::<PyString>() {
        return Ok(Some(text_of(text)?.parse()?));
    }
    Err(Error::Argument("previous must be a PackResult or the memo of one".to_owned()).into())
}
