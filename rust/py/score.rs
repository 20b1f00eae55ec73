//! The binding of `score`.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMappingProxy, PyTuple, PyType};

use crate::score::{PRIORITY_WEIGHTS, Recency as Rule};

/// How the worth of an item fades with its age.
#[pyclass(frozen, eq, module = "holdall", name = "Recency")]
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Recency(pub(super) Rule);

#[pymethods]
impl Recency {
    /// exp(-rate x age / largest turn index).
    #[classmethod]
    #[pyo3(signature = (rate = 2.0))]
    fn relative(_class: &Bound<'_, PyType>, rate: f64) -> PyResult<Self> {
        Ok(Self(Rule::relative(rate)?))
    }

    /// 0.5 ** (age / turns).
    #[classmethod]
    #[pyo3(signature = (turns = 5.0))]
    fn half_life(_class: &Bound<'_, PyType>, turns: f64) -> PyResult<Self> {
        Ok(Self(Rule::half_life(turns)?))
    }

    /// Age does not matter.
    #[classmethod]
    fn none(_class: &Bound<'_, PyType>) -> Self {
        Self(Rule::None)
    }

    /// The name of the classmethod that makes it.
    #[getter]
    fn kind(&self) -> &'static str {
        match self.0 {
            Rule::Relative { .. } => "relative",
            Rule::HalfLife { .. } => "half_life",
            Rule::None => "none",
        }
    }

    /// The rate of `relative`, else None.
    #[getter]
    fn rate(&self) -> Option<f64> {
        match self.0 {
            Rule::Relative { rate } => Some(rate),
            _ => None,
        }
    }

    /// The turns of `half_life`, else None.
    #[getter]
    fn turns(&self) -> Option<f64> {
        match self.0 {
            Rule::HalfLife { turns } => Some(turns),
            _ => None,
        }
    }

    /// What is left at `turn_index` of the worth of the newest turn.
    #[pyo3(signature = (turn_index, *, max_turn))]
    fn at(&self, turn_index: i64, max_turn: i64) -> f64 {
        self.0.over([turn_index, max_turn]).at(turn_index)
    }

    fn __repr__(&self) -> String {
        match self.0 {
            Rule::Relative { rate } => format!("Recency.relative({rate:?})"),
            Rule::HalfLife { turns } => format!("Recency.half_life({turns:?})"),
            Rule::None => "Recency.none()".to_owned(),
        }
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.kind().hash(&mut hasher);
        self.rate().or(self.turns()).map(f64::to_bits).hash(&mut hasher);
        hasher.finish()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let maker = py.get_type::<Self>().getattr(self.kind())?;
        let arguments = match self.rate().or(self.turns()) {
            Some(figure) => PyTuple::new(py, [figure])?,
            None => PyTuple::empty(py),
        };
        Ok((maker, arguments))
    }
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let weights = PyDict::new(py);
    for (name, weight) in PRIORITY_WEIGHTS {
        weights.set_item(name, weight)?;
    }
    module.add("PRIORITY_WEIGHTS", PyMappingProxy::new(py, weights.as_mapping()))?;
    module.add_class::<Recency>()
}
