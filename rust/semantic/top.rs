//! The best k of many scores.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// A label and its score; better is larger, and among equal scores the lower label.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Hit {
    /// What the caller calls the row.
    pub label: i64,
    /// How near it is.
    pub score: f64,
}

impl Eq for Hit {}

impl PartialOrd for Hit {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Hit {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then_with(|| other.label.cmp(&self.label))
    }
}

/// Keeps the best `k` of what it is shown, in O(log k) for each that gets in.
#[derive(Debug)]
pub struct Top {
    k: usize,
    worst_first: BinaryHeap<Reverse<Hit>>,
    /// The score of the worst that is kept, once there are `k`: most rows are turned away by one comparison.
    floor: f64,
}

impl Top {
    /// Nothing yet; `k` may be larger than what is to come.
    #[must_use]
    pub fn new(k: usize) -> Self {
        Self { k, worst_first: BinaryHeap::new(), floor: f64::NEG_INFINITY }
    }

    /// The score below which nothing gets in any more.
    #[must_use]
    pub const fn floor(&self) -> f64 {
        self.floor
    }

    /// Keep `hit` if it is among the best so far.
    pub fn offer(&mut self, hit: Hit) {
        if hit.score < self.floor || self.k == 0 {
            return;
        }
        if self.worst_first.len() < self.k {
            self.worst_first.push(Reverse(hit));
        } else if let Some(mut worst) = self.worst_first.peek_mut()
            && hit > worst.0
        {
            *worst = Reverse(hit);
        }
        if self.worst_first.len() == self.k {
            self.floor = self.worst_first.peek().map_or(f64::NEG_INFINITY, |worst| worst.0.score);
        }
    }

    /// Best first.
    #[must_use]
    pub fn into_sorted(self) -> Vec<Hit> {
        self.worst_first.into_sorted_vec().into_iter().map(|Reverse(hit)| hit).collect()
    }
}
