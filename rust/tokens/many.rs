//! Counting many texts on all cores.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Counter;
use crate::Result;
use crate::parallel::{on_threads, threads_for};

/// A thread costs about what counting this many bytes does, several times over. Found by measurement.
const BYTES_PER_THREAD: usize = 1 << 16;
/// What a thread takes at a time: enough to make what threads share cheap, little enough that they end together.
const BYTES_AT_ONCE: usize = 1 << 14;

/// Tokens of each text, in order; on as many threads as the machine has and the work pays for.
///
/// # Errors
/// As `count`: that of the first text, in input order, that failed.
pub fn count_many(counter: &dyn Counter, texts: &[&str]) -> Result<Vec<u64>> {
    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    let threads = threads_for(bytes, BYTES_PER_THREAD).min(texts.len());
    if threads < 2 || counter.calls_back() {
        return counter.count_all(texts);
    }
    let batches = batches(texts);
    let taken = AtomicUsize::new(0);
    let found = on_threads(threads, || {
        let at = taken.fetch_add(1, Ordering::Relaxed);
        let batch = batches.get(at).and_then(|range| texts.get(range.clone()))?;
        Some((at, counter.count_all(batch)))
    });
    let mut counts = Vec::with_capacity(texts.len());
    for batch in found {
        counts.extend(batch?);
    }
    Ok(counts)
}

/// Neighbours of about `BYTES_AT_ONCE` together, or one text that is longer.
fn batches(texts: &[&str]) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (at, text) in texts.iter().enumerate() {
        bytes += text.len();
        if bytes >= BYTES_AT_ONCE {
            found.push(start..at + 1);
            (start, bytes) = (at + 1, 0);
        }
    }
    if start < texts.len() {
        found.push(start..texts.len());
    }
    found
}
