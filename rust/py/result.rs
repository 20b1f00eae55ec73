//! What a pack gives back.

use std::sync::{Arc, OnceLock};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyIterator, PyList, PyString, PyTuple, PyType};

use super::item::ContextItem;
use super::tokens::text_of;
use super::words::{first_words, message_words};
use crate::Result;
use crate::pack::{Label, Limits, Memo, PackedItems, Report, Row, Source, Strategy, Window, choose};

/// What the rows of a report point into.
pub(super) enum Inputs {
    /// Items of `pack`.
    Items(Py<PyTuple>),
    /// A conversation; tools and documents where they were given.
    Conversation { messages: Py<PyTuple>, tools: Vec<String>, documents: Option<Py<PyList>> },
}

/// What became of the inputs.
pub(super) enum Packed {
    /// Items.
    Items(Box<PackedItems>),
    /// A conversation. The packer may keep it for the next pack.
    Window(Arc<Window>),
}

impl Packed {
    pub(super) fn report(&self) -> &Report {
        match self {
            Self::Items(packed) => packed.report(),
            Self::Window(window) => &window.report,
        }
    }

    pub(super) fn tokens(&self) -> u64 {
        match self {
            Self::Items(packed) => packed.tokens,
            Self::Window(window) => window.report.tokens,
        }
    }

    pub(super) fn budget(&self) -> u64 {
        match self {
            Self::Items(packed) => packed.budget,
            Self::Window(window) => window.report.budget,
        }
    }

    fn value(&self) -> f64 {
        match self {
            Self::Items(packed) => packed.value,
            Self::Window(window) => window.report.value,
        }
    }

    /// What no choice is worth more than, worked out for a greedy one.
    fn bound(&self) -> Result<f64> {
        match self {
            Self::Items(packed) => packed.proven_bound(),
            Self::Window(window) => {
                let report = &window.report;
                if !report.bound.is_nan() {
                    return Ok(report.bound);
                }
                let Some((candidates, budget)) = &window.open else { return Ok(report.value) };
                let best = choose(candidates, *budget, Strategy::Optimal, Limits::default())?;
                Ok(best.map_or(report.value, |plan| plan.bound.max(report.value)))
            }
        }
    }

    pub(super) fn memo(&self) -> Option<&Memo> {
        match self {
            Self::Items(_) => None,
            Self::Window(window) => Some(&window.memo),
        }
    }

    fn n_lasting(&self) -> Option<usize> {
        match self {
            Self::Items(_) => None,
            Self::Window(window) => Some(window.n_lasting()),
        }
    }

    /// The type of message `index` of a conversation.
    fn kind(&self, index: usize) -> Option<&'static str> {
        match self {
            Self::Items(_) => None,
            Self::Window(window) => window.kinds.get(index).and_then(|kind| kind.name()),
        }
    }
}

/// The kept items or messages, and what became of every input.
#[pyclass(frozen, sequence, module = "holdall")]
pub(super) struct PackResult {
    pub(super) sequence: Py<PyTuple>,
    pub(super) packed: Packed,
    pub(super) inputs: Inputs,
    pub(super) system: Option<Py<PyAny>>,
    pub(super) tools: Option<Py<PyList>>,
    pub(super) bound: OnceLock<f64>,
    pub(super) kept: PyOnceLock<Py<PyTuple>>,
    pub(super) dropped: PyOnceLock<Py<PyTuple>>,
}

impl PackResult {
    pub(super) fn new(sequence: Py<PyTuple>, packed: Packed, inputs: Inputs) -> Self {
        Self {
            sequence,
            packed,
            inputs,
            system: None,
            tools: None,
            bound: OnceLock::new(),
            kept: PyOnceLock::new(),
            dropped: PyOnceLock::new(),
        }
    }
}

#[pymethods]
impl PackResult {
    fn __len__(&self, py: Python<'_>) -> usize {
        self.sequence.bind(py).len()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        self.sequence.bind(py).as_any().get_item(index)
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        self.sequence.bind(py).as_any().try_iter()
    }

    fn __contains__(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        self.sequence.bind(py).as_any().contains(value)
    }

    /// Index of the first equal element.
    #[pyo3(signature = (value, start=0, stop=isize::MAX))]
    fn index(&self, py: Python<'_>, value: &Bound<'_, PyAny>, start: isize, stop: isize) -> PyResult<usize> {
        self.sequence.bind(py).call_method1(intern!(py, "index"), (value, start, stop))?.extract()
    }

    /// How many elements are equal to the value.
    fn count(&self, py: Python<'_>, value: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.sequence.bind(py).call_method1(intern!(py, "count"), (value,))?.extract()
    }

    #[classmethod]
    fn __class_getitem__<'py>(class: &Bound<'py, PyType>, _item: &Bound<'py, PyAny>) -> Bound<'py, PyType> {
        class.clone()
    }

    /// What is in the window, in the format that came in.
    #[getter]
    fn messages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.sequence.bind(py).iter())
    }

    /// The system prompt for formats that keep it apart; None for the others.
    #[getter]
    fn system(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.system.as_ref().map(|system| system.clone_ref(py))
    }

    /// The tool schemas in the window, None where none were given.
    #[getter]
    fn tools(&self, py: Python<'_>) -> Option<Py<PyList>> {
        self.tools.as_ref().map(|tools| tools.clone_ref(py))
    }

    /// What to pass as `previous` to the next pack of this conversation.
    #[getter]
    fn memo(&self) -> Option<String> {
        self.packed.memo().map(ToString::to_string)
    }

    /// How many of the messages the next window begins with too, unless it is cut.
    #[getter]
    fn n_lasting(&self) -> Option<usize> {
        self.packed.n_lasting()
    }

    /// Tokens of the whole request.
    #[getter]
    fn tokens(&self) -> u64 {
        self.packed.tokens()
    }

    /// Tokens that were available.
    #[getter]
    fn budget(&self) -> u64 {
        self.packed.budget()
    }

    /// Total value of what is in.
    #[getter]
    fn value(&self) -> f64 {
        self.packed.value()
    }

    /// No choice is worth more than this.
    #[getter]
    fn bound(&self) -> PyResult<f64> {
        if let Some(known) = self.bound.get() {
            return Ok(*known);
        }
        let bound = self.packed.bound()?;
        Ok(*self.bound.get_or_init(|| bound))
    }

    /// What is in: (source, index, rendition, tokens) each.
    #[getter]
    fn kept(&self, py: Python<'_>) -> PyResult<Py<PyTuple>> {
        let made = self.kept.get_or_try_init(py, || {
            let class = row_class(py, "Kept")?;
            let rows: Vec<Bound<'_, PyAny>> = self
                .report()
                .kept()
                .map(|(row, label)| {
                    let name = self.label(py, row, label);
                    class.call1((row.source.name(), row.index, name, row.tokens))
                })
                .collect::<PyResult<_>>()?;
            PyResult::Ok(PyTuple::new(py, rows)?.unbind())
        })?;
        Ok(made.clone_ref(py))
    }

    /// What is not: (source, index, tokens, reason) each.
    #[getter]
    fn dropped(&self, py: Python<'_>) -> PyResult<Py<PyTuple>> {
        let made = self.dropped.get_or_try_init(py, || {
            let class = row_class(py, "Dropped")?;
            let rows: Vec<Bound<'_, PyAny>> = self
                .report()
                .dropped()
                .map(|(row, reason)| class.call1((row.source.name(), row.index, row.tokens, reason.name())))
                .collect::<PyResult<_>>()?;
            PyResult::Ok(PyTuple::new(py, rows)?.unbind())
        })?;
        Ok(made.clone_ref(py))
    }

    /// A table of what is in and what is not, and why.
    fn explain(&self, py: Python<'_>) -> PyResult<String> {
        let mut failed = None;
        let text = self.report().explain(|row| match self.show(py, row) {
            Ok(shown) => shown,
            Err(error) => {
                failed.get_or_insert(error);
                (String::new(), String::new())
            }
        });
        failed.map_or(Ok(text), Err)
    }

    fn __repr__(&self) -> String {
        format!(
            "<PackResult: {} kept, {} dropped, {} of {} tokens>",
            self.report().kept().count(),
            self.report().dropped().count(),
            self.report().tokens,
            self.report().budget
        )
    }
}

impl PackResult {
    pub(super) fn report(&self) -> &Report {
        self.packed.report()
    }

    fn label(&self, py: Python<'_>, row: &Row, label: Label) -> String {
        if let (Label::Given(at), Inputs::Items(items)) = (label, &self.inputs)
            && let Ok(item) = items.bind(py).get_item(row.index as usize)
            && let Ok(item) = item.cast::<ContextItem>()
        {
            let given = item.get().renditions.get(usize::from(at).saturating_sub(1));
            let name = given.and_then(|rendition| rendition.get().name.clone());
            return name.unwrap_or_else(|| format!("rendition {at}"));
        }
        label.name().to_owned()
    }

    /// The type of a row's input and its first words.
    fn show(&self, py: Python<'_>, row: &Row) -> PyResult<(String, String)> {
        let at = row.index as usize;
        let kind = row.kind.name().unwrap_or("other").to_owned();
        match (&self.inputs, row.source) {
            (Inputs::Items(items), Source::Item) => {
                let item = items.bind(py).get_item(at)?;
                let item = item.cast::<ContextItem>()?.get();
                Ok((text_of(item.type_name.bind(py))?.into_owned(), first_words(&item.text(py)?)))
            }
            (Inputs::Conversation { messages, .. }, Source::Message) => {
                let kind = self.packed.kind(at).unwrap_or(&kind).to_owned();
                Ok((kind, message_words(&messages.bind(py).get_item(at)?)?))
            }
            (Inputs::Conversation { tools, .. }, Source::Tool) => {
                Ok((kind, tools.get(at).map(|name| first_words(name)).unwrap_or_default()))
            }
            (Inputs::Conversation { documents: Some(documents), .. }, Source::Document) => {
                let words = documents.bind(py).get_item(at)?;
                Ok((kind, first_words(&words.str()?.to_string_lossy())))
            }
            _ => Ok((kind, String::new())),
        }
    }
}

fn row_class<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("holdall.context.report")?.getattr(PyString::intern(py, name))
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<PackResult>()
}
