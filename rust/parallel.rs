//! Threads that take what is next until nothing is left.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, mpsc};
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

/// Run `act` with a way to put things aside, with which another thread does `work` meanwhile, in the order they came in.
///
/// Where there is no room for another thread nothing is done with them, so whoever needs the work done does it after all.
pub fn beside<T: Send, R>(work: impl Fn(T) + Sync, act: impl FnOnce(&mut dyn FnMut(T)) -> R) -> R {
    thread::scope(|scope| {
        let (give, given) = mpsc::channel();
        let mut given = Some(given);
        act(&mut |one| {
            if let Some(given) = given.take()
                && let Some(permit) = Permit::take()
            {
                let work = &work;
                let run = move || {
                    let _permit = permit;
                    given.into_iter().for_each(work);
                };
                // Where the system starts none, nobody takes what is given.
                let _ = thread::Builder::new().spawn_scoped(scope, run);
            }
            let _ = give.send(one);
        })
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

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
    fn what_is_put_aside_is_worked_on_once_at_the_most_and_a_panic_there_reaches_the_caller() {
        let done = AtomicUsize::new(0);
        let sum = beside(
            |n: usize| _ = done.fetch_add(n, Ordering::Relaxed),
            |put| (1..=100).inspect(|n| put(*n)).sum::<usize>(),
        );
        let done = done.into_inner();
        assert!(sum == 5050 && (done == 0 || done == sum), "all of them, or no thread: {done}");
        if processors() > 1 {
            // Another test's call may hold the room for a thread for a while.
            let is_caught = |_| {
                thread::sleep(Duration::from_millis(1));
                std::panic::catch_unwind(|| beside(|()| panic!("planted"), |put| put(()))).is_err()
            };
            assert!((0..2_000).any(is_caught));
        }
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
