//! Exact nearest neighbours: every row is looked at, most of them in bytes only.

use std::collections::HashMap;

use super::codes::{Coded, Query, encode};
use super::dot::each_dot;
use super::top::{Hit, Top};
use crate::{Error, Result};

/// How near two vectors are; larger is nearer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// The cosine of the angle between them, -1 to 1.
    Cosine,
    /// Their dot product.
    Dot,
}

/// Between these the square of a norm is a float neither infinite nor 0.
const LEAST_NORM: f64 = 1e-18;
const MOST_NORM: f64 = 1e18;
/// Far above any model's; below it sums of codes have room.
const MOST_DIMS: usize = 65_536;

/// Rows of one length, one after the other in memory, each with a label.
///
/// A row is held in floats and in bytes. A search reads the bytes of all rows, which bound each score from both sides,
/// and the floats of those only that may be among the best: the same rows and scores as from the floats of all.
#[derive(Debug)]
pub struct Flat {
    metric: Metric,
    dims: usize,
    rows: Vec<f32>,
    codes: Vec<i8>,
    coded: Vec<Coded>,
    labels: Vec<i64>,
    slots: HashMap<i64, usize>,
}

impl Flat {
    /// No rows; the first that is added says how long all are.
    #[must_use]
    pub fn new(metric: Metric) -> Self {
        Self {
            metric,
            dims: 0,
            rows: Vec::new(),
            codes: Vec::new(),
            coded: Vec::new(),
            labels: Vec::new(),
            slots: HashMap::new(),
        }
    }

    /// Floats in each row; 0 before the first.
    #[must_use]
    pub const fn dims(&self) -> usize {
        self.dims
    }

    /// Rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The norm of a vector that may be added or searched for.
    ///
    /// # Errors
    /// `Error::Argument` when the length is not that of the rows, or the norm is 0, too large, or not a number.
    pub fn check(&self, vector: &[f32]) -> Result<f64> {
        if self.dims > 0 && vector.len() != self.dims {
            let text = format!("a vector has {} floats; those of this memory have {}", vector.len(), self.dims);
            return Err(Error::Argument(text));
        }
        if vector.is_empty() || vector.len() > MOST_DIMS {
            return Err(Error::Argument(format!("a vector has {} floats; allowed are 1 to {MOST_DIMS}", vector.len())));
        }
        let norm = vector.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
        if (LEAST_NORM..=MOST_NORM).contains(&norm) {
            return Ok(norm);
        }
        Err(Error::Argument(format!(
            "a vector has the norm {norm}; give finite floats that are not all 0, with a norm of {LEAST_NORM:e} to {MOST_NORM:e}"
        )))
    }

    /// Add a row, in place of the one of the same label if there is one.
    ///
    /// # Errors
    /// As `check`; nothing is changed then.
    pub fn add(&mut self, label: i64, vector: &[f32]) -> Result<()> {
        let norm = self.check(vector)?;
        self.remove(label);
        self.dims = vector.len();
        self.slots.insert(label, self.labels.len());
        self.labels.push(label);
        self.rows.extend_from_slice(vector);
        self.coded.push(encode(vector, norm, &mut self.codes));
        Ok(())
    }

    /// Take a row out; the last one moves to its place. Whether there was one.
    pub fn remove(&mut self, label: i64) -> bool {
        let Some(slot) = self.slots.remove(&label) else { return false };
        let end = self.labels.len().saturating_sub(1) * self.dims;
        self.labels.swap_remove(slot);
        self.coded.swap_remove(slot);
        self.rows.copy_within(end.., slot * self.dims);
        self.rows.truncate(end);
        self.codes.copy_within(end.., slot * self.dims);
        self.codes.truncate(end);
        if let Some(moved) = self.labels.get(slot) {
            self.slots.insert(*moved, slot);
        }
        if self.labels.is_empty() {
            self.dims = 0;
        }
        true
    }

    /// The `k` nearest rows, nearest first, of all or of those that are `allowed`, each once; equal ones by
    /// label.
    ///
    /// # Errors
    /// As `check`.
    pub fn nearest(&self, query: &[f32], k: usize, allowed: Option<&[i64]>) -> Result<Vec<Hit>> {
        let norm = self.check(query)?;
        if k == 0 {
            return Ok(Vec::new());
        }
        let coded = Query::new(query, norm);
        let candidates = match allowed {
            None => self.candidates(&coded, k, self.codes.chunks_exact(self.dims).zip(0..)),
            Some(allowed) => {
                let slots = allowed.iter().filter_map(|label| self.slots.get(label));
                let rows = slots.filter_map(|slot| Some((part(&self.codes, *slot, self.dims)?, *slot)));
                self.candidates(&coded, k, rows)
            }
        };
        let mut top = Top::new(k);
        let rows = candidates.iter().filter_map(|slot| Some((part(&self.rows, *slot, self.dims)?, *slot)));
        each_dot(rows, query, |slot, dot: f32| {
            if let (Some(label), Some(row)) = (self.labels.get(slot), self.coded.get(slot)) {
                let dot = f64::from(dot);
                let score = if self.metric == Metric::Dot { dot } else { (dot / (norm * row.norm)).clamp(-1.0, 1.0) };
                top.offer(Hit { label: *label, score });
            }
        });
        Ok(top.into_sorted())
    }

    /// How many rows a search of all reads in floats.
    #[cfg(test)]
    pub(super) fn n_candidates(&self, query: &[f32], k: usize) -> usize {
        let coded = Query::new(query, self.check(query).expect("valid"));
        self.candidates(&coded, k, self.codes.chunks_exact(self.dims).zip(0..)).len()
    }

    /// Slots of the rows that may be among the `k` best, as far as their bytes say.
    fn candidates<'a>(&self, query: &Query, k: usize, rows: impl Iterator<Item = (&'a [i8], usize)>) -> Vec<usize> {
        // The best lower bounds: k rows are at least as good as the worst of them.
        let mut sure = Top::new(k);
        let mut possible: Vec<(usize, f64)> = Vec::new();
        each_dot(rows, &query.codes, |slot, dot: i32| {
            let (Some(row), Some(label)) = (self.coded.get(slot), self.labels.get(slot)) else { return };
            let (mut least, mut most) = query.bounds(row, dot);
            if self.metric == Metric::Dot {
                least *= row.norm;
                most *= row.norm;
            }
            if most >= sure.floor() {
                possible.push((slot, most));
                sure.offer(Hit { label: *label, score: least });
            }
        });
        possible.into_iter().filter(|(_, most)| *most >= sure.floor()).map(|(slot, _)| slot).collect()
    }
}

fn part<T>(all: &[T], slot: usize, dims: usize) -> Option<&[T]> {
    all.get(slot * dims..)?.get(..dims)
}
