//! Fit a list of tool schemas into a budget.
//!
//! **What a list of tools costs.** 12 tokens once if the list is not empty, and for each tool 7 and the tokens of its
//! compact JSON as it is sent: `json.dumps(tool, ensure_ascii=False, separators=(",", ":"))`. The 12 and the 7 are the
//! published overheads of function calling on gpt-4o; its rule for what stands between them is only published for flat
//! schemas and counts less than the JSON has, so this is the safe side, and anyone can recount it. Both numbers are
//! [`Costs`], and a caller who knows better sets them.
//!
//! **What is shown.** Each tool in full, in one of the shorter forms of [`Step`], or not at all: see [`fit()`].

mod fit;
mod formats;
mod memo;
mod rank;
mod read;
mod refs;
mod scan;
mod shorten;
mod tool;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_shorten;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use fit::{Fit, Shown, Wish, fit, minimum};
pub use formats::Format;
pub use shorten::Step;
pub use tool::Tool;

use crate::parallel::{beside, on_threads, threads_for};
use crate::relevance::{Bm25, Terms, score_all};

/// What a list of tools costs beside the JSON of its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// Once, if there is any tool.
    pub once: u64,
    /// For each tool.
    pub per_tool: u64,
}

impl Default for Costs {
    /// The published overheads for the gpt-4o family.
    fn default() -> Self {
        Self { once: 12, per_tool: 7 }
    }
}

/// Schemas repeat a word for every parameter that it concerns, so repeats count longer than in messages: over 702 queries the
/// expected tool was among the first six of 532 in .92 of the cases, against .90 with k1 1.2.
const BM25: Bm25 = Bm25 { k1: 3.0, b: 0.5 };

/// A thread costs about what splitting this much JSON does, several times over.
const BYTES_PER_THREAD: usize = 1 << 16;
/// Tools that a thread splits at a time.
const TOOLS_AT_ONCE: usize = 16;

/// Run `act`, which says of each tool when it has been read: where that is many for the first time, another thread splits them
/// into terms meanwhile.
pub fn split_ahead<R>(act: impl FnOnce(&mut dyn FnMut(&Arc<Tool>)) -> R) -> R {
    let split = |tool: Arc<Tool>| _ = tool.terms();
    beside(split, |put| {
        let (mut waiting, mut n_bytes) = (Vec::new(), 0);
        act(&mut |tool| {
            if !tool.is_split() {
                n_bytes += tool.text(Step::Full).map_or(0, str::len);
                waiting.push(Arc::clone(tool));
            }
            if n_bytes >= BYTES_PER_THREAD {
                waiting.drain(..).for_each(&mut *put);
            }
        })
    })
}

/// The tools of a request, in order.
#[derive(Debug, Default)]
pub struct ToolSet {
    tools: Vec<Arc<Tool>>,
}

impl ToolSet {
    /// A set of tools that were read before.
    #[must_use]
    pub fn new(tools: Vec<Arc<Tool>>) -> Self {
        Self { tools }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.tools.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// The tool at `at`.
    #[must_use]
    pub fn get(&self, at: usize) -> Option<&Tool> {
        self.tools.get(at).map(Arc::as_ref)
    }

    /// All tools, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Tool> {
        self.tools.iter().map(Arc::as_ref)
    }

    /// Relevance of each tool to a query; 0 where nothing matches.
    pub fn scores(&self, query: &Terms) -> Vec<f64> {
        self.split_all();
        let terms: Vec<&Terms> = self.iter().map(Tool::terms).collect();
        score_all(BM25, &terms, query)
    }

    /// Split the text of every tool into terms, on as many threads as the machine has and the work pays for.
    fn split_all(&self) {
        let n_bytes = |tool: &Tool| if tool.is_split() { 0 } else { tool.text(Step::Full).map_or(0, str::len) };
        let n_threads = threads_for(self.iter().map(n_bytes).sum(), BYTES_PER_THREAD);
        let taken = AtomicUsize::new(0);
        // From the back, since `split_ahead` may still be coming from the front.
        on_threads(n_threads, || {
            let at = taken.fetch_add(TOOLS_AT_ONCE, Ordering::Relaxed);
            let end = self.len().checked_sub(at).filter(|end| *end > 0)?;
            for tool in self.tools.get(end.saturating_sub(TOOLS_AT_ONCE)..end)?.iter().rev() {
                tool.terms();
            }
            Some((at, ()))
        });
    }

    /// Which tools have one of these names.
    fn used(&self, names: &[&str]) -> Vec<bool> {
        let names: HashSet<&str> = names.iter().copied().collect();
        self.iter().map(|tool| names.contains(tool.name())).collect()
    }
}
