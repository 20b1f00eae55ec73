//! The binding of `item`: a frozen native object that keeps its own token count.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;

use pyo3::PyTypeInfo;
use pyo3::exceptions::PyTypeError;
use pyo3::ffi::PyTypeObject;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple, PyType};

use super::content::{check_content, own_content, part_text, shown};
use super::counts::Counts;
use super::rendition::{Rendition, read_renditions};
use super::tokens::text_of;
use crate::Error;
use crate::item::{Kind, check_relevance};
use crate::tokens::Counter;

/// One candidate for the window; frozen, and it keeps its own count for each tokenizer that met it.
//
// In this order, so that what every pack reads of an item lies beside the type it is checked for.
#[pyclass(frozen, module = "holdall")]
#[repr(C)]
pub(super) struct ContextItem {
    pub(super) kind: Kind,
    pub(super) is_empty: bool,
    /// Whether it must be in the window.
    #[pyo3(get)]
    pub(super) required: Option<bool>,
    /// The turn it belongs to.
    #[pyo3(get)]
    pub(super) turn_index: i64,
    /// How relevant it is, at least 0.
    #[pyo3(get)]
    pub(super) relevance_score: f64,
    /// Place in the conversation.
    #[pyo3(get)]
    pub(super) position: i64,
    /// The count that was given.
    #[pyo3(get)]
    pub(super) tokens: Option<u64>,
    /// What it lives or dies with.
    #[pyo3(get)]
    pub(super) group: Option<Py<PyString>>,
    pub(super) renditions: Vec<Py<Rendition>>,
    /// The type.
    #[pyo3(get, name = "type")]
    pub(super) type_name: Py<PyString>,
    /// The content, as it was given.
    #[pyo3(get)]
    pub(super) content: Py<PyAny>,
    metadata: OnceLock<Py<PyDict>>,
    counts: Counts,
}

/// The class of items, looked up once for a whole list.
pub(super) struct ItemClass(*mut PyTypeObject);

impl ItemClass {
    pub(super) fn new(py: Python<'_>) -> Self {
        Self(ContextItem::type_object_raw(py))
    }

    /// The item that an object is; no other class derives from this one.
    #[allow(unsafe_code, reason = "looking the class up for each of a thousand items takes longer than reading them")]
    pub(super) fn of<'a>(&self, object: &'a Bound<'_, PyAny>) -> Option<&'a ContextItem> {
        // SAFETY: its type is the class of `ContextItem`, which `new` asked for.
        (object.get_type_ptr() == self.0).then(|| unsafe { object.cast_unchecked::<ContextItem>() }.get())
    }
}

#[pymethods]
impl ContextItem {
    #[new]
    #[pyo3(signature = (
        r#type, content, position, metadata=None, turn_index=0, relevance_score=1.0, required=None, group=None,
        renditions=None, tokens=None
    ))]
    #[allow(clippy::too_many_arguments, reason = "the fields of the published item")]
    fn new(
        py: Python<'_>,
        r#type: &Bound<'_, PyString>,
        content: Bound<'_, PyAny>,
        #[pyo3(from_py_with = read_position)] position: i64,
        metadata: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = read_turn_index)] turn_index: i64,
        relevance_score: f64,
        required: Option<bool>,
        group: Option<Py<PyString>>,
        renditions: Option<&Bound<'_, PyAny>>,
        tokens: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        check_relevance(relevance_score)?;
        let is_empty = check_content(&content)?;
        let own = OnceLock::new();
        if let Some(given) = metadata {
            // A copy: an item is frozen, so a later change of the caller's dict must not reach it.
            let copy = PyDict::new(py);
            copy.update(given.cast()?)?;
            let _ = own.set(copy.unbind());
        }
        Ok(Self {
            kind: Kind::of(&text_of(r#type)?),
            type_name: r#type.clone().unbind(),
            content: own_content(content)?,
            position,
            metadata: own,
            turn_index,
            relevance_score,
            required,
            group,
            renditions: renditions.map(read_renditions).transpose()?.unwrap_or_default(),
            tokens: tokens.map(read_tokens).transpose()?,
            is_empty,
            counts: Counts::default(),
        })
    }

    /// Notes of the caller; a copy of what was given.
    #[getter]
    fn metadata(&self, py: Python<'_>) -> Py<PyDict> {
        self.metadata.get_or_init(|| PyDict::new(py).unbind()).clone_ref(py)
    }

    /// Other ways to show the item.
    #[getter]
    fn renditions<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.renditions.iter().map(|one| one.clone_ref(py)))
    }

    /// Return a copy with some fields changed.
    #[pyo3(signature = (**changes))]
    fn replace(slf: &Bound<'_, Self>, changes: Option<&Bound<'_, PyDict>>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let fields = slf.get().fields(py)?;
        if let Some(changes) = changes {
            for (name, value) in changes {
                if !fields.contains(&name)? {
                    return Err(PyTypeError::new_err(format!("ContextItem has no field {}", name.repr()?)));
                }
                fields.set_item(name, value)?;
            }
            // A count belongs to its content.
            if changes.contains("content")? && !changes.contains("tokens")? {
                fields.del_item("tokens")?;
            }
        }
        Ok(py.get_type::<Self>().call((), Some(&fields))?.unbind())
    }

    #[pyo3(signature = (**changes))]
    fn __replace__(slf: &Bound<'_, Self>, changes: Option<&Bound<'_, PyDict>>) -> PyResult<Py<PyAny>> {
        Self::replace(slf, changes)
    }

    fn __copy__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyType>, Bound<'py, PyTuple>)> {
        let fields = self.fields(py)?;
        Ok((py.get_type::<Self>(), PyTuple::new(py, fields.values())?))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let mut text = format!(
            "ContextItem(type={}, content={}, position={}",
            self.type_name.bind(py).repr()?,
            shown(self.content.bind(py))?,
            self.position
        );
        if self.turn_index != 0 {
            let _ = write!(text, ", turn_index={}", self.turn_index);
        }
        if (self.relevance_score - 1.0).abs() > 0.0 {
            let _ = write!(text, ", relevance_score={}", self.relevance_score);
        }
        if let Some(required) = self.required {
            text.push_str(if required { ", required=True" } else { ", required=False" });
        }
        if let Some(group) = &self.group {
            let _ = write!(text, ", group={}", group.bind(py).repr()?);
        }
        if let Some(tokens) = self.tokens {
            let _ = write!(text, ", tokens={tokens}");
        }
        if !self.renditions.is_empty() {
            let _ = write!(text, ", {} renditions", self.renditions.len());
        }
        text.push(')');
        Ok(text)
    }

    fn __eq__(&self, other: &Bound<'_, Self>) -> PyResult<bool> {
        self.same(other.py(), other.get())
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<u64> {
        let mut hasher = DefaultHasher::new();
        self.type_name.bind(py).hash()?.hash(&mut hasher);
        if let Ok(text) = self.content.bind(py).cast::<PyString>() {
            text.hash()?.hash(&mut hasher);
        }
        (self.position, self.turn_index, self.relevance_score.to_bits(), self.required).hash(&mut hasher);
        Ok(hasher.finish())
    }
}

impl ContextItem {
    /// Tokens of the content, the known number where there is one.
    pub(super) fn count(&self, py: Python<'_>, counter: &dyn Counter) -> PyResult<u64> {
        if let Some(tokens) = self.tokens {
            return Ok(tokens);
        }
        self.counts.get(counter, || {
            let content = self.content.bind(py);
            if let Ok(text) = content.cast::<PyString>() {
                return Ok(counter.count(&text_of(text)?)?);
            }
            let mut total = 0_u64;
            if let Ok(parts) = content.cast::<PyList>() {
                for part in parts {
                    total = total.saturating_add(counter.count(&part_text(&part)?)?);
                }
            }
            Ok(total)
        })
    }

    /// The content, if it is one text whose tokens are not known.
    pub(super) fn uncounted<'py>(&self, py: Python<'py>, counter: &dyn Counter) -> Option<&Bound<'py, PyString>> {
        let content = self.content.bind(py).cast::<PyString>().ok()?;
        (self.tokens.is_none() && self.counts.known(counter.id()).is_none()).then_some(content)
    }

    /// Keep the tokens of what `uncounted` gave.
    pub(super) fn keep_count(&self, counter: &dyn Counter, tokens: u64) {
        self.counts.keep(counter.id(), tokens);
    }

    /// The content as one text, parts joined by line breaks.
    pub(super) fn text(&self, py: Python<'_>) -> PyResult<String> {
        let content = self.content.bind(py);
        if let Ok(text) = content.cast::<PyString>() {
            return Ok(text_of(text)?.into_owned());
        }
        let Ok(parts) = content.cast::<PyList>() else { return Ok(String::new()) };
        let texts: Vec<String> = parts.iter().map(|part| part_text(&part)).collect::<PyResult<_>>()?;
        Ok(texts.join("\n"))
    }

    /// The item with its content replaced by a rendition's text.
    pub(super) fn rendered(slf: &Bound<'_, Self>, rendition: &Rendition, tokens: u64) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let it = slf.get();
        let metadata = OnceLock::new();
        if let Some(own) = it.metadata.get() {
            let _ = metadata.set(own.bind(py).copy()?.unbind());
        }
        let item = Self {
            type_name: it.type_name.clone_ref(py),
            kind: it.kind,
            content: rendition.text.clone_ref(py).into_any(),
            position: it.position,
            metadata,
            turn_index: it.turn_index,
            relevance_score: it.relevance_score,
            required: it.required,
            group: it.group.as_ref().map(|group| group.clone_ref(py)),
            renditions: Vec::new(),
            tokens: Some(tokens),
            is_empty: rendition.is_blank,
            counts: Counts::default(),
        };
        Ok(Py::new(py, item)?.into_any())
    }

    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(py);
        fields.set_item("type", &self.type_name)?;
        fields.set_item("content", &self.content)?;
        fields.set_item("position", self.position)?;
        fields.set_item("metadata", self.metadata.get().map(|own| own.clone_ref(py)))?;
        fields.set_item("turn_index", self.turn_index)?;
        fields.set_item("relevance_score", self.relevance_score)?;
        fields.set_item("required", self.required)?;
        fields.set_item("group", &self.group)?;
        fields.set_item("renditions", self.renditions(py)?)?;
        fields.set_item("tokens", self.tokens)?;
        Ok(fields)
    }

    fn same(&self, py: Python<'_>, other: &Self) -> PyResult<bool> {
        let plain = self.position == other.position
            && self.turn_index == other.turn_index
            && self.relevance_score.to_bits() == other.relevance_score.to_bits()
            && self.required == other.required
            && self.tokens == other.tokens;
        Ok(plain
            && self.type_name.bind(py).as_any().eq(other.type_name.bind(py))?
            && self.content.bind(py).eq(other.content.bind(py))?
            && self.group.as_ref().map(|g| g.bind(py)).into_pyobject(py)?.eq(&other.group)?
            && self.metadata(py).bind(py).eq(other.metadata(py))?
            && self.renditions(py)?.eq(other.renditions(py)?)?)
    }
}

fn read_tokens(tokens: &Bound<'_, PyAny>) -> PyResult<u64> {
    tokens
        .extract::<u64>()
        .map_err(|_| Error::Argument(format!("tokens must be an int of at least 0, not {tokens}")).into())
}

fn read_position(given: &Bound<'_, PyAny>) -> PyResult<i64> {
    read_place("position", given)
}

fn read_turn_index(given: &Bound<'_, PyAny>) -> PyResult<i64> {
    read_place("turn_index", given)
}

fn read_place(what: &str, given: &Bound<'_, PyAny>) -> PyResult<i64> {
    given.extract::<i64>().map_err(|error| {
        if error.is_instance_of::<pyo3::exceptions::PyOverflowError>(given.py()) {
            return Error::Argument(format!("{what} must be an int of 64 bits, not {given}")).into();
        }
        error
    })
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ContextItem>()
}
