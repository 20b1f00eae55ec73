//! The entries of a log as they were encoded, one after the other, so that each is encoded once.

use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::buffer::Buffer;
use super::unread::Unread;
use crate::msgpack::encode::{self as wire, Sink, TooLong};

#[derive(Default)]
struct Kept {
    /// Entries as they stand in a document that was loaded; those of `data` follow them.
    loaded: Option<Py<Unread>>,
    /// Number of the first entry in `data`.
    first: usize,
    data: Vec<u8>,
    /// Where each entry ends in `data`.
    ends: Vec<usize>,
}

impl Kept {
    fn start(&self, at: usize) -> Option<usize> {
        match at.checked_sub(self.first)? {
            0 => Some(0),
            n => self.ends.get(n - 1).copied(),
        }
    }

    /// Keep none of `n` entries.
    fn forget_all(&mut self, n: usize) {
        *self = Self { first: n, ..Self::default() };
    }
}

/// See `_native.pyi`.
#[pyclass(frozen, module = "holdall._native")]
pub(super) struct Entries(Mutex<Kept>);

#[pymethods]
impl Entries {
    #[new]
    #[pyo3(signature = (loaded = None))]
    pub(super) fn new(loaded: Option<Bound<'_, Unread>>) -> Self {
        let first = loaded.as_ref().map_or(0, |loaded| loaded.get().len);
        Self(Mutex::new(Kept { loaded: loaded.map(Bound::unbind), first, ..Kept::default() }))
    }

    fn __len__(&self) -> usize {
        let kept = self.kept();
        kept.first + kept.ends.len()
    }

    /// Whether all entries are at hand.
    #[getter]
    fn is_whole(&self) -> bool {
        self.kept().is_whole()
    }

    /// Add an entry.
    fn append(&self, entry: &[u8]) {
        let mut kept = self.kept();
        kept.data.extend_from_slice(entry);
        let end = kept.data.len();
        kept.ends.push(end);
    }

    /// An entry, None where it is not at hand by itself.
    fn get<'py>(&self, py: Python<'py>, at: usize) -> Option<Bound<'py, PyBytes>> {
        let kept = self.kept();
        let (start, end) = (kept.start(at)?, kept.start(at.checked_add(1)?)?);
        kept.data.get(start..end).map(|entry| PyBytes::new(py, entry))
    }

    /// Put another entry in the place of one.
    fn replace(&self, at: usize, entry: &[u8]) {
        let mut kept = self.kept();
        let len = kept.first + kept.ends.len();
        let place = at.checked_add(1).and_then(|next| Some((kept.start(at)?, kept.start(next)?)));
        let Some((start, end)) = place else { return kept.forget_all(len) };
        kept.data.splice(start..end, entry.iter().copied());
        let n = at - kept.first;
        for place in kept.ends.iter_mut().skip(n) {
            *place = *place - end + start + entry.len();
        }
    }

    /// Keep the entries from `n` on only.
    fn forget(&self, n: usize) {
        let mut kept = self.kept();
        let len = kept.first + kept.ends.len();
        match kept.start(n) {
            Some(start) if n < len => {
                // The room stays: what is to be saved next takes about as much.
                let done = n - kept.first;
                kept.loaded = None;
                kept.data.drain(..start);
                kept.ends.drain(..done);
                for end in &mut kept.ends {
                    *end -= start;
                }
                kept.first = n;
            }
            _ if n >= len => kept.forget_all(len),
            _ => {}
        }
    }

    /// Keep none of what are now `n` entries.
    fn forget_all(&self, n: usize) {
        self.kept().forget_all(n);
    }
}

impl Kept {
    fn is_whole(&self) -> bool {
        self.first == 0 || self.loaded.is_some()
    }
}

impl Entries {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Write all entries as one array; false, and nothing is written, where not all are at hand.
    pub(super) fn write(&self, py: Python<'_>, out: &mut Buffer) -> Result<bool, TooLong> {
        let kept = self.kept();
        if !kept.is_whole() {
            return Ok(false);
        }
        wire::array(out, kept.first + kept.ends.len())?;
        if let Some(loaded) = &kept.loaded {
            out.extend(loaded.get().elements(py));
        }
        out.extend(&kept.data);
        Ok(true)
    }
}
