//! The Python module `holdall._native`: one thin binding file per module, errors crossing in `error.rs` only.

mod ahead;
mod callers;
mod chat;
mod content;
mod counts;
mod documents;
mod error;
mod held;
mod item;
mod json;
mod knapsack;
mod late;
mod messages;
mod msgpack;
mod node;
mod pack;
mod parallel;
mod read;
mod relevance;
mod rendition;
mod request;
mod result;
mod score;
mod seen;
mod semantic;
mod settings;
mod shorten;
mod states;
mod summary;
mod tape;
mod tokens;
mod tools;
mod words;

use pyo3::prelude::*;

// `msgpack` reads containers in place and keeps keys, which is safe under the GIL only.
#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    tokens::register(module)?;
    summary::register(module)?;
    score::register(module)?;
    shorten::register(module)?;
    knapsack::register(module)?;
    relevance::register(module)?;
    semantic::register(module)?;
    tools::register(module)?;
    chat::register(module)?;
    item::register(module)?;
    rendition::register(module)?;
    result::register(module)?;
    pack::register(module)?;
    msgpack::register(module)
}
