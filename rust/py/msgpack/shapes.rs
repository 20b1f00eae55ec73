//! The keys of maps, in the order in which they came: one map after another has the same.
#![allow(unsafe_code, reason = "keys are told by whole words of the document, and kept by raw references")]

use std::cell::UnsafeCell;

use pyo3::ffi;

use super::keys::KEYS;
use super::shared_keys::{Layout, MAX_PAIRS, template};

/// Longest encoded key that is followed: its one byte of header and its text.
const MAX_ENCODED: usize = 32;
const WORDS: usize = MAX_ENCODED / 8;
const SLOTS: usize = 256;
/// Containers inside each other: messages as they are recorded have 4.
pub(super) const LEVELS: usize = 8;
/// Numbers of keys at each level.
const FIRSTS: usize = (LEVELS + 1) * (MAX_PAIRS + 1);
/// Ids of beginnings of maps: their number of keys.
const FIRST_ID: u64 = MAX_PAIRS as u64 + 1;

/// A key of a map, after the keys before it in a map of so many. Its `id` stands for all of that.
#[derive(Clone, Copy)]
pub(super) struct Step {
    words: [u64; WORDS],
    mask: [u64; WORDS],
    /// The id of the key before it, or the number of keys of the map; 0: the slot is empty.
    parent: u64,
    pub(super) id: u64,
    /// Null where the slot is empty.
    key: *mut ffi::PyObject,
    /// Of the last key of a map: what shares the keys; null where none has asked yet.
    template: *mut ffi::PyObject,
    pub(super) len: u8,
    next: Hint,
}

/// The slots of the keys that came next the last time, and before that: conversations alternate.
#[derive(Clone, Copy)]
struct Hint {
    last: u8,
    before: u8,
}

const NO_HINT: Hint = Hint { last: 0, before: 0 };

const EMPTY: Step = Step {
    words: [0; WORDS],
    mask: [0; WORDS],
    parent: 0,
    id: 0,
    key: std::ptr::null_mut(),
    template: std::ptr::null_mut(),
    len: 0,
    next: NO_HINT,
};

struct Table {
    steps: [Step; SLOTS],
    /// By level and number of keys, the first keys of the last such maps.
    first: [Hint; FIRSTS],
    n_ids: u64,
}

pub(super) struct Shapes(UnsafeCell<Table>);

// SAFETY: touched with the GIL held only, by functions that run no Python code.
unsafe impl Sync for Shapes {}

pub(super) static SHAPES: Shapes =
    Shapes(UnsafeCell::new(Table { steps: [EMPTY; SLOTS], first: [NO_HINT; FIRSTS], n_ids: FIRST_ID }));

/// Where a map stands: after which of its keys.
#[derive(Clone, Copy)]
pub(super) struct Place {
    id: u64,
    /// The slot of the key before; at the beginning of a map, whose number of keys `id` is, its place in `first`.
    slot: u8,
}

impl Place {
    #[inline]
    pub(super) fn start(n: usize, levels: usize) -> Self {
        Self { id: n as u64, slot: (levels * (MAX_PAIRS + 1) + n) as u8 }
    }

    #[inline]
    pub(super) fn slot(self) -> u8 {
        self.slot
    }
}

/// The words of a key that a text begins with.
struct Encoded {
    words: [u64; WORDS],
    len: usize,
}

impl Encoded {
    fn of(rest: &[u8]) -> Option<Self> {
        let len = match rest.first()? {
            first @ 0xa0..=0xbf => 1 + usize::from(first & 0x1f),
            _ => return None,
        };
        let mut bytes = [0; MAX_ENCODED];
        bytes.get_mut(..len)?.copy_from_slice(rest.get(..len)?);
        let mut words = [0; WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        Some(Self { words, len })
    }

    /// Ones where the bytes of the key are.
    fn mask(&self) -> [u64; WORDS] {
        let mut mask = [0; WORDS];
        for (at, word) in mask.iter_mut().enumerate() {
            *word = match self.len.saturating_sub(8 * at) {
                0 => 0,
                n @ 1..8 => (1 << (8 * n)) - 1,
                _ => u64::MAX,
            };
        }
        mask
    }

    fn slot(&self, parent: u64) -> u8 {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let [a, b, c, d] = self.words;
        let mixed = a ^ b.rotate_left(17) ^ c.rotate_left(31) ^ d.rotate_left(47) ^ parent.wrapping_mul(ODD);
        (mixed.wrapping_mul(ODD) >> 56) as u8
    }
}

impl Step {
    /// Whether this key comes next after `parent`.
    #[inline]
    fn is_next(&self, parent: u64, rest: &[u8]) -> bool {
        let Some(ahead) = rest.first_chunk::<MAX_ENCODED>() else { return false };
        let (ahead, _) = ahead.as_chunks::<8>();
        let [a, b, c, d] = ahead else { return false };
        let differ = |at: usize, ahead: &[u8; 8]| (u64::from_le_bytes(*ahead) ^ self.words[at]) & self.mask[at];
        self.parent == parent
            && (differ(0, a) | differ(1, b)) == 0
            && (self.len <= 16 || (differ(2, c) | differ(3, d)) == 0)
    }
}

impl Shapes {
    /// Read the key that comes next in a map: the place behind it, and how many bytes it took. None where it is not a short
    /// ASCII `str`, or memory is short; no exception is set.
    ///
    /// # Safety
    ///
    /// The GIL is held.
    #[inline]
    pub(super) unsafe fn follow(&self, place: Place, rest: &[u8]) -> Option<(Place, usize)> {
        // SAFETY: the GIL is held, and nothing below runs Python code or comes back here.
        let table = unsafe { &mut *self.0.get() };
        let hint = *table.hint(place)?;
        let step = table.steps.get(usize::from(hint.last))?;
        if step.is_next(place.id, rest) {
            return Some((Place { id: step.id, slot: hint.last }, usize::from(step.len)));
        }
        table.follow_other(place, hint, rest)
    }

    /// What the keys of a map up to a place share, to which the table keeps its reference; None where a key stands twice, memory
    /// is short or the keys are no longer known.
    ///
    /// # Safety
    ///
    /// The GIL is held; `slots` are those of all keys of a map, in order, and `place` is behind the last.
    #[inline]
    pub(super) unsafe fn shared(&self, layout: &Layout, place: Place, slots: &[u8]) -> Option<*mut ffi::PyObject> {
        // SAFETY: as above.
        let table = unsafe { &mut *self.0.get() };
        let step = table.steps.get(usize::from(place.slot))?;
        if step.id != place.id {
            return None;
        }
        if step.template.is_null() { table.share(layout, place, slots) } else { Some(step.template) }
    }
}

impl Table {
    #[inline]
    fn hint(&mut self, place: Place) -> Option<&mut Hint> {
        let slot = usize::from(place.slot);
        if place.id < FIRST_ID { self.first.get_mut(slot) } else { Some(&mut self.steps.get_mut(slot)?.next) }
    }

    /// Read a key that is not the one which came next the last time.
    #[inline(never)]
    fn follow_other(&mut self, place: Place, hint: Hint, rest: &[u8]) -> Option<(Place, usize)> {
        let step = self.steps.get(usize::from(hint.before))?;
        let (found, len) = if step.is_next(place.id, rest) {
            (Place { id: step.id, slot: hint.before }, usize::from(step.len))
        } else {
            self.find(place, rest)?
        };
        *self.hint(place)? = Hint { last: found.slot, before: hint.last };
        Some((found, len))
    }

    /// Find, or learn, a key.
    fn find(&mut self, place: Place, rest: &[u8]) -> Option<(Place, usize)> {
        let encoded = Encoded::of(rest)?;
        let slot = encoded.slot(place.id);
        let step = self.steps.get_mut(usize::from(slot))?;
        if step.parent != place.id || step.words != encoded.words || usize::from(step.len) != encoded.len {
            // SAFETY: the GIL is held, and what ends here are `str` and a dict of no values, which run no code.
            unsafe {
                let key = KEYS.get(rest.get(1..encoded.len)?)?;
                if key.is_null() {
                    ffi::PyErr_Clear();
                    return None;
                }
                let old = std::mem::replace(step, Step { key, parent: place.id, id: self.n_ids, ..EMPTY });
                ffi::Py_XDECREF(old.key);
                ffi::Py_XDECREF(old.template);
            }
            (step.words, step.mask, step.len) = (encoded.words, encoded.mask(), encoded.len as u8);
            self.n_ids += 1;
        }
        Some((Place { id: step.id, slot }, encoded.len))
    }

    #[cold]
    fn share(&mut self, layout: &Layout, place: Place, slots: &[u8]) -> Option<*mut ffi::PyObject> {
        let mut keys = [std::ptr::null_mut(); MAX_PAIRS];
        let keys = keys.get_mut(..slots.len())?;
        let mut id = place.id;
        for (key, slot) in keys.iter_mut().zip(slots).rev() {
            let step = self.steps.get(usize::from(*slot))?;
            if step.id != id {
                return None;
            }
            (*key, id) = (step.key, step.parent);
        }
        // SAFETY: the GIL is held, and the table holds the keys.
        let made = unsafe { template(layout, keys) };
        let step = self.steps.get_mut(usize::from(place.slot))?;
        step.template = made;
        (!made.is_null()).then_some(made)
    }
}
