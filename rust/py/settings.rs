//! A packer's keyword arguments, read and checked.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use super::tokens::{Tokenizer, text_of};
use crate::pack::{Strategy, Templates, Tuning};
use crate::score::Weights;
use crate::tokens::Counter;
use crate::tools::Costs;
use crate::{Error, Result};

pub(super) fn read_tokens(what: &str, value: &Bound<'_, PyAny>) -> PyResult<u64> {
    value.extract::<u64>().map_err(|_| {
        let shown = shown(value);
        Error::Argument(format!("{what} must be an int of at least 0, not {shown}")).into()
    })
}

pub(super) fn read_item_overhead(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    read_tokens("item_overhead", value)
}

pub(super) fn read_cache_bytes(value: &Bound<'_, PyAny>) -> PyResult<usize> {
    Ok(usize::try_from(read_tokens("cache_bytes", value)?).unwrap_or(usize::MAX))
}

fn shown(value: &Bound<'_, PyAny>) -> String {
    value.repr().map_or_else(|_| "?".to_owned(), |text| text.to_string_lossy().into_owned())
}

/// The costs of tools: once for any, and for each.
pub(super) fn read_tool_costs(given: Option<&Bound<'_, PyAny>>) -> PyResult<Costs> {
    let Some(given) = given else { return Ok(Costs::default()) };
    let (once, per_tool) = given.extract().map_err(|_| {
        let shown = shown(given);
        Error::Argument(format!("tool_overhead must be two ints of at least 0, not {shown}"))
    })?;
    Ok(Costs { once, per_tool })
}

/// A function that summarises, or none.
pub(super) fn read_summarizer(given: Option<Py<PyAny>>, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
    if let Some(given) = given.as_ref().map(|given| given.bind(py)).filter(|given| !given.is_callable()) {
        let kind = given.get_type().name()?;
        return Err(Error::Argument(format!("summarizer must be a function of a text, not {kind}")).into());
    }
    Ok(given)
}

/// The strategy of this name, and whether the window keeps the beginning that was sent before.
pub(super) fn named_strategy(name: &str) -> Result<(Strategy, bool)> {
    match name {
        "greedy" => Ok((Strategy::Greedy, false)),
        "optimal" => Ok((Strategy::Optimal, false)),
        "stable" => Ok((Strategy::Optimal, true)),
        _ => Err(Error::UnknownName {
            what: "strategy",
            name: name.to_owned(),
            known: ["optimal", "greedy", "stable"].map(str::to_owned).to_vec(),
        }),
    }
}

pub(super) fn share_of(what: &str, share: f64) -> Result<f64> {
    if (0.0..=1.0).contains(&share) {
        return Ok(share);
    }
    Err(Error::Argument(format!("{what} must lie between 0 and 1, not {share}")))
}

pub(super) fn read_templates(given: Option<&Bound<'_, PyDict>>) -> PyResult<Templates> {
    let mut templates = Templates::default();
    for (name, text) in given.into_iter().flat_map(PyDictMethods::iter) {
        templates.set(&name.extract::<String>()?, &text.extract::<String>()?)?;
    }
    Ok(templates)
}

/// The caller's constants over the defaults.
pub(super) fn read_tuning(given: Option<&Bound<'_, PyDict>>, is_stable: bool) -> PyResult<Tuning> {
    let mut tuning = if is_stable { Tuning::stable() } else { Tuning::default() };
    for (name, value) in given.into_iter().flat_map(PyDictMethods::iter) {
        tuning.set(&name.extract::<String>()?, value.extract()?)?;
    }
    Ok(tuning)
}

/// The caller's weights over the defaults.
pub(super) fn read_weights(given: &Bound<'_, PyAny>) -> PyResult<Weights> {
    let defaults = Weights::default();
    let mut rows: Vec<(String, f64)> = defaults.rows().map(|(name, weight)| (name.to_owned(), weight)).collect();
    let py = given.py();
    let pairs = PyDict::new(py);
    pairs.update(given.cast()?)?;
    for (name, weight) in pairs {
        rows.push((text_of(name.cast::<PyString>()?)?.into_owned(), weight.extract()?));
    }
    Ok(Weights::new(rows)?)
}

/// The counter of a tokenizer; o200k where none is given.
pub(super) fn counter_of(py: Python<'_>, tokenizer: Option<&Bound<'_, PyAny>>) -> PyResult<Arc<dyn Counter>> {
    let Some(given) = tokenizer else { return Ok(Tokenizer::default_one(py)?.get().counter()) };
    if let Ok(tokenizer) = given.cast::<Tokenizer>() {
        return Ok(tokenizer.get().counter());
    }
    let kind = given.get_type().name()?;
    let text =
        format!("tokenizer must be a Tokenizer, not {kind}; Tokenizer.from_callable takes any function that counts");
    Err(Error::Argument(text).into())
}
