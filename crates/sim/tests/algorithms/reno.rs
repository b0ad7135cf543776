//! NewReno: RFC 5681, RFC 6582.

use fairwater_sim::Native;

use crate::support::figure::{Figure, Panel};
use crate::support::{BOTTLENECK, Dumbbell, each_seed, observed, series};

const MSS: u32 = 1448;

/// RFC 5681 §3.1 and §3.2, whatever the path: one segment more each RTT, and half after a loss.
#[test]
fn the_window_rises_by_a_segment_a_round_trip_and_falls_to_half() {
    for (mbit, rtt_ms) in [(12, 40), (20, 25), (8, 80)] {
        let network = Dumbbell::new(mbit, rtt_ms, 40.0).plane("reno");
        let outcome = observed(&network.config(1), &["reno"]);
        let flow = &outcome.flows[0];
        let cwnd = series::cwnd(flow, MSS);
        let mut falls = series::falls(&cwnd, 0.8);
        falls.retain(|fall| fall.at_s > 5.0);
        assert!(falls.len() >= 3, "{mbit} Mbit/s: {falls:?}");
        for (fall, next) in falls.iter().zip(&falls[1..]) {
            let share = fall.to / fall.from;
            assert!((0.47..0.53).contains(&share), "{mbit} Mbit/s: {fall:?}");
            let (from, to) = (fall.at_s + 0.2, next.at_s - 0.3);
            let srtt = series::between(&series::srtt(flow), from, to);
            let rounds = (to - from) * 1e3 / series::mean(&srtt);
            let (least, most) = series::extremes(&series::between(&cwnd, from, to));
            let per_round = (most - least) / rounds;
            assert!(
                (0.9..1.1).contains(&per_round),
                "{mbit} Mbit/s: {per_round}"
            );
        }
    }
}

/// Mathis, Semke, Mahdavi & Ott, CCR 27(3), 1997: √(3/2) / √p segments per RTT at a loss of p. It
/// is of a model without timeouts and of one loss at a time.
#[test]
fn throughput_is_the_inverse_root_of_the_loss() {
    for (per_mille, rtt_ms) in [(1, 40), (4, 40), (2, 100)] {
        let expected = 1.5_f64.sqrt() / (f64::from(per_mille) / 1e3).sqrt();
        let means = each_seed(1..=5, |seed| {
            let mut network = Dumbbell::new(100, rtt_ms, 60.0).plane("reno");
            network.loss_per_mille = per_mille;
            let outcome = observed(&network.config(seed), &["reno"]);
            let bytes = outcome.flows[0].delivered_bytes as f64;
            bytes / f64::from(MSS) / 60.0 * rtt_ms as f64 / 1e3
        });
        let share = means.iter().sum::<f64>() / means.len() as f64 / expected;
        assert!(
            (0.85..1.15).contains(&share),
            "{per_mille} ‰: {means:?}, not {expected}"
        );
    }
}

#[test]
fn the_figure_of_the_sawtooth() {
    let network = Dumbbell::new(12, 40, 30.0);
    let plane = observed(&network.clone().plane("reno").config(1), &["reno"]);
    let native = observed(&network.native(Native::Reno).config(1), &["reno"]);
    Figure::new(
        "reno",
        "NewReno alone: 12 Mbit/s, 40 ms, a buffer of one BDP",
    )
    .panel(
        Panel::new("cwnd", "segments")
            .line("reno", series::cwnd(&plane.flows[0], MSS))
            .line("inside the sender", series::cwnd(&native.flows[0], MSS)),
    )
    .panel(
        Panel::new("throughput", "Mbit/s")
            .line("reno", series::throughput(&plane.flows[0], 0.2))
            .level("capacity", 12.0),
    )
    .panel(
        Panel::new("queueing delay", "ms")
            .line("reno", series::queueing(&plane.edges[BOTTLENECK]))
            .level("a full buffer", 40.0),
    )
    .check();
}
