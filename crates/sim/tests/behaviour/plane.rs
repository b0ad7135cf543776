//! Algorithms of the plane, over a link that takes time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use fairwater_net::{Limit, Time};
use fairwater_plane::{
    Algorithm, AlgorithmError, Control, Field, Flow, FlowInfo, Plane, Programs, Report,
};
use fairwater_sim::{Controller, Experiment, Native, Outcome, Traffic, run};

use crate::support::{BOTTLENECK, Dumbbell, plane};

/// Reports each RTT what was acknowledged, and sets a window that grows by a segment a report.
const PROGRAM: &str = "
(def (Report (volatile acked 0) (volatile timeouts 0)))
(when true
  (:= Report.acked (+ Report.acked Ack.bytes_acked))
  (when (> Micros Flow.rtt_sample_us) (report) (reset)))
(when Flow.was_timeout
  (:= Report.timeouts (+ Report.timeouts 1)))";

/// The most that its window grows to.
const MOST: u64 = 120 * 1448;

/// The bytes of a flow that began.
const BEGAN: u64 = u64::MAX;

/// What an algorithm saw: the time, cwnd and bytes acknowledged of each report, and of each flow
/// that began, or began again.
type ReportLog = Arc<Mutex<Vec<(u64, u64, u64)>>>;

#[derive(Clone)]
struct Growing {
    acked: Field,
    seen: ReportLog,
}

impl Algorithm for Growing {
    fn name(&self) -> &str {
        "growing"
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control) -> Box<dyn Flow> {
        self.seen
            .lock()
            .unwrap()
            .push((info.now_us, info.cwnd, BEGAN));
        control.set_cwnd(4 * u64::from(info.mss));
        Box::new(self.clone())
    }
}

impl Flow for Growing {
    fn on_report(&mut self, report: &Report, control: &mut Control) {
        let seen = (report.time_us(), report.cwnd(), report[self.acked]);
        self.seen.lock().unwrap().push(seen);
        control.set_cwnd((report.cwnd() + 1448).min(MOST));
    }
}

fn growing() -> (Plane, ReportLog) {
    let seen = ReportLog::default();
    let mut plane = Plane::new();
    let build = |programs: &mut Programs| -> Result<Growing, AlgorithmError> {
        let program = programs.add("growing", PROGRAM)?;
        Ok(Growing {
            acked: program.field("acked")?,
            seen: Arc::clone(&seen),
        })
    };
    plane.add(build).unwrap();
    (plane, seen)
}

fn grow(config: &Experiment) -> (Outcome, Vec<(u64, u64, u64)>) {
    let (plane, seen) = growing();
    let outcome = run(config, plane, &mut ()).unwrap();
    let seen = seen.lock().unwrap().clone();
    (outcome, seen)
}

#[test]
fn an_algorithm_sees_its_reports_and_its_window_is_obeyed() {
    let network = Dumbbell::new(1_000, 20, 2.0).plane("growing");
    let (outcome, seen) = grow(&network.config(1));
    // The handshake takes 20 ms; then the plane hears of the flow, which has its initial window.
    let begun = seen[0];
    assert!(
        (20_000..20_100).contains(&begun.0) && begun.1 == 14_480,
        "{begun:?}"
    );
    let reports = &seen[1..];
    // One a round trip of 20 ms, on ACKs: at most one a 20 ms, no fewer than one a 40 ms.
    assert!((48..=98).contains(&reports.len()), "{}", reports.len());
    assert_eq!(outcome.reports, reports.len() as u64);
    for (index, pair) in reports.windows(2).enumerate() {
        assert_eq!(pair[1].1, pair[0].1 + 1448, "report {index}: {pair:?}");
        assert!(pair[1].0 - pair[0].0 >= 20_000);
    }
    // What was reported as acknowledged is what was delivered, but for the last round trips.
    let acked: u64 = reports.iter().map(|report| report.2).sum();
    let delivered = outcome.flows[0].delivered_bytes;
    assert!(
        acked <= delivered && acked * 100 > delivered * 90,
        "{acked} of {delivered}"
    );
    assert_eq!(outcome.flows[0].retransmissions, 0);
    assert_eq!((outcome.fallbacks, outcome.notices.len()), (0, 0));
}

#[test]
fn what_the_plane_answers_takes_the_way_there_and_back_and_the_period() {
    let windows = |delay_us, period_us| {
        let network = Dumbbell::new(1_000, 20, 1.0).plane("growing");
        let mut config = network.config(1);
        config.plane.delay = Duration::from_micros(delay_us);
        config.plane.period = Duration::from_micros(period_us);
        let (_, seen) = grow(&config);
        seen
    };
    // The answer to a report is in the next but those that were under way.
    let near = windows(10, 0);
    assert!(
        near[1..]
            .windows(2)
            .all(|pair| pair[1].1 == pair[0].1 + 1448)
    );
    for late in [windows(30_000, 0), windows(10, 60_000)] {
        let grew = late[1..].windows(2).filter(|pair| pair[1].1 > pair[0].1);
        let stayed = late[1..].windows(2).filter(|pair| pair[1].1 == pair[0].1);
        assert!(grew.count() > 0 && stayed.count() > 5, "{late:?}");
        assert!(late.last().unwrap().1 < near.last().unwrap().1);
    }
}

#[test]
fn in_an_outage_flows_go_on_under_the_fallback_and_come_back() {
    let mut network = Dumbbell::new(48, 20, 10.0).plane("growing");
    network.limit = Limit::Packets(60);
    let mut config = network.config(1);
    config.plane.silence = Duration::from_millis(100);
    config.plane.outages = vec![(Time::from_millis(3_000), Time::from_millis(5_000))];
    config.measure.interval = Some(Duration::from_millis(100));
    let (outcome, seen) = grow(&config);
    assert_eq!(outcome.fallbacks, 1);
    assert_eq!(outcome.notices, []);
    // It hears nothing in the outage but what was under way, then that the flow is resumed.
    let began: Vec<_> = seen.iter().filter(|seen| seen.2 == BEGAN).collect();
    assert_eq!(began.len(), 2, "{began:?}");
    let resumed = began[1].0;
    assert!((5_000_000..5_200_000).contains(&resumed), "{began:?}");
    assert!(
        !seen
            .iter()
            .any(|seen| (3_200_000..resumed).contains(&seen.0))
    );
    let after: Vec<_> = seen.iter().filter(|seen| seen.0 > resumed).collect();
    assert!(after.len() > 50);
    // The window that the algorithm sets is in force again.
    assert_eq!(after.last().unwrap().1, MOST);
    // Data flows all the time.
    let samples = &outcome.flows[0].samples;
    assert!(
        samples[30..]
            .iter()
            .all(|sample| sample.delivered_bytes > 50_000)
    );
}

#[test]
fn a_flow_of_the_planes_reno_does_as_reno_does() {
    let delivered = |network: Dumbbell| {
        let config = network.warm_config(3, 0.2);
        let outcome = run(&config, plane(&["reno", "cubic"]), &mut ()).unwrap();
        (
            outcome.edges[BOTTLENECK].utilisation,
            outcome.edges[BOTTLENECK].queueing_us.unwrap().p50,
        )
    };
    for (name, native) in [("reno", Native::Reno), ("cubic", Native::Cubic)] {
        for rtt_ms in [10, 40] {
            let network = Dumbbell::new(24, rtt_ms, 60.0);
            let (here, there) = (
                delivered(network.clone().plane(name)),
                delivered(network.native(native)),
            );
            assert!(
                (here.0 - there.0).abs() < 0.02,
                "{name}: {here:?}, {there:?}"
            );
            assert!(
                (here.1 / there.1 - 1.0).abs() < 0.15,
                "{name}: {here:?}, {there:?}"
            );
        }
    }
}

/// The simulator's signals are what it says, whichever algorithm's programs tell of them, and
/// whatever the application does.
#[test]
fn no_algorithm_finds_a_signal_that_stands_still() {
    let ping_pong = Traffic::PingPong {
        bytes: 1_000,
        think: Duration::from_millis(1),
        count: None,
    };
    // Flows with enough reports to be judged by.
    let mut judged = 0;
    for traffic in [Traffic::Bulk, Traffic::Limited { rate: 50_000 }, ping_pong] {
        for entry in fairwater_algorithms::all() {
            let controller = Controller::Plane(entry.name.to_owned());
            let dumbbell = Dumbbell::new(12, 20, 5.0).flow(controller, traffic.clone());
            let outcome = run(&dumbbell.config(1), plane(&[entry.name]), &mut ()).unwrap();
            assert_eq!(outcome.notices, [], "{}, {traffic:?}", entry.name);
            judged += usize::from(outcome.reports > 128);
        }
    }
    assert!(judged >= 20, "{judged}");
}
