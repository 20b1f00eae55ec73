//! Work for all processors.

use std::panic::resume_unwind;

/// Work on all, one thread per processor, in order.
pub(super) fn in_parallel<T: Send, R: Send>(all: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from).min(all.len()).max(1);
    if n_threads == 1 {
        return all.into_iter().map(work).collect();
    }
    let share = all.len().div_ceil(n_threads);
    let mut rest = all.into_iter();
    std::thread::scope(|scope| {
        let work = &work;
        let mut running = Vec::with_capacity(n_threads);
        for _ in 0..n_threads {
            let part: Vec<T> = rest.by_ref().take(share).collect();
            running.push(scope.spawn(move || part.into_iter().map(work).collect::<Vec<R>>()));
        }
        // A panic goes on here: without the results of its thread the others would be taken for theirs.
        running.into_iter().flat_map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}
