//! Every signal over an emulated path with loss, against what the path saw.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fairwater_lab::{Candidate, Comparison};
use fairwater_linux::Options;
use fairwater_results::{RunResult, TrafficProgram};
use support::{FlowEvent, Log, Running, machine_can, recorder};

const FIELDS: &[&str] = &[
    "acked",
    "packets",
    "misordered",
    "misordered_packets",
    "marked",
    "marked_packets",
    "lost",
    "now",
    "flight",
    "flight_packets",
    "pending",
    "incoming",
    "outgoing",
    "rtt",
    "timeouts",
    "app_limited",
    "undos",
];

const ALL: &[(&str, &str)] = &[(
    "all",
    "(def (Report (acked 0) (packets 0) (misordered 0) (misordered_packets 0) (marked 0)
            (marked_packets 0) (lost 0) (now 0) (flight 0) (flight_packets 0) (pending 0)
            (incoming 0) (outgoing 0) (rtt 0) (timeouts 0) (app_limited 0) (undos 0)))
     (when true
       (:= Report.acked (+ Report.acked Ack.bytes_acked))
       (:= Report.packets (+ Report.packets Ack.packets_acked))
       (:= Report.misordered (+ Report.misordered Ack.bytes_misordered))
       (:= Report.misordered_packets (+ Report.misordered_packets Ack.packets_misordered))
       (:= Report.marked (+ Report.marked Ack.ecn_bytes))
       (:= Report.marked_packets (+ Report.marked_packets Ack.ecn_packets))
       (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
       (:= Report.now Ack.now)
       (:= Report.flight Flow.bytes_in_flight)
       (:= Report.flight_packets Flow.packets_in_flight)
       (:= Report.pending Flow.bytes_pending)
       (:= Report.incoming Flow.rate_incoming)
       (:= Report.outgoing Flow.rate_outgoing)
       (:= Report.rtt Flow.rtt_sample_us)
       (:= Report.timeouts (+ Report.timeouts (if Flow.was_timeout 1 0)))
       (:= Report.app_limited (+ Report.app_limited (if Flow.app_limited 1 0)))
       (:= Report.undos (+ Report.undos (if Ack.undo 1 0)))
       (fallthrough))
     (when (|| Flow.was_timeout (> Micros 10000))
       (report)
       (reset))",
)];

/// Bytes: 1500 less the headers of IPv4 and of TCP with timestamps.
const MSS: u64 = 1448;

/// One report, by name.
struct SignalSample<'a>(&'a [u64]);

impl SignalSample<'_> {
    fn get(&self, name: &str) -> u64 {
        self.0[FIELDS.iter().position(|f| *f == name).unwrap()]
    }
}

/// Runs the program over the path under a fixed window of that many segments.
fn over(name: &'static str, link: &str, window: u64, seconds: u64) -> (RunResult, Vec<Vec<u64>>) {
    let log = Log::default();
    let plane = recorder(name, ALL, FIELDS, &log, move |r| {
        r.first = Arc::new(move |info, control| control.set_cwnd(window * u64::from(info.mss)));
        // The kernel sets cwnd to 1 at a timeout; the window here is fixed.
        r.then = Arc::new(move |_, _, control| control.set_cwnd(window * MSS));
    });
    let running = Running::start(plane, Options::default()).unwrap();
    let candidate = Candidate {
        label: name.to_owned(),
        congestion_control: format!("fw_{name}"),
    };
    let comparison = Comparison {
        duration: Duration::from_secs(seconds),
        program: TrafficProgram::Bulk,
        tries: 1,
        ..Comparison::new(link.parse().unwrap(), vec![candidate])
    };
    let results = fairwater_lab::run(&comparison, &AtomicBool::new(false), &mut |_| {}).unwrap();
    assert_eq!(running.stop(), Vec::<String>::new());
    let log = log.lock().unwrap();
    let reports = log.iter().filter_map(|s| match s {
        FlowEvent::Report { fields, .. } => Some(fields.clone()),
        _ => None,
    });
    (results.runs[0].clone(), reports.collect())
}

fn median(values: impl Iterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values[values.len() / 2]
}

fn close(what: &str, a: f64, b: f64, tolerance: f64) {
    assert!((a / b - 1.0).abs() <= tolerance, "{what}: {a} against {b}");
}

#[test]
fn every_signal_agrees_with_what_the_path_saw() {
    if !machine_can() {
        return;
    }
    // BDP 30 packets, window 60: a queue of 30 packets of the 100 that fit, and loss by chance.
    let (run, reports) = over("t_signals", "12mbit 30ms 100pkt loss=0.5% seed=3", 60, 4);
    assert!(reports.len() > 50, "{} reports", reports.len());
    let samples: Vec<_> = reports.iter().map(|r| SignalSample(r)).collect();
    let last = samples.last().unwrap();

    let payload = run.throughput_bps * 4.0 / 8.0 * MSS as f64 / 1500.0;
    close("bytes acknowledged", last.get("acked") as f64, payload, 0.1);
    let bytes_of_packets = last.get("packets") as f64 * MSS as f64;
    close(
        "packets acknowledged",
        bytes_of_packets,
        last.get("acked") as f64,
        0.02,
    );
    assert!(last.get("lost") > 0);
    close(
        "losses",
        last.get("lost") as f64,
        run.retransmissions as f64,
        0.25,
    );
    assert!(
        last.get("misordered_packets") > last.get("lost"),
        "what follows a hole is SACKed"
    );
    assert_eq!(last.get("misordered"), last.get("misordered_packets") * MSS);
    assert_eq!(
        (last.get("marked"), last.get("marked_packets")),
        (0, 0),
        "no ECN on this path"
    );
    assert!(
        samples
            .windows(2)
            .all(|w| w[0].get("now") < w[1].get("now"))
    );
    for sample in &samples {
        assert_eq!(sample.get("flight"), sample.get("flight_packets") * MSS);
        assert!(
            sample.get("flight_packets") <= 60,
            "{}",
            sample.get("flight_packets")
        );
    }
    assert!(median(samples.iter().map(|r| r.get("flight_packets"))) > 40);
    assert!(
        median(samples.iter().map(|r| r.get("pending"))) > 10_000,
        "a bulk sender's backlog"
    );
    // A bulk sender always has more to send, but for the first moments.
    let few = last.get("packets") / 20;
    assert!(last.get("app_limited") < few, "{:?}", last.0);
    let rtt = median(samples.iter().map(|r| r.get("rtt")));
    assert!((30_000..90_000).contains(&rtt), "RTT {rtt} µs");
    let goodput = 12e6 / 8.0 * MSS as f64 / 1500.0;
    for rate in ["incoming", "outgoing"] {
        let rate_bps = median(samples.iter().map(|r| r.get(rate))) as f64;
        close(rate, rate_bps, goodput, 0.1);
    }
}

#[test]
fn a_timeout_is_a_signal_of_its_own() {
    if !machine_can() {
        return;
    }
    // Half of the packets are lost, retransmissions too: only the timer gets further.
    let (run, reports) = over("t_timeout", "5mbit 20ms 50pkt loss=50% seed=5", 4, 5);
    assert!(run.retransmissions > 0);
    let last = SignalSample(reports.last().unwrap());
    assert!(last.get("timeouts") > 0, "{:?}", last.0);
    assert!(
        last.get("lost") >= last.get("timeouts"),
        "a timeout declares losses"
    );
}
