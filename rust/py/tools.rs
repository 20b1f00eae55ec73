//! The binding of `tools`.
#![allow(clippy::needless_pass_by_value, reason = "arguments arrive from Python by value")]

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyList, PyString, PyTuple};
use serde_json::Value;

use super::node::{PyNode, plain};
use super::settings::read_tokens;
use super::tape::Tape;
use super::tokens::{Tokenizer, text_of};
use crate::relevance::Terms;
use crate::tokens::Counter;
use crate::tools::{self, Costs, Fit, Shown, Step, Tool, Wish};
use crate::{Error, Result};

/// A list of tools as it stood when it was read.
struct Listed {
    tape: Tape,
    set: Arc<tools::ToolSet>,
}

/// Lists kept between calls; an agent has one or two.
const LISTS_KEPT: usize = 4;

/// The latest last.
static LISTS: Mutex<Vec<Listed>> = Mutex::new(Vec::new());

impl Listed {
    /// What was read of these tools, if they still stand as they did.
    fn find(objects: &[Bound<'_, PyAny>]) -> Option<Arc<tools::ToolSet>> {
        let n = objects.len();
        let mut lists = LISTS.lock().unwrap_or_else(PoisonError::into_inner);
        let at = lists.iter().rposition(|known| known.tape.len() == n && known.tape.shared(objects) == n)?;
        if let Some(latest) = lists.get_mut(at..) {
            latest.rotate_left(1);
        }
        lists.last().map(|known| Arc::clone(&known.set))
    }

    fn keep(self) {
        let mut lists = LISTS.lock().unwrap_or_else(PoisonError::into_inner);
        let oldest = (lists.len() >= LISTS_KEPT).then(|| lists.remove(0));
        lists.push(self);
        drop(lists);
        drop(oldest);
    }
}

/// A caller's tools, and what was read from them.
pub(super) struct Given {
    objects: Vec<Py<PyAny>>,
    pub(super) set: Arc<tools::ToolSet>,
}

/// Read the tools of a list, a tuple or a `ToolSet`.
pub(super) fn read(tools: &Bound<'_, PyAny>) -> PyResult<Given> {
    read_with(tools, &mut |_| {})
}

/// The same, and say of each tool of a list that is not known as a whole when it has been read.
fn read_with(tools: &Bound<'_, PyAny>, say: &mut dyn FnMut(&Arc<Tool>)) -> PyResult<Given> {
    let py = tools.py();
    if let Ok(set) = tools.cast::<ToolSet>() {
        let given = &set.get().given;
        let objects = given.objects.iter().map(|object| object.clone_ref(py)).collect();
        return Ok(Given { objects, set: Arc::clone(&given.set) });
    }
    let objects = objects_of(tools)?;
    let set = match Listed::find(&objects) {
        Some(set) => set,
        None => read_anew(&objects, say)?,
    };
    Ok(Given { objects: objects.into_iter().map(Bound::unbind).collect(), set })
}

fn read_anew(objects: &[Bound<'_, PyAny>], say: &mut dyn FnMut(&Arc<Tool>)) -> PyResult<Arc<tools::ToolSet>> {
    let mut are_known = !objects.is_empty();
    let mut read = Vec::with_capacity(objects.len());
    for (index, object) in objects.iter().enumerate() {
        let (tool, is_known) = Tool::read_once(&PyNode::new(object.clone()), index)?;
        are_known &= is_known;
        say(&tool);
        read.push(tool);
    }
    let set = Arc::new(tools::ToolSet::new(read));
    // A list that comes a second time may come again. What a tape can hold ran none of the caller's code when it was read.
    if are_known {
        let mut tape = Tape::default();
        if objects.iter().all(|object| tape.record(object)) {
            Listed { tape, set: Arc::clone(&set) }.keep();
        }
    }
    Ok(set)
}

fn objects_of<'py>(tools: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyAny>>> {
    if let Ok(list) = tools.cast::<PyList>() {
        return Ok(list.iter().collect());
    }
    if let Ok(tuple) = tools.cast::<PyTuple>() {
        return Ok(tuple.iter().collect());
    }
    if !tools.is_instance_of::<PyString>()
        && !tools.is_instance_of::<PyDict>()
        && let Some(list) = plain(tools)
        && let Ok(list) = list.cast::<PyList>()
    {
        return Ok(list.iter().collect());
    }
    let kind = tools.get_type().name()?;
    Err(Error::Argument(format!("tools must be a list of tool schemas or a ToolSet, not {kind}")).into())
}

impl Given {
    /// The tools that are shown, in order: those in full are the caller's own objects, the others new.
    pub(super) fn show<'py>(&self, py: Python<'py>, fit: &Fit) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for (index, (object, shown)) in self.objects.iter().zip(&fit.shown).enumerate() {
            match shown {
                Shown::Dropped => {}
                Shown::As(Step::Full) => list.append(object)?,
                Shown::As(step) => {
                    if let Some(value) = self.set.get(index).and_then(|tool| tool.value(*step)) {
                        list.append(python_of(py, value)?)?;
                    }
                }
            }
        }
        Ok(list)
    }
}

/// The Python value of a JSON value.
fn python_of<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(is_true) => is_true.into_pyobject(py)?.to_owned().into_any(),
        Value::Number(number) => {
            let text = number.to_string();
            match number.as_i64() {
                Some(small) => small.into_pyobject(py)?.into_any(),
                None if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') => {
                    py.get_type::<PyInt>().call1((text,))?
                }
                None => number.as_f64().unwrap_or(f64::NAN).into_pyobject(py)?.into_any(),
            }
        }
        Value::String(text) => PyString::new(py, text).into_any(),
        Value::Array(items) => {
            let list = PyList::empty(py);
            for item in items {
                list.append(python_of(py, item)?)?;
            }
            list.into_any()
        }
        Value::Object(entries) => {
            let dict = PyDict::new(py);
            for (key, entry) in entries {
                dict.set_item(PyString::intern(py, key), python_of(py, entry)?)?;
            }
            dict.into_any()
        }
    })
}

/// Tools read once, to be fitted again and again.
#[pyclass(module = "holdall", frozen)]
pub(super) struct ToolSet {
    given: Given,
}

#[pymethods]
impl ToolSet {
    #[new]
    fn new(tools: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self { given: read(tools)? })
    }

    fn __len__(&self) -> usize {
        self.given.objects.len()
    }

    /// The name of each tool, in order.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.given.set.iter().map(|tool| tool.name().to_owned()).collect()
    }

    /// Relevance of each tool to the query: BM25 over names (three times), descriptions, parameters and enums.
    fn scores(&self, query: &Bound<'_, PyString>) -> PyResult<Vec<f64>> {
        Ok(self.given.set.scores(&Terms::of(&text_of(query)?)))
    }

    fn __repr__(&self) -> String {
        format!("<ToolSet: {} tools>", self.given.objects.len())
    }
}

/// What `fit_tools` gives back.
#[pyclass(module = "holdall", frozen)]
struct ToolsResult {
    tools: Py<PyList>,
    fit: Fit,
    budget: u64,
    set: Arc<tools::ToolSet>,
    counter: Arc<dyn Counter>,
}

#[pymethods]
impl ToolsResult {
    /// In the order and format they came in. Those in full are the objects that were given; the others are new.
    #[getter]
    fn tools(&self, py: Python<'_>) -> Py<PyList> {
        self.tools.clone_ref(py)
    }

    /// What they cost: 12 once, and for each tool 7 and the tokens of its compact JSON; 0 for no tools.
    #[getter]
    const fn tokens(&self) -> u64 {
        self.fit.tokens
    }

    /// What they were allowed to cost.
    #[getter]
    const fn budget(&self) -> u64 {
        self.budget
    }

    /// What is in: index into the tools given, "full" or "shortened", and tokens.
    #[getter]
    fn kept<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let class = py.import("holdall.context.report")?.getattr(intern!(py, "Kept"))?;
        let mut rows = Vec::new();
        for (index, (tool, shown)) in self.set.iter().zip(&self.fit.shown).enumerate() {
            if let Shown::As(step) = shown {
                let rendition = if *step == Step::Full { "full" } else { "shortened" };
                let tokens = tool.tokens(*step, &*self.counter, &Costs::default())?;
                rows.push(class.call1(("tool", index, rendition, tokens.unwrap_or(0)))?);
            }
        }
        PyTuple::new(py, rows)
    }

    /// What is not: index, tokens in full, and `over_budget` or `too_large`.
    #[getter]
    fn dropped<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let class = py.import("holdall.context.report")?.getattr(intern!(py, "Dropped"))?;
        let costs = Costs::default();
        let mut rows = Vec::new();
        for (index, (tool, shown)) in self.set.iter().zip(&self.fit.shown).enumerate() {
            if *shown == Shown::Dropped {
                let tokens = tool.tokens(Step::Full, &*self.counter, &costs)?.unwrap_or(0);
                let smallest = tool.smallest(&*self.counter, &costs)?.1;
                let is_too_large = smallest.saturating_add(costs.once) > self.budget;
                rows.push(class.call1((
                    "tool",
                    index,
                    tokens,
                    if is_too_large { "too_large" } else { "over_budget" },
                ))?);
            }
        }
        PyTuple::new(py, rows)
    }

    fn __repr__(&self) -> String {
        let kept = self.fit.shown.iter().filter(|shown| **shown != Shown::Dropped).count();
        let n = self.fit.shown.len();
        format!("<ToolsResult: {kept} of {n} tools, {} of {} tokens>", self.fit.tokens, self.budget)
    }
}

/// Fit tool schemas into a budget.
#[pyfunction]
#[pyo3(signature = (tools, budget, *, query=None, used=None, tokenizer=None))]
fn fit_tools<'py>(
    py: Python<'py>,
    tools: &Bound<'py, PyAny>,
    budget: &Bound<'py, PyAny>,
    query: Option<&Bound<'py, PyString>>,
    used: Option<Vec<String>>,
    tokenizer: Option<Bound<'py, Tokenizer>>,
) -> PyResult<ToolsResult> {
    let budget = read_tokens("budget", budget)?;
    let counter = match tokenizer {
        Some(tokenizer) => tokenizer.get().counter(),
        None => Tokenizer::default_one(py)?.get().counter(),
    };
    let query = query.map(text_of).transpose()?;
    let terms = query.as_deref().map(Terms::of).filter(|terms| !terms.is_empty());
    let used = used.unwrap_or_default();
    // An inexact counter gets its safety share.
    let room = (budget as f64 / (1.0 + counter.margin())) as u64;
    let read_and_choose = |say: &mut dyn FnMut(&Arc<Tool>)| -> PyResult<(Given, Fit)> {
        let given = read_with(tools, say)?;
        let choose = || -> Result<Fit> {
            let scores = terms.as_ref().map(|terms| given.set.scores(terms));
            let used: Vec<&str> = used.iter().map(String::as_str).collect();
            let wish = Wish { scores: scores.as_deref(), used: &used };
            tools::fit(&given.set, room, wish, &*counter, &Costs::default())
        };
        // The first time, 500 tools take milliseconds; letting go of the GIL costs 50 ns.
        let fit = if counter.calls_back() { choose()? } else { py.detach(choose)? };
        Ok((given, fit))
    };
    let (given, fit) =
        if terms.is_some() { tools::split_ahead(read_and_choose) } else { read_and_choose(&mut |_| {}) }?;
    let shown = given.show(py, &fit)?.unbind();
    Ok(ToolsResult { tools: shown, fit, budget, set: given.set, counter })
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<ToolSet>()?;
    module.add_class::<ToolsResult>()?;
    module.add_function(wrap_pyfunction!(fit_tools, module)?)
}
