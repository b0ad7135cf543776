//! Flows whose plane falls silent on an emulated path: the kernel's Cubic goes on from the window
//! that the program left.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fairwater_lab::{Candidate, Comparison};
use fairwater_linux::Options;
use fairwater_results::{RunResult, SocketSample, TrafficProgram};
use support::{Log, Running, machine_can, recorder};

/// Holds whatever window the plane has set.
const HOLD: &[(&str, &str)] = &[(
    "hold",
    "(def (Report (n 0))) (when (> Micros 100000) (:= Report.n (+ Report.n 1)) (report) (reset))",
)];
/// Paces, and after 1.5 s does what is a fault.
const FAILS: &[(&str, &str)] = &[(
    "fails",
    "(def (Report (n 0))) (when (> Micros 1500000) (:= Cwnd 0) (report))",
)];

/// When the plane falls silent, and how long a run lasts, s.
const SILENT: f64 = 1.5;
const RUN: f64 = 5.0;
/// Until the flow has noticed: the default of `silent_after`, and room for a busy machine.
const NOTICE: f64 = 0.5;

/// Runs that program over that path under those controls, segments and bytes/s; the plane falls
/// silent at [`SILENT`] if it is told to.
fn over(
    name: &'static str,
    sources: &'static [(&'static str, &'static str)],
    link: &str,
    (window, rate): (u64, u64),
    silent: bool,
) -> RunResult {
    let plane = recorder(name, sources, &[], &Log::default(), move |r| {
        r.first = Arc::new(move |info, control| {
            control.set_cwnd(window * u64::from(info.mss));
            control.set_rate(rate);
        });
    });
    let running = Running::start(plane, Options::default()).unwrap();
    let candidate = Candidate {
        label: name.to_owned(),
        congestion_control: format!("fw_{name}"),
    };
    let comparison = Comparison {
        duration: Duration::from_secs_f64(RUN),
        program: TrafficProgram::Bulk,
        tries: 1,
        ..Comparison::new(link.parse().unwrap(), vec![candidate])
    };
    let mut pauses = silent;
    let results = fairwater_lab::run(&comparison, &AtomicBool::new(false), &mut |progress| {
        if pauses && progress.elapsed.as_secs_f64() >= SILENT {
            running.pause();
            pauses = false;
        }
    });
    results.unwrap().runs[0].clone()
}

/// The socket from that time on, s.
fn samples_from(run: &RunResult, from: f64) -> impl Iterator<Item = &SocketSample> {
    let samples = run.series.tcp.iter();
    samples.filter(move |sample| sample.at.as_secs_f64() >= from)
}

/// Share of the capacity that was used from that time on; fails if nothing moved for 0.2 s.
fn utilisation_from(run: &RunResult, capacity: f64, from: f64) -> f64 {
    let throughputs: Vec<f64> = run
        .series
        .link
        .iter()
        .filter(|interval| interval.at_s >= from && interval.at_s < RUN - 0.1)
        .map(|interval| interval.throughput_bps)
        .collect();
    let moving = throughputs
        .windows(12)
        .all(|w| w.iter().any(|bps| *bps > 0.0));
    assert!(moving, "a stall: {throughputs:?}");
    throughputs.iter().sum::<f64>() / throughputs.len() as f64 / capacity
}

#[test]
fn a_large_window_grows_from_where_it_was_and_recovers_from_losses() {
    if !machine_can() {
        return;
    }
    // A BDP of 33 packets and a queue of 67 or more: the window of 120 fits, what Cubic adds does
    // not.
    let run = over("t_fb_large", HOLD, "20mbit 20ms 150pkt", (120, 0), true);
    let threshold = samples_from(&run, SILENT + NOTICE).next().unwrap();
    assert!(
        threshold.ssthresh_packets.is_some_and(|t| t <= 120),
        "no slow start anew: {threshold:?}"
    );
    assert!(run.retransmissions > 0, "Cubic fills the buffer");
    let highest = samples_from(&run, 0.0).map(|s| s.cwnd_packets).max();
    assert!(highest > Some(150) && highest < Some(240), "{highest:?}");
    let used = utilisation_from(&run, 20e6, SILENT);
    assert!(used > 0.9, "{used}");
}

#[test]
fn a_young_flow_goes_on_with_slow_start() {
    if !machine_can() {
        return;
    }
    let run = over("t_fb_young", HOLD, "20mbit 60ms 200pkt", (20, 0), true);
    let before = utilisation_from(&run, 20e6, 0.5);
    let used = utilisation_from(&run, 20e6, SILENT + 2.0 * NOTICE);
    // A window of 20 uses a fifth of the path.
    assert!(used > 0.85, "{before} at first, {used} at the end");
}

#[test]
fn a_paced_flow_is_left_with_the_window_that_it_used() {
    if !machine_can() {
        return;
    }
    // Paced at half of the path's rate: 17 packets are in flight, of a window of 5000.
    let run = over(
        "t_fb_paced",
        FAILS,
        "20mbit 20ms 150pkt",
        (5000, 1_250_000),
        false,
    );
    let windows = || samples_from(&run, SILENT + NOTICE).map(|s| s.cwnd_packets);
    assert!(windows().all(|cwnd| cwnd < 400), "{:?}", windows().max());
    let used = utilisation_from(&run, 20e6, SILENT + 2.0 * NOTICE);
    assert!(used > 0.85, "{used}");
}
