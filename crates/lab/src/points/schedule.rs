//! Several points at once, in any order; results in the order of the grid.

use std::collections::VecDeque;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// Runs `one` for each of `points` on `workers` threads. `done` hears each result on this thread, in
/// the order in which they come, and `None` at least each `tick`; once `done` says no, no new point
/// is begun. `one` gives `None` for a point that it was stopped in.
pub fn schedule<T: Send>(
    points: impl IntoIterator<Item = usize>,
    workers: usize,
    tick: Duration,
    one: impl Fn(usize) -> Option<T> + Sync,
    mut done: impl FnMut(Option<T>) -> bool,
) {
    let queue: Mutex<VecDeque<usize>> = Mutex::new(points.into_iter().collect());
    let next = || {
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.pop_front()
    };
    let left = queue.lock().unwrap_or_else(PoisonError::into_inner).len();
    let (results, finished) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..workers.min(left) {
            let (results, next, one) = (results.clone(), &next, &one);
            scope.spawn(move || {
                while let Some(point) = next() {
                    let Some(result) = one(point) else { return };
                    // The receiver is gone only when this process is ending.
                    let _ = results.send(result);
                }
            });
        }
        drop(results);
        loop {
            let goes_on = match finished.recv_timeout(tick) {
                Ok(result) => done(Some(result)),
                Err(RecvTimeoutError::Timeout) => done(None),
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if !goes_on {
                // Points that were begun end by themselves.
                queue.lock().unwrap_or_else(PoisonError::into_inner).clear();
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(10);

    #[test]
    fn each_point_runs_once_whatever_the_workers() {
        for workers in [1, 2, 7] {
            let mut results = Vec::new();
            schedule(3..20, workers, TICK, Some, |point| {
                results.extend(point);
                true
            });
            results.sort_unstable();
            assert_eq!(results, (3..20).collect::<Vec<_>>());
        }
    }

    #[test]
    fn no_point_begins_after_a_refusal() {
        let mut heard = 0;
        schedule(0..1_000_000, 2, TICK, Some, |point| {
            heard += usize::from(point.is_some());
            false
        });
        assert!((1..1_000_000).contains(&heard), "{heard}");
    }
}
