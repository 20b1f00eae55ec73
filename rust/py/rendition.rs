//! The binding of a rendition: another way to show an item, which keeps its own token count too.

use std::hash::{DefaultHasher, Hash, Hasher};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use super::content::{is_blank, shown};
use super::counts::Counts;
use super::tokens::text_of;
use crate::Error;
use crate::tokens::Counter;

/// Another way to show an item.
#[pyclass(frozen, module = "holdall")]
pub(super) struct Rendition {
    /// What is shown.
    #[pyo3(get)]
    pub(super) text: Py<PyString>,
    /// Share of the item's value that is left.
    #[pyo3(get)]
    pub(super) fidelity: Option<f64>,
    /// The count that was given.
    #[pyo3(get)]
    pub(super) tokens: Option<u64>,
    /// What reports call it.
    #[pyo3(get)]
    pub(super) name: Option<String>,
    /// Whether the text is nothing but white space.
    pub(super) is_blank: bool,
    counts: Counts,
}

#[pymethods]
impl Rendition {
    #[new]
    #[pyo3(signature = (text, fidelity=None, *, tokens=None, name=None))]
    fn new(
        text: &Bound<'_, PyString>,
        fidelity: Option<f64>,
        tokens: Option<u64>,
        name: Option<String>,
    ) -> PyResult<Self> {
        if let Some(share) = fidelity
            && !(share > 0.0 && share < 1.0)
        {
            let text = format!("the fidelity of a rendition must lie between 0 and 1, both excluded, not {share}");
            return Err(Error::Argument(text).into());
        }
        let is_blank = is_blank(text)?;
        Ok(Self { text: text.clone().unbind(), fidelity, tokens, name, is_blank, counts: Counts::default() })
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let text = shown(self.text.bind(py))?;
        let fidelity = self.fidelity.map_or_else(|| "None".to_owned(), |share| share.to_string());
        Ok(format!("Rendition({text}, fidelity={fidelity})"))
    }

    fn __eq__(&self, other: &Bound<'_, Self>) -> PyResult<bool> {
        self.same(other.py(), other.get())
    }

    fn __hash__(&self, py: Python<'_>) -> PyResult<u64> {
        let mut hasher = DefaultHasher::new();
        self.text.bind(py).hash()?.hash(&mut hasher);
        self.tokens.hash(&mut hasher);
        Ok(hasher.finish())
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let py = slf.py();
        let it = slf.get();
        let rebuild = py.import("holdall._native")?.getattr(intern!(py, "_rendition"))?;
        Ok((rebuild, (it.text.clone_ref(py), it.fidelity, it.tokens, it.name.clone()).into_pyobject(py)?))
    }
}

impl Rendition {
    fn same(&self, py: Python<'_>, other: &Self) -> PyResult<bool> {
        Ok(self.fidelity == other.fidelity
            && self.tokens == other.tokens
            && self.name == other.name
            && self.text.bind(py).as_any().eq(other.text.bind(py))?)
    }

    /// Tokens of the text, the known number where there is one.
    pub(super) fn count(&self, py: Python<'_>, counter: &dyn Counter) -> PyResult<u64> {
        match self.tokens {
            Some(tokens) => Ok(tokens),
            None => self.counts.get(counter, || Ok(counter.count(&text_of(self.text.bind(py))?)?)),
        }
    }
}

/// Rebuild a pickled `Rendition`.
#[pyfunction]
#[pyo3(name = "_rendition")]
fn rebuild_rendition(
    text: &Bound<'_, PyString>,
    fidelity: Option<f64>,
    tokens: Option<u64>,
    name: Option<String>,
) -> PyResult<Rendition> {
    Rendition::new(text, fidelity, tokens, name)
}

pub(super) fn read_renditions(given: &Bound<'_, PyAny>) -> PyResult<Vec<Py<Rendition>>> {
    let py = given.py();
    if given.is_instance_of::<PyString>() {
        let text = "renditions must be several, such as a list; put the one text into a list";
        return Err(Error::Argument(text.to_owned()).into());
    }
    let mut all = Vec::new();
    for one in given.try_iter()? {
        let one = one?;
        if let Ok(ready) = one.cast::<Rendition>() {
            all.push(ready.clone().unbind());
        } else if let Ok(text) = one.cast::<PyString>() {
            all.push(Py::new(py, Rendition::new(text, None, None, None)?)?);
        } else if let Ok(pair) = one.cast::<PyTuple>() {
            let (text, fidelity): (Bound<'_, PyString>, f64) = pair.extract()?;
            all.push(Py::new(py, Rendition::new(&text, Some(fidelity), None, None)?)?);
        } else {
            let kind = one.get_type().name()?;
            let text = format!("a rendition is a text, (text, fidelity) or Rendition, not {kind}");
            return Err(Error::Argument(text).into());
        }
    }
    Ok(all)
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Rendition>()?;
    module.add_function(wrap_pyfunction!(rebuild_rendition, module)?)
}
