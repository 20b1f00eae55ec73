//! Values of Python as they stood, so that it is quickly told whether they still stand so.
//!
//! Dicts and lists are mutable, so that an object is the same says nothing. But a str is not: a message whose keys and
//! values are the same objects as before, in the same shape, says what it said before. What is compared are addresses, and
//! no text is read or hashed. The strings are held, so that no other can come to have their address; dicts and lists are
//! not: what is compared of them is what they hold. Where dicts have versions, those are asked first.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};

use super::states;

/// A message of more values than this, or nested deeper, is read every time.
const MOST_VALUES: usize = 4_096;
const MOST_DEPTH: usize = 16;

/// Objects are aligned to more than three bits, so that these tell a dict or a list, with its length, from an address.
const DICT: usize = 1;
const LIST: usize = 2;
const TAG_BITS: u32 = 3;
const TAGS: usize = (1 << TAG_BITS) - 1;

/// The shapes of messages, or of other values, one after the other, with the addresses of what they hold.
#[derive(Default)]
pub(super) struct Tape {
    marks: Vec<usize>,
    held: Vec<Py<PyAny>>,
    /// The states of the messages' dicts, where these are told.
    states: Vec<u64>,
    /// Where what belongs to each message ends.
    ends: Vec<End>,
}

/// Lengths of the parts of a tape.
#[derive(Clone, Copy, Default)]
struct End {
    marks: usize,
    held: usize,
    states: usize,
}

impl Tape {
    /// How many messages there are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Keep the first `n` messages.
    pub(super) fn truncate(&mut self, n: usize) {
        if n < self.ends.len() {
            let end = self.end(n);
            self.ends.truncate(n);
            self.cut(end);
        }
    }

    fn cut(&mut self, end: End) {
        self.marks.truncate(end.marks);
        self.held.truncate(end.held);
        self.states.truncate(end.states);
    }

    /// Where what belongs to the first `n` messages ends.
    fn end(&self, n: usize) -> End {
        n.checked_sub(1).and_then(|last| self.ends.get(last)).copied().unwrap_or_default()
    }

    /// Add a message; false, and nothing added, if it is not of exact builtin types all through.
    pub(super) fn record(&mut self, message: &Bound<'_, PyAny>) -> bool {
        let start = self.end(self.ends.len());
        if self.add(message, start.marks, 0).is_none() {
            self.cut(start);
            return false;
        }
        if states::are_told(message.py()) {
            states::note(&mut self.states, message);
        }
        let (marks, held, states) = (self.marks.len(), self.held.len(), self.states.len());
        self.ends.push(End { marks, held, states });
        true
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
    pub(super) fn shared(&self, objects: &[Bound<'_, PyAny>]) -> usize {
        let mut states = self.states.as_slice();
        for (n, (object, end)) in objects.iter().zip(&self.ends).enumerate() {
            states = match states::after_still(states, object) {
                Some(others) => others,
                None if self.is_as(n, object) => self.states.get(end.states..).unwrap_or_default(),
                None => return n,
            };
        }
        objects.len().min(self.ends.len())
    }

    /// Whether a value has the shape of message `n` and holds what it held.
    #[cold]
    fn is_as(&self, n: usize, value: &Bound<'_, PyAny>) -> bool {
        let marks = self.marks.get(self.end(n).marks..self.end(n + 1).marks).unwrap_or_default();
        is_as(&mut marks.iter(), value)
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
