//! Counts, samples and distributions agree with one another.

use std::time::Duration;

use fairwater_net::Time;
use fairwater_sim::Native;
use fairwater_tcp::State;

use crate::support::{BOTTLENECK, Dumbbell, outcome};

#[test]
fn samples_add_up_to_summaries() {
    let network = Dumbbell::new(10, 30, 8.0)
        .native(Native::Cubic)
        .plane("reno");
    let mut config = network.config(1);
    config.measure.interval = Some(Duration::from_millis(250));
    let outcome = outcome(&config);
    for flow in &outcome.flows {
        assert_eq!(flow.samples.len(), 32);
        let delivered: u64 = flow.samples.iter().map(|s| s.delivered_bytes).sum();
        let again: u64 = flow.samples.iter().map(|s| s.retransmissions).sum();
        assert_eq!(
            (delivered, again),
            (flow.delivered_bytes, flow.retransmissions)
        );
        assert!(
            flow.samples[4..]
                .iter()
                .all(|s| s.srtt_us >= 30_000 && s.cwnd >= 1448)
        );
    }
    for edge in &outcome.edges {
        let bytes: u64 = edge.samples.iter().map(|s| s.bytes).sum();
        let dropped: u64 = edge.samples.iter().map(|s| s.dropped).sum();
        assert_eq!((bytes, dropped), (edge.bytes, edge.dropped + edge.lost));
    }
    let bottleneck = &outcome.edges[BOTTLENECK];
    let delays: Vec<_> = bottleneck
        .samples
        .iter()
        .filter_map(|s| s.queueing_us)
        .collect();
    let most = delays.iter().copied().fold(0.0, f64::max);
    // A packet waits for a full buffer of 30 ms at most.
    assert!(most > 10_000.0 && most <= 30_000.0, "{most}");
    let q = bottleneck.queueing_us.unwrap();
    assert!(
        q.min <= q.p50 && q.p50 <= q.p95 && q.p95 <= q.p99 && q.p99 <= 30_100.0,
        "{q:?}"
    );
    assert!((q.min..=q.p99).contains(&q.mean));
}

#[test]
fn samples_show_the_threshold_and_the_state_of_senders() {
    let network = Dumbbell::new(10, 30, 4.0)
        .native(Native::Reno)
        .native(Native::Constant(20_000))
        .plane("reno");
    let mut config = network.config(1);
    config.measure.interval = Some(Duration::from_millis(10));
    let outcome = outcome(&config);
    let [reno, constant, plane] = &outcome.flows[..] else {
        panic!("three flows");
    };
    // No threshold before the first loss; from then on the window is never below 2 segments.
    let first = reno.samples.iter().position(|s| s.retransmissions > 0);
    let first = first.expect("slow start overflows the buffer");
    assert!(
        first > 1
            && reno.samples[..first - 1]
                .iter()
                .all(|s| s.ssthresh.is_none())
    );
    let later = &reno.samples[first..];
    assert!(
        later
            .iter()
            .all(|s| s.ssthresh.is_some_and(|bytes| bytes >= 2 * 1448))
    );
    let in_state = |state| {
        reno.samples
            .iter()
            .filter(|s| s.state == Some(state))
            .count()
    };
    assert!(in_state(State::Open) > in_state(State::Recovery));
    assert!(in_state(State::Recovery) > 0);
    for flow in [constant, plane] {
        assert!(flow.samples.iter().all(|s| s.ssthresh.is_none()));
        assert!(
            flow.samples
                .iter()
                .any(|s| s.state == Some(State::Recovery))
        );
    }
}

#[test]
fn summaries_begin_where_they_are_told_to() {
    let network = Dumbbell::new(10, 30, 8.0).native(Native::Reno);
    let whole = outcome(&network.config(1));
    let mut config = network.config(1);
    config.measure.from = Time::from_millis(2_000);
    let late = outcome(&config);
    config.duration = Duration::from_millis(2_000);
    config.measure.from = Time::ZERO;
    let early = outcome(&config);
    for (w, (l, e)) in whole.flows.iter().zip(late.flows.iter().zip(&early.flows)) {
        assert_eq!(w.delivered_bytes, l.delivered_bytes + e.delivered_bytes);
        assert_eq!(w.segments, l.segments + e.segments);
        assert_eq!(w.retransmissions, l.retransmissions + e.retransmissions);
    }
    for (w, (l, e)) in whole.edges.iter().zip(late.edges.iter().zip(&early.edges)) {
        assert_eq!(w.dropped, l.dropped + e.dropped);
        // A packet that leaves at the very moment counts on both sides.
        assert!((l.packets + e.packets).abs_diff(w.packets) <= 1);
    }
    assert!((late.edges[BOTTLENECK].utilisation - 1.0).abs() < 0.01);
}

#[test]
fn what_waits_in_a_full_buffer_is_what_delays() {
    // Twice the bandwidth-delay product in a window, and room for all of it: it never drains.
    let mut network = Dumbbell::new(12, 40, 10.0).native(Native::Constant(120_000));
    network.limit = fairwater_net::Limit::Unlimited;
    let mut config = network.warm_config(1, 0.2);
    config.measure.interval = Some(Duration::from_millis(1_000));
    let outcome = outcome(&config);
    let edge = &outcome.edges[BOTTLENECK];
    // 82 segments of 1500 bytes at 12 Mbit/s are 82 ms, of which 40 are on the way.
    assert!(
        (edge.queueing_us.unwrap().p50 - 42_000.0).abs() < 2_500.0,
        "{:?}",
        edge.queueing_us
    );
    let queued = edge.samples[5].queued_bytes as f64;
    assert!(
        (queued * 8.0 / 12.0 - edge.queueing_us.unwrap().p50).abs() < 3_000.0,
        "{queued}"
    );
    let rtt = outcome.flows[0].rtt_us.unwrap();
    assert!((rtt.p50 - 82_000.0).abs() < 3_000.0, "{rtt:?}");
}
