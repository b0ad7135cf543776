//! What is sent and when, while nothing is lost; and what the controller is told.

use std::time::Duration;

use fairwater_lang::Signal;
use fairwater_net::Time;
use fairwater_sim::Native;
use fairwater_tcp::{Controls, Invocation, Sender, State, TcpConfig};

use crate::script::{MSS, Says, Script, config};
use crate::wire::{Impairment, Wire};

#[test]
fn rfc_6928_begins_with_ten_segments_and_doubles() {
    let mut wire = Wire::new(&TcpConfig::default(), Native::Reno);
    wire.sender.write(1 << 40);
    wire.run_until(Time::from_millis(99));
    let at = |ms: u64| {
        wire.data()
            .filter(|(t, _)| *t == Time::from_millis(ms))
            .count()
    };
    assert_eq!([at(20), at(40), at(60), at(80)], [10, 20, 40, 80]);
}

#[test]
fn reno_grows_by_one_segment_a_round_trip_after_slow_start() {
    let mut wire = Wire::new(&TcpConfig::default(), Native::Reno);
    wire.sender.write(1 << 40);
    wire.forward = Box::new(|n, _| Impairment {
        drop: n == 100,
        ..Impairment::default()
    });
    wire.run_until(Time::from_millis(200));
    let (from, at) = (wire.sender.controls().cwnd, wire.now);
    wire.run_until(Time::from_millis(1_200));
    let rounds = wire.now.since(at).as_millis() as u64 / 20;
    let grown = (wire.sender.controls().cwnd - from) / 1448;
    assert!(
        grown.abs_diff(rounds) <= 1,
        "{grown} in {rounds} round trips"
    );
}

/// RFC 9438 §4.2: back at W_max after K seconds.
#[test]
fn cubic_returns_to_its_plateau_after_k() {
    let mut wire = Wire::new(&TcpConfig::default(), Native::Cubic);
    wire.delay = Duration::from_millis(50);
    wire.sender.write(1 << 40);
    wire.forward = Box::new(|n, _| Impairment {
        drop: n == 700,
        ..Impairment::default()
    });
    let begin = loop {
        wire.step();
        if wire.sender.counters().retransmissions == 1 && wire.sender.state() != State::Recovery {
            break wire.now;
        }
    };
    let before = wire.invocations.last().unwrap().reduced_from / 1448;
    let k = ((before as f64 * 0.3) / 0.4).cbrt();
    let at_k = begin + Duration::from_secs_f64(k);
    wire.run_until(at_k);
    let cwnd = wire.sender.controls().cwnd / 1448;
    assert!(
        cwnd.abs_diff(before) * 100 <= before * 3,
        "{cwnd} of {before}"
    );
    wire.run_until(at_k + Duration::from_secs(2));
    let later = wire.sender.controls().cwnd / 1448;
    assert!(later > before + 2, "{later} of {before}");
}

#[test]
fn a_rate_spaces_segments() {
    let mut config = TcpConfig {
        handshake: false,
        ..TcpConfig::default()
    };
    config.initial_window = 100;
    let mut sender = Sender::new(&config, Time::ZERO);
    sender.write(1 << 30);
    // A segment each ms: headers do not count, as in Linux.
    sender.set_controls(Controls {
        cwnd: 100 * 1448,
        rate: 1_448_000,
    });
    let mut now = Time::ZERO;
    let mut times = Vec::new();
    while times.len() < 60 {
        while sender.poll_transmit(now).is_some() {
            times.push(now);
        }
        now = sender.next_timer().unwrap();
        sender.on_timer(now);
    }
    // The first ten are a burst, as in Linux.
    assert!(times[..10].iter().all(|t| *t == Time::ZERO));
    for pair in times[11..].windows(2) {
        assert_eq!(pair[1].since(pair[0]), Duration::from_millis(1));
    }
}

#[test]
fn pacing_by_the_window_spreads_a_round_trip() {
    let config = TcpConfig {
        pace: true,
        ..TcpConfig::default()
    };
    let mut wire = Wire::new(&config, Native::Constant(100 * 1448));
    wire.sender.write(1 << 40);
    wire.run_until(Time::from_millis(2_000));
    let times: Vec<_> = wire.data().map(|(at, _)| *at).collect();
    let longest = times[300..]
        .iter()
        .zip(&times[301..])
        .map(|(a, b)| b.since(*a))
        .max()
        .unwrap();
    // 100 segments of 20 ms at twice the rate come every 104 µs; a burst would leave 20 ms.
    assert!(longest < Duration::from_millis(11), "{longest:?}");
    let bursts = times[300..].windows(2).filter(|w| w[0] == w[1]).count();
    assert_eq!(bursts, 0);
}

#[test]
fn never_more_than_the_receiver_allows_is_sent() {
    let config = TcpConfig {
        receive_window: 20_000,
        ..TcpConfig::default()
    };
    let mut wire = Wire::new(&config, Native::Constant(1 << 30));
    wire.sender.write(1_000_000);
    wire.sender.close();
    while !wire.sender.is_finished() {
        assert!(wire.step());
        let sent = wire.data().map(|(_, s)| s.end()).max().unwrap_or(0);
        assert!(sent <= wire.sender.acked() + 20_001);
    }
}

/// RFC 9293 §3.8.6.1: even if the ACK that opens the window is lost, the probes find out.
#[test]
fn a_closed_window_is_probed() {
    let config = TcpConfig {
        receive_window: 14_480,
        ..TcpConfig::default()
    };
    let mut wire = Wire::new(&config, Native::Reno);
    wire.sender.write(100_000);
    wire.sender.close();
    wire.pause = Some((Time::from_millis(30), Time::from_millis(1_500)));
    wire.reverse = {
        let mut lost = false;
        Box::new(move |_, ack| {
            let drop = ack.ack == 14_480 && ack.window == 14_480 && !lost;
            lost |= drop;
            Impairment {
                drop,
                ..Impairment::default()
            }
        })
    };
    wire.run_to_completion(Time::from_millis(5_000));
    let probes: Vec<_> = wire
        .sent
        .iter()
        .filter(|(_, s)| s.len == 0 && !s.syn && !s.fin)
        .map(|(at, _)| *at)
        .collect();
    assert!(probes.len() >= 2);
    let gaps: Vec<_> = probes.windows(2).map(|w| w[1].since(w[0])).collect();
    assert!(gaps.windows(2).all(|g| g[1] == g[0] * 2), "{gaps:?}");
    assert_eq!(wire.sender.counters().timeouts, 0);
}

/// RFC 5681 §4.1, halved for each RTO as in Linux.
#[test]
fn a_pause_costs_the_window() {
    for idle_restart in [true, false] {
        let config = TcpConfig {
            idle_restart,
            ..TcpConfig::default()
        };
        let mut wire = Wire::new(&config, Native::Constant(100 * 1448));
        wire.sender.write(500 * 1448);
        wire.run_until(Time::from_millis(1_000));
        assert_eq!(wire.sender.in_flight(), 0);
        wire.now = Time::from_millis(30_000);
        let before = wire.sent.len();
        wire.sender.write(500 * 1448);
        wire.pump();
        let burst = wire.sent.len() - before;
        assert_eq!(burst, if idle_restart { 10 } else { 100 });
    }
}

/// RFC 7661: a flow that its application holds back does not grow its window.
#[test]
fn cwnd_does_not_grow_unused() {
    for native in [Native::Reno, Native::Cubic] {
        let mut wire = Wire::new(&TcpConfig::default(), native);
        for n in 0..200 {
            wire.sender.write(3 * 1448);
            wire.run_until(Time::from_millis(50 * (n + 1)));
        }
        assert_eq!(wire.sender.controls().cwnd, 10 * 1448, "{native:?}");
        assert!(wire.sender.is_app_limited());
    }
}

/// draft-cheng-iccrg-delivery-rate-estimation §3.4: what is sent while there is nothing more to send
/// makes samples that are limited by the application, until all of it is delivered.
#[test]
fn app_limited_is_true_of_what_was_sent_with_little_to_send() {
    let mut wire = Wire::new(&TcpConfig::default(), Native::Constant(20 * 1448));
    wire.serialisation = Duration::from_micros(500);
    for n in 0..20 {
        wire.sender.write(3 * 1448);
        wire.run_until(Time::from_millis(50 * (n + 1)));
    }
    let little = wire.invocations.len();
    assert!(little > 20);
    let bulk_from = wire.now;
    wire.sender.write(1 << 40);
    wire.run_until(Time::from_millis(2_000));
    let app_limited = |i: &Invocation| i.signal(Signal::AppLimited) == 1;
    // What was sent before the first wait for more was not limited.
    assert!(wire.invocations[3..little].iter().all(app_limited));
    let full = wire.invocations[little..]
        .iter()
        .filter(|i| i.now_ns > (bulk_from + Duration::from_millis(50)).as_nanos());
    assert!(full.clone().count() > 100);
    assert!(!full.clone().any(app_limited));
}

/// Nagle's rule as Minshall has it: small writes do not make a small segment each.
#[test]
fn small_writes_are_joined() {
    let mut wire = Wire::new(
        &TcpConfig {
            handshake: false,
            ..TcpConfig::default()
        },
        Native::Reno,
    );
    for _ in 0..100 {
        wire.sender.write(100);
        wire.pump();
    }
    wire.sender.close();
    wire.run_to_completion(Time::from_millis(1_000));
    assert_eq!(wire.receiver.delivered(), 10_000);
    assert!(wire.data().count() <= 9, "{}", wire.data().count());
}

#[test]
fn small_writes_leave_at_once_without_nagles_rule() {
    let mut wire = Wire::new(
        &TcpConfig {
            handshake: false,
            nagle: false,
            ..TcpConfig::default()
        },
        Native::Reno,
    );
    for sent in 1..=10 {
        wire.sender.write(100);
        wire.pump();
        assert_eq!(wire.data().count(), sent);
    }
}

/// draft-cheng-iccrg-delivery-rate-estimation: both rates are the bottleneck's once it is full.
#[test]
fn rate_samples_are_the_bottlenecks() {
    let mut wire = Wire::new(&TcpConfig::default(), Native::Constant(200 * 1448));
    wire.serialisation = Duration::from_micros(500);
    wire.sender.write(1 << 40);
    wire.run_until(Time::from_millis(1_000));
    let bottleneck = 1448 * 2_000;
    for invocation in &wire.invocations[wire.invocations.len() - 100..] {
        for signal in [Signal::RateIncoming, Signal::RateOutgoing] {
            let rate = invocation.signal(signal);
            assert!(
                rate.abs_diff(bottleneck) * 50 < bottleneck,
                "{signal:?} {rate}"
            );
        }
    }
    assert!(!wire.sender.is_app_limited());
}

#[test]
fn signals_add_up() {
    let mut wire = Wire::new(&TcpConfig::default(), Native::Cubic);
    wire.serialisation = Duration::from_micros(100);
    wire.forward = Box::new(|n, _| Impairment {
        drop: n % 301 == 300,
        ..Impairment::default()
    });
    wire.sender.write(5_000 * 1448);
    wire.sender.close();
    wire.run_to_completion(Time::from_millis(60_000));
    let sum = |signal| {
        wire.invocations
            .iter()
            .map(|i| i.signal(signal))
            .sum::<u64>()
    };
    // The FIN is one more offset.
    assert_eq!(sum(Signal::BytesAcked), 5_000 * 1448 + 1);
    assert_eq!(
        sum(Signal::LostPkts),
        wire.sender.counters().retransmissions
    );
    let delivered: u64 = wire.invocations.iter().map(|i| i.delivered_packets).sum();
    let segments = delivered - u64::from(delivered > 5_000);
    assert_eq!(segments, 5_000);
    for pair in wire.invocations.windows(2) {
        assert!(pair[0].signal(Signal::Now) <= pair[1].signal(Signal::Now));
        assert_eq!(pair[1].signal(Signal::Now), pair[1].now_ns / 1_000);
        let packets = pair[1].signal(Signal::PacketsInFlight);
        assert_eq!(pair[1].signal(Signal::BytesInFlight), packets * 1448);
        assert_eq!(packets, pair[1].in_flight_packets);
    }
}

/// What one ACK says, in the terms of Linux's counters.
#[test]
fn signals_of_a_sack_and_of_what_fills_its_gap() {
    let mut script = Script::new(&config(), Native::Constant(10 * MSS));
    assert_eq!(script.send().len(), 10);
    script.now = Time::from_micros(20_500);
    let (first, _) = script.ack(2, &Says::default());
    let first = first.unwrap();
    let of = |i: &fairwater_tcp::Invocation, s: &[Signal]| {
        s.iter().map(|s| i.signal(*s)).collect::<Vec<_>>()
    };
    let signals = [
        Signal::BytesAcked,
        Signal::PacketsAcked,
        Signal::BytesMisordered,
        Signal::PacketsMisordered,
        Signal::PacketsInFlight,
        Signal::RttSampleUs,
        Signal::LostPkts,
    ];
    assert_eq!(of(&first, &signals), [2_000, 2, 0, 0, 8, 20_500, 0]);
    let says = Says {
        sack: &[(3, 5)],
        ..Says::default()
    };
    let (second, _) = script.ack(2, &says);
    assert_eq!(
        of(&second.unwrap(), &signals),
        [0, 0, 2_000, 2, 8, 20_500, 0]
    );
    // The gap fills: what was SACKed before counts as acknowledged in order now.
    let (third, _) = script.ack(5, &Says::default());
    assert_eq!(of(&third.unwrap(), &signals)[..4], [3_000, 3, 0, 0]);
}

#[test]
fn the_first_rtt_sample_is_the_handshakes() {
    let mut wire = Wire::new(&TcpConfig::default(), Native::Reno);
    assert_eq!(wire.sender.srtt_us(), 0);
    wire.sender.write(1_448);
    wire.run_until(Time::from_millis(20));
    assert_eq!(wire.sender.srtt_us(), 20_000);
    wire.run_until(Time::from_millis(40));
    assert_eq!(wire.invocations[0].signal(Signal::RttSampleUs), 20_000);
}

#[test]
fn before_the_first_rtt_sample_a_timeout_says_infinity() {
    let mut script = Script::new(&config(), Native::Reno);
    script.send();
    let invocation = loop {
        if let (Some(invocation), _) = script.timer() {
            break invocation;
        }
    };
    assert_eq!(invocation.signal(Signal::RttSampleUs), u64::MAX);
    assert_eq!(invocation.signal(Signal::WasTimeout), 1);
    // A probe was tried before.
    assert_eq!(invocation.signal(Signal::LostPkts), 11);
    assert_eq!(invocation.signal(Signal::PacketsInFlight), 0);
    assert_eq!(script.cwnd(), 1);
}
