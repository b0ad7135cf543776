//! Losses: how they are found, what is sent again, and what cwnd does meanwhile.

use std::time::Duration;

use fairwater_lang::Signal;
use fairwater_net::Time;
use fairwater_sim::Native;
use fairwater_tcp::{Cause, Ecn, Invocation, State, TcpConfig};

use crate::script::{Says, Script, config};
use crate::wire::{Impairment, Impairments, Wire};

fn window_of_twenty(prr: bool) -> Script {
    let config = TcpConfig {
        initial_window: 20,
        prr,
        ..config()
    };
    let mut script = Script::new(&config, Native::Reno);
    assert_eq!(script.send(), (0..20).collect::<Vec<_>>());
    script.now = Time::from_millis(100);
    script
}

/// RFC 6937 §3's first example: 20 segments out, the first is lost, ssthresh is 10.
#[test]
fn rfc_6937_prr_sends_one_segment_for_two_acks() {
    let mut script = window_of_twenty(true);
    let mut sent = Vec::new();
    for last in 2..=20 {
        sent.push(script.sack(0, 1, last).len());
    }
    // Limited transmit (RFC 3042), the retransmission at the third, then each second ACK, until
    // the pipe is at ssthresh.
    let expected = [1, 1, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 0];
    assert_eq!(sent, expected);
    assert_eq!(script.sender.state(), State::Recovery);
    assert_eq!(script.sender.counters().retransmissions, 1);
}

/// The same without PRR (RFC 6675): half a window of ACKs passes in silence.
#[test]
fn rfc_6675_waits_until_the_pipe_has_drained() {
    let mut script = window_of_twenty(false);
    let mut sent = Vec::new();
    for last in 2..=20 {
        sent.push(script.sack(0, 1, last).len());
    }
    let silence = sent.iter().skip(3).take_while(|n| **n == 0).count();
    assert_eq!(&sent[..3], [1, 1, 0], "{sent:?}");
    assert!((8..=10).contains(&silence), "{sent:?}");
    assert!(sent[14..].iter().all(|n| *n == 1), "{sent:?}");
    assert_eq!(script.cwnd(), 10);
}

/// RFC 6937 §3's second example: the first 16 of 20 are lost, so the pipe is below ssthresh. PRR
/// sends no more than slow start would: one segment an ACK, and one.
#[test]
fn rfc_6937_prr_bounds_what_follows_a_heavy_loss() {
    let mut script = window_of_twenty(true);
    let sent: Vec<usize> = (17..=20)
        .map(|last| script.sack(0, 16, last).len())
        .collect();
    assert_eq!(&sent[..2], [1, 1]);
    assert!(sent[2..].iter().all(|n| (1..=2).contains(n)), "{sent:?}");
    assert_eq!(script.sender.counters().retransmissions, 2);
}

#[test]
fn prr_ends_at_ssthresh() {
    for native in [Native::Reno, Native::Cubic] {
        let config = TcpConfig {
            initial_window: 20,
            ..config()
        };
        let mut script = Script::new(&config, native);
        script.send();
        script.now = Time::from_millis(100);
        for last in 2..=20 {
            script.sack(0, 1, last);
        }
        let high = 20 + 2;
        script.now = Time::from_millis(200);
        // One more ACK and the recovery is over; growth begins with the next.
        let (invocation, _) = script.ack(high, &Says::default());
        assert_eq!(invocation.unwrap().state, State::Open);
        let ssthresh = if native == Native::Reno { 10 } else { 14 };
        assert!(
            script.cwnd().abs_diff(ssthresh) <= 1,
            "{native:?} {}",
            script.cwnd()
        );
    }
}

fn drop_numbers(numbers: &[u64]) -> Impairments {
    let numbers = numbers.to_vec();
    Box::new(move |n, _| Impairment {
        drop: numbers.contains(&n),
        ..Impairment::default()
    })
}

/// RFC 8985 §7: the last segments of a flight are lost; a probe is sent two SRTT after the last
/// ACK. One segment alone waits for a delayed ACK besides, up to the RTO (§7.2).
#[test]
fn rfc_8985_7_probes_for_a_lost_tail() {
    for (lost, retransmissions, wait_ms) in [(&[6u64, 7][..], 2, 60), (&[7], 1, 240)] {
        let config = TcpConfig {
            handshake: false,
            ..TcpConfig::default()
        };
        let mut wire = Wire::new(&config, Native::Reno);
        wire.sender.write(4 * 1448);
        wire.forward = drop_numbers(lost);
        wire.run_until(Time::from_millis(100));
        let start = Time::from_millis(150);
        wire.now = start;
        wire.sender.write(4 * 1448);
        wire.sender.close();
        wire.run_to_completion(Time::from_millis(10_000));
        let counters = wire.sender.counters();
        assert_eq!((counters.timeouts, counters.probes), (0, 1));
        assert_eq!(counters.retransmissions, retransmissions);
        let (at, probe) = &wire.sent[8];
        assert_eq!(probe.seq, 7 * 1448);
        assert_eq!(at.since(start), Duration::from_millis(wait_ms));
    }
}

/// RFC 8985 §7.4.2: a probe that repaired a loss hid it from everything else, so cwnd is reduced
/// once; one that was in vain costs nothing.
#[test]
fn a_loss_that_a_probe_repaired_is_congestion() {
    for (was_lost, reductions) in [(true, 1), (false, 0)] {
        let config = TcpConfig {
            handshake: false,
            ..TcpConfig::default()
        };
        let mut wire = Wire::new(&config, Native::Reno);
        wire.sender.write(4 * 1448);
        wire.forward = Box::new(move |n, _| Impairment {
            drop: n == 7 && was_lost,
            late: Duration::from_millis(if n == 7 { 225 } else { 0 }),
            ..Impairment::default()
        });
        wire.run_until(Time::from_millis(100));
        wire.sender.write(4 * 1448);
        wire.run_until(Time::from_millis(1_000));
        assert_eq!(wire.sender.counters().probes, 1);
        wire.sender.write(4 * 1448);
        wire.run_until(Time::from_millis(2_000));
        let last = wire.invocations.last().unwrap();
        assert_eq!((last.reductions, last.state), (reductions, State::Open));
        assert_eq!(wire.sender.controls().cwnd, (10 >> reductions) * 1448);
    }
}

#[test]
fn a_probe_for_one_of_several_lost_segments_leads_to_recovery() {
    let config = TcpConfig {
        handshake: false,
        ..TcpConfig::default()
    };
    let mut wire = Wire::new(&config, Native::Reno);
    wire.sender.write(4 * 1448);
    wire.forward = drop_numbers(&[6, 7, 8, 9]);
    wire.run_until(Time::from_millis(100));
    wire.sender.write(6 * 1448);
    wire.sender.close();
    wire.run_to_completion(Time::from_millis(10_000));
    let counters = wire.sender.counters();
    assert_eq!((counters.timeouts, counters.probes), (0, 1));
    assert_eq!(counters.retransmissions, 4);
}

/// RFC 8985 §6: by time, a lost retransmission is found without a timeout.
#[test]
fn rfc_8985_finds_a_lost_retransmission() {
    let config = TcpConfig {
        handshake: false,
        ..TcpConfig::default()
    };
    let mut wire = Wire::new(&config, Native::Reno);
    wire.serialisation = Duration::from_micros(200);
    let mut seen = 0;
    wire.forward = Box::new(move |_, segment| {
        let drop = segment.seq == 30 * 1448 && seen < 2;
        seen += u64::from(drop);
        Impairment {
            drop,
            ..Impairment::default()
        }
    });
    wire.sender.write(400 * 1448);
    wire.sender.close();
    wire.run_to_completion(Time::from_millis(10_000));
    let counters = wire.sender.counters();
    assert_eq!((counters.timeouts, counters.retransmissions), (0, 2));
}

/// Losses that are far apart are each repaired by one retransmission, without a timeout.
#[test]
fn each_loss_costs_one_retransmission() {
    for sack in [true, false] {
        for native in [Native::Reno, Native::Cubic] {
            let config = TcpConfig {
                sack,
                ..TcpConfig::default()
            };
            let mut wire = Wire::new(&config, native);
            wire.serialisation = Duration::from_micros(100);
            wire.forward = Box::new(|n, _| Impairment {
                drop: n % 397 == 200 && n < 20_000,
                ..Impairment::default()
            });
            wire.sender.write(30_000 * 1448);
            wire.sender.close();
            wire.run_to_completion(Time::from_millis(600_000));
            let counters = wire.sender.counters();
            assert_eq!(counters.timeouts, 0, "{native:?} SACK {sack}");
            let drops = (0..20_000).filter(|n| n % 397 == 200).count() as u64;
            assert_eq!(counters.retransmissions, drops, "{native:?} SACK {sack}");
            let lost: u64 = wire.invocations.iter().map(|i| i.lost_packets).sum();
            assert_eq!(lost, drops);
        }
    }
}

/// RFC 6298 §2 and §5: R and R/2 make the first RTO; then it doubles.
#[test]
fn rfc_6298_backs_off_and_comes_back() {
    let config = TcpConfig {
        min_rto: Duration::from_millis(1),
        sack: false,
        handshake: false,
        ..TcpConfig::default()
    };
    let mut wire = Wire::new(&config, Native::Reno);
    wire.sender.write(10 * 1448);
    wire.forward = Box::new(|n, _| Impairment {
        drop: (10..15).contains(&n),
        ..Impairment::default()
    });
    wire.run_until(Time::from_millis(20));
    // All ten are acknowledged within the round trip, one by one: R = 20 ms, 9 times again, by
    // which RTTVAR decays once at most.
    assert_eq!(wire.sender.rto(), Duration::from_millis(20 + 4 * 10));
    let start = wire.now;
    wire.sender.write(1448);
    wire.sender.close();
    wire.run_to_completion(Time::from_millis(100_000));
    let times: Vec<u128> = wire.sent[10..]
        .iter()
        .map(|(at, _)| at.since(start).as_millis())
        .collect();
    assert_eq!(times, [0, 60, 180, 420, 900, 1860]);
    assert_eq!(wire.sender.counters().timeouts, 5);
    assert_eq!(
        wire.sender.rto().as_millis() / 100,
        0,
        "{:?}",
        wire.sender.rto()
    );
}

/// RFC 6298 §2.1 for the handshake, and RFC 5681 §3.1 for the window after it.
#[test]
fn a_handshake_is_tried_again_after_1_3_and_7_s() {
    for (lost, cwnd) in [(0, 10), (1, 10), (2, 1), (3, 1)] {
        for forward in [true, false] {
            let mut wire = Wire::new(&TcpConfig::default(), Native::Constant(1 << 30));
            let outcomes: Impairments = Box::new(move |n, s| Impairment {
                drop: s.syn && n < lost,
                ..Impairment::default()
            });
            if forward {
                wire.forward = outcomes;
            } else {
                wire.reverse = outcomes;
            }
            wire.sender.write(100 * 1448);
            wire.sender.close();
            let first = loop {
                assert!(wire.step());
                if let Some(first) = wire.sent.iter().find(|(_, s)| !s.syn) {
                    break first.0;
                }
            };
            let expected = [20, 1_020, 3_020, 7_020][lost as usize];
            assert_eq!(first, Time::from_millis(expected));
            assert_eq!(wire.data().count(), cwnd);
            wire.run_to_completion(Time::from_millis(100_000));
        }
    }
}

/// A timeout takes everything that is older than a round trip for lost, and slow start repairs it.
#[test]
fn a_lost_flight_is_repaired_by_slow_start() {
    let config = TcpConfig {
        handshake: false,
        ..TcpConfig::default()
    };
    let mut wire = Wire::new(&config, Native::Reno);
    wire.sender.write(1 << 40);
    // Everything for a while, probes too.
    wire.forward = Box::new(|n, _| Impairment {
        drop: (30..74).contains(&n),
        ..Impairment::default()
    });
    wire.run_until(Time::from_millis(5_000));
    let timeouts: Vec<_> = wire
        .invocations
        .iter()
        .filter(|i| i.cause == Cause::Timeout)
        .collect();
    assert!(!timeouts.is_empty());
    assert_eq!(wire.sender.state(), State::Open);
    assert!(
        timeouts
            .iter()
            .all(|i| i.state == State::Loss && i.signals[Signal::WasTimeout] == 1)
    );
    assert_eq!(wire.sender.in_flight(), wire.sender.recount_in_flight());
    assert!(wire.receiver.delivered() > 1_000_000);
}

/// RFC 3522: the path takes a second longer for a while; the timeout was a mistake, and neither
/// is the window sent again nor cwnd left small.
#[test]
fn a_spurious_timeout_is_taken_back() {
    for native in [Native::Reno, Native::Cubic] {
        let config = TcpConfig {
            handshake: false,
            ..TcpConfig::default()
        };
        let mut wire = Wire::new(&config, native);
        wire.sender.write(1 << 40);
        wire.forward = Box::new(|n, _| Impairment {
            late: if (310..3_000).contains(&n) {
                Duration::from_millis(1_000)
            } else {
                Duration::ZERO
            },
            ..Impairment::default()
        });
        wire.run_until(Time::from_millis(1_500));
        let counters = wire.sender.counters();
        assert!(counters.timeouts >= 1);
        assert_eq!(counters.undos, 1, "{counters:?}");
        assert!(counters.retransmissions <= 3, "{counters:?}");
        let at = wire.invocations.iter().position(|i| i.undone).unwrap();
        let undone = &wire.invocations[at];
        assert!(undone.cwnd >= undone.reduced_from, "{undone:?}");
        // The program is told in that invocation, and in no other.
        let told = |i: &Invocation| i.signal(Signal::Undo) == 1;
        assert_eq!(wire.invocations.iter().position(told), Some(at));
        assert_eq!(wire.invocations.iter().filter(|i| told(i)).count(), 1);
    }
}

/// Reordering within a quarter of the least RTT costs one mistake at most, which a D-SACK takes
/// back (RFC 8985 §6.2, step 4; RFC 3708). The signals say so as often as it happens.
#[test]
fn reordering_is_learnt() {
    let mut wire = Wire::new(&TcpConfig::default(), Native::Constant(100 * 1448));
    wire.serialisation = Duration::from_micros(100);
    wire.forward = Box::new(|n, _| Impairment {
        late: if n % 50 == 7 {
            Duration::from_millis(2)
        } else {
            Duration::ZERO
        },
        ..Impairment::default()
    });
    wire.sender.write(5_000 * 1448);
    wire.sender.close();
    wire.run_to_completion(Time::from_millis(60_000));
    let counters = wire.sender.counters();
    assert!(counters.retransmissions <= 2, "{counters:?}");
    assert_eq!(counters.undos, 1, "{counters:?}");
    let told = wire.invocations.iter().map(|i| i.signal(Signal::Undo));
    assert_eq!(told.sum::<u64>(), counters.undos);
    assert_eq!(counters.timeouts, 0);
    assert_eq!(wire.sender.state(), State::Open);
}

/// RFC 3168 §6.1.2: one reduction a window, however many echoes; the receiver is told.
#[test]
fn an_echo_reduces_once_in_a_round_trip() {
    let config = TcpConfig {
        ecn: Ecn::Classic,
        initial_window: 20,
        ..config()
    };
    let mut script = Script::new(&config, Native::Reno);
    script.send();
    script.now = Time::from_millis(100);
    let mut cwr = 0;
    let mut reductions = 0;
    for ack in 1..=20 {
        let says = Says {
            ece: true,
            ..Says::default()
        };
        let segment = fairwater_tcp::Segment {
            ack: ack * crate::script::MSS,
            window: 1 << 24,
            ece: says.ece,
            timestamp: Time::ZERO,
            ..Default::default()
        };
        script.sender.on_segment(script.now, &segment);
        let invocation = script.answer().unwrap();
        assert_eq!(invocation.state, State::Cwr);
        assert_eq!(invocation.signals[Signal::EcnPackets], 1);
        reductions = invocation.reductions;
        cwr += script.segments().iter().filter(|s| s.cwr).count();
    }
    assert_eq!((reductions, cwr), (1, 1));
    assert_eq!(script.cwnd(), 10);
    assert_eq!(script.sender.counters().retransmissions, 0);
}

/// RFC 6298 §3: the ACK of a retransmission gives no RTT sample, and shows no spurious reduction (RFC 3522), where
/// there are no timestamps.
#[test]
fn a_retransmission_says_nothing_of_the_rtt_without_timestamps() {
    for timestamps in [true, false] {
        let config = TcpConfig {
            timestamps,
            ..config()
        };
        let mut script = Script::new(&config, Native::Reno);
        script.send();
        script.now = Time::from_millis(100);
        script.ack(1, &Says::default());
        let before = script.sender.srtt_us();
        // A probe, then a timeout.
        for at in [1_000, 3_000] {
            script.now = Time::from_millis(at);
            script.sender.on_timer(script.now);
            script.send();
        }
        assert!(script.sender.counters().retransmissions > 0);
        script.now = Time::from_millis(3_010);
        // An echo of the first transmission.
        let says = Says {
            echo: Some(Time::ZERO),
            ..Says::default()
        };
        script.ack(10, &says);
        assert_eq!(script.sender.srtt_us() == before, !timestamps);
        assert_eq!(script.sender.counters().undos > 0, timestamps);
    }
}
