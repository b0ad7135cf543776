//! Reno: RFC 5681 by its rules, on whatever ACKs come.

use fairwater_datapath::fallback::{Path, Reno};
use fairwater_datapath::{Signal, Signals};
use fairwater_lang::SignalSet;
use proptest::prelude::*;

const MSS: u64 = 1000;

fn path(signals: &Signals) -> Path<'_> {
    Path {
        mss: MSS,
        available: SignalSet::ALL,
        signals,
    }
}

/// The signals of one invocation, by those that Reno reads.
fn signals(acked: u64, lost: u64, in_flight: u64, timeout: bool) -> Signals {
    let mut signals = Signals::default();
    signals[Signal::BytesAcked] = acked;
    signals[Signal::LostPkts] = lost;
    signals[Signal::BytesInFlight] = in_flight;
    signals[Signal::WasTimeout] = u64::from(timeout);
    signals
}

#[test]
fn a_lossless_flow_doubles_each_window_until_ssthresh() {
    let mut reno = Reno::new();
    let mut cwnd = 10 * MSS;
    for _ in 0..10 {
        cwnd = reno.on_signals(cwnd, &path(&signals(MSS, 0, cwnd - MSS, false)));
    }
    assert_eq!(cwnd, 20 * MSS);
}

#[test]
fn a_loss_halves_what_is_in_flight_and_growth_is_one_segment_a_window() {
    let mut reno = Reno::new();
    let mut cwnd = reno.on_signals(20 * MSS, &path(&signals(0, 1, 19 * MSS, false)));
    assert_eq!(cwnd, 10 * MSS);
    assert_eq!(reno.ssthresh(), 10 * MSS);
    // More losses of the same window change nothing, nor do its ACKs.
    for _ in 0..20 {
        cwnd = reno.on_signals(cwnd, &path(&signals(MSS, 1, 9 * MSS, false)));
        assert_eq!(cwnd, 10 * MSS);
    }
    for _ in 0..10 {
        assert_eq!(cwnd, 10 * MSS);
        cwnd = reno.on_signals(cwnd, &path(&signals(MSS, 0, 9 * MSS, false)));
    }
    assert_eq!(cwnd, 11 * MSS);
}

#[test]
fn a_timeout_restarts_from_one_segment_up_to_half_of_what_was_in_flight() {
    let mut reno = Reno::new();
    let mut cwnd = reno.on_signals(20 * MSS, &path(&signals(0, 20, 0, true)));
    assert_eq!((cwnd, reno.ssthresh()), (MSS, 10 * MSS));
    // The same window times out again: ssthresh is held.
    cwnd = reno.on_signals(cwnd, &path(&signals(0, 1, 0, true)));
    assert_eq!((cwnd, reno.ssthresh()), (MSS, 10 * MSS));
    for _ in 0..9 {
        cwnd = reno.on_signals(cwnd, &path(&signals(MSS, 0, cwnd, false)));
    }
    assert_eq!(cwnd, 10 * MSS);
    assert_eq!(
        reno.on_signals(cwnd, &path(&signals(MSS, 0, cwnd, false))),
        cwnd
    );
}

#[test]
fn a_congestion_mark_counts_as_a_loss() {
    let mut marked = signals(MSS, 0, 19 * MSS, false);
    marked[Signal::EcnPackets] = 1;
    let cwnd = Reno::new().on_signals(20 * MSS, &path(&marked));
    assert_eq!(cwnd, 19 * MSS / 2);
}

#[test]
fn a_window_that_is_not_used_does_not_grow() {
    let mut reno = Reno::new();
    let ack = signals(MSS, 0, MSS, false);
    assert_eq!(reno.on_signals(100 * MSS, &path(&ack)), 100 * MSS);
}

#[test]
fn what_a_program_left_is_taken_over_as_far_as_it_was_used() {
    let ack = signals(MSS, 0, 30 * MSS, false);
    assert_eq!(Reno::take_over(1 << 50, &path(&ack)).1, 60 * MSS);
    assert_eq!(Reno::take_over(40 * MSS, &path(&ack)).1, 40 * MSS);
    assert_eq!(Reno::take_over(1, &path(&ack)).1, MSS);
}

fn invocations() -> impl Strategy<Value = Vec<(u64, u64, u64, bool)>> {
    let acked = prop_oneof![Just(0), 1..20 * MSS, any::<u64>()];
    let lost = prop_oneof![8 => Just(0), 1 => 1_u64..20, 1 => any::<u64>()];
    let in_flight = prop_oneof![Just(0), 0..200 * MSS, any::<u64>()];
    let timeout = proptest::bool::weighted(0.05);
    proptest::collection::vec((acked, lost, in_flight, timeout), 1..200)
}

proptest! {
    #[test]
    fn cwnd_keeps_to_the_rules_whatever_comes(start in 1_u64..1 << 40, acks in invocations()) {
        let mut reno = Reno::new();
        let mut cwnd = start;
        let mut since_reduction = None;
        for (acked, lost, in_flight, timeout) in acks {
            let before = cwnd.max(MSS);
            cwnd = reno.on_signals(cwnd, &path(&signals(acked, lost, in_flight, timeout)));
            prop_assert!(cwnd >= MSS, "never below the loss window");
            if timeout {
                prop_assert_eq!(cwnd, MSS);
                since_reduction = None;
                continue;
            }
            prop_assert!(cwnd - before.min(cwnd) <= 2 * MSS, "grows by 2 MSS an ACK at most");
            if acked == 0 {
                prop_assert!(cwnd <= before, "never grows without ACKs");
            }
            if cwnd < before {
                prop_assert!(lost > 0, "never shrinks without a loss");
                if let Some((window, acked_since)) = since_reduction {
                    prop_assert!(acked_since >= window, "once a window at most");
                }
                prop_assert!(cwnd >= 2 * MSS || before < 2 * MSS);
                since_reduction = Some((cwnd, 0));
            } else if let Some((_, since)) = &mut since_reduction {
                *since = u64::saturating_add(*since, acked);
            }
        }
    }
}
