//! The binding of `pack::shorten`, private: for tests and benches. The packer shortens in Rust.

use pyo3::prelude::*;
use pyo3::types::PyString;

use super::tokens::{Tokenizer, text_of};
use crate::Result;
use crate::pack::shorten::{Rendition, head_tail, shortened, summary};
use crate::tokens::Counter;

/// A form's text and its tokens.
type Form = Option<(String, u64)>;

fn form(rendition: Option<Rendition>) -> Form {
    rendition.map(|form| (form.text, form.tokens))
}

/// Run `work`, letting other threads run where the counter is native.
fn run<T: Send>(
    py: Python<'_>,
    tokenizer: &Bound<'_, Tokenizer>,
    work: impl Fn(&dyn Counter) -> Result<T> + Sync,
) -> PyResult<T> {
    let counter = tokenizer.get().counter();
    Ok(if counter.calls_back() { work(&*counter)? } else { py.detach(|| work(&*counter))? })
}

/// Head and tail within a target.
#[pyfunction]
fn _shorten_head_tail(
    py: Python<'_>,
    text: &Bound<'_, PyString>,
    target: u64,
    tokenizer: &Bound<'_, Tokenizer>,
) -> PyResult<Form> {
    let text = text_of(text)?;
    Ok(form(run(py, tokenizer, |counter| head_tail(&text, counter.count(&text)?, target, counter))?))
}

/// About a third of a long text.
#[pyfunction]
fn _shorten_shortened(py: Python<'_>, text: &Bound<'_, PyString>, tokenizer: &Bound<'_, Tokenizer>) -> PyResult<Form> {
    let text = text_of(text)?;
    Ok(form(run(py, tokenizer, |counter| shortened(&text, counter.count(&text)?, counter))?))
}

/// About a tenth of a long text.
#[pyfunction]
fn _shorten_summary(py: Python<'_>, text: &Bound<'_, PyString>, tokenizer: &Bound<'_, Tokenizer>) -> PyResult<Form> {
    let text = text_of(text)?;
    Ok(form(run(py, tokenizer, |counter| summary(&text, counter.count(&text)?, counter))?))
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_shorten_head_tail, module)?)?;
    module.add_function(wrap_pyfunction!(_shorten_shortened, module)?)?;
    module.add_function(wrap_pyfunction!(_shorten_summary, module)?)
}
