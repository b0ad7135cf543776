//! Transports that hold a window alone, or a rate alone: window = rate × minimum RTT, rate =
//! cwnd / SRTT.

use fairwater_datapath::{Config, Controls, Signal};
use fairwater_proto::{Abilities, FlowId};

use super::harness::{Harness, MSS, ack, config};

/// Sets a rate as BBR does, and a window of no consequence.
const RATE: &str = "(def (Report (acked 0)) (rate 1000000) (window 1000000000))
    (when true (:= Rate rate) (:= Cwnd window))";

/// Sets a window, and no rate.
const WINDOW: &str = "(def (Report (acked 0)) (window 40000))
    (when true (:= Cwnd window))";

fn holding(window: bool, rate: bool) -> Config {
    Config {
        abilities: Abilities {
            window,
            rate,
            ..Abilities::ALL
        },
        ..config()
    }
}

/// A flow that runs the program, on a transport with these controls.
fn running(config: Config, program: &str) -> (Harness, FlowId) {
    let mut harness = Harness::new(config);
    harness.welcome(7);
    harness.install(1, program);
    let flow = harness.running();
    (harness, flow)
}

/// What is in force after an ACK with this RTT sample, µs.
fn after(harness: &mut Harness, flow: FlowId, now_us: u64, rtt_us: u64) -> Controls {
    let mut signals = ack(now_us, MSS);
    signals[Signal::RttSampleUs] = rtt_us;
    harness.now_us = now_us;
    harness.welcome(7); // the plane lives
    harness.datapath.invoke(flow, &signals).unwrap();
    harness.datapath.flow(flow).unwrap().controls
}

#[test]
fn a_rate_becomes_a_window_of_rate_times_the_minimum_rtt() {
    let (mut harness, flow) = running(holding(true, false), RATE);
    // 1 MB/s × 20 ms, the RTT so far.
    let at = |cwnd| Controls { cwnd, rate: 0 };
    assert_eq!(after(&mut harness, flow, 1_000, 30_000), at(20_000));
    assert_eq!(after(&mut harness, flow, 2_000, 12_000), at(12_000));
    assert_eq!(after(&mut harness, flow, 3_000, 90_000), at(12_000));
    // The path is another: the old minimum is forgotten within 10 s.
    assert_eq!(after(&mut harness, flow, 6_000_000, 50_000), at(12_000));
    assert_eq!(after(&mut harness, flow, 11_100_000, 50_000), at(50_000));
}

#[test]
fn the_transport_hears_of_a_window_once_and_of_the_programs_controls_never() {
    let mut harness = Harness::new(holding(true, false));
    harness.welcome(7);
    harness.install(1, RATE);
    let flow = harness.start();
    harness.drain();
    harness.command(flow, Some(1), &[]);
    let window = Controls {
        cwnd: 20_000,
        rate: 0,
    };
    assert_eq!(harness.ack(flow, MSS), Some(window));
    assert_eq!(harness.ack(flow, MSS), None);
    // The plane halves the rate: variable 1 of the program.
    harness.command(flow, None, &[(1, 500_000)]);
    let half = Controls {
        cwnd: 10_000,
        rate: 0,
    };
    assert_eq!(harness.ack(flow, MSS), Some(half));
    // A rate that would not let out one segment in a round trip lets out one.
    harness.command(flow, None, &[(1, 10)]);
    assert_eq!(harness.ack(flow, MSS).map(|c| c.cwnd), Some(MSS));
}

#[test]
fn a_window_that_is_below_the_rates_stays() {
    let (mut harness, flow) = running(holding(true, false), RATE);
    harness.command(flow, None, &[(2, 5_000)]);
    assert_eq!(after(&mut harness, flow, 1_000, 20_000).cwnd, 5_000);

    let (mut harness, flow) = running(holding(true, false), WINDOW);
    let alone = Controls {
        cwnd: 40_000,
        rate: 0,
    };
    assert_eq!(after(&mut harness, flow, 1_000, 20_000), alone);
}

#[test]
fn a_window_becomes_a_rate_of_cwnd_by_srtt() {
    let (mut harness, flow) = running(holding(false, true), WINDOW);
    // 40 kB / 20 ms; then SRTT = 7/8 × 20 ms + 1/8 × 100 ms.
    assert_eq!(after(&mut harness, flow, 1_000, 20_000).rate, 2_000_000);
    let rate = after(&mut harness, flow, 2_000, 100_000).rate;
    assert_eq!(rate, 40_000 * 1_000_000 / 30_000);
}

#[test]
fn a_rate_is_bounded_by_the_window_over_srtt() {
    let (mut harness, flow) = running(holding(false, true), RATE);
    assert_eq!(after(&mut harness, flow, 1_000, 20_000).rate, 1_000_000);
    // 10 kB / 20 ms.
    harness.command(flow, None, &[(2, 10_000)]);
    assert_eq!(after(&mut harness, flow, 2_000, 20_000).rate, 500_000);
}

#[test]
fn the_fallback_goes_on_from_the_window_in_force() {
    let (mut harness, flow) = running(holding(true, false), RATE);
    assert_eq!(after(&mut harness, flow, 1_000, 20_000).cwnd, 20_000);
    harness.send(&fairwater_proto::ToDatapath::Command {
        flow,
        switch: None,
        cwnd: None,
        rate: None,
        updates: (&[]).into(),
        withdraw: true,
    });
    let cwnd = after(&mut harness, flow, 2_000, 20_000).cwnd;
    assert!((20_000..=22_000).contains(&cwnd), "{cwnd}");

    // And a transport with a rate alone is paced under it.
    let (mut harness, flow) = running(holding(false, true), WINDOW);
    harness.send(&fairwater_proto::ToDatapath::Command {
        flow,
        switch: None,
        cwnd: None,
        rate: None,
        updates: (&[]).into(),
        withdraw: true,
    });
    let controls = after(&mut harness, flow, 2_000, 20_000);
    assert_eq!(controls.rate, controls.cwnd * 50);
}

#[test]
fn what_the_transport_changes_itself_leaves_the_programs_rate() {
    let (mut harness, flow) = running(holding(true, false), RATE);
    after(&mut harness, flow, 1_000, 20_000);
    let restart = Controls {
        cwnd: 10 * MSS,
        rate: 0,
    };
    harness.datapath.set_controls(flow, restart).unwrap();
    assert_eq!(harness.datapath.flow(flow).unwrap().controls, restart);
    assert_eq!(after(&mut harness, flow, 2_000, 20_000).cwnd, 20_000);
}
