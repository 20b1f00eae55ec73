//! What goes into the window: required first, then what is worth its tokens, in the order it came, with a reason for
//! everything that stays out.

mod cache;
mod calibrate;
mod choosing;
mod conversation;
mod density;
mod entry;
mod field;
mod history;
mod items;
mod late;
mod memo;
mod plan;
mod purchase;
mod recall;
mod relevant;
mod report;
pub mod shorten;
mod stable;
mod tooling;
mod tuning;
mod window;
mod wrap;

pub use cache::Cache;
pub use calibrate::{Fit as Calibration, fit as calibrate};
pub use conversation::{Conversation, Document, SYSTEM_JOINER, Settings};
pub use entry::{Entry, Short};
pub use history::Histories;
pub use items::{Item, ItemForm, PackedItems, default_fidelity, pack_items};
pub use late::Late;
pub use memo::{Form as MessageForm, Memo};
pub use plan::{Candidates, Form, Plan, Shortfall, Strategy, choose};
pub use purchase::Limits;
pub use report::{Fate, Label, Reason, Report, Row, Source};
pub use tuning::Tuning;
pub use window::{Placed, Window, pack_conversation};
pub use wrap::Templates;

/// Tokens that must remain before the greedy strategy writes a summary of the older history it dropped.
pub const LATE_SUMMARY_ABOVE: u64 = 200;

/// The default exponent of a group's tokens in its value; with the relevance rule of `relevance` it kept the most
/// evidence on recorded conversations, together with 0.5.
pub const DEFAULT_ALPHA: f64 = 0.25;
