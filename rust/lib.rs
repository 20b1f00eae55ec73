//! The hot path of holdall: token counting, scoring, packing, tool shortening and msgpack.
//!
//! Everything outside `py` is plain Rust and knows nothing of Python; `cargo test` needs no interpreter.

pub mod chat;
mod error;
pub mod item;
pub mod knapsack;
pub mod msgpack;
pub mod pack;
mod parallel;
pub mod relevance;
pub mod score;
pub mod semantic;
pub mod tokens;
pub mod tools;

pub use error::{Error, Result};

#[cfg(feature = "python")]
mod py;
