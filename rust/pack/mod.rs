//! What goes into the window: required first, then what is worth its tokens, in the order it came, with a reason for
//! everything that stays out.

mod items;
mod plan;
mod report;

pub use items::{Item, ItemForm, pack_items};
pub use plan::{Candidates, Form, Limits, Plan, Shortfall, Strategy, choose};
pub use report::{Fate, Label, Reason, Report, Row, Source};

/// Tokens that must remain before the greedy strategy writes a summary of the older history it dropped.
pub const LATE_SUMMARY_ABOVE: u64 = 200;

/// The default exponent of a group's tokens in its value; with the relevance rule of `relevance` it kept the most
/// evidence on recorded conversations, together with 0.5.
pub const DEFAULT_ALPHA: f64 = 0.25;

/// Weight of a type outside the table.
pub const UNKNOWN_WEIGHT: f64 = 0.1;

/// Types of at least this weight are required.
pub const REQUIRED_WEIGHT: f64 = 0.9;
