//! The same over several seeds.

use std::{env, thread};

/// What a run gave for each of these seeds, in their order, the runs beside each other.
///
/// A run that panics is named by its seed, with the way to do it again by itself: the environment
/// variable `FAIRWATER_SEED`, which replaces all the seeds given.
pub(crate) fn each_seed<T: Send>(
    seeds: impl IntoIterator<Item = u64>,
    run: impl Fn(u64) -> T + Sync,
) -> Vec<T> {
    let only = env::var("FAIRWATER_SEED").ok();
    let seeds = match only {
        Some(seed) => vec![seed.parse().unwrap()],
        None => seeds.into_iter().collect(),
    };
    let test = thread::current().name().unwrap_or_default().to_owned();
    let one = |seed| {
        let _told = ReportedCounts { test: &test, seed };
        run(seed)
    };
    thread::scope(|scope| {
        let one = &one;
        let running = seeds.iter().map(|&seed| scope.spawn(move || one(seed)));
        let running: Vec<_> = running.collect();
        running.into_iter().map(|run| run.join().unwrap()).collect()
    })
}

/// Says how to replay when it is dropped by a panic.
struct ReportedCounts<'a> {
    test: &'a str,
    seed: u64,
}

impl Drop for ReportedCounts<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!(
                "seed {seed}; again: FAIRWATER_SEED={seed} cargo test -p fairwater-sim \
                 --test algorithms {test} -- --exact",
                seed = self.seed,
                test = self.test
            );
        }
    }
}
