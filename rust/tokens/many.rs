//! Counting many texts on all cores.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::Counter;
use crate::Result;

/// A thread costs about what counting this many bytes does, several times over. Found by measurement.
const BYTES_PER_THREAD: usize = 1 << 16;

/// Tokens of each text, in order; on as many threads as the machine has and the work pays for.
///
/// # Errors
/// As `count`: that of the first text, in input order, that failed.
pub fn count_many(counter: &dyn Counter, texts: &[&str]) -> Result<Vec<u64>> {
    let bytes: usize = texts.iter().map(|text| text.len()).sum();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let threads = cores.min(bytes / BYTES_PER_THREAD).min(texts.len());
    if threads < 2 || counter.calls_back() {
        return texts.iter().map(|text| counter.count(text)).collect();
    }
    let taken = AtomicUsize::new(0);
    let found = Mutex::new(Vec::with_capacity(texts.len()));
    let work = || {
        let mut own = Vec::new();
        loop {
            let at = taken.fetch_add(1, Ordering::Relaxed);
            let Some(text) = texts.get(at) else { break };
            own.push((at, counter.count(text)));
        }
        found.lock().unwrap_or_else(PoisonError::into_inner).extend(own);
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let mut all = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    all.sort_unstable_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, count)| count).collect()
}
