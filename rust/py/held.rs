//! The conversations packed last, as the caller's objects stood then: one that has not changed is known by its pointers.
//!
//! Messages are mutable, so that an object is the same says nothing. But a str is not: a message whose keys and values are
//! the same objects as before, in the same shape, says what it said before. What is compared are addresses, and no text is
//! read or hashed. The strings are held, so that no other can come to have their address; dicts and lists are not: what is
//! compared of them is what they hold.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};

use crate::chat::Format;
use crate::pack::{Entry, Memo, Settings, Window};

/// Conversations that one packer follows at a time.
pub(super) const MOST: usize = 8;

/// Messages that are looked at to see which of them comes again.
const TELLING: usize = 4;

/// A message of more values than this, or nested deeper, is read every time.
const MOST_VALUES: usize = 4_096;
const MOST_DEPTH: usize = 16;

/// Objects are aligned to more than three bits, so that these tell a dict or a list, with its length, from an address.
const DICT: usize = 1;
const LIST: usize = 2;
const TAG_BITS: u32 = 3;
const TAGS: usize = (1 << TAG_BITS) - 1;

/// The shapes of messages, one after the other, with the addresses of what they hold.
#[derive(Default)]
struct Tape {
    marks: Vec<usize>,
    /// Where the marks of each message end, and where what it holds ends.
    ends: Vec<(usize, usize)>,
    held: Vec<Py<PyAny>>,
}

/// What a window depends on besides the messages.
pub(super) struct Asked {
    pub(super) settings: Arc<Settings>,
    pub(super) budget: u64,
    pub(super) system: Option<Arc<Entry>>,
    pub(super) query: Option<String>,
    pub(super) previous: Option<Memo>,
    pub(super) start_on_user: bool,
}

impl Asked {
    fn is_as(&self, other: &Self) -> bool {
        let is_same_system = match (&self.system, &other.system) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        };
        is_same_system
            && Arc::ptr_eq(&self.settings, &other.settings)
            && self.budget == other.budget
            && self.query == other.query
            && self.previous == other.previous
            && self.start_on_user == other.start_on_user
    }
}

/// A conversation that was packed.
#[derive(Default)]
pub(super) struct Held {
    tape: Tape,
    /// The format; and, where it was found from the messages, whether there was a system prompt beside them.
    format: Option<(Format, Option<bool>)>,
    pub(super) keys: Vec<u128>,
    pub(super) entries: Vec<Arc<Entry>>,
    bytes: usize,
    window: Option<(Asked, Arc<Window>)>,
}

impl Held {
    /// How many messages there are.
    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    /// The format that was found from these messages, all of them unchanged.
    pub(super) fn found(&self, has_system: bool) -> Option<Format> {
        self.format.filter(|(_, found)| *found == Some(has_system)).map(|(format, _)| format)
    }

    /// These messages are of `format` now, found from them or not.
    pub(super) fn set_format(&mut self, format: Format, found: Option<bool>) {
        if self.format.is_some_and(|(known, _)| known != format) {
            self.forget_from(0);
        }
        self.format = Some((format, found));
    }

    /// Keep the first `n` messages.
    fn forget_from(&mut self, n: usize) {
        if n < self.len() {
            self.window = None;
            // It may have been found from what is now gone.
            self.format = self.format.map(|(format, _)| (format, None));
            self.tape.truncate(n);
            self.keys.truncate(n);
            self.bytes -= self.entries.drain(n..).map(|entry| entry.heap_bytes()).sum::<usize>();
        }
    }

    /// Add messages that were read.
    pub(super) fn extend(&mut self, objects: &[Bound<'_, PyAny>], keys: Vec<u128>, entries: Vec<Arc<Entry>>) {
        self.window = None;
        self.bytes += entries.iter().map(|entry| entry.heap_bytes()).sum::<usize>();
        self.keys.extend(keys);
        self.entries.extend(entries);
        // Once one is not known again, those after it are not looked for.
        if self.tape.ends.len() + objects.len() == self.keys.len() {
            let _ = objects.iter().all(|object| self.tape.record(object));
        }
    }

    /// The window that came of the same question.
    pub(super) fn window(&self, asked: &Asked) -> Option<Arc<Window>> {
        let (known, window) = self.window.as_ref()?;
        asked.is_as(known).then(|| Arc::clone(window))
    }

    /// Keep the answer to a question, unless it is still to be changed.
    pub(super) fn keep(&mut self, asked: Asked, window: &Arc<Window>) {
        if window.late.is_none() {
            self.window = Some((asked, Arc::clone(window)));
        }
    }
}

/// The conversations packed last, the latest last.
pub(super) struct Conversations {
    all: Vec<Held>,
    limit_bytes: usize,
}

impl Conversations {
    /// Each holds entries of at most `limit_bytes`, and the strings that they were read from.
    pub(super) const fn new(limit_bytes: usize) -> Self {
        Self { all: Vec::new(), limit_bytes }
    }

    /// Take out the conversation that begins as these messages do, cut to what they share.
    pub(super) fn take(&mut self, objects: &[Bound<'_, PyAny>]) -> Held {
        let start = objects.get(..TELLING).unwrap_or(objects);
        let likely = self.all.iter().enumerate().map(|(at, held)| (held.tape.shared(start), at)).max();
        if let Some((telling, at)) = likely
            && telling > 0
            && let Some(held) = self.all.get(at)
        {
            let n = held.tape.shared(objects);
            // One that would have to forget most of itself is left to its own session.
            if n * 2 >= held.len() {
                let mut held = self.all.remove(at);
                held.forget_from(n);
                return held;
            }
        }
        Held::default()
    }

    /// Keep a conversation; gives back what is to be let go of.
    pub(super) fn put(&mut self, held: Held) -> Option<Held> {
        if held.bytes > self.limit_bytes || held.tape.ends.is_empty() {
            return Some(held);
        }
        let oldest = (self.all.len() >= MOST).then(|| self.all.remove(0));
        self.all.push(held);
        oldest
    }
}

impl Tape {
    fn truncate(&mut self, n: usize) {
        if n < self.ends.len() {
            let (marks, held) = n.checked_sub(1).and_then(|last| self.ends.get(last)).copied().unwrap_or_default();
            self.ends.truncate(n);
            self.marks.truncate(marks);
            self.held.truncate(held);
        }
    }

    /// Add a message; false, and nothing added, if it is not of exact builtin types all through.
    fn record(&mut self, message: &Bound<'_, PyAny>) -> bool {
        let (marks, held) = (self.marks.len(), self.held.len());
        if self.add(message, marks, 0).is_some() {
            self.ends.push((self.marks.len(), self.held.len()));
            return true;
        }
        self.marks.truncate(marks);
        self.held.truncate(held);
        false
    }

    fn add(&mut self, value: &Bound<'_, PyAny>, start: usize, depth: usize) -> Option<()> {
        if depth > MOST_DEPTH || self.marks.len() - start > MOST_VALUES {
            return None;
        }
        if let Ok(dict) = value.cast_exact::<PyDict>() {
            self.marks.push(dict.len() << TAG_BITS | DICT);
            for (key, value) in dict {
                key.cast_exact::<PyString>().ok()?;
                self.leaf(key);
                self.add(&value, start, depth + 1)?;
            }
        } else if let Ok(list) = value.cast_exact::<PyList>() {
            self.marks.push(list.len() << TAG_BITS | LIST);
            for item in list {
                self.add(&item, start, depth + 1)?;
            }
        } else if value.is_exact_instance_of::<PyString>()
            || value.is_none()
            || value.is_exact_instance_of::<PyBool>()
            || value.is_exact_instance_of::<PyInt>()
            || value.is_exact_instance_of::<PyFloat>()
        {
            self.leaf(value.clone());
        } else {
            return None;
        }
        Some(())
    }

    fn leaf(&mut self, value: Bound<'_, PyAny>) {
        self.marks.push(value.as_ptr() as usize);
        self.held.push(value.unbind());
    }

    /// How many messages from the first on are as they were.
    fn shared(&self, objects: &[Bound<'_, PyAny>]) -> usize {
        let mut marks = self.marks.iter();
        objects.iter().take(self.ends.len()).take_while(|object| is_as(&mut marks, object)).count()
    }
}

/// Whether a value is what the next marks say. None of this runs the caller's code.
fn is_as(marks: &mut std::slice::Iter<'_, usize>, value: &Bound<'_, PyAny>) -> bool {
    let Some(&mark) = marks.next() else { return false };
    let n = mark >> TAG_BITS;
    match mark & TAGS {
        DICT => value.cast_exact::<PyDict>().is_ok_and(|dict| {
            dict.len() == n && dict.iter().all(|(key, value)| is_at(marks, &key) && is_as(marks, &value))
        }),
        LIST => value
            .cast_exact::<PyList>()
            .is_ok_and(|list| list.len() == n && list.iter().all(|item| is_as(marks, &item))),
        _ => value.as_ptr() as usize == mark,
    }
}

fn is_at(marks: &mut std::slice::Iter<'_, usize>, key: &Bound<'_, PyAny>) -> bool {
    marks.next().is_some_and(|mark| key.as_ptr() as usize == *mark)
}
