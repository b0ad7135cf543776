//! Hand-over to an algorithm that has a slow start: it begins none.

use std::time::Duration;

use fairwater_net::Time;
use fairwater_plane::{
    Algorithm, AlgorithmError, Control, Flow, FlowInfo, Plane, Programs, Report,
};
use fairwater_sim::run;

use crate::support::Dumbbell;

/// The window until the hand-over, segments: more than the path holds, less than its buffer takes.
const HELD: u64 = 400;
/// When the flow is handed over, µs.
const AT_US: u64 = 3_000_000;

const PROGRAM: &str = "
(def (Report (volatile n 0)))
(when (> Micros 10000) (:= Report.n 1) (report) (reset))";

/// Holds a window, and hands the flow over.
struct Holding(&'static str);

impl Algorithm for Holding {
    fn name(&self) -> &str {
        "holding"
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control) -> Box<dyn Flow> {
        control.set_cwnd(HELD * u64::from(info.mss));
        Box::new(Self(self.0))
    }
}

impl Flow for Holding {
    fn on_report(&mut self, report: &Report, control: &mut Control) {
        if report.time_us() >= AT_US {
            control.hand_over(self.0);
        }
    }
}

#[test]
fn windowed_algorithms_begin_no_second_slow_start() {
    for to in ["reno", "cubic", "vegas", "hybla", "illinois", "dctcp"] {
        let mut plane = Plane::new();
        plane
            .add(|programs: &mut Programs| -> Result<_, AlgorithmError> {
                programs.add("holding", PROGRAM)?;
                Ok(Holding(to))
            })
            .unwrap();
        let choice = fairwater_algorithms::by_spec(to).unwrap();
        plane.add(|programs| choice.build(programs)).unwrap();
        // 345 segments fit the path, and as many its buffer.
        let mut config = Dumbbell::new(100, 40, 3.25).plane("holding").config(1);
        // What the burst of the first window loses does not count.
        config.measure.from = Time::from_millis(1_000);
        config.measure.interval = Some(Duration::from_millis(20));
        let outcome = run(&config, plane, &mut ()).unwrap();
        assert_eq!((outcome.fallbacks, outcome.notices.len()), (0, 0), "{to}");
        let flow = &outcome.flows[0];
        // A second slow start would overflow the buffer in a round trip.
        assert_eq!(flow.retransmissions, 0, "{to}");
        let windows = || {
            flow.samples
                .iter()
                .map(|s| (s.at.as_nanos() / 1000, s.cwnd / 1448))
        };
        let soon: Vec<u64> = windows()
            .filter(|(at, _)| (AT_US + 50_000..AT_US + 200_000).contains(at))
            .map(|(_, cwnd)| cwnd)
            .collect();
        assert!(
            soon.iter()
                .all(|cwnd| (HELD * 9 / 10..HELD * 6 / 5).contains(cwnd)),
            "{to}: {soon:?}"
        );
        // The other algorithm did take it over.
        assert!(
            windows().any(|(at, cwnd)| at > AT_US && cwnd != HELD),
            "{to}"
        );
    }
}
