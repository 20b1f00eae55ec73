//! The conversations packed last, as the caller's objects stood then: one that has not changed is known by its pointers.
//!
//! Messages are mutable, so that an object is the same says nothing. But a str is not: a message whose keys and values are
//! the same objects as before, in the same shape, says what it said before. What is compared are addresses, and no text is
//! read or hashed. The strings are held, so that no other can come to have their address; dicts and lists are not: what is
//! compared of them is what they hold.

use std::sync::Arc;

use pyo3::prelude::*;

use super::tape::Tape;
use crate::chat::Format;
use crate::pack::{Entry, Memo, Settings, Window};

/// Conversations that one packer follows at a time.
pub(super) const MOST: usize = 8;

/// Messages that are looked at to see which of them comes again.
const TELLING: usize = 4;

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

    /// Note messages that are read next, before anything can change them.
    pub(super) fn note(&mut self, objects: &[Bound<'_, PyAny>]) {
        // Once one is not known again, those after it are not looked for.
        if self.tape.len() == self.keys.len() {
            let _ = objects.iter().all(|object| self.tape.record(object));
        }
    }

    /// Add what was read of messages.
    pub(super) fn extend(&mut self, keys: Vec<u128>, entries: Vec<Arc<Entry>>) {
        self.window = None;
        self.bytes += entries.iter().map(|entry| entry.heap_bytes()).sum::<usize>();
        self.keys.extend(keys);
        self.entries.extend(entries);
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
        if held.bytes > self.limit_bytes || held.tape.is_empty() {
            return Some(held);
        }
        let oldest = (self.all.len() >= MOST).then(|| self.all.remove(0));
        self.all.push(held);
        oldest
    }
}
