//! From bytes to Python objects: tokens in, objects made in place, no recursion.
#![allow(unsafe_code, reason = "filling str, list and dict in place is what makes this as fast as its C peers")]

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::Lent;
use crate::Error;
use crate::msgpack::decode::{Fault, Reader, Token};
use crate::msgpack::marker::ext;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    List,
    /// A list of somebody else's, which is appended to.
    Grown,
    Tuple,
    Set,
    Dict,
    /// A dict of somebody else's, which an array of pairs of key and value is put into; the last of a key stays.
    Pairs,
}

/// A container that is being filled.
pub(super) struct Frame<'py> {
    pub(super) kind: Kind,
    pub(super) obj: Bound<'py, PyAny>,
    pub(super) done: usize,
    pub(super) len: usize,
    /// The key that waits for its value.
    pub(super) key: Option<Bound<'py, PyAny>>,
    /// Where the extension body around it must end.
    pub(super) end: Option<usize>,
    /// Offset of its header.
    pub(super) start: usize,
    pub(super) unsalted: usize,
}

/// The error is in the decoder: results stay small, and are looked at after every value.
pub(super) struct Failed;

pub(super) type Made<'py> = Result<Bound<'py, PyAny>, Failed>;

pub(super) struct Decoder<'py, 'a> {
    pub(super) py: Python<'py>,
    pub(super) reader: Reader<'a>,
    /// The containers around the one that is being filled.
    pub(super) outer: Vec<Frame<'py>>,
    pub(super) frozen: bool,
    always_frozen: bool,
    pub(super) frozen_keys: &'a [&'a str],
    /// Up to where `ahead` has looked in vain.
    pub(super) tried: usize,
    /// Containers around the outermost of `outer`.
    pub(super) depth: usize,
    pub(super) lent: &'static Lent,
    pub(super) error: Option<PyErr>,
}

impl<'py> Frame<'py> {
    pub(super) fn new(kind: Kind, obj: Bound<'py, PyAny>, len: usize, start: usize) -> Self {
        Self { kind, obj, done: 0, len, key: None, end: None, start, unsalted: 0 }
    }
}

impl<'py, 'a> Decoder<'py, 'a> {
    pub(super) fn new(py: Python<'py>, reader: Reader<'a>, frozen: bool, lent: &'static Lent) -> Self {
        let always_frozen = frozen;
        Self {
            py,
            reader,
            outer: Vec::new(),
            frozen,
            always_frozen,
            frozen_keys: &[],
            tried: 0,
            depth: 0,
            lent,
            error: None,
        }
    }

    pub(super) fn end(self, made: Made<'py>) -> PyResult<Bound<'py, PyAny>> {
        match (made, self.error, self.reader.left()) {
            (Ok(value), None, 0) => Ok(value),
            (_, Some(error), _) => Err(error),
            (_, None, rest) => Err(Error::Decode {
                offset: self.reader.offset(),
                reason: format!("{rest} bytes follow the end of the document"),
            }
            .into()),
        }
    }

    /// Decode one value, whatever it is.
    pub(super) fn one(&mut self) -> Made<'py> {
        let start = self.reader.offset();
        if let Some(text) = self.reader.text_ahead() {
            return self.value(start, text);
        }
        if let Some(value) = self.ahead() {
            return Ok(value);
        }
        let token = self.reader.token();
        if let Some(value) = self.plain(start, &token)? {
            return Ok(value);
        }
        // SAFETY: the GIL is held.
        let root = self.owned(unsafe { ffi::PyList_New(1) })?;
        // It is the one element of a list that nobody else sees.
        let mut frame = Frame::new(Kind::List, root, 1, start);
        self.open(&mut frame, start, &token)?;
        let list = self.filled(frame)?;
        // SAFETY: the list is full; the reference taken here is a new one.
        Ok(unsafe { Bound::from_borrowed_ptr(self.py, ffi::PyList_GET_ITEM(list.as_ptr(), 0)) })
    }

    /// Decode `n` elements for an empty list of somebody else's, which takes them over.
    pub(super) fn take_elements(&mut self, target: &Bound<'py, PyList>, n: usize, start: usize) -> Result<(), Failed> {
        // SAFETY: the GIL is held.
        let list = self.owned(unsafe { ffi::PyList_New(n.cast_signed()) })?;
        let list = self.filled(Frame::new(Kind::List, list, n, start))?;
        // SAFETY: both are lists, and what they hold is theirs alone: each is as sound with what the other held.
        unsafe {
            let (taken, target) =
                (&mut *list.as_ptr().cast::<ffi::PyListObject>(), &mut *target.as_ptr().cast::<ffi::PyListObject>());
            std::mem::swap(&mut taken.ob_item, &mut target.ob_item);
            std::mem::swap(&mut taken.allocated, &mut target.allocated);
            std::mem::swap(&mut taken.ob_base.ob_size, &mut target.ob_base.ob_size);
        }
        Ok(())
    }

    /// Put `n` pairs of key and value into a dict of somebody else's, the values read-only.
    pub(super) fn put_pairs(&mut self, target: &Bound<'py, PyDict>, n: usize, start: usize) -> Result<(), Failed> {
        self.filled(Frame::new(Kind::Pairs, target.clone().into_any(), n, start)).map(drop)
    }

    /// Fill a container, and those inside it.
    pub(super) fn filled(&mut self, mut frame: Frame<'py>) -> Made<'py> {
        loop {
            let has_opened = match frame.kind {
                Kind::Dict | Kind::Pairs => self.fill_dict(&mut frame)?,
                _ => self.fill(&mut frame)?,
            };
            if has_opened {
                continue;
            }
            let value = self.close(&frame)?;
            let Some(around) = self.outer.pop() else { return Ok(value) };
            frame = around;
            self.put(&mut frame, value)?;
        }
    }

    /// Read keys and values until all are read, or one is a container: true, and `frame` is that one.
    #[inline]
    fn fill_dict(&mut self, frame: &mut Frame<'py>) -> Result<bool, Failed> {
        while frame.done < frame.len {
            let start = self.reader.offset();
            if frame.kind == Kind::Pairs && frame.key.is_none() {
                match self.reader.token() {
                    Ok(Token::Array(2)) => {}
                    Ok(_) => return self.bad(start, "no pair"),
                    Err(fault) => return self.fault(fault),
                }
            }
            let mut name: &[u8] = &[];
            let key = if let Some(key) = frame.key.take() {
                key
            } else if let Some(text) = self.reader.text_ahead() {
                name = text;
                self.key(start, text)?
            } else {
                let token = self.reader.token();
                match token {
                    Ok(Token::Str(text)) => name = text,
                    Ok(Token::Uint(_) | Token::Int(_)) | Err(_) => {}
                    Ok(_) if frame.kind == Kind::Pairs => return self.bad(start, "a key that is neither int nor str"),
                    Ok(_) => {}
                }
                match self.plain(start, &token)? {
                    Some(key) if frame.kind == Kind::Pairs => key,
                    Some(key) => self.unsalted(frame, key)?,
                    None => return self.open(frame, start, &token),
                }
            };
            if self.outer.len() == 1 && !self.frozen_keys.is_empty() {
                self.turn(name);
            }
            let start = self.reader.offset();
            let value = if let Some(text) = self.reader.text_ahead() {
                self.value(start, text)?
            } else if let Some(value) = self.ahead() {
                value
            } else {
                let token = self.reader.token();
                let Some(value) = self.plain(start, &token)? else {
                    frame.key = Some(key);
                    return self.open(frame, start, &token);
                };
                value
            };
            self.set(frame, &key, &value)?;
        }
        Ok(false)
    }

    /// Read elements until all are read, or one is a container: true, and `frame` is that one.
    #[inline]
    fn fill(&mut self, frame: &mut Frame<'py>) -> Result<bool, Failed> {
        while frame.done < frame.len {
            let start = self.reader.offset();
            if let Some(value) = self.ahead() {
                self.put(frame, value)?;
                continue;
            }
            let token = self.reader.token();
            match self.plain(start, &token)? {
                Some(value) => self.put(frame, value)?,
                None => return self.open(frame, start, &token),
            }
        }
        Ok(false)
    }

    /// Whether what follows within the outermost map is read-only.
    #[cold]
    fn turn(&mut self, key: &[u8]) {
        self.frozen = self.always_frozen || self.frozen_keys.iter().any(|frozen| frozen.as_bytes() == key);
    }

    #[cold]
    pub(super) fn fault<T>(&mut self, fault: Fault) -> Result<T, Failed> {
        self.error = Some(self.reader.error(fault).into());
        Err(Failed)
    }

    /// The value of a token that contains no others; None for those that do.
    ///
    /// By reference: a token is written by parts, and moving it reads it as a whole before its parts have arrived.
    fn plain(&mut self, start: usize, token: &Result<Token<'a>, Fault>) -> Result<Option<Bound<'py, PyAny>>, Failed> {
        let token = match token {
            Ok(token) => token,
            Err(fault) => return self.fault(*fault),
        };
        // SAFETY: the GIL is held; each call gives a new reference or null with the exception set.
        let made = unsafe {
            match *token {
                Token::Str(text) => return self.text(start, text).map(Some),
                Token::Uint(value) => ffi::PyLong_FromUnsignedLongLong(value),
                Token::Int(value) => ffi::PyLong_FromLongLong(value),
                Token::Nil => ffi::Py_NewRef(ffi::Py_None()),
                Token::Bool(true) => ffi::Py_NewRef(ffi::Py_True()),
                Token::Bool(false) => ffi::Py_NewRef(ffi::Py_False()),
                Token::Float(value) => ffi::PyFloat_FromDouble(value),
                Token::Bin(data) => ffi::PyBytes_FromStringAndSize(data.as_ptr().cast(), data.len().cast_signed()),
                Token::Array(_) | Token::Map(_) | Token::Ext(ext::TUPLE | ext::SET | ext::FROZENSET, _) => {
                    return Ok(None);
                }
                Token::Ext(code, body) => return self.extra(start, code, body).map(Some),
            }
        };
        self.owned(made).map(Some)
    }

    #[inline]
    pub(super) fn owned(&mut self, made: *mut ffi::PyObject) -> Made<'py> {
        // SAFETY: `made` is a new reference or null with the exception set.
        match unsafe { Bound::from_owned_ptr_or_opt(self.py, made) } {
            Some(value) => Ok(value),
            None => self.raised(),
        }
    }

    #[cold]
    pub(super) fn raised<T>(&mut self) -> Result<T, Failed> {
        self.error = Some(PyErr::fetch(self.py));
        Err(Failed)
    }

    #[cold]
    pub(super) fn bad<T>(&mut self, offset: usize, reason: impl Into<String>) -> Result<T, Failed> {
        self.error = Some(Error::Decode { offset, reason: reason.into() }.into());
        Err(Failed)
    }
}
