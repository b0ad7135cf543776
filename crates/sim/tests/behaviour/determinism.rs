//! The same configuration gives the same outcome, whatever else runs.

use std::thread;

use fairwater_net::Time;
use fairwater_sim::{Controller, Experiment, Measure, Native, Outcome, SizeCdf, Traffic};

use crate::support::{Dumbbell, outcome};

/// Some of everything that draws from the seed.
fn configs() -> Vec<Experiment> {
    let sizes = SizeCdf {
        points: vec![(0.0, 0.0), (10_000.0, 0.7), (300_000.0, 1.0)],
    };
    (0..6)
        .map(|seed| {
            let mut network = Dumbbell::new(20, 15, 5.0)
                .native(Native::Cubic)
                .plane("reno")
                .plane("cubic")
                .flow(
                    Controller::Plane("reno".to_owned()),
                    Traffic::Requests {
                        sizes: sizes.clone().into(),
                        load: 500_000.0,
                    },
                );
            network.loss_per_mille = 3;
            let mut config = network.config(seed);
            config.measure = Measure {
                interval: Some(std::time::Duration::from_millis(100)),
                ..Measure::default()
            };
            config.flows[0].start_jitter = std::time::Duration::from_millis(50);
            config
        })
        .collect()
}

/// All of it, floats included: what differs in a bit differs here.
fn text(outcome: &Outcome) -> String {
    format!("{outcome:?}")
}

#[test]
fn outcomes_are_the_same_in_turn_and_on_two_threads() {
    let configs = configs();
    let in_turn: Vec<_> = configs
        .iter()
        .map(|config| text(&outcome(config)))
        .collect();
    let again: Vec<_> = configs
        .iter()
        .map(|config| text(&outcome(config)))
        .collect();
    assert!(in_turn == again);
    let (left, right) = configs.split_at(configs.len() / 2);
    let parallel: Vec<_> = thread::scope(|scope| {
        let halves = [left, right].map(|half| {
            scope.spawn(move || half.iter().map(|c| text(&outcome(c))).collect::<Vec<_>>())
        });
        halves
            .into_iter()
            .flat_map(|half| half.join().unwrap())
            .collect()
    });
    assert!(in_turn == parallel);
    // And the seed matters.
    assert_ne!(in_turn[0], in_turn[1]);
}

#[test]
fn another_flow_does_not_move_what_those_before_it_draw() {
    let requests = Traffic::Requests {
        sizes: SizeCdf {
            points: vec![(1_000.0, 0.0), (50_000.0, 1.0)],
        }
        .into(),
        load: 100_000.0,
    };
    let controller = Controller::Native(Native::Reno);
    let alone = Dumbbell::new(100, 10, 5.0).flow(controller.clone(), requests.clone());
    let together = alone.clone().flow(controller, requests);
    let asked = |network: &Dumbbell| -> Vec<(Time, u64)> {
        let flow = &outcome(&network.config(9)).flows[0];
        let mut asked: Vec<_> = flow.requests.iter().map(|r| (r.start, r.bytes)).collect();
        asked.sort_unstable();
        asked
    };
    let (alone, together) = (asked(&alone), asked(&together));
    // Those that were not done by the end may differ.
    let common = alone.len().min(together.len()) - 5;
    assert!(common > 5);
    assert_eq!(alone[..common], together[..common]);
}
