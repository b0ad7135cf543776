//! BBR v1, rule by rule.

use proptest::prelude::*;

use crate::support::driver::Driver;
use crate::support::path::{Ack, Controller, MSS, Path, Sample, bulk, run};

const RTT_US: u64 = 40_000;
/// 100 packets are a BDP.
const PER_S: u64 = 2_500;

fn path() -> Path {
    Path::new(PER_S, RTT_US, 1_000)
}

/// Packets/s over a span of time.
fn throughput(samples: &[Sample], from_us: u64, to_us: u64) -> f64 {
    let inside: Vec<_> = samples
        .iter()
        .filter(|s| (from_us..to_us).contains(&s.now_us))
        .collect();
    let (Some(first), Some(last)) = (inside.first(), inside.last()) else {
        return 0.0;
    };
    (last.delivered - first.delivered) as f64 / ((last.now_us - first.now_us) as f64 / 1e6)
}

/// The rates in a row, in thousandths of the path's, each with how long it held, RTTs.
fn plateaus(samples: &[Sample], from_us: u64, to_us: u64) -> Vec<(u64, f64)> {
    let mut plateaus: Vec<(u64, u64, u64)> = Vec::new();
    for s in samples
        .iter()
        .filter(|s| (from_us..to_us).contains(&s.now_us))
    {
        let share = s.rate / PER_S;
        match plateaus.last_mut() {
            Some((last, _, end)) if last.abs_diff(share) <= 15 => *end = s.now_us,
            _ => plateaus.push((share, s.now_us, s.now_us)),
        }
    }
    let length = |from: u64, to: u64| (to - from) as f64 / RTT_US as f64;
    plateaus
        .into_iter()
        .map(|(share, from, to)| (share, length(from, to)))
        .collect()
}

/// Cardwell et al. 2016: the rate grows until it no longer pays, by a factor that doubles what is
/// delivered in each round trip; then what it queued is drained.
#[test]
fn startup_doubles_and_drain_empties_the_queue() {
    let samples = run(path(), &mut Driver::new("bbr"), 2.0);
    let at = |us: u64| samples.iter().rfind(|s| s.now_us <= us).unwrap();
    // The first ACK comes after an RTT; 10 packets were sent, and 100 are a BDP.
    let rates: Vec<_> = (1..=3)
        .map(|n| at((2 * n + 1) * RTT_US / 2 * 2).rate)
        .collect();
    assert!(rates.windows(2).all(|r| r[1] > r[0]), "{rates:?}");
    let filled = samples
        .iter()
        .find(|s| s.in_flight > 150)
        .map(|s| s.now_us)
        .unwrap();
    assert!(filled < 6 * RTT_US, "a queue after {filled} µs");
    let most = samples.iter().map(|s| s.in_flight).max().unwrap();
    assert!(most < 330, "{most}: cwnd is 2.89 BDP in Startup");
    // Plateau found, and drained.
    let late: Vec<_> = samples.iter().filter(|s| s.now_us > 1_000_000).collect();
    assert!(late.iter().all(|s| s.in_flight < 150));
    assert!(late.iter().any(|s| s.in_flight <= 101));
}

/// The cycle of CCP Figure 3: 1.25, 0.75, 6 × 1, a phase for each RTT. Rates are 1 % lower.
#[test]
fn the_pacing_gain_goes_round() {
    for spec in ["bbr", "bbr:report=10ms", "bbr:report=ack"] {
        let samples = run(path(), &mut Driver::new(spec), 6.0);
        let all = plateaus(&samples, 1_000_000, 6_000_000);
        let cycles = all.windows(3).filter(|w| w[0].0 > 1_100).count();
        assert!((12..=16).contains(&cycles), "{spec}: {all:?}");
        for window in all.windows(3).filter(|w| w[0].0 > 1_100).take(cycles - 1) {
            let [up, down, cruise] = window else {
                unreachable!()
            };
            assert!((1_220..=1_260).contains(&up.0), "{spec}: {window:?}");
            assert!((0.9..=1.5).contains(&up.1), "{spec}: {window:?}");
            assert!((725..=760).contains(&down.0), "{spec}: {window:?}");
            assert!((0.3..=1.3).contains(&down.1), "{spec}: {window:?}");
            assert!((975..=1_005).contains(&cruise.0), "{spec}: {window:?}");
            assert!((5.5..=7.6).contains(&cruise.1), "{spec}: {window:?}");
        }
    }
}

/// Each 10 s, 200 ms with four packets.
#[test]
fn the_rtt_is_measured_each_ten_seconds() {
    let dips = |spec: &str| {
        let samples = run(path(), &mut Driver::new(spec), 35.0);
        let mut dips: Vec<(u64, u64)> = Vec::new();
        for s in samples
            .iter()
            .filter(|s| s.now_us > 1_000_000 && s.cwnd <= 4)
        {
            match dips.last_mut() {
                Some((_, end)) if s.now_us < *end + 1_000_000 => *end = s.now_us,
                _ => dips.push((s.now_us, s.now_us)),
            }
        }
        dips
    };
    for spec in ["bbr", "bbr:report=10ms"] {
        let dips = dips(spec);
        assert_eq!(dips.len(), 3, "{spec}: {dips:?}");
        for (from, to) in &dips {
            let held = to - from;
            assert!((200_000..=350_000).contains(&held), "{spec}: {held} µs");
        }
        for pair in dips.windows(2) {
            let apart = pair[1].0 - pair[0].1;
            assert!(
                (9_900_000..=10_500_000).contains(&apart),
                "{spec}: {dips:?}"
            );
        }
    }
    assert_eq!(dips("bbr:probe_rtt=off"), []);
    // With a floor of half a BDP, which is 50 packets, it never has so little in flight, but still measures.
    assert_eq!(dips("bbr:probe_rtt_share=0.5"), []);
    let samples = run(path(), &mut Driver::new("bbr:probe_rtt_share=0.5"), 35.0);
    let late = samples.iter().filter(|s| s.now_us > 5_000_000);
    let least = late.map(|s| s.in_flight).min().unwrap();
    assert!((40..=60).contains(&least), "{least}");
    assert!(dips("bbr:min_rtt_window=5s").len() >= 5);
}

#[test]
fn cwnd_is_the_gain_times_the_bdp_and_three_bursts() {
    for (gain, least) in [("2", 200), ("1.5", 150), ("4", 400)] {
        let spec = format!("bbr:cwnd_gain={gain}");
        let samples = run(path(), &mut Driver::new(&spec), 4.0);
        let cwnd = samples.last().unwrap().cwnd;
        assert!((least + 5..=least + 15).contains(&cwnd), "{spec}: {cwnd}");
    }
}

/// draft-cheng-iccrg-delivery-rate-estimation §3.4: what the application withheld says nothing of
/// the path, and a pause makes nothing forgotten.
#[test]
fn an_application_that_pauses_leaves_the_model_as_it_is() {
    let mut p = path();
    p.application = |now_us| {
        if now_us < 3_000_000 {
            now_us * PER_S / 1_000_000 + 400
        } else if now_us < 8_000_000 {
            7_900 + (now_us - 3_000_000) / 10_000
        } else {
            bulk(now_us)
        }
    };
    let samples = run(p, &mut Driver::new("bbr:probe_rtt=off"), 9.0);
    let trickle = throughput(&samples, 5_000_000, 8_000_000);
    assert!(trickle < 120.0, "{trickle}");
    let rate = samples.iter().rfind(|s| s.now_us < 8_000_000).unwrap().rate;
    assert!(rate > PER_S * MSS * 7 / 10, "{rate}");
    let after = throughput(&samples, 8_100_000, 9_000_000);
    assert!(after > 0.93 * PER_S as f64, "{after}");
}

/// Losses are no sign of congestion to it, but cwnd does not grow in the first round trip after.
#[test]
fn losses_neither_lower_the_rate_nor_let_a_burst_out() {
    for every in [100, 33] {
        let mut p = path();
        p.lose = Box::new(move |n, _| n % every == 0);
        let samples = run(p, &mut Driver::new("bbr"), 8.0);
        let rate = throughput(&samples, 1_000_000, 8_000_000) / PER_S as f64;
        assert!(rate > 0.95, "one of {every}: {rate}");
    }
    let mut p = path();
    p.lose = Box::new(|n, _| n == 6_000);
    let samples = run(p, &mut Driver::new("bbr"), 4.0);
    let at = samples.iter().position(|s| s.lost_now > 0).unwrap();
    let flight = samples[at - 1].in_flight;
    let round = samples[at].now_us..samples[at].now_us + RTT_US - 1_000;
    for s in samples.iter().filter(|s| round.contains(&s.now_us)) {
        assert!(s.cwnd <= flight + 1, "{} of {flight}", s.cwnd);
    }
    assert!(samples.last().unwrap().cwnd > 190);
}

/// After a timeout cwnd starts again from next to nothing; the model is kept.
#[test]
fn a_timeout_is_recovered_from_without_forgetting() {
    let mut p = path();
    p.lose = Box::new(|_, now| (3_000_000..3_400_000).contains(&now));
    let samples = run(p, &mut Driver::new("bbr"), 6.0);
    let at = samples.iter().rposition(|s| s.timeout).unwrap();
    assert!(samples[at].cwnd <= 4, "{}", samples[at].cwnd);
    let back = samples[at..].iter().find(|s| s.cwnd > 190).unwrap();
    let took = back.now_us - samples[at].now_us;
    assert!(took < 12 * RTT_US, "{took} µs");
    let rate = throughput(&samples, 4_500_000, 6_000_000);
    assert!(rate > 0.95 * PER_S as f64, "{rate}");
}

/// Half the capacity is noticed when the greatest rate has been forgotten. Until then cwnd is twice
/// the greater BDP, so that each of the ten round trips takes four times as long.
#[test]
fn a_lower_bandwidth_is_noticed_when_the_greater_is_forgotten() {
    for (window, longest) in [("10", 60), ("40", 200)] {
        let spec = format!("bbr:bw_window={window}");
        let mut driver = Driver::new(&spec);
        run(Path::new(PER_S, RTT_US, 1_000), &mut driver, 3.0);
        let mut later = Later {
            driver: &mut driver,
            by_us: 3_000_000,
        };
        let samples = run(Path::new(PER_S / 2, RTT_US, 1_000), &mut later, 8.0);
        let settled = samples
            .iter()
            .find(|s| s.rate < PER_S * MSS * 55 / 100 && s.now_us > RTT_US * 3);
        let rounds = settled.unwrap().now_us / RTT_US;
        assert!(rounds < longest, "{spec}: {rounds} RTTs");
    }
}

/// A controller whose clock began earlier.
struct Later<'d> {
    driver: &'d mut Driver,
    by_us: u64,
}

impl Controller for Later<'_> {
    fn invoke(&mut self, ack: &Ack, cwnd_packets: u64) -> (u64, u64) {
        let now_us = ack.now_us + self.by_us;
        self.driver.invoke(&Ack { now_us, ..*ack }, cwnd_packets)
    }
}

/// What an adversary makes of ACKs: late, in bursts, few, with timeouts that need not have been,
/// and delivery rates of next to nothing.
fn adversarial() -> impl Strategy<Value = (u64, Ack)> {
    let gap_us = prop_oneof![6 => 0..100_u64, 2 => 0..20_000_u64, 1 => 0..1_500_000_u64];
    let packets = prop_oneof![3 => 0..3_u64, 1 => 0..120_u64];
    let share = prop_oneof![2 => 0..10_u64, 1 => 0..=1_000_u64];
    (
        gap_us,
        packets,
        prop_oneof![3 => Just(0), 1 => 0..60_u64],
        prop_oneof![4 => Just(0), 1 => 0..30_u64],
        0..300_u64,
        RTT_US..2_000_000,
        share,
        prop::bool::weighted(0.03),
    )
        .prop_map(
            |(gap_us, acked, misordered, lost, flight, rtt_us, share, timeout)| {
                let rate = PER_S * MSS * share / 1_000;
                let ack = Ack {
                    acked: acked * MSS,
                    acked_packets: acked,
                    misordered: misordered * MSS,
                    lost_packets: lost,
                    in_flight: flight * MSS,
                    pending: 1 << 30,
                    rtt_us,
                    rate_incoming: rate,
                    rate_outgoing: rate,
                    timeout,
                    ..Ack::default()
                };
                (gap_us, ack)
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// CC-Fuzz (Ray and Seshan, HotNets 2022) found ACK patterns after which BBR stays slow for
    /// good. It is so for both versions: whatever was done to it, the flow finds back: from a packet each RTT, the least at
    /// which it paces, by a quarter in each cycle of eight RTTs.
    #[test]
    fn no_pattern_of_acks_stalls_it(
        acks in prop::collection::vec(adversarial(), 1..400),
        name in prop::sample::select(vec!["bbr", "bbr3"]),
        report in prop::sample::select(vec!["rtt", "10ms", "ack"]),
    ) {
        let mut driver = Driver::new(&format!("{name}:report={report}"));
        run(path(), &mut driver, 2.0);
        let mut now_us = 2_000_000;
        let mut cwnd = 200;
        for (gap_us, ack) in acks {
            now_us += gap_us;
            cwnd = driver.invoke(&Ack { now_us, ..ack }, cwnd).0;
        }
        let bdp = (PER_S * RTT_US / 1_000_000) as f64;
        let rounds = 8.0 * bdp.ln() / 1.25_f64.ln();
        let seconds = rounds * 1.3 * RTT_US as f64 / 1e6 + 1.0;
        let mut later = Later { driver: &mut driver, by_us: now_us };
        let samples = run(path(), &mut later, seconds + 2.0);
        let rate = throughput(&samples, (seconds * 1e6) as u64, u64::MAX) / PER_S as f64;
        prop_assert!(rate > 0.8, "{rate} after {rounds} RTTs");
    }
}
