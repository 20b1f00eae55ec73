//! Threads that take what is next until nothing is left.

use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::thread;

/// Threads that this process may run at a time, as it was when this was first asked: finding out reads the files of cgroups, which
/// takes 40 us.
pub fn processors() -> usize {
    static N: OnceLock<usize> = OnceLock::new();
    *N.get_or_init(|| thread::available_parallelism().map_or(1, usize::from))
}

/// As many threads as the machine has, but none that would have less than so many bytes of the work.
pub fn threads_for(bytes: usize, bytes_each: usize) -> usize {
    let n_most = bytes / bytes_each;
    if n_most < 2 { 1 } else { processors().min(n_most) }
}

/// What `next` gives to as many threads as `n_threads` says, the caller's among them, by the number that comes with it.
///
/// A panic of any of them goes on in the caller's: without the results of its thread the others would be taken for theirs.
pub fn on_threads<R: Send>(n_threads: usize, next: impl Fn() -> Option<(usize, R)> + Sync) -> Vec<R> {
    let run = || std::iter::from_fn(&next).collect::<Vec<_>>();
    let mut found = thread::scope(|scope| {
        let others: Vec<_> = (1..n_threads).map(|_| scope.spawn(run)).collect();
        let mut found = run();
        for other in others {
            found.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        found
    });
    found.sort_unstable_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, one)| one).collect()
}
