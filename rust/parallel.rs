//! Threads that take what is next until nothing is left.

use std::panic::resume_unwind;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{process, thread};

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

/// The threads that `on_threads` has running in all of the process, below the id of that process: a fork has none of them.
static RUNNING: AtomicU64 = AtomicU64::new(0);

/// One thread of as many as the processors have room for beside one caller.
struct Permit;

impl Permit {
    /// `None` while all run, so that calls at the same time, or one inside another, do not start threads for each other's processors.
    fn take() -> Option<Self> {
        let most = processors().saturating_sub(1) as u64;
        let more = |running| (running_in(running) < most).then(|| this_process() | (running_in(running) + 1));
        RUNNING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok().map(|_| Self)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let fewer = |running| running_in(running).checked_sub(1).map(|fewer| this_process() | fewer);
        let _ = RUNNING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fewer);
    }
}

fn this_process() -> u64 {
    u64::from(process::id()) << 32
}

/// How many threads `RUNNING` says that this process has.
fn running_in(running: u64) -> u64 {
    if running >> 32 == this_process() >> 32 { running & u64::from(u32::MAX) } else { 0 }
}

/// What `next` gives to at most as many threads as `n_threads` says, the caller's among them, by the number that comes with it.
///
/// The others are started when there is room for them, at the start or later, and where the system starts none the caller does
/// it all. A panic of any of them goes on in the caller's: without the results of its thread the others would be taken for
/// theirs.
pub fn on_threads<R: Send>(n_threads: usize, next: impl Fn() -> Option<(usize, R)> + Sync) -> Vec<R> {
    let mut found = thread::scope(|scope| {
        let mut others = Vec::new();
        let mut found = Vec::new();
        loop {
            while others.len() + 1 < n_threads
                && let Some(permit) = Permit::take()
            {
                let run = || {
                    let _permit = permit;
                    std::iter::from_fn(&next).collect::<Vec<_>>()
                };
                let Ok(other) = thread::Builder::new().spawn_scoped(scope, run) else { break };
                others.push(other);
            }
            let Some(one) = next() else { break };
            found.push(one);
        }
        for other in others {
            found.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        found
    });
    found.sort_unstable_by_key(|(at, _)| *at);
    found.into_iter().map(|(_, one)| one).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn what_is_taken_comes_back_in_order_from_calls_inside_calls() {
        let count_to = |most: usize, next: &AtomicUsize| {
            let n = next.fetch_add(1, Ordering::Relaxed);
            (n < most).then_some((n, n))
        };
        let outer = AtomicUsize::new(0);
        let found = on_threads(4, || {
            let (n, _) = count_to(50, &outer)?;
            let inner = AtomicUsize::new(0);
            Some((n, on_threads(4, || count_to(n, &inner))))
        });
        assert_eq!(found, (0..50).map(|n| (0..n).collect()).collect::<Vec<Vec<usize>>>());
    }

    #[test]
    fn what_another_process_had_running_does_not_count() {
        assert_eq!(running_in(this_process() | 3), 3);
        assert_eq!(running_in((this_process() ^ 1 << 32) | 3), 0);
        assert_eq!(running_in(0), 0);
    }

    #[test]
    fn a_panic_of_one_thread_reaches_the_caller() {
        let next = AtomicUsize::new(0);
        let call = || {
            on_threads(4, || {
                let n = next.fetch_add(1, Ordering::Relaxed);
                assert!(n != 5, "planted");
                (n < 9).then_some((n, ()))
            })
        };
        assert!(std::panic::catch_unwind(call).is_err());
    }
}
