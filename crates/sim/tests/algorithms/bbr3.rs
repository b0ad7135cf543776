//! BBR v3: draft-ietf-ccwg-bbr.

use std::time::Duration;

use fairwater_net::{Limit, Time};
use fairwater_sim::{Native, Outcome};

use crate::bbr::one_percent_of_loss_costs_next_to_nothing_under;
use crate::support::figure::{Figure, Panel};
use crate::support::{BOTTLENECK, Dumbbell, each_seed, observed, series};

fn buffered(mut network: Dumbbell, tenths_of_bdp: u64) -> Dumbbell {
    let rtt_us = u64::try_from(network.rtt.as_micros()).unwrap();
    network.limit = Limit::Bytes(network.mbit * rtt_us / 8 * tenths_of_bdp / 10);
    network
}

/// Its short-term bounds do not follow losses that it is to tolerate.
#[test]
fn one_percent_of_loss_costs_next_to_nothing() {
    one_percent_of_loss_costs_next_to_nothing_under("bbr3");
}

/// The flow and the sender's own Cubic, up to two seconds later; the last two thirds count.
fn beside_cubic(spec: &str, tenths_of_bdp: u64, seed: u64) -> Outcome {
    let network = Dumbbell::new(12, 40, 60.0)
        .plane(spec)
        .native(Native::Cubic);
    let mut config = buffered(network, tenths_of_bdp).config(seed);
    config.flows[1].start_jitter = Duration::from_secs(2);
    config.measure.from = Time::from_millis(15_000);
    observed(&config, &[spec])
}

/// Each takes about half, where v1 leaves Cubic a tenth.
#[test]
fn it_shares_with_cubic_where_v1_does_not() {
    for tenths in [5, 10] {
        let share = |spec: &str| {
            each_seed(1..=4, |seed| {
                let outcome = beside_cubic(spec, tenths, seed);
                let [bbr, cubic] = [0, 1].map(|i| outcome.flows[i].delivered_bytes as f64);
                cubic / (bbr + cubic)
            })
        };
        let (one, three) = (share("bbr"), share("bbr3"));
        println!("{tenths} tenths of a BDP: of v1 {one:.3?}, of v3 {three:.3?}");
        assert!(one.iter().all(|share| *share < 0.2), "of v1: {one:?}");
        let fair = |share: &f64| (0.28..0.62).contains(share);
        assert!(three.iter().all(fair), "{tenths} tenths: {three:?}");
    }
}

/// A buffer of a tenth or a fifth of the BDP: v1 probes into it with each cycle, v3 finds out what
/// fits and leaves room.
#[test]
fn it_loses_little_over_a_shallow_buffer() {
    for (mbit, rtt_ms, tenths, flows) in [(24, 40, 1, 1), (24, 40, 2, 2), (12, 100, 1, 2)] {
        let of = |spec: &str| {
            each_seed(1..=3, |seed| {
                let mut network = Dumbbell::new(mbit, rtt_ms, 16.0);
                for _ in 0..flows {
                    network = network.plane(spec);
                }
                let mut config = buffered(network, tenths).config(seed);
                for flow in &mut config.flows {
                    flow.start_jitter = Duration::from_secs(1);
                }
                config.measure.from = Time::from_millis(5_000);
                let edge = observed(&config, &[spec]).edges.swap_remove(BOTTLENECK);
                let dropped = edge.dropped as f64 / (edge.packets + edge.dropped) as f64;
                (dropped * 100.0, edge.utilisation)
            })
        };
        let path = format!("{mbit} Mbit/s, {rtt_ms} ms, {tenths} tenths, {flows} flows");
        let (one, three) = (of("bbr"), of("bbr3"));
        println!("{path}: v1 {one:.3?}, v3 {three:.3?}");
        for ((lost_by_one, _), (lost, used)) in one.iter().zip(&three) {
            assert!(*lost < 2.0, "{path}: {lost} % lost");
            assert!(
                *lost < lost_by_one / 4.0,
                "{path}: {lost} % of {lost_by_one} %"
            );
            assert!(*used > 0.9, "{path}: {used}");
        }
    }
}

/// Cruise at the model less 1 %, a quarter more to probe, a tenth less until that is drained; and
/// half a BDP in flight each five seconds.
#[test]
fn the_phases_are_seen_in_the_rate() {
    let network = buffered(Dumbbell::new(24, 40, 31.0).plane("bbr3"), 20);
    let outcome = observed(&network.config(1), &["bbr3"]);
    let flow = &outcome.flows[0];
    // In hundredths of the 23.17 Mbit/s of payload that there are.
    let mut held: Vec<(u32, f64, f64)> = Vec::new();
    for (at, rate) in series::between(&series::rate(flow), 2.0, 31.0) {
        let share = (rate / 23.17 * 100.0).round() as u32;
        match held.last_mut() {
            Some((same, _, to)) if *same == share => *to = at,
            _ => held.push((share, at, at)),
        }
    }
    assert!(
        held.iter().all(|h| [89, 99, 124].contains(&h.0)),
        "{held:?}"
    );
    let cycles = held
        .windows(3)
        .filter(|w| [w[0].0, w[1].0, w[2].0] == [124, 89, 99]);
    let cycles: Vec<_> = cycles.collect();
    assert!((4..=10).contains(&cycles.len()), "{held:?}");
    for cycle in cycles {
        let (up, down, cruise) = (cycle[0], cycle[1], cycle[2]);
        // Three round trips without a quarter more, with ever more in the queue.
        assert!((0.11..0.25).contains(&(up.2 - up.1)), "{cycle:?}");
        assert!((0.2..0.5).contains(&(down.2 - down.1)), "{cycle:?}");
        assert!(cruise.2 - cruise.1 > 1.5, "{cycle:?}");
    }
    let dips = series::falls(&series::throughput(flow, 0.1), 0.7);
    assert_eq!(dips.len(), 5, "{dips:?}");
    for dip in dips {
        assert!((0.35..0.65).contains(&(dip.to / dip.from)), "{dip:?}");
    }
}

#[test]
fn the_figure_of_the_shares() {
    let three = beside_cubic("bbr3", 10, 1);
    let one = beside_cubic("bbr", 10, 1);
    let both = |title: &str, name: &str, outcome: &Outcome| {
        Panel::new(title, "Mbit/s")
            .line(name, series::throughput(&outcome.flows[0], 0.5))
            .line("cubic", series::throughput(&outcome.flows[1], 0.5))
    };
    Figure::new(
        "bbr3",
        "BBR v3 and v1 beside Cubic: 12 Mbit/s, 40 ms, a buffer of one BDP",
    )
    .panel(both("v3, throughput", "bbr3", &three))
    .panel(both("v1, throughput", "bbr", &one))
    .panel(
        Panel::new("queueing delay", "ms")
            .line("beside bbr3", series::queueing(&three.edges[BOTTLENECK]))
            .line("beside bbr", series::queueing(&one.edges[BOTTLENECK])),
    )
    .check();
}
