//! What waits to be sent, when much does.

use fairwater_datapath::Config;
use fairwater_proto::ToDatapath;

use crate::harness::{COUNT, Harness, ack, config};

const REPORT: &str = "(def (Report (volatile acked 0) (sum 0))) (when true
    (:= Report.acked (+ Report.acked Ack.bytes_acked))
    (:= Report.sum (+ Report.sum Report.acked)) (report))";

fn reporting(queue_bytes: usize) -> Harness {
    let mut harness = Harness::new(Config {
        queue_bytes,
        ..config()
    });
    harness.welcome(7);
    harness.install(1, REPORT);
    harness
}

#[test]
fn reports_beyond_the_bound_are_dropped_and_counted() {
    let mut harness = reporting(1000);
    let flow = harness.running();
    harness.drain();
    for _ in 0..100 {
        harness.ack(flow, 1);
    }
    let messages = harness.drain();
    let statistics = harness.datapath.statistics();
    assert!(statistics.reports_dropped > 50);
    // One was sent before.
    assert_eq!(messages.len() as u64, statistics.reports - 1);
    // What was computed does not depend on what was sent.
    let variables = harness.datapath.flow(flow).unwrap().variables.to_vec();
    assert_eq!(variables, [0, 100]);
}

#[test]
fn what_must_not_be_lost_is_not_lost_to_reports() {
    let mut harness = reporting(1000);
    let flow = harness.running();
    harness.drain();
    let mut expected = Vec::new();
    for _ in 0..1000 {
        harness.ack(flow, 1);
        let other = harness.start();
        expected.push(format!("created {}.{} reno", other.slot, other.generation));
    }
    let messages = harness.drain();
    let created: Vec<_> = messages
        .into_iter()
        .filter(|m| m.starts_with("created"))
        .collect();
    assert_eq!(created, expected);
}

#[test]
fn a_hundred_thousand_flows_are_announced_again_bit_by_bit() {
    const FLOWS: usize = 100_000;
    let mut harness = Harness::with_program();
    let flows: Vec<_> = (0..FLOWS).map(|_| harness.start()).collect();
    assert_eq!(harness.drain().len(), 1 + FLOWS);
    for &flow in &flows {
        harness.command(flow, Some(1), &[]);
        harness.datapath.invoke(flow, &ack(0, 0)).unwrap();
    }
    harness.welcome(8);
    harness.install(1, COUNT);
    // The plane answers each packet before it takes the next.
    let mut resumed = 0;
    let mut next = flows.iter();
    while let Some((_, packet)) = harness.datapath.poll_transmit(1400) {
        let messages = fairwater_proto::Dialect::Own.to_plane(packet).count();
        assert!((1..=1400 / 104).contains(&messages));
        resumed += messages;
        for &flow in next.by_ref().take(messages) {
            harness.command(flow, Some(1), &[]);
        }
    }
    assert_eq!(resumed, FLOWS);
    assert_eq!(harness.datapath.statistics().refused_total(), 0);
    for flow in flows {
        harness.datapath.invoke(flow, &ack(0, 0)).unwrap();
        assert_eq!(harness.datapath.flow(flow).unwrap().program, Some(1));
    }
}

#[test]
fn a_thousand_programs_run_side_by_side() {
    let mut harness = Harness::new(config());
    harness.welcome(7);
    for number in 1..=1000 {
        harness.install(number, &format!("(when true (:= Cwnd (* 1000 {number})))"));
    }
    for number in 1..=1000 {
        let flow = harness.start();
        harness.drain();
        harness.command(flow, Some(number), &[]);
        if number != 10 {
            assert_eq!(harness.ack(flow, 0).unwrap().cwnd, 1000 * u64::from(number));
        }
        if number > 500 {
            harness.send(&ToDatapath::Uninstall { program: number });
        }
    }
    assert_eq!(harness.datapath.statistics().programs, 500);
}

#[test]
fn a_report_longer_than_a_packet_is_dropped_and_what_follows_is_sent() {
    let mut harness = reporting(100_000);
    let fields: String = (0..200).map(|i| format!("(f{i} 0)")).collect();
    harness.install(2, &format!("(def (Report {fields})) (when true (report))"));
    let flow = harness.running();
    harness.drain();
    harness.command(flow, Some(2), &[]);
    harness.ack(flow, 0);
    harness.command(flow, Some(1), &[]);
    harness.ack(flow, 5);
    assert_eq!(harness.drain(), ["reported 0.0 1 [5, 5] cwnd=10000"]);
    assert_eq!(harness.datapath.statistics().unsendable, 1);
}
