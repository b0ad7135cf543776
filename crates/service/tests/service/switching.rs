//! Trials of another algorithm, in a model of flows whose goodput is known.

use std::collections::HashMap;

use fairwater_plane::FlowId;
use fairwater_service::switching::{Outcome, Plan, PlanError, Side, Step, Trial, Verdict};
use fairwater_service::{FlowCounts, FlowMeasures, FlowStatus, Rule};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::support::info;

/// Time between two samples, µs.
const SAMPLE_US: u64 = 50_000;

/// What the other algorithm does, as factors of what the present one does.
#[derive(Debug, Clone, Copy)]
struct Effect {
    goodput: f64,
    rtt: f64,
    stayed: f64,
    /// Part by which goodput varies by itself from one half second to the next.
    noise: f64,
    /// When a flow falls back under the other algorithm, µs.
    falls_back_us: Option<u64>,
}

const NONE: Effect = Effect {
    goodput: 1.0,
    rtt: 1.0,
    stayed: 1.0,
    noise: 0.3,
    falls_back_us: None,
};

/// Flows of `old`, of which the plan means those to port 80, the first `meant`.
struct World {
    flows: Vec<FlowStatus>,
    acked: HashMap<FlowId, f64>,
    weather: f64,
    chance: ChaCha8Rng,
    effect: Effect,
}

impl World {
    fn new(meant: u32, others: u32, effect: Effect, seed: u64) -> Self {
        let flow = |number: u32| {
            let info = info(10_000);
            let port = if number < meant { 80 } else { 443 };
            FlowStatus {
                number,
                generation: 1,
                datapath: "model".to_owned(),
                algorithm: "old".to_owned(),
                program: "p".to_owned(),
                controlled: true,
                aggregate: None,
                measures: FlowMeasures {
                    local: info.local,
                    remote: std::net::SocketAddr::new(info.remote.ip(), port),
                    tag: 0,
                    cgroup: None,
                    cwnd_bytes: 10_000,
                    rate_bytes_per_s: 0,
                    srtt_us: 20_000,
                    fallback: false,
                    counts: Some(FlowCounts {
                        bytes_acked: 0,
                        retransmitted: 0,
                        rtt_us: 20_000,
                    }),
                },
            }
        };
        Self {
            flows: (0..meant + others).map(flow).collect(),
            acked: HashMap::new(),
            weather: 1.0,
            chance: ChaCha8Rng::seed_from_u64(seed),
            effect,
        }
    }

    fn carry_out(&mut self, step: &Step, plan: &Plan) {
        for (flow, side) in &step.hand_overs {
            let name = match side {
                Side::From => &plan.from,
                Side::To => &plan.to,
            };
            let found = self.flows.iter_mut().find(|known| known.id() == *flow);
            found.unwrap().algorithm.clone_from(name);
        }
    }

    /// Lets a sample's time pass.
    fn pass(&mut self, now_us: u64) {
        if now_us.is_multiple_of(500_000) {
            let lot: f64 = self.chance.random();
            self.weather = 1.0 + self.effect.noise * (2.0 * lot - 1.0);
        }
        let tried = self.flows.iter().any(|flow| flow.algorithm == "new");
        for flow in &mut self.flows {
            let new = flow.algorithm == "new";
            let factor = match (new, tried) {
                (true, _) => self.effect.goodput,
                (false, true) => self.effect.stayed,
                (false, false) => 1.0,
            };
            let lot: f64 = self.chance.random();
            let bytes = 1e6 * self.weather * (0.8 + 0.4 * lot) * factor * SAMPLE_US as f64 / 1e6;
            let acked = self.acked.entry(flow.id()).or_default();
            *acked += bytes;
            let rtt = if new { self.effect.rtt } else { 1.0 };
            let counts = flow.measures.counts.as_mut().unwrap();
            counts.bytes_acked = *acked as u64;
            counts.rtt_us = (20_000.0 * rtt * (0.9 + 0.2 * lot)) as u64;
            let falls = self.effect.falls_back_us.is_some_and(|at| now_us >= at);
            if new && falls {
                flow.controlled = false;
            }
        }
    }

    /// Runs a trial to its end; returns the verdict and the flows' algorithms then.
    fn run(&mut self, plan: &Plan) -> (Verdict, Vec<String>) {
        let mut now_us = 1_000_000;
        let (mut trial, step) = Trial::begin(plan.clone(), &self.flows, now_us).unwrap();
        self.carry_out(&step, plan);
        loop {
            now_us += SAMPLE_US;
            self.pass(now_us);
            let step = trial.sample(&self.flows, now_us);
            self.carry_out(&step, plan);
            if let Some(verdict) = step.verdict {
                let algorithms = self.flows.iter().map(|flow| flow.algorithm.clone());
                return (verdict, algorithms.collect());
            }
            assert!(now_us < 10_000_000_000, "it never ends");
        }
    }
}

fn plan(seed: u64) -> Plan {
    Plan {
        from: "old".to_owned(),
        to: "new".to_owned(),
        flows: Rule {
            remote_port: Some(80..=80),
            ..Rule::default()
        },
        share: 1.0,
        for_us: 120_000_000,
        seed,
    }
}

fn all(algorithms: &[String], name: &str) -> bool {
    algorithms.iter().all(|algorithm| algorithm == name)
}

#[test]
fn what_is_far_worse_is_taken_back_within_ten_seconds() {
    for seed in 0..100 {
        let effect = Effect {
            goodput: 0.3,
            ..NONE
        };
        let (verdict, algorithms) = World::new(8, 4, effect, seed).run(&plan(seed));
        assert_eq!(verdict.outcome, Outcome::RolledBack, "{verdict}");
        assert!(verdict.elapsed_us <= 10_000_000, "{verdict}");
        assert!(all(&algorithms, "old"));
        let sentence = verdict.to_string();
        assert!(
            sentence.starts_with("old is back: new got less goodput"),
            "{sentence}"
        );
    }
}

#[test]
fn what_is_better_is_kept() {
    for seed in 0..100 {
        let effect = Effect {
            goodput: 1.5,
            ..NONE
        };
        let (verdict, algorithms) = World::new(8, 4, effect, seed).run(&plan(seed));
        assert_eq!(verdict.outcome, Outcome::Kept, "{verdict}");
        assert!(all(&algorithms[..8], "new") && all(&algorithms[8..], "old"));
    }
}

/// Half the RTT is worth having where the goodput is the same.
#[test]
fn what_lowers_the_rtt_alone_is_kept() {
    let effect = Effect {
        rtt: 0.5,
        noise: 0.05,
        ..NONE
    };
    let (verdict, _) = World::new(8, 0, effect, 3).run(&plan(3));
    assert_eq!(verdict.outcome, Outcome::Kept, "{verdict}");
    assert!(verdict.cause.contains("lowered the RTT"), "{verdict}");
    assert_eq!(verdict.ratios.stayed, None);
}

#[test]
fn what_harms_the_flows_that_stayed_is_taken_back_however_good_it_is() {
    for seed in 0..50 {
        let effect = Effect {
            goodput: 1.6,
            stayed: 0.5,
            ..NONE
        };
        let (verdict, algorithms) = World::new(4, 8, effect, seed).run(&plan(seed));
        assert_eq!(verdict.outcome, Outcome::RolledBack, "{verdict}");
        assert!(verdict.cause.contains("stayed"), "{verdict}");
        assert!(verdict.elapsed_us <= 12_000_000, "{verdict}");
        assert!(all(&algorithms, "old"));
    }
}

/// The error that the odds promise holds however noisy the flows are, and although the trial looks
/// after each pair.
#[test]
fn no_difference_is_seldom_taken_for_one() {
    let mut decided = 0;
    for seed in 0..200 {
        let effect = Effect { noise: 0.6, ..NONE };
        let (verdict, algorithms) = World::new(4, 4, effect, seed).run(&plan(seed));
        decided += u32::from(verdict.outcome != Outcome::Undecided);
        if verdict.outcome == Outcome::Undecided {
            assert!(verdict.elapsed_us >= 120_000_000);
            assert!(all(&algorithms, "old"));
        }
    }
    // Goodput either way, the flows that stayed, and the RTT: 4 × 1/40 of 200, and chance.
    assert!(decided <= 35, "{decided} of 200");
}

#[test]
fn a_fallback_under_the_other_algorithm_takes_it_back_at_once() {
    let effect = Effect {
        falls_back_us: Some(2_500_000),
        ..NONE
    };
    let (verdict, algorithms) = World::new(8, 0, effect, 1).run(&plan(1));
    assert_eq!(verdict.outcome, Outcome::RolledBack);
    assert!(
        verdict.cause.contains("fell back while new controlled it"),
        "{verdict}"
    );
    assert!(verdict.elapsed_us < 4_000_000);
    assert!(all(&algorithms, "old"));
}

#[test]
fn a_share_of_the_flows_changes_and_at_least_one() {
    for (share, number) in [(0.25, 2), (0.001, 1), (1.0, 8)] {
        let world = World::new(8, 8, NONE, 1);
        let plan = Plan { share, ..plan(9) };
        let (trial, _) = Trial::begin(plan, &world.flows, 0).unwrap();
        assert_eq!(trial.progress(0).flows, number);
    }
}

#[test]
fn an_abort_takes_it_back_whatever_the_flows_have() {
    for seed in 0..8 {
        abort(seed);
    }
}

fn abort(seed: u64) {
    let world = World::new(8, 0, NONE, 1);
    let (mut trial, begun) = Trial::begin(plan(seed), &world.flows, 0).unwrap();
    let step = trial.abort("whoever asked for it has left", 5);
    // Those that never got the other algorithm need not be handed over.
    let expected = if begun.hand_overs.is_empty() { 0 } else { 8 };
    assert_eq!(step.hand_overs.len(), expected);
    assert!(step.hand_overs.iter().all(|(_, side)| *side == Side::From));
    assert_eq!(step.verdict.unwrap().outcome, Outcome::RolledBack);
}

#[test]
fn a_plan_that_means_nothing_is_refused() {
    let mut world = World::new(2, 2, NONE, 1);
    let begin = |plan, flows: &[FlowStatus]| Trial::begin(plan, flows, 0).err();
    let same = Plan {
        to: "old".to_owned(),
        ..plan(1)
    };
    assert_eq!(
        begin(same, &world.flows),
        Some(PlanError::Same("old".to_owned()))
    );
    let unknown = Plan {
        from: "older".to_owned(),
        ..plan(1)
    };
    let expected = Some(PlanError::NoFlow("older".to_owned()));
    assert_eq!(begin(unknown, &world.flows), expected);
    for flow in &mut world.flows {
        flow.measures.counts = None;
    }
    assert_eq!(begin(plan(1), &world.flows), Some(PlanError::NotCounted));
}

/// Flows that end meanwhile are no loss of goodput, and a trial that has lost all ends.
#[test]
fn a_trial_whose_flows_are_gone_ends() {
    let mut world = World::new(2, 0, NONE, 1);
    let (mut trial, step) = Trial::begin(plan(1), &world.flows, 0).unwrap();
    world.carry_out(&step, &plan(1));
    world.flows.pop();
    assert_eq!(trial.sample(&world.flows, 50_000).verdict, None);
    world.flows.clear();
    let verdict = trial.sample(&world.flows, 100_000).verdict.unwrap();
    assert_eq!(verdict.outcome, Outcome::Undecided);
}
