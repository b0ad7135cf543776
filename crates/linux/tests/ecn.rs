//! Marks on real TCP: what the plane is told against what the link did, by both kinds of echo.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fairwater_lab::{Candidate, Comparison};
use fairwater_linux::Options;
use fairwater_plane::{Ecn, Plane};
use fairwater_results::{RunResult, TrafficProgram};
use support::{FlowEvent, Log, Recorder, Running, machine_can, recorder};

const FIELDS: &[&str] = &["packets", "marked", "marked_bytes"];

const COUNT: &[(&str, &str)] = &[(
    "count",
    "(def (Report (packets 0) (marked 0) (marked_bytes 0)))
     (when true
       (:= Report.packets (+ Report.packets (+ Ack.packets_acked Ack.packets_misordered)))
       (:= Report.marked (+ Report.marked Ack.ecn_packets))
       (:= Report.marked_bytes (+ Report.marked_bytes Ack.ecn_bytes))
       (fallthrough))
     (when (> Micros 10000)
       (report)
       (reset))",
)];

const MSS: u64 = 1448;

/// Sends for three seconds under a window that is now of the one size, now of the other, a
/// quarter of a second each. The run, and the last report.
fn over(
    name: &'static str,
    ecn: Ecn,
    at_both_ends: bool,
    link: &str,
    windows: [u64; 2],
) -> (RunResult, Vec<u64>) {
    let log = Log::default();
    let plane = recorder(name, COUNT, FIELDS, &log, move |r| {
        r.ecn = ecn;
        r.first = Arc::new(move |info, control| control.set_cwnd(windows[0] * u64::from(info.mss)));
        r.then = Arc::new(move |reports, _, control| {
            control.set_cwnd(windows[reports / 25 % 2] * MSS);
        });
    });
    let running = Running::start(plane, Options::default()).unwrap();
    let congestion_control = format!("fw_{name}");
    let candidate = Candidate {
        label: name.to_owned(),
        congestion_control: congestion_control.clone(),
    };
    let mut comparison = Comparison {
        duration: Duration::from_secs(3),
        program: TrafficProgram::Bulk,
        tries: 1,
        ..Comparison::new(link.parse().unwrap(), vec![candidate])
    };
    if at_both_ends {
        comparison.at_both_ends.push(congestion_control);
    }
    let results = fairwater_lab::run(&comparison, &AtomicBool::new(false), &mut |_| {}).unwrap();
    assert_eq!(running.stop(), Vec::<String>::new());
    let log = log.lock().unwrap();
    let reports = log.iter().filter_map(|s| match s {
        FlowEvent::Report { fields, .. } => Some(fields.clone()),
        _ => None,
    });
    (results.runs[0].clone(), reports.max().unwrap())
}

/// RFC 8257 §3.2: the sender knows how many packets were marked, packet by packet.
#[test]
fn marks_are_echoed_packet_by_packet_where_an_algorithm_needs_ecn() {
    if !machine_can() {
        return;
    }
    // A BDP of 30 packets: the windows let 10 and 30 of them wait.
    let link = "12mbit 30ms 200pkt mark=20pkt";
    let (run, told) = over("t_dctcp", Ecn::Required, true, link, [40, 60]);
    let (marked, packets) = (run.marked as f64, run.packets as f64);
    assert!(
        (0.2..0.8).contains(&(marked / packets)),
        "{marked} of {packets} marked"
    );
    // What was under way when the run ended was never acknowledged, nor reported.
    let (told_packets, told_marked) = (told[0] as f64, told[1] as f64);
    assert!(
        (told_packets / packets - 1.0).abs() < 0.1,
        "{told:?} of {packets}"
    );
    assert!(
        (told_marked / marked - 1.0).abs() < 0.1,
        "{told_marked} of {marked} marks"
    );
    assert_eq!(told[2], told[1] * MSS);
    assert_eq!(run.dropped, 0);
}

/// RFC 3168 §6.1.3: the echo lasts until the sender has told that it reduced, so the share of
/// marks is not known but whether there are any is.
#[test]
fn marks_are_told_where_ecn_is_as_the_machine_has_it() {
    if !machine_can() {
        return;
    }
    let link = "12mbit 30ms 200pkt mark=40pkt";
    let (run, told) = over("t_ecn", Ecn::AsConfigured, false, link, [90, 90]);
    assert!(
        run.marked > run.packets / 2,
        "{} of {}",
        run.marked,
        run.packets
    );
    assert!(told[1] > told[0] / 2, "{told:?}");
    let (run, told) = over("t_ecn_idle", Ecn::AsConfigured, false, link, [35, 35]);
    assert_eq!((run.marked, told[1]), (0, 0));
}

/// A connection that has not negotiated ECN goes on under Reno: its packets are not marked in
/// vain.
#[test]
fn without_ecn_at_the_other_end_a_connection_is_left_to_reno() {
    if !machine_can() {
        return;
    }
    let log = Log::default();
    let plane = recorder("t_noecn", COUNT, FIELDS, &log, |r| r.ecn = Ecn::Required);
    let running = Running::start(plane, Options::default()).unwrap();
    // Asked for once it is connected, which is too late.
    let mut connection = support::Connection::open("127.0.0.1:0", "fw_t_noecn");
    connection.transfer(100_000);
    assert_eq!(connection.congestion_control(), "reno");
    assert!(log.lock().unwrap().is_empty());
    drop(connection);
    assert_eq!(running.stop(), Vec::<String>::new());
}

/// ECN is negotiated as a connection begins, so a flow without cannot go over to an algorithm that
/// needs it: it goes on as before, and the operator is told.
#[test]
fn a_flow_without_ecn_is_not_handed_over_to_who_needs_it_and_that_is_said() {
    if !machine_can() {
        return;
    }
    let log = Log::default();
    let mut plane = Plane::new();
    for (name, ecn) in [
        ("t_plain", Ecn::AsConfigured),
        ("t_needs_ecn", Ecn::Required),
        ("t_other", Ecn::AsConfigured),
    ] {
        let build = |programs: &mut fairwater_plane::Programs| {
            let built = Recorder::build(programs, name, COUNT, FIELDS, &log)?;
            Ok(Recorder { ecn, ..built })
        };
        plane.add(build).unwrap();
    }
    let (mut server, _) = fairwater_linux::server(plane, Options::default()).unwrap();
    let turns = |server: &mut fairwater_service::Server| {
        for _ in 0..50 {
            server.turn(Duration::from_millis(2)).unwrap();
        }
    };
    let mut connection = support::Connection::open("127.0.0.1:0", "fw_t_plain");
    connection.transfer(100_000);
    turns(&mut server);
    let flow = server.service().flows().next().unwrap();
    let algorithm = |server: &fairwater_service::Server| {
        let flow = server.service().plane().flow(flow).unwrap();
        flow.algorithm
    };
    assert_eq!(algorithm(&server), 0);
    server.service_mut().hand_over(flow, 1).unwrap();
    turns(&mut server);
    let notices: Vec<_> = server.service_mut().drain_notices().collect();
    let notices: Vec<_> = notices.iter().map(ToString::to_string).collect();
    assert_eq!(
        notices,
        [format!(
            "flow {} of Linux TCP stays under t_plain, and is not handed over to t_needs_ecn: the \
             flow did not negotiate ECN for it",
            flow.slot
        )]
    );
    assert_eq!(algorithm(&server), 0);

    server.service_mut().hand_over(flow, 2).unwrap();
    turns(&mut server);
    assert_eq!(algorithm(&server), 2);
    assert_eq!(server.service_mut().drain_notices().count(), 0);
}
