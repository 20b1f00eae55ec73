//! A loaded state, made in one call: its fields, and its log, unread or, where somebody will ask for it, with all that is known of it.
#![allow(unsafe_code, reason = "objects of classes of ours are made by what their bases make objects with")]

use std::sync::atomic::{AtomicBool, Ordering};

use pyo3::exceptions::PyTypeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyList, PyString, PyTuple, PyType};
use pyo3::{PyTypeInfo, ffi};

use super::decode::{self, NoCollection};
use super::decoder::{Decoder, Failed};
use super::entries::Entries;
use super::state::{Check, LOG_FIELDS, OTHER_FIELDS};
use super::unread::{self, Unread};
use super::{IS_MESSAGE, IS_RESULT, Lent};
use crate::msgpack::decode::{Reader, Token};

/// See `_native.pyi`.
#[pyclass(frozen, module = "holdall._native")]
pub(super) struct LastLog(AtomicBool);

#[pymethods]
impl LastLog {
    #[new]
    fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    #[getter]
    fn is_read(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    #[setter]
    fn set_is_read(&self, is_read: bool) {
        self.0.store(is_read, Ordering::Relaxed);
    }
}

/// See `_native.pyi`.
#[pyclass(frozen, subclass, module = "holdall._native")]
pub(super) struct LogView {
    at: usize,
    last: Py<LastLog>,
}

#[pymethods]
impl LogView {
    #[new]
    fn new(at: usize, last: Py<LastLog>) -> Self {
        Self { at, last }
    }

    fn __get__<'py>(
        &self,
        state: &Bound<'py, PyAny>,
        _owner: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = state.py();
        if state.is_none() {
            return Ok(PyTuple::empty(py).into_any());
        }
        // SAFETY: the GIL is held; what comes back is a new reference or null with the exception set.
        let fields = unsafe { ffi::PyObject_GenericGetDict(state.as_ptr(), std::ptr::null_mut()) };
        // SAFETY: as above.
        let fields = unsafe { Bound::from_owned_ptr_or_err(py, fields)? }.cast_into::<PyDict>()?;
        let views = match fields.get_item(intern!(py, "_log_views"))? {
            Some(views) => views,
            None => self.begin(state, &fields)?,
        };
        views.cast::<PyTuple>()?.get_item(self.at)
    }
}

impl LogView {
    /// The views of a state whose log nobody has asked for yet. Where they were made ahead no code of Python's runs, so that of
    /// several threads one is the first.
    fn begin<'py>(&self, state: &Bound<'py, PyAny>, fields: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyAny>> {
        let py = state.py();
        let Some(views) = fields.get_item(intern!(py, "_made"))? else {
            return state.call_method0(intern!(py, "_views"));
        };
        self.last.get().set_is_read(true);
        fields.set_item(intern!(py, "_log_views"), &views)?;
        fields.del_item(intern!(py, "_made"))?;
        fields.del_item(intern!(py, "_unread"))?;
        Ok(views)
    }
}

/// A field of a state's document.
struct Field {
    name: Py<PyString>,
    text: String,
    check: Check,
}

/// See `_native.pyi`.
#[pyclass(frozen, module = "holdall._native")]
pub(super) struct StateReader {
    state: Py<PyType>,
    messages: Py<PyType>,
    results: Py<PyType>,
    marks: Py<PyType>,
    /// In the order in which documents have them.
    fields: Vec<Field>,
    schema: u64,
    /// Every field of a loaded state, for each to begin with a copy.
    blank: Py<PyDict>,
    last: Py<LastLog>,
}

#[pymethods]
impl StateReader {
    #[new]
    #[pyo3(signature = (state, messages, results, marks, *, names, schema, last))]
    fn new(
        state: Py<PyType>,
        messages: &Bound<'_, PyType>,
        results: &Bound<'_, PyType>,
        marks: Py<PyType>,
        names: Vec<Py<PyString>>,
        schema: u64,
        last: Py<LastLog>,
    ) -> PyResult<Self> {
        let py = messages.py();
        if !messages.is_subclass_of::<PyList>()? || !results.is_subclass_of::<PyDict>()? {
            return Err(PyTypeError::new_err("messages must be a kind of list, and results one of dict"));
        }
        let blank = PyDict::new(py);
        let mut fields = Vec::with_capacity(names.len());
        for name in names {
            blank.set_item(&name, py.None())?;
            let text = name.to_str(py)?.to_owned();
            fields.push(Field { name, check: Check::of(&text), text });
        }
        for name in [intern!(py, "_unread"), intern!(py, "_made")] {
            blank.set_item(name, py.None())?;
        }
        let (messages, results) = (messages.clone().unbind(), results.clone().unbind());
        Ok(Self { state, messages, results, marks, fields, schema, blank: blank.unbind(), last })
    }

    fn read<'py>(&self, data: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let py = data.py();
        let Ok(data) = data.cast_exact::<PyBytes>() else { return Ok(None) };
        if !matches!(data.as_bytes(), [0x80..=0x8f | 0xde | 0xdf, ..]) {
            return Ok(None);
        }
        let (lent, is_wanted) = (Lent::get(py)?, self.last.get().0.swap(false, Ordering::Relaxed));
        // What is rare, and what is wrong, is read again as what it is.
        match self.state(data, is_wanted, lent) {
            Some(state) => Ok(Some(state)),
            None => decode::decode(py, data.as_bytes(), 0, false, &LOG_FIELDS, lent).map(Some),
        }
    }
}

/// The log of a document: its messages, its step results, and their order where they are interleaved.
struct Log<'py> {
    unread: [Bound<'py, Unread>; 2],
    order: Option<Bound<'py, PyBytes>>,
}

impl StateReader {
    /// The state of a document that is laid out as ours are; None where it is another, or anything is wrong with it.
    fn state<'py>(
        &self,
        data: &Bound<'py, PyBytes>,
        is_wanted: bool,
        lent: &'static Lent,
    ) -> Option<Bound<'py, PyAny>> {
        let py = data.py();
        let _no_collection = NoCollection::begin();
        let mut decoder = Decoder::new(py, Reader::new(data.as_bytes(), 0), false, lent);
        // The document around it.
        decoder.depth = 1;
        let fields = self.blank.bind(py).copy().ok()?;
        let n = self.head(&mut decoder, &fields)?;
        let targets = if is_wanted { Some(self.targets(py).ok()?) } else { None };
        let log = log(&mut decoder, data, targets.as_ref(), n == self.fields.len() + OTHER_FIELDS + 1)?;
        if decoder.reader.left() > 0 {
            return None;
        }
        self.put_log(&fields, &log, targets).ok()?;
        let state = new_of::<PyAny>(&self.state, py).ok()?;
        // Not what the class makes of it, which looks at every name that is set; nor `PyObject_GenericSetDict`, after which CPython
        // 3.13.0 goes on looking for fields where a new object has them.
        let name = intern!(py, "__dict__");
        // SAFETY: the GIL is held, and all three are live objects.
        let is_set = unsafe { ffi::PyObject_GenericSetAttr(state.as_ptr(), name.as_ptr(), fields.as_ptr()) == 0 };
        if !is_set {
            drop(PyErr::take(py));
        }
        is_set.then_some(state)
    }

    /// Read the fields in front of the log; how many there are in all.
    fn head<'py>(&self, decoder: &mut Decoder<'py, '_>, fields: &Bound<'py, PyDict>) -> Option<usize> {
        let Ok(Token::Map(n)) = decoder.reader.token() else { return None };
        let others = n.checked_sub(self.fields.len())?;
        if others != OTHER_FIELDS && others != OTHER_FIELDS + 1 {
            return None;
        }
        is_next(decoder, "_version")?;
        let Ok(Token::Uint(schema)) = decoder.reader.token() else { return None };
        if schema != self.schema {
            return None;
        }
        for field in &self.fields {
            is_next(decoder, &field.text)?;
            let value = decoder.one().ok()?;
            if !field.check.holds(&value) {
                return None;
            }
            fields.set_item(&field.name, value).ok()?;
        }
        Some(n)
    }

    /// A list of messages and a dict of step results, to be filled.
    fn targets<'py>(&self, py: Python<'py>) -> PyResult<Targets<'py>> {
        let messages = new_of::<PyList>(&self.messages, py)?.cast_into()?;
        Ok((messages, new_of::<PyDict>(&self.results, py)?.cast_into()?))
    }

    fn put_log<'py>(&self, fields: &Bound<'py, PyDict>, log: &Log<'py>, made: Option<Targets<'py>>) -> PyResult<()> {
        let py = fields.py();
        let [messages, results] = &log.unread;
        fields.set_item(intern!(py, "_unread"), (messages, results, &log.order))?;
        match made {
            Some(made) => fields.set_item(intern!(py, "_made"), self.views(log, made)?),
            None => fields.del_item(intern!(py, "_made")),
        }
    }

    /// The views of a log as `holdall.state.session` has them, and what is known besides the values.
    fn views<'py>(&self, log: &Log<'py>, (messages, results): Targets<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let py = messages.py();
        let [n_messages, n_results] = [0, 1].map(|kind| log.unread[kind].get().len);
        let pairs = if results.len() < n_results { Some(pairs_of(&log.unread[1], &results)?) } else { None };
        let kinds = match &log.order {
            Some(order) => PyByteArray::new(py, order.as_bytes()),
            None => PyByteArray::new(py, &[vec![IS_MESSAGE; n_messages], vec![IS_RESULT; n_results]].concat()),
        };
        let marks = new_of::<PyAny>(&self.marks, py)?;
        marks.setattr(intern!(py, "kinds"), kinds)?;
        marks.setattr(intern!(py, "pairs"), pairs)?;
        let [of_messages, of_results] = [0, 1].map(|kind| Entries::new(Some(log.unread[kind].clone())));
        marks.setattr(intern!(py, "encoded"), (of_messages, of_results))?;
        for mark in [intern!(py, "saved"), intern!(py, "stored")] {
            marks.setattr(mark, 0)?;
        }
        for view in [messages.as_any(), results.as_any()] {
            view.setattr(intern!(py, "_marks"), &marks)?;
        }
        (messages, results, marks).into_pyobject(py)
    }
}

/// A list for the messages and a dict for the step results of a document.
type Targets<'py> = (Bound<'py, PyList>, Bound<'py, PyDict>);

/// The step results as they were recorded, some step twice; they are put into the dict anew, for it to hold the same objects.
fn pairs_of<'py>(unread: &Bound<'py, Unread>, results: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyList>> {
    let pairs = unread.get().read(unread.py())?.cast_into::<PyList>()?;
    results.clear();
    for pair in &pairs {
        // Not what the class makes of it: nothing is to be noted.
        let (step, result) = (pair.get_item(0)?, pair.get_item(1)?);
        results.set_item(step, result)?;
    }
    Ok(pairs.get_slice(0, pairs.len()))
}

/// Step over a key if it comes next.
#[inline]
fn is_next(decoder: &mut Decoder<'_, '_>, name: &str) -> Option<()> {
    (decoder.reader.text_ahead()? == name.as_bytes()).then_some(())
}

/// Read the log, into `targets` where they are given.
fn log<'py>(
    decoder: &mut Decoder<'py, '_>,
    source: &Bound<'py, PyBytes>,
    targets: Option<&Targets<'py>>,
    has_order: bool,
) -> Option<Log<'py>> {
    is_next(decoder, LOG_FIELDS[0])?;
    let messages = match targets {
        None => unread::step_over(source, &mut decoder.reader, false)?.ok()?,
        // The document and the array.
        Some((messages, _)) => {
            filled(decoder, source, 2, |decoder, n, start| decoder.take_elements(messages, n, start))?
        }
    };
    is_next(decoder, LOG_FIELDS[1])?;
    let results = match targets {
        None => unread::step_over(source, &mut decoder.reader, true)?.ok()?,
        // And the pair.
        Some((_, results)) => filled(decoder, source, 3, |decoder, n, start| decoder.put_pairs(results, n, start))?,
    };
    let mut order = None;
    if has_order {
        is_next(decoder, "_order")?;
        let value = decoder.one().ok()?;
        if !value.is_none() {
            let kinds = value.cast_into_exact::<PyBytes>().ok()?;
            if !is_order(kinds.as_bytes(), messages.get().len, results.get().len) {
                return None;
            }
            order = Some(kinds);
        }
    }
    Some(Log { unread: [messages, results], order })
}

fn is_order(order: &[u8], n_messages: usize, n_results: usize) -> bool {
    let results = order.iter().map(|kind| usize::from(*kind)).sum::<usize>();
    order.len() == n_messages + n_results && results == n_results && order.iter().all(|kind| *kind <= IS_RESULT)
}

/// Decode the entries of one kind, which stand so deep.
fn filled<'py, 'a>(
    decoder: &mut Decoder<'py, 'a>,
    source: &Bound<'py, PyBytes>,
    depth: usize,
    fill: impl FnOnce(&mut Decoder<'py, 'a>, usize, usize) -> Result<(), Failed>,
) -> Option<Bound<'py, Unread>> {
    let start = decoder.reader.offset();
    let Ok(Token::Array(n)) = decoder.reader.token() else { return None };
    let elements = decoder.reader.offset();
    let around = std::mem::replace(&mut decoder.depth, depth);
    decoder.frozen = true;
    fill(decoder, n, start).ok()?;
    (decoder.frozen, decoder.depth) = (false, around);
    unread::made(source, start, elements, decoder.reader.offset(), n).ok()
}

/// A new object of a class, as its base makes one: a class of ours notes what is put into it.
fn new_of<'py, Base: PyTypeInfo>(class: &Py<PyType>, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
    // SAFETY: the GIL is held. `Base` is a base of the class, which every one is of `object`, and what makes its objects takes
    // the class, a tuple and no keywords; what comes back is a new reference or null with the exception set.
    unsafe {
        let base = Base::type_object_raw(py);
        let Some(new) = (*base).tp_new else { return Err(PyTypeError::new_err("a class without objects")) };
        let arguments = PyTuple::empty(py);
        Bound::from_owned_ptr_or_err(py, new(class.as_ptr().cast(), arguments.as_ptr(), std::ptr::null_mut()))
    }
}
