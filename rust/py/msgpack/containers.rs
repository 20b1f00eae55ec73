//! Containers while they are filled: begun, given their values, and closed.
#![allow(unsafe_code, reason = "filling list and dict in place is what makes this as fast as its C peers")]

use pyo3::exceptions::PyTypeError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyIterator;

use super::collide::{self, is_salted};
use super::decoder::{Decoder, Failed, Frame, Kind, Made};
use crate::msgpack::decode::{Fault, Token};
use crate::msgpack::marker::ext;
use crate::msgpack::{MAX_DEPTH, MAX_UNSALTED_KEYS};

impl<'py, 'a> Decoder<'py, 'a> {
    /// Begin the container that a token announces: `frame` becomes its frame, and what it was the innermost of `outer`.
    #[inline]
    pub(super) fn open(
        &mut self,
        frame: &mut Frame<'py>,
        start: usize,
        token: &Result<Token<'a>, Fault>,
    ) -> Result<bool, Failed> {
        if self.outer.len() + self.depth >= MAX_DEPTH {
            return self.bad(start, format!("nested deeper than {MAX_DEPTH}"));
        }
        let token = match token {
            Ok(token) => token,
            Err(fault) => return self.fault(*fault),
        };
        let mut end = None;
        // SAFETY: the GIL is held; each call gives a new reference or null with the exception set.
        let (kind, made, len) = unsafe {
            match *token {
                Token::Array(n) if self.frozen => (Kind::List, self.lent.read_only.list(n), n),
                Token::Array(n) => (Kind::List, ffi::PyList_New(n.cast_signed()), n),
                Token::Map(n) if self.frozen => (Kind::Dict, self.lent.read_only.dict(), n),
                Token::Map(n) => (Kind::Dict, ffi::PyDict_New(), n),
                Token::Ext(code, body) => {
                    end = Some(self.reader.offset());
                    let n = self.enter(start, body)?;
                    match code {
                        ext::TUPLE => (Kind::Tuple, ffi::PyTuple_New(n.cast_signed()), n),
                        ext::SET if self.frozen => (Kind::Set, self.lent.read_only.set(), n),
                        ext::SET => (Kind::Set, ffi::PySet_New(std::ptr::null_mut()), n),
                        _ => (Kind::Set, ffi::PyFrozenSet_New(std::ptr::null_mut()), n),
                    }
                }
                _ => return self.bad(start, "a value where a container was expected"),
            }
        };
        let obj = self.owned(made)?;
        self.outer.push(Frame {
            kind: std::mem::replace(&mut frame.kind, kind),
            obj: std::mem::replace(&mut frame.obj, obj),
            done: std::mem::replace(&mut frame.done, 0),
            len: std::mem::replace(&mut frame.len, len),
            key: frame.key.take(),
            end: std::mem::replace(&mut frame.end, end),
            start: std::mem::replace(&mut frame.start, start),
            unsalted: std::mem::replace(&mut frame.unsalted, 0),
        });
        Ok(true)
    }

    /// Step into the body of an extension, which is one array: its length.
    fn enter(&mut self, start: usize, body: &[u8]) -> Result<usize, Failed> {
        let end = self.reader.offset();
        self.reader.enter(body);
        let n = match self.reader.token() {
            Ok(Token::Array(n)) => n,
            Ok(_) => return self.bad(start, "an extension body that is not one array"),
            Err(fault) => return self.fault(fault),
        };
        if end.checked_sub(self.reader.offset()).is_none_or(|left| left < n) {
            return self.bad(start, "an extension body that ends before its array does");
        }
        Ok(n)
    }

    /// Check a container that has all that it declared.
    #[inline]
    pub(super) fn close(&mut self, frame: &Frame<'py>) -> Made<'py> {
        // SAFETY: the frame holds the object, whose type is that of its kind.
        let size = unsafe {
            match frame.kind {
                Kind::Dict => ffi::PyDict_Size(frame.obj.as_ptr()),
                Kind::Set => ffi::PySet_Size(frame.obj.as_ptr()),
                _ => frame.len.cast_signed(),
            }
        };
        if size != frame.len.cast_signed() {
            return self.bad(frame.start, "a key, or an element of a set, stands twice");
        }
        if frame.end.is_some_and(|end| end != self.reader.offset()) {
            return self.bad(frame.start, "an extension body that is not one array");
        }
        if frame.kind == Kind::Dict {
            self.lent.read_only.filled(&frame.obj);
        }
        Ok(frame.obj.clone())
    }

    /// Put a complete value where it belongs in the container around it.
    #[inline]
    pub(super) fn put(&mut self, frame: &mut Frame<'py>, value: Bound<'py, PyAny>) -> Result<(), Failed> {
        let (obj, at) = (frame.obj.as_ptr(), frame.done.cast_signed());
        // SAFETY: the frame holds the object, whose type is that of its kind; lists and tuples were made with `len`
        // places, of which `done` are filled, and nobody else fills them.
        let status = unsafe {
            match frame.kind {
                Kind::List => {
                    ffi::PyList_SET_ITEM(obj, at, value.into_ptr());
                    0
                }
                Kind::Tuple => {
                    ffi::PyTuple_SET_ITEM(obj, at, value.into_ptr());
                    0
                }
                Kind::Grown => ffi::PyList_Append(obj, value.as_ptr()),
                Kind::Set => {
                    let value = if is_salted(&value) { value } else { self.unsalted(frame, value)? };
                    ffi::PySet_Add(obj, value.as_ptr())
                }
                Kind::Dict | Kind::Pairs => {
                    let Some(key) = frame.key.take() else {
                        frame.key = Some(self.unsalted(frame, value)?);
                        return Ok(());
                    };
                    return self.set(frame, &key, &value);
                }
            }
        };
        if status < 0 {
            return self.failed(frame);
        }
        frame.done += 1;
        Ok(())
    }

    #[inline]
    pub(super) fn set(
        &mut self,
        frame: &mut Frame<'py>,
        key: &Bound<'py, PyAny>,
        value: &Bound<'py, PyAny>,
    ) -> Result<(), Failed> {
        // SAFETY: the frame holds the dict.
        if unsafe { ffi::PyDict_SetItem(frame.obj.as_ptr(), key.as_ptr(), value.as_ptr()) } < 0 {
            return self.failed(frame);
        }
        frame.done += 1;
        Ok(())
    }

    /// Count a key whose hash is not salted: see `MAX_UNSALTED_KEYS`.
    #[cold]
    pub(super) fn unsalted(&mut self, frame: &mut Frame<'py>, key: Bound<'py, PyAny>) -> Made<'py> {
        frame.unsalted += usize::from(!is_salted(&key));
        if frame.unsalted > MAX_UNSALTED_KEYS {
            return self.bad(frame.start, format!("more than {MAX_UNSALTED_KEYS} keys that are neither str nor bytes"));
        }
        if collide::is_due(frame.unsalted) && keys_of(&frame.obj).is_ok_and(collide::collide) {
            return self.bad(frame.start, format!("more than {} keys of one hash", collide::MAX_EQUAL));
        }
        Ok(key)
    }

    /// What setting a key or adding an element raised: a key that cannot be hashed is the document's fault.
    #[cold]
    fn failed<T>(&mut self, frame: &Frame<'py>) -> Result<T, Failed> {
        let error = PyErr::fetch(self.py);
        if error.is_instance_of::<PyTypeError>(self.py) {
            return self.bad(frame.start, "a key, or an element of a set, that cannot be hashed");
        }
        self.error = Some(error);
        Err(Failed)
    }
}

/// The keys of a dict, or the elements of a set.
fn keys_of<'py>(obj: &Bound<'py, PyAny>) -> PyResult<impl Iterator<Item = Bound<'py, PyAny>> + use<'py>> {
    Ok(PyIterator::from_object(obj)?.flatten())
}
