//! What the tests of portus hold libccp to, held under our plane.

use std::iter::repeat_with;
use std::time::{Duration, Instant};

use fairwater_interop::cases;
use fairwater_plane::Plane;
use fairwater_service::{Config, Service};
use libccp::Primitives;

use crate::support::*;

/// Runs a flow under the script, ACK by ACK, each of whose reports is answered before the next.
/// Returns the reports, and what is in force at the end.
fn run(script: Script, acks: impl IntoIterator<Item = Primitives>) -> (Vec<Vec<u64>>, Controls) {
    let (mut service, reports) = script.serve();
    let datapath = InMemory::new(&mut service);
    let line = datapath.line();
    let mut flow = line.start("");
    line.settle(&mut service);
    for primitives in acks {
        invoke(&mut flow, primitives);
        line.settle(&mut service);
    }
    let in_force = Controls {
        cwnd: flow.cwnd,
        rate: flow.rate,
    };
    (taken(&reports), in_force)
}

#[test]
fn twenty_acks_of_five_bytes_report_a_hundred() {
    let (reports, _) = run(
        Script::new(COUNT, &["acked"]),
        repeat_with(five_bytes).take(20),
    );
    assert_eq!(reports, [[100]]);
}

#[test]
fn a_preset_control_is_seen_in_the_report() {
    let script = Script {
        variables: &["foo"],
        at_start: |handles, control| control.update(handles.variables[0], 52u64),
        ..Script::of(cases::PRESET)
    };
    let (reports, _) = run(script, [five_bytes()]);
    assert_eq!(reports, [[52]]);
}

#[test]
fn two_flows_do_not_mix() {
    let source = "(def (Report (acked 0)))
        (when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (report))";
    let (mut service, reports) = Script::new(source, &["acked"]).serve();
    let datapath = InMemory::new(&mut service);
    let line = datapath.line();
    let (mut one, mut two) = (line.start(""), line.start(""));
    line.settle(&mut service);
    for _ in 0..3 {
        invoke(&mut one, Primitives::default().with_bytes_acked(10));
        invoke(&mut two, Primitives::default().with_bytes_acked(1000));
    }
    line.settle(&mut service);
    let expected = [[10], [1000], [20], [2000], [30], [3000]];
    assert_eq!(taken(&reports), expected);
    drop(one);
    line.settle(&mut service);
    assert_eq!(service.statistics().flows, 1);
}

#[test]
fn an_update_of_cwnd_and_rate_is_visible_to_the_program_and_in_force() {
    let source = "(def (Report (cwnd 0) (rate 0)))
        (when (== Cwnd 42) (:= Report.cwnd Cwnd) (:= Report.rate Rate) (report))";
    let script = Script {
        at_start: |_, control| {
            control.set_cwnd(42);
            control.set_rate(10);
        },
        ..Script::new(source, &["cwnd", "rate"])
    };
    let (reports, in_force) = run(script, [five_bytes()]);
    assert_eq!(reports, [[42, 10]]);
    assert_eq!((in_force.cwnd, in_force.rate), (42, 10));
}

#[test]
fn volatile_variables_are_reset_by_a_report_and_others_are_not() {
    let (reports, _) = run(
        Script::of(cases::VOLATILE),
        repeat_with(five_bytes).take(20),
    );
    assert_eq!(reports, [[10, 10, 20], [10, 20, 30]]);
}

/// The crate's clock cannot be replaced, so this time passes.
#[test]
fn a_timer_reports_when_its_time_has_passed() {
    let source = "(def (Report (acked 0)) (state 0))
        (when true (:= Report.acked Ack.bytes_acked) (fallthrough))
        (when (&& (> Micros 200000) (== state 0)) (:= state 1) (report))";
    let (mut service, reports) = Script::new(source, &["acked"]).serve();
    let datapath = InMemory::new(&mut service);
    let line = datapath.line();
    let mut flow = line.start("");
    line.settle(&mut service);
    let start = Instant::now();
    ack(&mut flow); // the switch is applied, and the timer starts
    let came = loop {
        ack(&mut flow);
        line.settle(&mut service);
        if !taken(&reports).is_empty() {
            break start.elapsed();
        }
        assert!(start.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(1));
    };
    assert!(came >= Duration::from_millis(200), "{came:?}");
}

#[test]
fn fallthrough_and_the_order_of_events_are_ours() {
    let source = "(def (Report (a 0) (b 0)))
        (when true (:= Report.a (+ Report.a 1)) (:= Cwnd 5) (fallthrough))
        (when (== Cwnd 5) (:= Report.b (+ Report.b 3)) (report))
        (when true (:= Report.b 99))";
    let (reports, _) = run(Script::new(source, &["a", "b"]), [five_bytes()]);
    // Fallthrough stays in force, so the third event runs as well.
    assert_eq!(reports, [[1, 99]]);
}

#[test]
fn a_minimum_of_the_rtt_that_falls_is_reported() {
    let (reports, _) = run(
        Script::of(cases::MIN_RTT),
        [31_000, 40_000, 31_000, 17_000, 18_000, 9_000]
            .map(|rtt_us| Primitives::default().with_rtt_sample_us(rtt_us)),
    );
    assert_eq!(reports, [[31_000], [17_000], [9_000]]);
}

#[test]
fn quiet_acks_are_counted_until_one_that_is_not() {
    let (reports, _) = run(
        Script::of(cases::QUIET),
        [0, 0, 5, 0, 5, 5].map(|bytes| Primitives::default().with_bytes_acked(bytes)),
    );
    assert_eq!(reports, [[2], [1], [0]]);
}

#[test]
fn a_window_that_the_program_sets_is_what_it_reads_and_what_is_in_force() {
    let (reports, in_force) = run(Script::of(cases::OWN_WINDOW), [five_bytes()]);
    assert_eq!(reports, [[1]]);
    assert_eq!(in_force.cwnd, 5);
}

#[test]
fn a_report_is_answered_by_a_window_that_the_next_ack_applies() {
    let source = "(def (Report (acked 0)) (gain 1))
        (when true (:= Report.acked (* gain Ack.bytes_acked)) (report))";
    let script = Script {
        variables: &["gain"],
        answer: |handles, report, control| {
            // cwnd is not in libccp's encoding: the plane's own addition to the program.
            control.set_cwnd(report.cwnd() + 1460);
            control.update(handles.variables[0], 2u64);
        },
        ..Script::new(source, &["acked"])
    };
    let (reports, in_force) = run(script, repeat_with(five_bytes).take(3));
    assert_eq!(reports, [[5], [10], [10]]);
    assert_eq!(in_force.cwnd, 14_600 + 2 * 1460);
}

#[test]
fn a_running_flow_is_found_again_by_a_plane_that_was_restarted() {
    let source = "(def (Report (acked 0)))
        (when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (report))";
    let (mut former, _) = Script::new(source, &["acked"]).serve();
    let datapath = InMemory::new(&mut former);
    let line = datapath.line();
    let mut flow = line.start("one");
    line.settle(&mut former);
    ack(&mut flow);
    line.settle(&mut former);

    let mut plane = Plane::new();
    let script = Script {
        at_start: |_, control| control.set_cwnd(77_777),
        ..Script::new(
            "(def (Report (now 0))) (when true (:= Report.now 9) (report))",
            &["now"],
        )
    };
    let reports = script.add(&mut plane);
    let config = Config {
        instance: 2,
        ..Config::default()
    };
    let mut next = Service::new(plane, config);
    assert_eq!(next.connect(0), Ok(former.peers().next().unwrap().id));
    for _ in 0..3 {
        ack(&mut flow);
        line.settle(&mut next);
    }
    assert_eq!(next.statistics().found_again, 1);
    assert_eq!(flow.cwnd, 77_777);
    assert_eq!(taken(&reports), [[9], [9]]);
}

#[test]
fn a_withdrawn_flow_goes_on_under_a_program_of_the_planes() {
    let source = "(def (Report (acked 0)))
        (when true (:= Report.acked Ack.bytes_acked) (report))";
    let script = Script {
        answer: |_, _, control| control.set_cwnd(0),
        ..Script::new(source, &["acked"])
    };
    let (mut service, _) = script.serve();
    let datapath = InMemory::new(&mut service);
    let line = datapath.line();
    let mut flow = line.start("");
    line.settle(&mut service);
    ack(&mut flow);
    line.settle(&mut service);
    let acked = || {
        Primitives::default()
            .with_bytes_acked(14_600)
            .with_rtt_sample_us(9)
    };
    invoke(&mut flow, acked());
    assert_eq!(flow.cwnd, 14_600 + MSS);
    std::thread::sleep(Duration::from_millis(110));
    invoke(&mut flow, acked().with_lost_pkts_sample(1));
    assert_eq!(flow.cwnd, (14_600 + MSS) / 2);
    invoke(&mut flow, acked().with_was_timeout(true));
    assert_eq!(flow.cwnd, MSS);
    line.settle(&mut service);
    assert_eq!(service.plane().algorithms()[0].statistics().withdrawn, 1);
}
