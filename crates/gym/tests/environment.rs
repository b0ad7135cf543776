//! Environments at their public seam: seeds and actions in, observations and rewards out.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use fairwater_gym::{
    ActionError, Environment, FEATURES, Fleet, FleetError, OBSERVATION, Paths, Range, Reward,
    Settings, Step, Steps,
};
use proptest::prelude::*;

/// A path that is always the same: 10 Mbit/s, 40 ms, a buffer of 2 BDPs.
fn fixed(loss: f64, steps: u32) -> Settings {
    Settings {
        paths: Paths {
            rate_mbit: Range::new(10.0, 10.0),
            rtt_ms: Range::new(40.0, 40.0),
            buffer_bdp: Range::new(2.0, 2.0),
            loss: Range::new(loss, loss),
        },
        steps,
        ..Settings::default()
    }
}

fn environment(settings: Settings, seed: u64) -> Environment {
    Environment::new(settings, seed).unwrap()
}

/// An episode under a policy, from its reset on.
fn episode(settings: Settings, policy: impl Fn(&[f32; OBSERVATION]) -> f32) -> Vec<Step> {
    let mut environment = environment(settings, 1);
    let mut observation = environment.reset(None);
    let mut steps = Vec::new();
    loop {
        let step = environment.step(policy(&observation)).unwrap();
        observation = step.observation;
        steps.push(step);
        if step.terminated || step.truncated {
            return steps;
        }
    }
}

fn feature(name: &str) -> usize {
    FEATURES.iter().position(|f| f.name == name).unwrap()
}

/// Towards a queue of a tenth of a BDP.
fn steady(observation: &[f32; OBSERVATION]) -> f32 {
    0.8 * (0.1 - observation[feature("queue")])
}

fn mean(steps: &[Step], of: impl Fn(&Step) -> f64) -> f64 {
    steps.iter().map(of).sum::<f64>() / steps.len() as f64
}

fn actions() -> impl Strategy<Value = Vec<f32>> {
    prop::collection::vec(-1.5f32..1.5, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn the_same_seed_and_actions_give_the_same_in_each_bit(
        seed in any::<u64>(),
        actions in actions(),
    ) {
        let settings = Settings { steps: 50, ..Settings::default() };
        let run = || {
            let mut environment = environment(settings, 7);
            let mut seen = format!("{:?}", environment.reset(Some(seed)));
            for action in &actions {
                seen += &format!("{:?}", environment.step(*action).unwrap());
            }
            (seen, environment.path())
        };
        prop_assert_eq!(run(), run());
    }

    #[test]
    fn observations_keep_to_their_bounds_and_rewards_to_theirs(
        seed in any::<u64>(),
        actions in actions(),
    ) {
        let settings = Settings {
            paths: Paths { loss: Range::new(0.0, 0.3), ..Paths::default() },
            ..Settings::default()
        };
        let mut environment = environment(settings, seed);
        let mut seen = vec![environment.reset(None)];
        for action in actions {
            let step = environment.step(action).unwrap();
            prop_assert!((-3.0..=1.0).contains(&step.reward), "{}", step.reward);
            seen.push(step.observation);
        }
        for observation in seen {
            for (value, feature) in observation.iter().zip(&FEATURES) {
                let bounds = feature.low..=feature.high;
                prop_assert!(bounds.contains(value), "{}: {value}", feature.name);
            }
        }
    }

    #[test]
    fn a_fleet_does_as_its_environments_do_one_by_one(
        seed in 0u64..1_000_000,
        actions in prop::collection::vec([-1.0f32..1.0, -1.0f32..1.0, -1.0f32..1.0], 1..40),
    ) {
        let settings = Settings { steps: 15, ..Settings::default() };
        let mut fleet = Fleet::new(settings, 3, seed).unwrap();
        let mut alone: Vec<_> = (0..3).map(|i| environment(settings, seed + i)).collect();
        let mut observations = [0.0; 3 * OBSERVATION];
        fleet.reset(&[None; 3], &mut observations).unwrap();
        for (row, alone) in observations.chunks(OBSERVATION).zip(&mut alone) {
            prop_assert_eq!(row, alone.reset(None));
        }
        for actions in actions {
            let mut last = [9.0; 3 * OBSERVATION];
            let (mut rewards, mut terminated, mut truncated) = ([0.0; 3], [true; 3], [true; 3]);
            let steps = Steps {
                observations: &mut observations,
                rewards: &mut rewards,
                terminated: &mut terminated,
                truncated: &mut truncated,
                last_observations: &mut last,
            };
            fleet.step(&actions, steps).unwrap();
            for (index, alone) in alone.iter_mut().enumerate() {
                let row = index * OBSERVATION..(index + 1) * OBSERVATION;
                let step = alone.step(actions[index]).unwrap();
                prop_assert_eq!(rewards[index], step.reward);
                prop_assert_eq!(terminated[index], step.terminated);
                prop_assert_eq!(truncated[index], step.truncated);
                if step.truncated {
                    prop_assert_eq!(&last[row.clone()], step.observation);
                    prop_assert_eq!(&observations[row], alone.reset(None));
                } else {
                    prop_assert!(last[row.clone()].iter().all(|value| *value == 9.0));
                    prop_assert_eq!(&observations[row], step.observation);
                }
            }
        }
    }
}

#[test]
fn cwnd_follows_the_actions() {
    let mut environment = environment(fixed(0.0, 200), 1);
    environment.reset(None);
    assert_eq!(environment.metrics().cwnd, 10 * 1448);
    // Of 10 segments, with fractions: 10.7, 11.5, 12.3, 13.2; what is in force is whole.
    let mut seen = Vec::new();
    for _ in 0..5 {
        environment.step(0.1).unwrap();
        seen.push(environment.metrics().cwnd / 1448);
    }
    assert_eq!(seen, [10, 11, 12, 13, 14]);
    environment.step(-1.0).unwrap();
    assert_eq!(environment.metrics().cwnd / 1448, 7);
    // Out of the bounds is at the bound.
    environment.step(7.0).unwrap();
    assert_eq!(environment.metrics().cwnd / 1448, 14);
    for _ in 0..10 {
        environment.step(-1.0).unwrap();
    }
    assert_eq!(environment.metrics().cwnd / 1448, 2);
}

#[test]
fn a_step_lasts_a_round_trip() {
    let mut environment = environment(fixed(0.0, 200), 1);
    environment.reset(None);
    let mut before = environment.metrics().time_us;
    for _ in 0..30 {
        environment.step(0.0).unwrap();
        let now = environment.metrics().time_us;
        assert!(
            (40_000..60_000).contains(&(now - before)),
            "{}",
            now - before
        );
        before = now;
    }
}

#[test]
fn what_is_wanted_is_rewarded() {
    // A window a little above the BDP fills the link with a short queue: close to 1 at each step.
    let well = episode(fixed(0.0, 200), steady);
    let after = &well[50..];
    assert!(
        mean(after, |step| step.reward) > 0.85,
        "{}",
        mean(after, |s| s.reward)
    );
    // Always more fills the buffer, and loses; always less leaves the link empty.
    let greedy = episode(fixed(0.0, 200), |_| 1.0);
    assert!(mean(&greedy[50..], |step| step.reward) < 0.1);
    let timid = episode(fixed(0.0, 200), |_| -1.0);
    assert!(mean(&timid[50..], |step| step.reward) < 0.1);
    let delays = |steps: &[Step]| mean(steps, |step| f64::from(step.observation[feature("queue")]));
    // A full buffer of 2 BDPs: ln 3.
    assert!(
        (0.9..1.2).contains(&delays(&greedy[50..])),
        "{}",
        delays(&greedy[50..])
    );
    assert!(delays(&timid[50..]) < 0.1);
    let losses = |steps: &[Step]| mean(steps, |step| f64::from(step.observation[feature("loss")]));
    assert!(losses(&greedy[50..]) > 0.2 && losses(&timid[50..]) == 0.0);
}

#[test]
fn weights_are_obeyed() {
    let only = |throughput, delay, loss| Settings {
        reward: Reward {
            throughput,
            delay,
            loss,
        },
        ..fixed(0.02, 100)
    };
    let rewards =
        |settings| -> Vec<f64> { episode(settings, steady).iter().map(|s| s.reward).collect() };
    let parts = [
        only(1.0, 0.0, 0.0),
        only(0.0, 1.0, 0.0),
        only(0.0, 0.0, 1.0),
    ]
    .map(rewards);
    let whole = rewards(only(2.0, 0.25, 3.0));
    for (step, whole) in whole.iter().enumerate() {
        let sum = 2.0 * parts[0][step] + 0.25 * parts[1][step] + 3.0 * parts[2][step];
        assert!((whole - sum).abs() < 1e-9, "step {step}: {whole}, {sum}");
    }
    // 2 % of the packets are lost.
    let loss = -parts[2].iter().sum::<f64>() / parts[2].len() as f64;
    assert!((0.01..0.04).contains(&loss), "{loss}");
}

#[test]
fn throughput_is_what_the_link_carries_and_no_more() {
    let mut environment = environment(fixed(0.01, 400), 3);
    let mut observation = environment.reset(None);
    let (mut bits, mut before) = (0.0, environment.metrics().time_us);
    let begun = before;
    for _ in 0..300 {
        observation = environment.step(steady(&observation)).unwrap().observation;
        let metrics = environment.metrics();
        bits += metrics.throughput_bps * (metrics.time_us - before) as f64 / 1e6;
        before = metrics.time_us;
    }
    let mbit = bits / (before - begun) as f64;
    // 10 Mbit/s of packets are 9.65 of payload.
    assert!((8.5..9.7).contains(&mbit), "{mbit}");
}

#[test]
fn paths_are_drawn_from_all_of_the_ranges() {
    let settings = Settings::default();
    let mut environment = environment(settings, 5);
    let paths: Vec<_> = (0..300)
        .map(|_| {
            environment.reset(None);
            environment.path().unwrap()
        })
        .collect();
    let within = |range: Range, of: &dyn Fn(usize) -> f64| {
        let values: Vec<f64> = (0..paths.len()).map(of).collect();
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(0.0, f64::max);
        assert!(least >= range.least * 0.999 && most <= range.most * 1.001);
        let width = range.most - range.least;
        assert!(least < range.least + 0.1 * width && most > range.most - 0.1 * width);
    };
    within(settings.paths.rate_mbit, &|i| {
        paths[i].rate_bps as f64 / 1e6
    });
    within(settings.paths.rtt_ms, &|i| paths[i].rtt_us as f64 / 1e3);
    within(settings.paths.loss, &|i| paths[i].loss);
    assert_ne!(paths[0], paths[1]);
}

#[test]
fn everything_that_is_wrong_is_named_with_its_range() {
    let settings = Settings {
        paths: Paths {
            rate_mbit: Range::new(0.0, 5.0),
            rtt_ms: Range::new(30.0, 20.0),
            buffer_bdp: Range::new(1.0, f64::NAN),
            loss: Range::new(0.0, 0.7),
        },
        reward: Reward {
            throughput: f64::INFINITY,
            ..Reward::default()
        },
        steps: 0,
        plane_delay_us: 2_000_000,
    };
    let errors = settings.check().unwrap_err().errors;
    assert_eq!(errors.len(), 7, "{errors:#?}");
    for (error, range) in errors.iter().zip([
        "0.1 to 1000",
        "rising",
        "0.05 to 20",
        "0 to 0.5",
        "0 to 1000",
        "1 to 1000000",
        "at most 1000000",
    ]) {
        assert!(error.contains(range), "{error}");
    }
    assert!(Environment::new(settings, 1).is_err());
    assert!(matches!(
        Fleet::new(settings, 8, 1),
        Err(FleetError::Settings(_))
    ));
    assert_eq!(
        Fleet::new(Settings::default(), 0, 1).unwrap_err(),
        FleetError::Count(0)
    );
}

#[test]
fn an_action_that_is_not_a_number_changes_nothing() {
    let run = |nonsense: bool| {
        let mut environment = environment(fixed(0.01, 30), 1);
        let mut seen = format!("{:?}", environment.reset(None));
        for _ in 0..20 {
            if nonsense {
                assert_eq!(environment.step(f32::NAN), Err(ActionError(0)));
            }
            seen += &format!("{:?}", environment.step(0.2).unwrap());
        }
        seen
    };
    assert_eq!(run(true), run(false));
    let mut fleet = Fleet::new(Settings::default(), 2, 1).unwrap();
    let mut observations = [0.0; 2 * OBSERVATION];
    let mut last = observations;
    let (mut rewards, mut terminated, mut truncated) = ([0.0; 2], [false; 2], [false; 2]);
    let mut step = |actions: &[f32]| {
        fleet.step(
            actions,
            Steps {
                observations: &mut observations,
                rewards: &mut rewards,
                terminated: &mut terminated,
                truncated: &mut truncated,
                last_observations: &mut last,
            },
        )
    };
    assert_eq!(step(&[0.0, f32::NAN]), Err(ActionError(1).into()));
    assert_eq!(
        step(&[0.0]),
        Err(FleetError::Length {
            what: "actions",
            found: 1,
            expected: 2
        })
    );
    step(&[0.0, 0.0]).unwrap();
}

#[test]
fn an_episode_ends_after_its_steps_and_the_next_begins() {
    let steps = episode(fixed(0.0, 12), |_| 0.0);
    assert_eq!(steps.len(), 12);
    assert!(steps[..11].iter().all(|s| !s.truncated && !s.terminated));
    let mut environment = environment(
        Settings {
            steps: 2,
            ..Settings::default()
        },
        1,
    );
    environment.reset(None);
    let path = environment.path();
    environment.step(0.0).unwrap();
    assert!(environment.step(0.0).unwrap().truncated);
    assert_eq!(environment.path(), path);
    environment.step(0.0).unwrap();
    assert_ne!(environment.path(), path);
}
