//! From bytes to Python objects: tokens in, objects made in place, no recursion.
#![allow(unsafe_code, reason = "filling str, list and dict in place is what makes this as fast as its C peers")]

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::Lent;
use super::keys::{KEYS, MAX_KEY_BYTES, ascii};
use crate::Error;
use crate::msgpack::decode::{Reader, Token};
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

struct Decoder<'py, 'a> {
    py: Python<'py>,
    reader: Reader<'a>,
    stack: Vec<Frame<'py>>,
    frozen: bool,
    always_frozen: bool,
    frozen_keys: &'a [String],
    lent: &'static Lent,
}

fn bad<T>(offset: usize, reason: impl Into<String>) -> PyResult<T> {
    Err(Error::Decode { offset, reason: reason.into() }.into())
}

/// Decode `data` from byte `start` on; what is `frozen`, or stands under one of `frozen_keys` of the outermost map, is read-only.
pub(super) fn decode<'py>(
    py: Python<'py>,
    data: &[u8],
    start: usize,
    frozen: bool,
    frozen_keys: &[String],
    lent: &'static Lent,
) -> PyResult<Bound<'py, PyAny>> {
    let reader = Reader::new(data, start);
    let mut inner = Decoder { py, reader, stack: Vec::new(), frozen, always_frozen: frozen, frozen_keys, lent };
    let value = inner.run()?;
    match inner.reader.left() {
        0 => Ok(value),
        rest => bad(inner.reader.offset(), format!("{rest} bytes follow the end of the document")),
    }
}

impl<'py> Decoder<'py, '_> {
    fn run(&mut self) -> PyResult<Bound<'py, PyAny>> {
        loop {
            let Some(mut value) = self.value()? else { continue };
            loop {
                let Some(frame) = self.stack.last_mut() else { return Ok(value) };
                Self::put(frame, value)?;
                if frame.done < frame.len || frame.key.is_some() {
                    if self.stack.len() == 1 && !self.frozen_keys.is_empty() {
                        self.turn();
                    }
                    break;
                }
                value = self.close()?;
            }
        }
    }

    /// Read one token: a value that is complete, or None where a container was opened.
    #[inline]
    fn value(&mut self) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = self.py;
        let start = self.reader.offset();
        let token = self.reader.token()?;
        // SAFETY: the GIL is held; each call gives a new reference or null with the exception set.
        let made = unsafe {
            match token {
                Token::Str(text) => return self.text(start, text).map(Some),
                Token::Uint(value) => ffi::PyLong_FromUnsignedLongLong(value),
                Token::Int(value) => ffi::PyLong_FromLongLong(value),
                Token::Nil => ffi::Py_NewRef(ffi::Py_None()),
                Token::Bool(true) => ffi::Py_NewRef(ffi::Py_True()),
                Token::Bool(false) => ffi::Py_NewRef(ffi::Py_False()),
                Token::Float(value) => ffi::PyFloat_FromDouble(value),
                Token::Bin(data) => ffi::PyBytes_FromStringAndSize(data.as_ptr().cast(), data.len().cast_signed()),
                Token::Array(n) if self.frozen => {
                    let list = read_only(&raw mut ffi::PyList_Type, &self.lent.list);
                    return self.open(Kind::ReadOnlyList, list, n, start, None);
                }
                Token::Array(n) => {
                    return self.open(Kind::List, ffi::PyList_New(n.cast_signed()), n, start, None);
                }
                Token::Map(n) => {
                    let dict = if self.frozen {
                        read_only(&raw mut ffi::PyDict_Type, &self.lent.dict)
                    } else {
                        ffi::PyDict_New()
                    };
                    return self.open(Kind::Dict, dict, n, start, None);
                }
                Token::Ext(code, body) => return self.ext(start, code, body),
            }
        };
        // SAFETY: as above.
        unsafe { Bound::from_owned_ptr_or_err(py, made) }.map(Some)
    }

    #[inline]
    fn text(&self, start: usize, text: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        let is_key = self.stack.last().is_some_and(|frame| frame.kind == Kind::Dict && frame.key.is_none());
        // SAFETY: the GIL is held, and what is called ASCII is ASCII.
        unsafe {
            let made = if !text.is_ascii() {
                let n = text.len().cast_signed();
                let made = ffi::PyUnicode_DecodeUTF8(text.as_ptr().cast(), n, c"strict".as_ptr());
                if made.is_null() {
                    return self.not_utf8(start, text);
                }
                made
            } else if is_key && text.len() <= MAX_KEY_BYTES {
                KEYS.get(text)
            } else {
                ascii(text)
            };
            Bound::from_owned_ptr_or_err(self.py, made)
        }
    }

    #[cold]
    fn not_utf8<T>(&self, start: usize, text: &[u8]) -> PyResult<T> {
        let error = PyErr::fetch(self.py);
        match std::str::from_utf8(text) {
            // The text stands right before where the reader is now.
            Err(fault) => {
                let offset = self.reader.offset().saturating_sub(text.len()).max(start);
                bad(offset + fault.valid_up_to(), "a string that is not UTF-8")
            }
            Ok(_) => Err(error),
        }
    }

    /// Open a container; one that is empty is complete at once.
    #[inline]
    fn open(
        &mut self,
        kind: Kind,
        made: *mut ffi::PyObject,
        len: usize,
        start: usize,
        end: Option<usize>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        // SAFETY: `made` is a new reference or null with the exception set.
        let obj = unsafe { Bound::from_owned_ptr_or_err(self.py, made)? };
        if self.stack.len() >= MAX_DEPTH {
            return bad(start, format!("nested deeper than {MAX_DEPTH}"));
        }
        self.stack.push(Frame { kind, obj, done: 0, len, key: None, end, start, unsalted: 0 });
        if len == 0 { self.close().map(Some) } else { Ok(None) }
    }

    /// Whether what follows within the outermost map is read-only.
    fn turn(&mut self) {
        let Some(frame) = self.stack.last() else { return };
        let key = frame.key.as_ref().and_then(|key| key.extract::<&str>().ok());
        self.frozen = self.always_frozen || key.is_some_and(|key| self.frozen_keys.iter().any(|frozen| frozen == key));
    }

    #[inline]
    fn put(frame: &mut Frame<'py>, value: Bound<'py, PyAny>) -> PyResult<()> {
        let obj = frame.obj.as_ptr();
        // SAFETY: the frame holds the object, whose type is that of its kind; lists and tuples were made with `len`
        // places, of which `done` are filled, and nobody else fills them.
        let status = unsafe {
            match frame.kind {
                Kind::List => {
                    ffi::PyList_SET_ITEM(obj, frame.done.cast_signed(), value.into_ptr());
                    0
                }
                Kind::Tuple => {
                    ffi::PyTuple_SET_ITEM(obj, frame.done.cast_signed(), value.into_ptr());
                    0
                }
                Kind::ReadOnlyList => ffi::PyList_Append(obj, value.as_ptr()),
                Kind::Set => {
                    frame.unsalted += usize::from(!is_salted(&value));
                    ffi::PySet_Add(obj, value.as_ptr())
                }
                Kind::Dict => {
                    let Some(key) = frame.key.take() else {
                        frame.unsalted += usize::from(!is_salted(&value));
                        frame.key = Some(value);
                        return if frame.unsalted > MAX_UNSALTED_KEYS { too_many(frame) } else { Ok(()) };
                    };
                    ffi::PyDict_SetItem(obj, key.as_ptr(), value.as_ptr())
                }
            }
        };
        if status < 0 {
            return failed(frame);
        }
        if frame.unsalted > MAX_UNSALTED_KEYS {
            return too_many(frame);
        }
        frame.done += 1;
        Ok(())
    }

    /// Take the innermost container off the stack, complete.
    #[inline]
    fn close(&mut self) -> PyResult<Bound<'py, PyAny>> {
        let Some(frame) = self.stack.pop() else { return bad(self.reader.offset(), "no container is open") };
        // SAFETY: the frame holds the object, whose type is that of its kind.
        let size = unsafe {
            match frame.kind {
                Kind::Dict => ffi::PyDict_Size(frame.obj.as_ptr()),
                Kind::Set => ffi::PySet_Size(frame.obj.as_ptr()),
                _ => frame.len.cast_signed(),
            }
        };
        if size != frame.len.cast_signed() {
            return bad(frame.start, "a key, or an element of a set, stands twice");
        }
        if frame.end.is_some_and(|end| end != self.reader.offset()) {
            return bad(frame.start, "an extension body that is not one array");
        }
        Ok(frame.obj)
    }

    fn ext(&mut self, start: usize, code: i8, body: &[u8]) -> PyResult<Option<Bound<'py, PyAny>>> {
        match code {
            ext::TUPLE | ext::SET | ext::FROZENSET => {
                let end = self.reader.offset();
                self.reader.enter(body);
                let Token::Array(n) = self.reader.token()? else {
                    return bad(start, "an extension body that is not one array");
                };
                if end.checked_sub(self.reader.offset()).is_none_or(|left| left < n) {
                    return bad(start, "an extension body that ends before its array does");
                }
                // SAFETY: the GIL is held.
                let (kind, made) = unsafe {
                    match code {
                        ext::TUPLE => (Kind::Tuple, ffi::PyTuple_New(n.cast_signed())),
                        ext::SET if self.frozen => (Kind::Set, read_only(&raw mut ffi::PySet_Type, &self.lent.set)),
                        ext::SET => (Kind::Set, ffi::PySet_New(std::ptr::null_mut())),
                        _ => (Kind::Set, ffi::PyFrozenSet_New(std::ptr::null_mut())),
                    }
                };
                self.open(kind, made, n, start, Some(end))
            }
            ext::FLOATS64 => {
                self.floats(start, body, 8, |bytes| bytes.first_chunk().map_or(0.0, |bytes| f64::from_le_bytes(*bytes)))
            }
            ext::FLOATS32 => self.floats(start, body, 4, |bytes| {
                bytes.first_chunk().map_or(0.0, |bytes| f64::from(f32::from_le_bytes(*bytes)))
            }),
            _ => {
                let body = PyBytes::new(self.py, body);
                match self.lent.unpack_extra.bind(self.py).call1((code, body, self.frozen)) {
                    Ok(value) => Ok(Some(value)),
                    Err(error)
                        if error.is_instance_of::<PyTypeError>(self.py)
                            || error.is_instance_of::<PyValueError>(self.py) =>
                    {
                        bad(start, error.value(self.py).to_string())
                    }
                    Err(error) => Err(error),
                }
            }
        }
    }

    fn floats(
        &mut self,
        start: usize,
        body: &[u8],
        width: usize,
        read: impl Fn(&[u8]) -> f64,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        if !body.len().is_multiple_of(width) {
            return bad(start, "a list of floats of uneven length");
        }
        let n = body.len() / width;
        let frozen = self.frozen;
        // SAFETY: the list has `n` places, each filled once with a new reference; a read-only one is appended to.
        unsafe {
            let made = if frozen {
                read_only(&raw mut ffi::PyList_Type, &self.lent.list)
            } else {
                ffi::PyList_New(n.cast_signed())
            };
            let list = Bound::from_owned_ptr_or_err(self.py, made)?;
            for (index, bytes) in body.chunks_exact(width).enumerate() {
                let value = Bound::from_owned_ptr_or_err(self.py, ffi::PyFloat_FromDouble(read(bytes)))?;
                if !frozen {
                    ffi::PyList_SET_ITEM(list.as_ptr(), index.cast_signed(), value.into_ptr());
                } else if ffi::PyList_Append(list.as_ptr(), value.as_ptr()) < 0 {
                    return Err(PyErr::fetch(self.py));
                }
            }
            Ok(Some(list))
        }
    }
}

/// A new, empty instance of a read-only subclass of a built-in container, made by the built-in itself.
///
/// # Safety
///
/// The GIL is held, and `class` derives from `base`.
unsafe fn read_only(base: *mut ffi::PyTypeObject, class: &Py<pyo3::types::PyType>) -> *mut ffi::PyObject {
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

#[cold]
fn too_many<T>(frame: &Frame<'_>) -> PyResult<T> {
    bad(frame.start, format!("more than {MAX_UNSALTED_KEYS} keys that are neither str nor bytes"))
}

/// What setting a key or adding an element raised: a key that cannot be hashed is the document's fault.
#[cold]
fn failed<T>(frame: &Frame<'_>) -> PyResult<T> {
    let py = frame.obj.py();
    let error = PyErr::fetch(py);
    if error.is_instance_of::<PyTypeError>(py) {
        return bad(frame.start, "a key, or an element of a set, that cannot be hashed");
    }
    Err(error)
}
