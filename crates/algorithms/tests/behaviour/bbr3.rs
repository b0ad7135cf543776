//! BBR v3, rule by rule.

use crate::support::driver::Driver;
use crate::support::path::{Ack, Controller, MSS, Path, Sample, bulk, run};

const RTT_US: u64 = 40_000;
/// 100 packets are a BDP.
const PER_S: u64 = 2_500;

fn over(path: Path, spec: &str, seconds: f64) -> Vec<Sample> {
    run(path, &mut Driver::new(spec), seconds)
}

fn used(samples: &[Sample], from_s: f64, to_s: f64) -> f64 {
    let inside = |s: &&Sample| (from_s * 1e6..to_s * 1e6).contains(&(s.now_us as f64));
    let inside: Vec<_> = samples.iter().filter(inside).collect();
    let (first, last) = (inside[0], inside[inside.len() - 1]);
    (last.delivered - first.delivered) as f64
        / ((last.now_us - first.now_us) as f64 / 1e6)
        / PER_S as f64
}

fn after(samples: &[Sample], seconds: f64) -> impl Iterator<Item = &Sample> {
    samples
        .iter()
        .filter(move |s| s.now_us as f64 > seconds * 1e6)
}

/// "Exiting Acceleration Based on Bandwidth Plateau": Startup holds two BDPs for three round trips
/// at most, Drain takes them back.
#[test]
fn startup_ends_when_it_brings_no_more() {
    let samples = over(Path::new(PER_S, RTT_US, 1_000), "bbr3", 3.0);
    let most = samples.iter().map(|s| s.in_flight).max().unwrap();
    assert!((180..=290).contains(&most), "{most}");
    let first = samples.iter().find(|s| s.in_flight > 150).unwrap();
    let drained = after(&samples, first.now_us as f64 / 1e6).find(|s| s.in_flight <= 105);
    let took = drained.unwrap().now_us - first.now_us;
    assert!(took < 14 * RTT_US, "{took} µs");
    assert!(used(&samples, 1.0, 3.0) > 0.97);
}

/// "Exiting Startup Based on Packet Loss", and what was lost bounds what is in flight later.
#[test]
fn startup_ends_when_it_loses_too_much() {
    let samples = over(Path::new(PER_S, RTT_US, 30), "bbr3", 3.0);
    let lost: u64 = samples.iter().map(|s| s.lost_now).sum();
    assert!(lost < 400, "{lost} lost");
    let most = after(&samples, 1.5).map(|s| s.in_flight).max().unwrap();
    assert!(most <= 131, "{most}: 100 are a BDP, and 30 wait");
    assert!(used(&samples, 1.5, 3.0) > 0.9);
}

/// "ProbeRTT": half a BDP in flight for 200 ms, each five seconds.
#[test]
fn the_rtt_is_measured_each_five_seconds_at_half_the_bdp() {
    let dips = |spec: &str| {
        let samples = over(Path::new(PER_S, RTT_US, 1_000), spec, 20.5);
        let mut dips: Vec<(u64, u64)> = Vec::new();
        for s in after(&samples, 1.0).filter(|s| s.in_flight <= 51) {
            match dips.last_mut() {
                Some((_, end)) if s.now_us < *end + 1_000_000 => *end = s.now_us,
                _ => dips.push((s.now_us, s.now_us)),
            }
        }
        let least = after(&samples, 1.0).map(|s| s.cwnd).min().unwrap();
        (dips, least)
    };
    for spec in ["bbr3", "bbr3:report=10ms"] {
        let (dips, least) = dips(spec);
        assert!(dips.len() == 3, "{spec}: {dips:?}");
        for (from, to) in &dips {
            assert!(
                (200_000..=350_000).contains(&(to - from)),
                "{spec}: {dips:?}"
            );
        }
        assert!((45..=52).contains(&least), "{spec}: cwnd {least}");
    }
    assert_eq!(dips("bbr3:probe_rtt=off").0, []);
}

/// ProbeRTTCwnd follows the model: when the bandwidth rises while in flight has still to fall, it is
/// the greater volume that it falls to.
#[test]
fn the_measurement_ends_though_the_bandwidth_rose_meanwhile() {
    let mut driver = Driver::new("bbr3");
    let (mut now_us, mut cwnd) = (0, 10);
    let mut acknowledge = |in_flight: u64, packets_per_s: u64| {
        for in_flight in [in_flight, in_flight - 4] {
            now_us += 1_000;
            let ack = Ack {
                now_us,
                acked: 4 * MSS,
                acked_packets: 4,
                in_flight: in_flight * MSS,
                pending: 1_000 * MSS,
                rtt_us: RTT_US,
                rate_incoming: packets_per_s * MSS,
                rate_outgoing: packets_per_s * MSS,
                ..Ack::default()
            };
            (cwnd, _) = driver.invoke(&ack, cwnd);
        }
        (now_us, cwnd)
    };
    while acknowledge(100, PER_S).0 < 2_000_000 {}
    let cruising = acknowledge(100, PER_S).1;
    assert!(cruising > 150, "{cruising}");
    // 5 s after the least RTT.
    while acknowledge(100, PER_S).1 > 60 {
        assert!(acknowledge(100, PER_S).0 < 7_000_000, "no measurement");
    }
    while acknowledge(60, 3 * PER_S).1 < 100 {
        assert!(acknowledge(60, 3 * PER_S).0 < 7_000_000, "cwnd stays");
    }
    let until_us = acknowledge(92, 3 * PER_S).0 + 1_000_000;
    while acknowledge(92, 3 * PER_S).0 < until_us {}
    let after = acknowledge(92, 3 * PER_S).1;
    assert!(
        after > 180,
        "half of the new BDP of 300 and no more: {after}"
    );
}

/// HandleInflightTooHigh and InflightWithHeadroom: once a probe has lost too much, cruising leaves
/// 15 % of what fitted.
#[test]
fn a_probe_that_loses_bounds_what_is_in_flight() {
    let samples = over(Path::new(PER_S, RTT_US, 60), "bbr3:probe_rtt=off", 20.0);
    let probes: Vec<_> = after(&samples, 1.0).filter(|s| s.lost_now > 0).collect();
    assert!(
        !probes.is_empty(),
        "a buffer of 0.6 BDP is overrun now and then"
    );
    let lost: u64 = probes.iter().map(|s| s.lost_now).sum();
    assert!(lost < 500, "{lost}");
    assert!(
        used(&samples, 2.0, 20.0) > 0.93,
        "{}",
        used(&samples, 2.0, 20.0)
    );
    // Most of the time nothing waits: the mean RTT is near the path's.
    let late: Vec<_> = after(&samples, 2.0).collect();
    let mean = late.iter().map(|s| s.rtt_us).sum::<u64>() / late.len() as u64;
    assert!(mean < RTT_US * 115 / 100, "{mean} µs");
}

/// "ECN": marks are congestion, unless the configuration says otherwise.
#[test]
fn marks_are_answered_as_losses_are() {
    let marked = |spec: &str| {
        let mut path = Path::new(PER_S, RTT_US, 1_000);
        path.mark = Box::new(|_, waiting| waiting > 15);
        let samples = over(path, spec, 20.0);
        let marked: u64 = after(&samples, 2.0).map(|s| s.marked_now).sum();
        (marked, used(&samples, 2.0, 20.0))
    };
    let (with, without) = (
        marked("bbr3:probe_rtt=off"),
        marked("bbr3:probe_rtt=off,ecn=off"),
    );
    assert!(with.0 < without.0 / 2, "{with:?}, {without:?}");
    assert!(with.1 > 0.9, "{with:?}");
}

/// "When not Probing for Bandwidth": a capacity that others take is given up within round trips,
/// not at the next probe.
#[test]
fn losses_while_cruising_lower_the_rate_at_once() {
    let mut path = Path::new(PER_S, RTT_US, 1_000);
    // For a second, every fourth packet is lost: three quarters are delivered.
    path.lose = Box::new(|n, now| n % 4 == 0 && (3_100_000..4_100_000).contains(&now));
    let samples = over(path, "bbr3:probe_rtt=off,probe_wait=20s", 6.0);
    let rate = |at: u64| samples.iter().rfind(|s| s.now_us <= at).unwrap().rate;
    let (before, later) = (rate(3_000_000), rate(3_100_000 + 6 * RTT_US));
    assert!(later < before * 85 / 100, "{later} of {before}");
    assert!(later > before * 15 / 100, "{later} of {before}");
}

/// "Restarting From Idle" and §3.4 of the delivery-rate draft: a pause leaves the model as it is.
#[test]
fn a_pause_makes_nothing_forgotten() {
    let mut path = Path::new(PER_S, RTT_US, 1_000);
    path.application = |now_us| match now_us {
        0..3_000_000 => bulk(now_us).min(400 + now_us * PER_S / 1_000_000),
        3_000_000..8_000_000 => 7_900,
        _ => bulk(now_us),
    };
    let samples = over(path, "bbr3:probe_rtt=off", 9.5);
    let resumed = after(&samples, 8.0).next().unwrap();
    assert!(used(&samples, resumed.now_us as f64 / 1e6 + 0.1, 9.5) > 0.9);
}

#[test]
fn a_timeout_is_recovered_from() {
    let mut path = Path::new(PER_S, RTT_US, 1_000);
    path.lose = Box::new(|_, now| (3_000_000..3_400_000).contains(&now));
    let samples = over(path, "bbr3:probe_rtt=off", 12.0);
    assert!(samples.iter().any(|s| s.timeout));
    assert!(
        used(&samples, 9.0, 12.0) > 0.9,
        "{}",
        used(&samples, 9.0, 12.0)
    );
}
