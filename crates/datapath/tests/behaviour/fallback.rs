//! Reno: RFC 5681 by its rules, on whatever ACKs come; and how a fallback takes a flow over.

use fairwater_datapath::fallback::{Controller, Path, Reno, Takeover};
use fairwater_datapath::{Fallback, Signal, Signals};
use fairwater_lang::SignalSet;
use proptest::prelude::*;

const MSS: u64 = 1000;

fn path(signals: &Signals) -> Path<'_> {
    Path {
        mss: MSS,
        srtt_us: 0,
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
    let taken = |cwnd, rate| {
        let takeover = Takeover {
            cwnd,
            rate,
            ..Takeover::default()
        };
        let (controller, cwnd) = Controller::take_over(Fallback::Cubic, &takeover, &path(&ack));
        assert_eq!(controller.ssthresh(), Some(cwnd), "no second slow start");
        cwnd
    };
    assert_eq!(taken(1 << 50, 0), 62 * MSS);
    assert_eq!(taken(40 * MSS, 0), 40 * MSS);
    assert_eq!(taken(1, 0), MSS);
    // A paced flow is left with what it used: 31 segments, of which the ACK acknowledged one.
    assert_eq!(taken(1 << 50, 1), 31 * MSS);
    assert_eq!(taken(20 * MSS, 1), 20 * MSS);
}

#[test]
fn a_paced_flow_that_drains_the_queue_is_taken_over_with_what_its_rate_fills() {
    // BBR's PROBE_RTT: 4 segments in flight, of a path of 1 MB/s and 100 ms.
    let mut ack = signals(MSS, 0, 3 * MSS, false);
    ack[Signal::RateIncoming] = 1_000_000;
    let path = Path {
        srtt_us: 100_000,
        ..path(&ack)
    };
    let takeover = Takeover {
        cwnd: 200 * MSS,
        rate: 1_000_000,
        ..Takeover::default()
    };
    let (_, cwnd) = Controller::take_over(Fallback::Cubic, &takeover, &path);
    assert_eq!(cwnd, 100 * MSS);
}

#[test]
fn slow_start_goes_on_after_a_takeover_only_in_a_young_flow_and_after_a_timeout() {
    let ack = signals(MSS, 0, 200 * MSS, false);
    let ssthresh = |takeover: Takeover| {
        let (controller, _) = Controller::take_over(Fallback::Reno, &takeover, &path(&ack));
        controller.ssthresh()
    };
    let young = Takeover {
        cwnd: 100 * MSS,
        is_lossless: true,
        ..Takeover::default()
    };
    assert_eq!(ssthresh(young), None);
    let large = Takeover {
        cwnd: 101 * MSS,
        ..young
    };
    assert_eq!(ssthresh(large), Some(101 * MSS));
    let timed_out = Takeover {
        cwnd: 3 * MSS,
        is_lossless: false,
        timeout_ssthresh: 50 * MSS,
        ..young
    };
    assert_eq!(ssthresh(timed_out), Some(50 * MSS));
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
