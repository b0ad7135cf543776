//! A simulation that is taken step by step, looked at and commanded from outside.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairwater_net::{Limit, Time};
use fairwater_plane::{
    Algorithm, AlgorithmError, Control, Flow, FlowInfo, MAX_RATE, Plane, Programs, Report,
};
use fairwater_sim::{
    CommandError, EdgeId, EdgeSnapshot, Experiment, FlowSnapshot, Measure, Native, Outcome,
    Simulation,
};
use proptest::prelude::*;

use crate::support::{BOTTLENECK, Dumbbell, outcome, plane};

const BOTTLENECK_EDGE: EdgeId = EdgeId(BOTTLENECK as u32);

fn config(seed: u64, mbit: u64, rtt_ms: u64) -> Experiment {
    let mut network = Dumbbell::new(mbit, rtt_ms, 2.0)
        .plane("cubic")
        .native(Native::Reno);
    network.loss_per_mille = 2;
    let mut config = network.config(seed);
    config.measure = Measure {
        interval: Some(Duration::from_millis(70)),
        ..Measure::default()
    };
    config
}

fn stepped(config: &Experiment) -> Simulation<&Experiment> {
    Simulation::new(config, plane(&["reno", "cubic"]), ()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Where it is stopped and looked at changes nothing: outcomes are the same in each bit.
    #[test]
    fn an_outcome_is_the_same_however_it_was_stepped_to(
        seed in 0u64..1000,
        mbit in 2u64..40,
        rtt_ms in 2u64..80,
        mut stops in prop::collection::vec((0u64..2_200_000_000, 0usize..50), 0..40),
    ) {
        let config = config(seed, mbit, rtt_ms);
        let expected = format!("{:?}", outcome(&config));
        let mut simulation = stepped(&config);
        stops.sort_unstable();
        for (at, events) in stops {
            simulation.step_until(Time::from_nanos(at)).unwrap();
            for _ in 0..events {
                simulation.step(simulation.end()).unwrap();
                simulation.edge(BOTTLENECK_EDGE);
                let _ = simulation.flow(0);
            }
        }
        prop_assert_eq!(format!("{:?}", simulation.finish().unwrap()), expected);
    }
}

#[test]
fn time_goes_to_where_it_was_asked_and_no_further_than_the_end() {
    let config = config(1, 12, 20);
    let mut simulation = stepped(&config);
    assert_eq!(simulation.now(), Time::ZERO);
    for ms in [3, 3, 700, 1_999] {
        simulation.step_until(Time::from_millis(ms)).unwrap();
        assert_eq!(simulation.now(), Time::from_millis(ms));
        assert!(!simulation.is_over());
    }
    // Not back.
    simulation.step_until(Time::from_millis(5)).unwrap();
    assert_eq!(simulation.now(), Time::from_millis(1_999));
    simulation.step_until(Time::from_millis(60_000)).unwrap();
    assert_eq!(simulation.now(), Time::from_millis(2_000));
    assert!(simulation.is_over());
    assert!(!simulation.step(Time::from_millis(60_000)).unwrap());
}

#[test]
fn readings_at_the_end_are_what_the_outcome_says() {
    let config = config(4, 12, 20);
    let mut simulation = stepped(&config);
    simulation.step_until(simulation.end()).unwrap();
    let flows: Vec<FlowSnapshot> = (0..2).map(|i| simulation.flow(i).unwrap()).collect();
    let edge: EdgeSnapshot = simulation.edge(BOTTLENECK_EDGE).unwrap();
    assert_eq!(simulation.flow(2), None);
    assert_eq!(simulation.edge(EdgeId(99)), None);
    let outcome: Outcome = simulation.finish().unwrap();
    for (reading, flow) in flows.iter().zip(&outcome.flows) {
        assert!(reading.delivered_bytes > 100_000, "{reading:?}");
        assert_eq!(reading.delivered_bytes, flow.delivered_bytes);
        assert_eq!(reading.sent_bytes, flow.sent_bytes);
        assert_eq!(reading.segments, flow.segments);
        assert_eq!(reading.retransmissions, flow.retransmissions);
        assert_eq!(reading.timeouts, flow.timeouts);
    }
    let found = &outcome.edges[BOTTLENECK];
    assert_eq!(edge.dropped, found.dropped);
    assert_eq!(edge.lost, found.lost);
    assert!(edge.lost > 0 && edge.delivered <= edge.arrived);
}

#[test]
fn a_queue_is_read_as_it_is_at_that_time() {
    // A window of 100 segments at 10 ms and 12 Mbit/s: 10 are on the way, all others wait.
    let mut network = Dumbbell::new(12, 10, 2.0).native(Native::Constant(100 * 1448));
    network.limit = Limit::Unlimited;
    let config = network.config(1);
    let mut simulation = stepped(&config);
    simulation.step_until(Time::from_millis(1_000)).unwrap();
    let queued = simulation.edge(BOTTLENECK_EDGE).unwrap().queued_bytes;
    assert!((87..=91).contains(&(queued / 1500)), "{queued}");
    let flow = simulation.flow(0).unwrap();
    assert_eq!(flow.in_flight, 100 * 1448);
    assert_eq!(flow.cwnd, 100 * 1448);
    assert!((95_000..105_000).contains(&flow.srtt_us), "{flow:?}");
}

/// Does nothing by itself; writes down when it reported and with what cwnd and rate.
struct Silent(ReportLog);

type ReportLog = Arc<Mutex<Vec<(u64, u64, u64)>>>;

impl Algorithm for Silent {
    fn name(&self) -> &str {
        "silent"
    }

    fn new_flow(&self, _: &FlowInfo, _: &mut Control) -> Box<dyn Flow> {
        Box::new(Silent(Arc::clone(&self.0)))
    }
}

impl Flow for Silent {
    fn on_report(&mut self, report: &Report, _: &mut Control) {
        let seen = (report.time_us(), report.cwnd(), report.rate());
        self.0.lock().unwrap().push(seen);
    }
}

fn silent(config: &Experiment) -> (Simulation<&Experiment>, ReportLog) {
    let seen = ReportLog::default();
    let mut plane = Plane::new();
    let build = |programs: &mut Programs| -> Result<Silent, AlgorithmError> {
        programs.add("silent", "(def (Report (n 0))) (when true (report))")?;
        Ok(Silent(Arc::clone(&seen)))
    };
    plane.add(build).unwrap();
    (Simulation::new(config, plane, ()).unwrap(), seen)
}

#[test]
fn a_command_comes_into_force_when_it_has_gone_the_planes_way() {
    let mut config = Dumbbell::new(100, 20, 1.0).plane("silent").config(1);
    config.plane.delay = Duration::from_millis(7);
    let (mut simulation, seen) = silent(&config);
    simulation.step_until(Time::from_millis(400)).unwrap();
    simulation
        .command(0, Some(30 * 1448), Some(2_000_000))
        .unwrap();
    simulation.step_until(Time::from_millis(450)).unwrap();
    simulation.command(0, None, Some(0)).unwrap();
    simulation.step_until(simulation.end()).unwrap();
    let seen = seen.lock().unwrap();
    for (time_us, cwnd, rate) in seen.iter().copied() {
        let expected = match time_us {
            ..407_000 => (10 * 1448, 0),
            407_000..457_000 => (30 * 1448, 2_000_000),
            _ => (30 * 1448, 0),
        };
        assert_eq!((cwnd, rate), expected, "at {time_us} µs");
    }
    let in_force = seen.iter().find(|seen| seen.2 > 0).unwrap();
    assert!(
        in_force.0 < 430_000,
        "an ACK comes each 20 ms: {in_force:?}"
    );
}

#[test]
fn what_cannot_be_commanded_is_refused_by_name_and_nothing_changes() {
    let config = Dumbbell::new(100, 20, 1.0)
        .plane("silent")
        .native(Native::Reno)
        .config(1);
    let (mut simulation, _) = silent(&config);
    // Before the handshake nobody controls.
    assert_eq!(
        simulation.command(0, Some(1448), None),
        Err(CommandError::NotControlled(0))
    );
    simulation.step_until(Time::from_millis(100)).unwrap();
    let before = simulation.flow(0);
    for (flow, cwnd, rate, expected) in [
        (0, Some(0), None, CommandError::CwndZero),
        (
            0,
            None,
            Some(MAX_RATE + 1),
            CommandError::RateAbsurd(MAX_RATE + 1),
        ),
        (1, Some(1448), None, CommandError::NotControlled(1)),
        (2, Some(1448), None, CommandError::UnknownFlow(2)),
    ] {
        assert_eq!(simulation.command(flow, cwnd, rate), Err(expected));
    }
    assert_eq!(simulation.flow(0), before);
    let outcome = simulation.finish().unwrap();
    assert_eq!((outcome.fallbacks, outcome.notices), (0, Vec::new()));
}
