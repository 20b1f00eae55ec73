//! From Python objects to bytes: raw calls into the interpreter, one growing buffer, no recursion.
//!
//! No method of a caller's object is ever called: only exact built-in types are read, and what is rare goes through
//! `holdall.state.values.pack_extra`, which tests for exact types too. Even so every container is held by a reference
//! of its own while it is read, and its length is compared with what was declared.
#![allow(unsafe_code, reason = "reading str, dict and list in place is what makes this as fast as its C peers")]

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString};

use super::atoms::{plain, scalar, written_key};
use super::buffer::Buffer;
use super::{Lent, collide, path};
use crate::msgpack::encode::{self as wire, Sink, TooLong};
use crate::msgpack::marker::{self, ext};
use crate::msgpack::{MAX_DEPTH, MAX_UNSALTED_KEYS, MIN_PACKED_FLOATS};

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    List,
    Tuple,
    Dict,
}

/// A container that is being written.
pub(super) struct Frame<'py> {
    kind: Kind,
    obj: Bound<'py, PyAny>,
    /// Index of the next element, or the position within the dict.
    next: ffi::Py_ssize_t,
    /// Elements or pairs written so far.
    done: usize,
    len: usize,
    /// Key of the pair whose value is being written, for the path; of a dict only.
    key: Option<Bound<'py, PyAny>>,
    /// Value to write once its key is written, where the key is itself a container.
    value: Option<Bound<'py, PyAny>>,
    /// Where the length of the extension body belongs, for tuples and sets; 0 for others.
    patch: usize,
    unsalted: usize,
}

/// Writes values, one after the other.
pub(super) struct Encoder<'py, 'a> {
    pub(super) py: Python<'py>,
    pub(super) out: Buffer,
    pub(super) stack: Vec<Frame<'py>>,
    /// What a path in an error begins with.
    base: &'a str,
    /// Containers inside each other that are left for a value.
    pub(super) depth_left: usize,
    pub(super) lent: &'static Lent,
    /// How often a small container turned out to hold something else.
    pub(super) n_in_vain: usize,
}

/// Encode `value`, which stands within `depth` containers; `base` is what a path in an error begins with.
pub(super) fn encode<'py>(
    value: &Bound<'py, PyAny>,
    base: &str,
    depth: usize,
    lent: &'static Lent,
) -> PyResult<Bound<'py, PyBytes>> {
    let mut encoder = Encoder::new(value.py(), depth, lent);
    encoder.value(value, base)?;
    encoder.finish()
}

impl<'py, 'a> Encoder<'py, 'a> {
    pub(super) fn new(py: Python<'py>, depth: usize, lent: &'static Lent) -> Self {
        let depth_left = MAX_DEPTH.saturating_sub(depth);
        Self { py, out: Buffer::new(), stack: Vec::new(), base: "", depth_left, lent, n_in_vain: 0 }
    }

    /// Write a value.
    #[inline]
    pub(super) fn value(&mut self, value: &Bound<'py, PyAny>, base: &'a str) -> PyResult<()> {
        self.base = base;
        if plain(&mut self.out, value.as_ptr()) {
            return Ok(());
        }
        self.open(value.clone())?;
        self.run()
    }

    /// Write a list, also one of a subclass, as an array.
    pub(super) fn elements(&mut self, list: &Bound<'py, PyList>, base: &'a str) -> PyResult<()> {
        self.base = base;
        let n = list.len();
        wire::array(&mut self.out, n).or_else(|_: TooLong| self.fail("has too many elements"))?;
        self.push(Kind::List, list.clone().into_any(), n, 0);
        self.run()
    }

    /// Write a key; false where it is no `str` of Unicode text.
    pub(super) fn key(&mut self, key: &Bound<'py, PyString>) -> bool {
        // SAFETY: the GIL is held, and the key is a live, exact `str`.
        key.is_exact_instance_of::<PyString>() && unsafe { written_key(&mut self.out, key.as_ptr()) }
    }

    pub(super) fn finish(self) -> PyResult<Bound<'py, PyBytes>> {
        self.out.finish(self.py)
    }

    /// Write what the open containers hold until none is open.
    #[inline]
    fn run(&mut self) -> PyResult<()> {
        while let Some(frame) = self.stack.last_mut() {
            let opened = match frame.kind {
                Kind::List => Self::list(&mut self.out, frame),
                Kind::Tuple => Self::tuple(&mut self.out, frame),
                Kind::Dict => Self::dict(&mut self.out, frame),
            };
            match opened {
                Some(obj) => self.open(obj)?,
                None => self.close()?,
            }
        }
        Ok(())
    }

    /// Write elements until one is not plain, which is returned, or all are written.
    #[inline]
    fn list(out: &mut Buffer, frame: &mut Frame<'py>) -> Option<Bound<'py, PyAny>> {
        let list = frame.obj.as_ptr();
        while frame.done < frame.len {
            // SAFETY: the frame holds the list, and the index is below its length as it is now.
            let obj = unsafe {
                if frame.next >= ffi::PyList_GET_SIZE(list) {
                    return None;
                }
                ffi::PyList_GET_ITEM(list, frame.next)
            };
            frame.next += 1;
            frame.done += 1;
            if !plain(out, obj) {
                // SAFETY: the list still holds the object; the reference taken here is a new one.
                return Some(unsafe { Bound::from_borrowed_ptr(frame.obj.py(), obj) });
            }
        }
        None
    }

    #[inline]
    fn tuple(out: &mut Buffer, frame: &mut Frame<'py>) -> Option<Bound<'py, PyAny>> {
        while frame.done < frame.len {
            // SAFETY: the frame holds the tuple, whose length never changes; the index is below it.
            let obj = unsafe { ffi::PyTuple_GET_ITEM(frame.obj.as_ptr(), frame.next) };
            frame.next += 1;
            frame.done += 1;
            if !plain(out, obj) {
                // SAFETY: the tuple holds the object; the reference taken here is a new one.
                return Some(unsafe { Bound::from_borrowed_ptr(frame.obj.py(), obj) });
            }
        }
        None
    }

    #[inline]
    fn dict(out: &mut Buffer, frame: &mut Frame<'py>) -> Option<Bound<'py, PyAny>> {
        let py = frame.obj.py();
        if let Some(value) = frame.value.take()
            && !plain(out, value.as_ptr())
        {
            return Some(value);
        }
        let dict = frame.obj.as_ptr();
        let (mut key, mut value) = (std::ptr::null_mut(), std::ptr::null_mut());
        while frame.done < frame.len {
            // SAFETY: the frame holds the dict; `PyDict_Next` checks the position against the dict as it is now.
            if unsafe { ffi::PyDict_Next(dict, &raw mut frame.next, &raw mut key, &raw mut value) } == 0 {
                return None;
            }
            frame.done += 1;
            // SAFETY: the key was just read off the dict and nothing has run since.
            let is_written = unsafe {
                let kind = ffi::Py_TYPE(key);
                if kind == &raw mut ffi::PyUnicode_Type {
                    written_key(out, key)
                } else {
                    frame.unsalted += usize::from(kind != &raw mut ffi::PyBytes_Type);
                    scalar(out, key)
                }
            };
            if !is_written {
                // SAFETY: the dict holds both; the references taken here are new ones.
                let (key, value) = unsafe { (Bound::from_borrowed_ptr(py, key), Bound::from_borrowed_ptr(py, value)) };
                frame.key = Some(key.clone());
                frame.value = Some(value);
                return Some(key);
            }
            if !plain(out, value) {
                // SAFETY: as above.
                let (key, value) = unsafe { (Bound::from_borrowed_ptr(py, key), Bound::from_borrowed_ptr(py, value)) };
                frame.key = Some(key);
                return Some(value);
            }
        }
        None
    }

    /// Write a value that is not plain: begin a container, or ask for what is rare.
    fn open(&mut self, obj: Bound<'py, PyAny>) -> PyResult<()> {
        // SAFETY: `obj` is live.
        let kind = unsafe { ffi::Py_TYPE(obj.as_ptr()) };
        if self.small(&obj) {
            return Ok(());
        }
        if kind == &raw mut ffi::PyDict_Type || self.lent.read_only.is_dict(kind) {
            // SAFETY: the object is a dict.
            let n = unsafe { (*obj.as_ptr().cast::<ffi::PyDictObject>()).ma_used } as usize;
            self.reserve_depth()?;
            wire::map(&mut self.out, n).or_else(|_: TooLong| self.fail("has too many keys"))?;
            self.push(Kind::Dict, obj, n, 0);
            Ok(())
        } else if kind == &raw mut ffi::PyList_Type || self.lent.read_only.is_list(kind) {
            self.open_list(obj)
        } else if kind == &raw mut ffi::PyTuple_Type {
            // SAFETY: the object is a tuple.
            let n = unsafe { ffi::PyTuple_Size(obj.as_ptr()) } as usize;
            self.open_ext(ext::TUPLE, Kind::Tuple, obj, n)
        } else if kind == &raw mut ffi::PySet_Type || self.lent.read_only.is_set(kind) {
            self.open_set(ext::SET, &obj)
        } else if kind == &raw mut ffi::PyFrozenSet_Type {
            self.open_set(ext::FROZENSET, &obj)
        } else {
            self.extra(&obj)
        }
    }

    fn open_list(&mut self, obj: Bound<'py, PyAny>) -> PyResult<()> {
        // SAFETY: the object is a list.
        let n = unsafe { ffi::PyList_GET_SIZE(obj.as_ptr()) } as usize;
        if n >= MIN_PACKED_FLOATS && self.pack_floats(&obj, n)? {
            return Ok(());
        }
        self.reserve_depth()?;
        wire::array(&mut self.out, n).or_else(|_: TooLong| self.fail("has too many elements"))?;
        self.push(Kind::List, obj, n, 0);
        Ok(())
    }

    /// Begin an extension value whose body is one array of `n` elements; its length is filled in when it closes.
    pub(super) fn open_ext(&mut self, code: i8, kind: Kind, obj: Bound<'py, PyAny>, n: usize) -> PyResult<()> {
        self.reserve_depth()?;
        self.out.put([marker::EXT32]);
        let patch = self.out.len();
        self.out.put([0, 0, 0, 0, code as u8]);
        wire::array(&mut self.out, n).or_else(|_: TooLong| self.fail("has too many elements"))?;
        self.push(kind, obj, n, patch);
        Ok(())
    }

    #[inline]
    fn push(&mut self, kind: Kind, obj: Bound<'py, PyAny>, len: usize, patch: usize) {
        self.stack.reserve(1);
        // SAFETY: there is room for one more, which is written before it is counted. Written in its place, since built
        // elsewhere and moved it costs a tenth of the time: its words are read before they have arrived.
        unsafe {
            let place = self.stack.as_mut_ptr().add(self.stack.len());
            (&raw mut (*place).kind).write(kind);
            (&raw mut (*place).obj).write(obj);
            (&raw mut (*place).next).write(0);
            (&raw mut (*place).done).write(0);
            (&raw mut (*place).len).write(len);
            (&raw mut (*place).key).write(None);
            (&raw mut (*place).value).write(None);
            (&raw mut (*place).patch).write(patch);
            (&raw mut (*place).unsalted).write(0);
            self.stack.set_len(self.stack.len() + 1);
        }
    }

    fn close(&mut self) -> PyResult<()> {
        let Some(frame) = self.stack.last() else { return Ok(()) };
        // SAFETY: the frame holds the object, whose type is that of its kind.
        let now = unsafe {
            match frame.kind {
                Kind::List => ffi::PyList_GET_SIZE(frame.obj.as_ptr()),
                Kind::Dict => (*frame.obj.as_ptr().cast::<ffi::PyDictObject>()).ma_used,
                Kind::Tuple => frame.len.cast_signed(),
            }
        };
        if frame.done != frame.len || now != frame.len.cast_signed() {
            return self.fail_here("changed while it was being encoded");
        }
        if collide::is_many(frame.unsalted) {
            self.check_keys(frame)?;
        }
        if frame.patch > 0 {
            let at = frame.patch;
            // The code stands between the length and the body.
            let Ok(length) = u32::try_from(self.out.len().saturating_sub(at + 5)) else {
                return self.fail_here("is too long");
            };
            self.out.patch(at, length);
        }
        self.stack.pop();
        Ok(())
    }

    #[cold]
    fn check_keys(&self, frame: &Frame<'py>) -> PyResult<()> {
        if frame.unsalted > MAX_UNSALTED_KEYS {
            return self.fail_here(&unsalted());
        }
        if collide::collide(frame.obj.try_iter()?.flatten()) {
            return self.fail_here(&collide::said());
        }
        Ok(())
    }

    fn reserve_depth(&self) -> PyResult<()> {
        if self.stack.len() < self.depth_left {
            Ok(())
        } else {
            self.fail(&format!("is nested deeper than {MAX_DEPTH}"))
        }
    }

    /// The error for the value at which the innermost open container stands.
    #[cold]
    pub(super) fn fail<T>(&self, reason: &str) -> PyResult<T> {
        self.fail_at(&self.stack, reason)
    }

    /// The error for the innermost open container itself.
    #[cold]
    fn fail_here<T>(&self, reason: &str) -> PyResult<T> {
        self.fail_at(self.stack.split_last().map_or(&[], |(_, outer)| outer), reason)
    }

    fn fail_at<T>(&self, frames: &[Frame<'py>], reason: &str) -> PyResult<T> {
        let mut path = self.base.to_owned();
        for frame in frames {
            match (&frame.kind, &frame.key) {
                (Kind::Dict, Some(key)) => path::step(&mut path, key, frame.value.is_some()),
                _ => path::index(&mut path, frame.done.saturating_sub(1)),
            }
        }
        Err(crate::Error::Encode { path, reason: reason.to_owned() }.into())
    }
}

pub(super) fn unsalted() -> String {
    format!("has more than {MAX_UNSALTED_KEYS} keys that are neither str nor bytes")
}
