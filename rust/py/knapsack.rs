//! The binding of `knapsack`, private: for tests and benches. The packer calls the solver in Rust.

use std::time::{Duration, Instant};

use pyo3::prelude::*;

use crate::knapsack::{Candidate, Limits, MAX_STATES, Solution, choose, greedy, zero_one};
use crate::score::check_non_negative;
use crate::{Error, Result};

/// picks, weight, value, bound, states.
type Choice = (Vec<Option<u32>>, u64, u64, u64, u64);

fn choice(solution: Solution) -> Choice {
    (solution.picks, solution.weight, solution.value, solution.bound, solution.states)
}

fn limits(max_states: Option<u64>, deadline_s: Option<f64>) -> Result<Limits> {
    let deadline = match deadline_s {
        None => None,
        Some(seconds) => {
            // A deadline too far for the clock is none.
            let wait = Duration::try_from_secs_f64(check_non_negative("deadline_s", seconds)?).ok();
            wait.and_then(|wait| Instant::now().checked_add(wait))
        }
    };
    Ok(Limits { max_states: max_states.unwrap_or(MAX_STATES), deadline })
}

fn candidates(class: Vec<(u64, u64)>) -> Vec<Candidate> {
    class.into_iter().map(|(weight, value)| Candidate { weight, value }).collect()
}

/// Take candidates within a budget.
#[pyfunction]
#[pyo3(signature = (weights, values, budget, *, max_states = None, deadline_s = None))]
fn _knapsack_zero_one(
    py: Python<'_>,
    weights: Vec<u64>,
    values: Vec<u64>,
    budget: u64,
    max_states: Option<u64>,
    deadline_s: Option<f64>,
) -> PyResult<Choice> {
    if weights.len() != values.len() {
        return Err(Error::Argument(format!("{} weights but {} values", weights.len(), values.len())).into());
    }
    let candidates = candidates(weights.into_iter().zip(values).collect());
    let limits = limits(max_states, deadline_s)?;
    Ok(choice(py.detach(|| zero_one(&candidates, budget, limits))?))
}

/// Choose at most one candidate of each class within a budget.
#[pyfunction]
#[pyo3(signature = (classes, budget, *, max_states = None, deadline_s = None))]
fn _knapsack_choices(
    py: Python<'_>,
    classes: Vec<Vec<(u64, u64)>>,
    budget: u64,
    max_states: Option<u64>,
    deadline_s: Option<f64>,
) -> PyResult<Choice> {
    let classes: Vec<Vec<Candidate>> = classes.into_iter().map(candidates).collect();
    let limits = limits(max_states, deadline_s)?;
    Ok(choice(py.detach(|| choose(&classes, budget, limits))?))
}

/// The textbook rule.
#[pyfunction]
fn _knapsack_greedy(py: Python<'_>, classes: Vec<Vec<(u64, u64)>>, budget: u64) -> Choice {
    let classes: Vec<Vec<Candidate>> = classes.into_iter().map(candidates).collect();
    choice(py.detach(|| greedy(&classes, budget)))
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(_knapsack_zero_one, module)?)?;
    module.add_function(wrap_pyfunction!(_knapsack_choices, module)?)?;
    module.add_function(wrap_pyfunction!(_knapsack_greedy, module)?)
}
