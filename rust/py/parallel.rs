//! Work for all processors.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::parallel::{on_threads, processors};

/// A thread's share is taken in so many parts, so that threads end together though some work is harder.
const PARTS: usize = 8;

/// What one piece of work takes at the least where a second thread pays: below that both wait for memory. Found by measurement.
const HARD: Duration = Duration::from_micros(100);
/// What is left at the least where starting threads pays.
const LONG: Duration = Duration::from_millis(1);

/// What comes of some work, and what it took.
pub(super) fn timed<R>(work: impl FnOnce() -> R) -> (R, Duration) {
    let began = Instant::now();
    (work(), began.elapsed())
}

/// Whether so much more work, each piece like the last one, is worth another thread.
pub(super) fn is_hard(took: Duration, n_left: usize) -> bool {
    took >= HARD && took.saturating_mul(u32::try_from(n_left).unwrap_or(u32::MAX)) >= LONG
}

/// Work on all, one thread per processor, in order. The caller's thread is one of them.
pub(super) fn in_parallel<T: Send, R: Send>(all: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let n_threads = processors().min(all.len()).max(1);
    if n_threads < 2 {
        return all.into_iter().map(work).collect();
    }
    let share = all.len().div_ceil(n_threads * PARTS);
    let rest = Mutex::new((0, all.into_iter()));
    let found = on_threads(n_threads, || {
        let (at, part) = {
            let mut rest = rest.lock().unwrap_or_else(PoisonError::into_inner);
            rest.0 += 1;
            (rest.0, rest.1.by_ref().take(share).collect::<Vec<T>>())
        };
        (!part.is_empty()).then(|| (at, part.into_iter().map(&work).collect::<Vec<R>>()))
    });
    found.into_iter().flatten().collect()
}
