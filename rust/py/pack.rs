//! The binding of `pack`: the packer's settings, and items in and out.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyInt, PyList, PyString, PyTuple};

use super::ahead::{count_ahead, objects_of};
use super::item::ContextItem;
use super::late::{Open, Pending};
use super::messages::{self, DEFAULT_CACHE_BYTES, Memory};
use super::parallel::{in_parallel, is_hard, timed};
use super::read::Read;
use super::request::Request;
use super::result::{Inputs, PackResult, Packed};
use super::score::Recency;
use super::settings::{
    counter_of, named_strategy, read_cache_bytes, read_item_overhead, read_summarizer, read_templates, read_tokens,
    read_tool_costs, read_tuning, read_weights, share_of,
};
use crate::item::TYPES;
use crate::pack::{
    DEFAULT_ALPHA, Item, ItemForm, Label, Limits, PackedItems, Settings, Strategy, calibrate, pack_items,
};
use crate::score::{Recency as Decay, Weights, check_non_negative};
use crate::tokens::Counter;
use crate::{Error, Result};

/// With a larger exponent of the tokens, values would be no numbers any more.
const MOST_ALPHA: f64 = 8.0;

/// Packs items, or a conversation, into a fixed number of tokens.
#[pyclass(frozen, subclass, module = "holdall._native")]
pub(super) struct Packer {
    pub(super) counter: Arc<dyn Counter>,
    max_tokens: u64,
    output_reserve: u64,
    /// Weights of the caller's own types too.
    pub(super) weights: Weights,
    pub(super) summarizer: Option<Py<PyAny>>,
    late_summary: bool,
    pub(super) item_overhead: u64,
    /// What calibration may change.
    calibrated: RwLock<Calibrated>,
    pub(super) memory: Mutex<Memory>,
}

/// What calibration may change.
#[derive(Clone)]
pub(super) struct Calibrated {
    pub(super) settings: Arc<Settings>,
    margin: f64,
}

#[pymethods]
impl Packer {
    #[new]
    #[pyo3(signature = (
        max_tokens, tokenizer=None, *, output_reserve=None, strategy="optimal", weights=None, recency=None,
        summarizer=None, late_summary=true, alpha=DEFAULT_ALPHA, overhead=None, item_overhead=0, tools_share=0.25,
        tool_overhead=None, templates=None, low_water=0.5, recall=0.25, tuning=None, max_states=None, deadline_s=None, cache_bytes=DEFAULT_CACHE_BYTES
    ))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments are the interface")]
    fn new(
        py: Python<'_>,
        max_tokens: &Bound<'_, PyAny>,
        tokenizer: Option<&Bound<'_, PyAny>>,
        output_reserve: Option<&Bound<'_, PyAny>>,
        strategy: &str,
        weights: Option<&Bound<'_, PyAny>>,
        recency: Option<&Bound<'_, Recency>>,
        summarizer: Option<Py<PyAny>>,
        late_summary: bool,
        alpha: f64,
        overhead: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = read_item_overhead)] item_overhead: u64,
        tools_share: f64,
        tool_overhead: Option<&Bound<'_, PyAny>>,
        templates: Option<&Bound<'_, PyDict>>,
        low_water: f64,
        recall: f64,
        tuning: Option<&Bound<'_, PyDict>>,
        max_states: Option<&Bound<'_, PyAny>>,
        deadline_s: Option<f64>,
        #[pyo3(from_py_with = read_cache_bytes)] cache_bytes: usize,
    ) -> PyResult<Self> {
        let max_tokens = read_tokens("max_tokens", max_tokens)?;
        let output_reserve = output_reserve.map_or(Ok(0), |given| read_tokens("output_reserve", given))?;
        let max_states = max_states.map_or(Ok(0), |given| read_tokens("max_states", given))?;
        if output_reserve >= max_tokens {
            let text = format!(
                "output_reserve ({output_reserve}) must be smaller than max_tokens ({max_tokens}): nothing is left for the \
                 input"
            );
            return Err(Error::Argument(text).into());
        }
        if check_non_negative("alpha", alpha)? > MOST_ALPHA {
            return Err(Error::Argument(format!("alpha must be at most {MOST_ALPHA}, not {alpha}")).into());
        }
        let seconds = check_non_negative("deadline_s", deadline_s.unwrap_or(0.0))?;
        let weights = weights.map(read_weights).transpose()?.unwrap_or_default();
        let (strategy, is_stable) = named_strategy(strategy)?;
        let counter = counter_of(py, tokenizer)?;
        let settings = Settings {
            strategy,
            is_stable,
            alpha,
            limits: Limits { states: max_states, seconds },
            weights: TYPES.map(|name| weights.of(name).weight),
            recency: recency.map_or_else(Decay::default, |given| given.get().0),
            overhead: super::chat::overhead(overhead)?,
            tool_costs: read_tool_costs(tool_overhead)?,
            tools_share: share_of("tools_share", tools_share)?,
            templates: read_templates(templates)?,
            tuning: read_tuning(tuning, is_stable)?,
            low_water: share_of("low_water", low_water)?,
            recall: share_of("recall", recall)?,
        };
        Ok(Self {
            max_tokens,
            output_reserve,
            weights,
            summarizer: read_summarizer(summarizer, py)?,
            late_summary,
            item_overhead,
            calibrated: RwLock::new(Calibrated { settings: Arc::new(settings), margin: counter.margin() }),
            memory: Mutex::new(Memory::new(cache_bytes)),
            counter,
        })
    }

    /// Tokens of the window, input and output.
    #[getter]
    fn max_tokens(&self) -> u64 {
        self.max_tokens
    }

    /// Tokens kept free for the output.
    #[getter]
    fn output_reserve(&self) -> u64 {
        self.output_reserve
    }

    /// Tokens that a request may have as this tokenizer counts them.
    #[getter]
    pub(super) fn budget(&self) -> u64 {
        let input = self.max_tokens - self.output_reserve;
        let margin = self.calibrated().margin;
        if margin > 0.0 { (input as f64 / (1.0 + margin)).floor() as u64 } else { input }
    }

    /// How the packer chooses.
    #[getter]
    fn strategy(&self) -> &'static str {
        let settings = self.settings();
        match settings.strategy {
            Strategy::Greedy => "greedy",
            Strategy::Optimal if settings.is_stable => "stable",
            Strategy::Optimal => "optimal",
        }
    }

    /// Choose items within the budget.
    fn pack(slf: &Bound<'_, Self>, items: &Bound<'_, PyAny>) -> PyResult<PackResult> {
        let py = slf.py();
        let it = slf.get();
        let Read { objects, items, forms } = it.read(py, items)?;
        let mut result = it.result(py, objects, it.choose(items, forms)?)?;
        it.finish(py, &mut result)?;
        Ok(result)
    }

    /// Choose items, and say what is still to be summarised.
    fn _begin(slf: &Bound<'_, Self>, items: &Bound<'_, PyAny>) -> PyResult<Pending> {
        let py = slf.py();
        let it = slf.get();
        let Read { objects, items, forms } = it.read(py, items)?;
        let result = it.result(py, objects, it.choose(items, forms)?)?;
        let late = it.late(py, &result)?;
        Ok(Pending::new(slf.clone().unbind(), Open::Items(Box::new(result), late)))
    }

    /// Fit a conversation into the budget.
    #[pyo3(signature = (
        messages, system=None, *, tools=None, documents=None, summary=None, query=None, relevance=None, previous=None,
        start_on_user=false, format=None, used_tools=None
    ))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments are the interface")]
    fn pack_messages(
        slf: &Bound<'_, Self>,
        messages: &Bound<'_, PyAny>,
        system: Option<&Bound<'_, PyAny>>,
        tools: Option<&Bound<'_, PyAny>>,
        documents: Option<&Bound<'_, PyAny>>,
        summary: Option<&Bound<'_, PyString>>,
        query: Option<&Bound<'_, PyString>>,
        relevance: Option<Vec<f64>>,
        previous: Option<&Bound<'_, PyAny>>,
        start_on_user: bool,
        format: Option<String>,
        used_tools: Option<Vec<String>>,
    ) -> PyResult<PackResult> {
        let request = Request {
            messages,
            system,
            tools,
            documents,
            summary,
            query,
            relevance,
            previous,
            start_on_user,
            format,
            used_tools: used_tools.unwrap_or_default(),
        };
        messages::pack(slf, &request)
    }

    /// Fit a conversation into the budget, up to where a summary is awaited.
    #[pyo3(signature = (
        messages, system=None, *, tools=None, documents=None, summary=None, query=None, relevance=None, previous=None,
        start_on_user=false, format=None, used_tools=None
    ))]
    #[allow(clippy::too_many_arguments, reason = "keyword arguments are the interface")]
    fn _begin_messages(
        slf: &Bound<'_, Self>,
        messages: &Bound<'_, PyAny>,
        system: Option<&Bound<'_, PyAny>>,
        tools: Option<&Bound<'_, PyAny>>,
        documents: Option<&Bound<'_, PyAny>>,
        summary: Option<&Bound<'_, PyString>>,
        query: Option<&Bound<'_, PyString>>,
        relevance: Option<Vec<f64>>,
        previous: Option<&Bound<'_, PyAny>>,
        start_on_user: bool,
        format: Option<String>,
        used_tools: Option<Vec<String>>,
    ) -> PyResult<Pending> {
        let request = Request {
            messages,
            system,
            tools,
            documents,
            summary,
            query,
            relevance,
            previous,
            start_on_user,
            format,
            used_tools: used_tools.unwrap_or_default(),
        };
        messages::begin(slf, &request)
    }

    /// Fit margin and overhead to billed token counts: (messages or counted tokens, billed) pairs.
    fn calibrate<'py>(slf: &Bound<'py, Self>, usage: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let it = slf.get();
        let mut samples: Vec<(u64, u64)> = Vec::new();
        for pair in usage.try_iter()? {
            let (asked, billed): (Bound<'_, PyAny>, Bound<'_, PyAny>) = pair?.extract()?;
            let counted = if asked.is_instance_of::<PyInt>() {
                read_tokens("counted tokens", &asked)?
            } else {
                it.counted_request(py, &asked)?
            };
            samples.push((counted, read_tokens("billed tokens", &billed)?));
        }
        let found = calibrate(&samples)?;
        let mut calibrated = it.calibrated.write().unwrap_or_else(PoisonError::into_inner);
        let mut settings = Settings::clone(&calibrated.settings);
        let hidden = (found.constant / found.scale).ceil() as u64;
        settings.overhead.per_request = settings.overhead.per_request.saturating_add(hidden);
        let per_request = settings.overhead.per_request;
        *calibrated = Calibrated { settings: Arc::new(settings), margin: found.scale - 1.0 };
        drop(calibrated);
        let class = py.import("holdall.context.report")?.getattr(intern!(py, "Calibration"))?;
        class.call1((found.scale - 1.0, per_request, found.worst, samples.len()))
    }

    /// The caller's summarizer.
    #[getter]
    fn summarizer(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.summarizer.as_ref().map(|summarizer| summarizer.clone_ref(py))
    }

    /// Pack many lists, in parallel.
    fn pack_many<'py>(slf: &Bound<'py, Self>, lists: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyList>> {
        let py = slf.py();
        let it = slf.get();
        let lists: Vec<_> = lists.try_iter()?.map(|list| objects_of(&list?)).collect::<PyResult<_>>()?;
        count_ahead(py, &*it.counter, &lists)?;
        let results = PyList::empty(py);
        let add = |objects, packed| {
            let mut result = it.result(py, objects, packed)?;
            it.finish(py, &mut result)?;
            results.append(result)
        };
        let mut rest = lists.iter();
        while let Some(list) = rest.next() {
            let Read { objects, items, forms } = it.read(py, list)?;
            let (packed, took) = py.detach(|| timed(|| it.choose(items, forms)));
            add(objects, packed?)?;
            if is_hard(took, rest.len()) {
                break;
            }
        }
        let (mut objects, mut inputs) = (Vec::new(), Vec::new());
        for list in rest {
            let read = it.read(py, list)?;
            objects.push(read.objects);
            inputs.push((read.items, read.forms));
        }
        let packed = py.detach(|| in_parallel(inputs, |(items, forms)| it.choose(items, forms)));
        for (objects, packed) in objects.into_iter().zip(packed) {
            add(objects, packed?)?;
        }
        Ok(results)
    }
}

impl Packer {
    fn calibrated(&self) -> Calibrated {
        self.calibrated.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn settings(&self) -> Arc<Settings> {
        self.calibrated().settings
    }

    /// Whether dropped history is summarised into what is left.
    pub(super) fn is_summarising(&self) -> bool {
        self.late_summary && self.settings().strategy == Strategy::Greedy
    }

    fn finish(&self, py: Python<'_>, result: &mut PackResult) -> PyResult<()> {
        if let Some(late) = self.late(py, result)? {
            let summary = self.summarise(py, &late.texts.join("\n\n"))?;
            self.add_summary_or_extract(py, result, &late, summary)?;
        }
        Ok(())
    }

    fn choose(&self, items: Vec<Item>, forms: Vec<ItemForm>) -> Result<PackedItems> {
        let settings = self.settings();
        pack_items(items, forms, self.budget(), settings.strategy, settings.alpha, settings.limits)
    }

    fn result(&self, py: Python<'_>, objects: Py<PyTuple>, packed: PackedItems) -> PyResult<PackResult> {
        let all = objects.bind(py).as_slice();
        let mut kept = Vec::with_capacity(all.len());
        for (n, label, tokens) in packed.kept() {
            let Some(object) = all.get(n) else { continue };
            if let Label::Given(at) = label
                && let Ok(item) = object.cast::<ContextItem>()
                && let Some(rendition) = item.get().renditions.get(usize::from(at).saturating_sub(1))
            {
                kept.push(ContextItem::rendered(item, rendition.get(), tokens - self.item_overhead)?);
            } else {
                kept.push(object.clone().unbind());
            }
        }
        let sequence = PyTuple::new(py, kept)?.unbind();
        Ok(PackResult::new(sequence, Packed::Items(Box::new(packed)), Inputs::Items(objects)))
    }
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Packer>()?;
    module.add_class::<Pending>()
}
