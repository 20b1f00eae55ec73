//! Relevance of the messages of a conversation to a query, with an index that grows as the conversation does.

use std::sync::Arc;

use crate::relevance::{Bm25, Index, Terms};

use super::entry::Entry;

/// Conversations that one packer follows at a time; a worker that serves more pays the index again.
const MOST: usize = 8;

#[derive(Debug)]
struct History {
    keys: Vec<u128>,
    index: Index,
}

/// Indexes of the conversations packed last, the latest first.
#[derive(Debug, Default)]
pub struct Histories(Vec<History>);

impl Histories {
    /// Give back what was taken out to be worked with.
    pub fn take_back(&mut self, mut worked_with: Self) {
        worked_with.0.append(&mut self.0);
        worked_with.0.truncate(MOST);
        *self = worked_with;
    }

    /// How much each message of the conversation scored last says: see [`Index::information`].
    #[must_use]
    pub fn information(&self) -> Vec<f64> {
        self.0.first().map(|history| history.index.information()).unwrap_or_default()
    }

    /// One score per message, 0 where no term of the query occurs. Costs the messages that are new, and the postings of
    /// the query's terms.
    pub fn scores(&mut self, keys: &[u128], entries: &[Arc<Entry>], query: &Terms) -> Vec<f64> {
        let shared = |history: &History| history.keys.iter().zip(keys).take_while(|(a, b)| a == b).count();
        // The longest common beginning wins; one that would have to forget most of itself is left to its own session.
        let best = self.0.iter().enumerate().map(|(at, history)| (shared(history), at)).max();
        let mut history = match best {
            Some((n, at)) if n > 0 && self.0.get(at).is_some_and(|history| n * 2 >= history.keys.len()) => {
                let mut history = self.0.remove(at);
                history.index.truncate(n);
                history.keys.truncate(n);
                history
            }
            _ => History { keys: Vec::new(), index: Index::new(Bm25::default()) },
        };
        for (key, entry) in keys.iter().zip(entries).skip(history.keys.len()) {
            history.index.push(entry.terms());
            history.keys.push(*key);
        }
        let scores = history.index.scores(query);
        self.0.insert(0, history);
        self.0.truncate(MOST);
        scores
    }
}
