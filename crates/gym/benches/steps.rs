//! Steps of eight environments on one core:
//! `taskset -c 0 cargo bench -p fairwater-gym --bench steps`.

#![expect(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use divan::Bencher;
use divan::counter::ItemsCount;
use fairwater_gym::{Fleet, OBSERVATION, Settings, Steps};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn main() {
    divan::main();
}

const ENVIRONMENTS: usize = 8;
const STEPS: usize = 1000;

/// Actions at random, as of a policy that explores.
#[divan::bench(args = [1u64, 2, 3])]
fn eight_environments(bencher: Bencher, seed: u64) {
    bencher
        .counter(ItemsCount::new(ENVIRONMENTS * STEPS))
        .with_inputs(|| Fleet::new(Settings::default(), ENVIRONMENTS, seed).unwrap())
        .bench_local_values(|mut fleet| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mut observations = [0.0; ENVIRONMENTS * OBSERVATION];
            let mut last_observations = observations;
            let mut rewards = [0.0; ENVIRONMENTS];
            let mut ends = [[false; ENVIRONMENTS]; 2];
            let mut actions = [0.0f32; ENVIRONMENTS];
            fleet
                .reset(&[None; ENVIRONMENTS], &mut observations)
                .unwrap();
            for _ in 0..STEPS {
                for action in &mut actions {
                    *action = rng.random_range(-1.0..1.0);
                }
                let [terminated, truncated] = &mut ends;
                let steps = Steps {
                    observations: &mut observations,
                    rewards: &mut rewards,
                    terminated,
                    truncated,
                    last_observations: &mut last_observations,
                };
                fleet.step(&actions, steps).unwrap();
            }
            fleet
        });
}
