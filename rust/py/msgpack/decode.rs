//! From bytes to Python objects: tokens in, objects made in place, no recursion.
#![allow(unsafe_code, reason = "filling str, list and dict in place is what makes this as fast as its C peers")]

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};

use super::Lent;
use super::keys::{KEYS, MAX_KEY_BYTES, ascii};
use super::unread;
use crate::Error;
use crate::msgpack::decode::{Fault, Reader, Token};
use crate::msgpack::marker::ext;
use crate::msgpack::{MAX_DEPTH, MAX_UNSALTED_KEYS};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    List,
    ReadOnlyList,
    Tuple,
    Set,
    Dict,
}

/// A container that is being filled.
struct Frame<'py> {
    kind: Kind,
    obj: Bound<'py, PyAny>,
    done: usize,
    len: usize,
    /// The key that waits for its value.
    key: Option<Bound<'py, PyAny>>,
    /// Where the extension body around it must end.
    end: Option<usize>,
    /// Offset of its header.
    start: usize,
    unsalted: usize,
}

/// The error is in the decoder: results stay small, and are looked at after every value.
struct Failed;

type Made<'py> = Result<Bound<'py, PyAny>, Failed>;

struct Decoder<'py, 'a> {
    py: Python<'py>,
    reader: Reader<'a>,
    /// The containers around the one that is being filled.
    outer: Vec<Frame<'py>>,
    frozen: bool,
    always_frozen: bool,
    frozen_keys: &'a [String],
    /// The document, where what stands under `frozen_keys` may be left unread.
    unread_in: Option<&'a Bound<'py, PyBytes>>,
    lent: &'static Lent,
    error: Option<PyErr>,
}

/// Keeps the collector away while objects are made: none of them is garbage.
struct NoCollection(bool);

impl NoCollection {
    fn begin() -> Self {
        // SAFETY: the GIL is held.
        Self(unsafe { ffi::PyGC_Disable() } != 0)
    }
}

impl Drop for NoCollection {
    fn drop(&mut self) {
        if self.0 {
            // SAFETY: the GIL is held.
            unsafe { ffi::PyGC_Enable() };
        }
    }
}

/// Decode `data` from byte `start` on; what is `frozen`, or stands under one of `frozen_keys` of the outermost map, is
/// read-only. Arrays under `frozen_keys` whose decoding cannot fail are left unread where `unread_in`, the same document,
/// is given.
pub(super) fn decode<'py>(
    py: Python<'py>,
    data: &[u8],
    start: usize,
    frozen: bool,
    frozen_keys: &[String],
    lent: &'static Lent,
    unread_in: Option<&Bound<'py, PyBytes>>,
) -> PyResult<Bound<'py, PyAny>> {
    let _no_collection = NoCollection::begin();
    let mut decoder = Decoder {
        py,
        reader: Reader::new(data, start),
        outer: Vec::new(),
        frozen,
        always_frozen: frozen,
        frozen_keys,
        unread_in,
        lent,
        error: None,
    };
    let made = decoder.document();
    match (made, decoder.error, decoder.reader.left()) {
        (Ok(value), None, 0) => Ok(value),
        (_, Some(error), _) => Err(error),
        (_, None, rest) => Err(Error::Decode {
            offset: decoder.reader.offset(),
            reason: format!("{rest} bytes follow the end of the document"),
        }
        .into()),
    }
}

impl<'py, 'a> Decoder<'py, 'a> {
    fn document(&mut self) -> Made<'py> {
        let start = self.reader.offset();
        // SAFETY: the GIL is held.
        let root = self.owned(unsafe { ffi::PyList_New(1) })?;
        // The document is the one element of a list that nobody else sees.
        let mut frame =
            Frame { kind: Kind::List, obj: root, done: 0, len: 1, key: None, end: None, start, unsalted: 0 };
        loop {
            let has_opened = match frame.kind {
                Kind::Dict => self.fill_dict(&mut frame)?,
                _ => self.fill(&mut frame)?,
            };
            if has_opened {
                continue;
            }
            let value = self.close(&frame)?;
            let Some(around) = self.outer.pop() else {
                // SAFETY: the list is that of the document, and full; the reference taken here is a new one.
                return Ok(unsafe { Bound::from_borrowed_ptr(self.py, ffi::PyList_GET_ITEM(value.as_ptr(), 0)) });
            };
            frame = around;
            self.put(&mut frame, value)?;
        }
    }

    /// Read keys and values until all are read, or one is a container: true, and `frame` is that one.
    #[inline]
    fn fill_dict(&mut self, frame: &mut Frame<'py>) -> Result<bool, Failed> {
        while frame.done < frame.len {
            let start = self.reader.offset();
            let key = if let Some(key) = frame.key.take() {
                key
            } else if let Some(text) = self.reader.text_ahead() {
                self.key(start, text)?
            } else {
                let token = self.reader.token();
                match self.plain(start, &token)? {
                    Some(key) => self.unsalted(frame, key)?,
                    None => return self.open(frame, start, &token),
                }
            };
            if self.outer.len() == 1 && !self.frozen_keys.is_empty() {
                self.turn(&key);
                if self.frozen
                    && let Some(made) =
                        self.unread_in.and_then(|source| unread::step_over(source, &mut self.reader, &key))
                {
                    let value = made.map_err(|error| {
                        self.error = Some(error);
                        Failed
                    })?;
                    self.set(frame, &key, &value)?;
                    continue;
                }
            }
            let start = self.reader.offset();
            let value = if let Some(text) = self.reader.text_ahead() {
                self.text(start, text)?
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
            let token = self.reader.token();
            match self.plain(start, &token)? {
                Some(value) => self.put(frame, value)?,
                None => return self.open(frame, start, &token),
            }
        }
        Ok(false)
    }

    /// Put a complete value where it belongs in the container around it.
    #[inline]
    fn put(&mut self, frame: &mut Frame<'py>, value: Bound<'py, PyAny>) -> Result<(), Failed> {
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
                Kind::ReadOnlyList => ffi::PyList_Append(obj, value.as_ptr()),
                Kind::Set => {
                    let value = if is_salted(&value) { value } else { self.unsalted(frame, value)? };
                    ffi::PySet_Add(obj, value.as_ptr())
                }
                Kind::Dict => {
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
    fn set(
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
    fn unsalted(&mut self, frame: &mut Frame<'py>, key: Bound<'py, PyAny>) -> Made<'py> {
        frame.unsalted += usize::from(!is_salted(&key));
        if frame.unsalted > MAX_UNSALTED_KEYS {
            return self.bad(frame.start, format!("more than {MAX_UNSALTED_KEYS} keys that are neither str nor bytes"));
        }
        Ok(key)
    }

    /// Whether what follows within the outermost map is read-only.
    #[cold]
    fn turn(&mut self, key: &Bound<'py, PyAny>) {
        let key = key.extract::<&str>().ok();
        self.frozen = self.always_frozen || key.is_some_and(|key| self.frozen_keys.iter().any(|frozen| frozen == key));
    }

    #[cold]
    fn fault<T>(&mut self, fault: Fault) -> Result<T, Failed> {
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
    fn owned(&mut self, made: *mut ffi::PyObject) -> Made<'py> {
        // SAFETY: `made` is a new reference or null with the exception set.
        match unsafe { Bound::from_owned_ptr_or_opt(self.py, made) } {
            Some(value) => Ok(value),
            None => self.raised(),
        }
    }

    #[cold]
    fn raised<T>(&mut self) -> Result<T, Failed> {
        self.error = Some(PyErr::fetch(self.py));
        Err(Failed)
    }

    #[inline]
    fn key(&mut self, start: usize, text: &[u8]) -> Made<'py> {
        if text.len() <= MAX_KEY_BYTES {
            // SAFETY: the GIL is held.
            if let Some(made) = unsafe { KEYS.get(text) } {
                return self.owned(made);
            }
        }
        self.text(start, text)
    }

    #[inline]
    fn text(&mut self, start: usize, text: &[u8]) -> Made<'py> {
        if text.is_ascii() {
            // SAFETY: the GIL is held, and the text is ASCII.
            let made = unsafe { ascii(text) };
            return self.owned(made);
        }
        let n = text.len().cast_signed();
        // SAFETY: the GIL is held, and the pointer is to `n` bytes.
        let made = unsafe { ffi::PyUnicode_DecodeUTF8(text.as_ptr().cast(), n, c"strict".as_ptr()) };
        if made.is_null() { self.not_utf8(start, text) } else { self.owned(made) }
    }

    #[cold]
    fn not_utf8<T>(&mut self, start: usize, text: &[u8]) -> Result<T, Failed> {
        let error = PyErr::fetch(self.py);
        if let Err(fault) = std::str::from_utf8(text) {
            // The text stands right before where the reader is now.
            let offset = self.reader.offset().saturating_sub(text.len()).max(start);
            return self.bad(offset + fault.valid_up_to(), "a string that is not UTF-8");
        }
        self.error = Some(error);
        Err(Failed)
    }

    /// Begin the container that a token announces: `frame` becomes its frame, and what it was the innermost of `outer`.
    #[inline]
    fn open(&mut self, frame: &mut Frame<'py>, start: usize, token: &Result<Token<'a>, Fault>) -> Result<bool, Failed> {
        if self.outer.len() >= MAX_DEPTH {
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
                Token::Array(n) if self.frozen => {
                    (Kind::ReadOnlyList, read_only(&raw mut ffi::PyList_Type, &self.lent.list), n)
                }
                Token::Array(n) => (Kind::List, ffi::PyList_New(n.cast_signed()), n),
                Token::Map(n) if self.frozen => (Kind::Dict, read_only(&raw mut ffi::PyDict_Type, &self.lent.dict), n),
                Token::Map(n) => (Kind::Dict, ffi::PyDict_New(), n),
                Token::Ext(code, body) => {
                    end = Some(self.reader.offset());
                    let n = self.enter(start, body)?;
                    match code {
                        ext::TUPLE => (Kind::Tuple, ffi::PyTuple_New(n.cast_signed()), n),
                        ext::SET if self.frozen => (Kind::Set, read_only(&raw mut ffi::PySet_Type, &self.lent.set), n),
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
    fn close(&mut self, frame: &Frame<'py>) -> Made<'py> {
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
        Ok(frame.obj.clone())
    }

    fn extra(&mut self, start: usize, code: i8, body: &[u8]) -> Made<'py> {
        match code {
            ext::FLOATS64 => {
                self.floats(start, body, 8, |bytes| bytes.first_chunk().map_or(0.0, |bytes| f64::from_le_bytes(*bytes)))
            }
            ext::FLOATS32 => self.floats(start, body, 4, |bytes| {
                bytes.first_chunk().map_or(0.0, |bytes| f64::from(f32::from_le_bytes(*bytes)))
            }),
            _ => {
                let body = PyBytes::new(self.py, body);
                match self.lent.unpack_extra.bind(self.py).call1((code, body, self.frozen)) {
                    Ok(value) => Ok(value),
                    Err(error) if is_refusal(self.py, &error) => self.bad(start, error.value(self.py).to_string()),
                    Err(error) => {
                        self.error = Some(error);
                        Err(Failed)
                    }
                }
            }
        }
    }

    fn floats(&mut self, start: usize, body: &[u8], width: usize, read: impl Fn(&[u8]) -> f64) -> Made<'py> {
        if !body.len().is_multiple_of(width) {
            return self.bad(start, "a list of floats of uneven length");
        }
        let (n, frozen) = (body.len() / width, self.frozen);
        // SAFETY: the list has `n` places, each filled once with a new reference; a read-only one is appended to.
        unsafe {
            let made = if frozen {
                read_only(&raw mut ffi::PyList_Type, &self.lent.list)
            } else {
                ffi::PyList_New(n.cast_signed())
            };
            let list = self.owned(made)?;
            for (index, bytes) in body.chunks_exact(width).enumerate() {
                let value = self.owned(ffi::PyFloat_FromDouble(read(bytes)))?;
                if !frozen {
                    ffi::PyList_SET_ITEM(list.as_ptr(), index.cast_signed(), value.into_ptr());
                } else if ffi::PyList_Append(list.as_ptr(), value.as_ptr()) < 0 {
                    return self.raised();
                }
            }
            Ok(list)
        }
    }

    #[cold]
    fn bad<T>(&mut self, offset: usize, reason: impl Into<String>) -> Result<T, Failed> {
        self.error = Some(Error::Decode { offset, reason: reason.into() }.into());
        Err(Failed)
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

/// Whether `unpack_extra` said that the bytes are wrong.
fn is_refusal(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyTypeError>(py) || error.is_instance_of::<PyValueError>(py)
}

/// A new, empty instance of a read-only subclass of a built-in container, made by the built-in itself.
///
/// # Safety
///
/// The GIL is held, and `class` derives from `base`.
unsafe fn read_only(base: *mut ffi::PyTypeObject, class: &Py<PyType>) -> *mut ffi::PyObject {
    // SAFETY: the built-in types have `tp_new`, which takes a subtype, a tuple and no keywords.
    unsafe {
        let Some(new) = (*base).tp_new else { return std::ptr::null_mut() };
        let none = ffi::PyTuple_New(0);
        if none.is_null() {
            return none;
        }
        let made = new(class.as_ptr().cast(), none, std::ptr::null_mut());
        ffi::Py_DECREF(none);
        made
    }
}

/// Whether a key's hash is salted per process, so that nobody can make keys collide.
#[inline]
fn is_salted(key: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the object is live.
    let kind = unsafe { ffi::Py_TYPE(key.as_ptr()) };
    kind == &raw mut ffi::PyUnicode_Type || kind == &raw mut ffi::PyBytes_Type
}
