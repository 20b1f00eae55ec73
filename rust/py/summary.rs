//! The binding of `pack::shorten::summarise`.

use pyo3::prelude::*;
use pyo3::types::PyString;

use super::settings::read_tokens;
use super::tokens::{Tokenizer, text_of};
use crate::pack::shorten::summarise;

/// The weightiest sentences of texts, in order, within so many tokens; None where not one fits.
#[pyfunction]
#[pyo3(signature = (text, max_tokens, *, tokenizer=None))]
fn extractive_summary(
    py: Python<'_>,
    text: &Bound<'_, PyAny>,
    max_tokens: &Bound<'_, PyAny>,
    tokenizer: Option<Py<Tokenizer>>,
) -> PyResult<Option<String>> {
    let max_tokens = read_tokens("max_tokens", max_tokens)?;
    let mut texts = Vec::new();
    if let Ok(one) = text.cast::<PyString>() {
        texts.push(text_of(one)?.into_owned());
    } else {
        for each in text.try_iter()? {
            texts.push(text_of(each?.cast::<PyString>()?)?.into_owned());
        }
    }
    let tokenizer = tokenizer.map_or_else(|| Tokenizer::default_one(py), Ok)?;
    let counter = tokenizer.get().counter();
    let work = || summarise(&texts, max_tokens, &*counter);
    let found = if counter.calls_back() { work() } else { py.detach(work) };
    Ok(found?.map(|rendition| rendition.text))
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(extractive_summary, module)?)
}
