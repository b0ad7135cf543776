//! A fixed window or rate, and the path that it measures.

use crate::support::figure::{Figure, Panel};
use crate::support::{BOTTLENECK, Dumbbell, observed, series};

const MSS: f64 = 1448.0;
/// With headers.
const PACKET: f64 = 1500.0;

/// A window a round trip, and what is beyond the bandwidth-delay product waits.
#[test]
fn a_window_passes_each_round_trip_and_its_excess_waits() {
    for (mbit, rtt_ms, window) in [(12, 40, 20), (50, 20, 60), (12, 40, 60), (50, 20, 120)] {
        let network = Dumbbell::new(mbit, rtt_ms, 10.0).plane("constant");
        let config = network.warm_config(1, 0.2);
        let outcome = observed(&config, &[&format!("constant:cwnd={window}")]);
        let packet_ms = PACKET * 8e-3 / mbit as f64;
        let window = f64::from(window);
        // Beside the propagation: its own transmission, and that of the next, for which its ACK
        // waits (RFC 1122 §4.2.3.2).
        let round_ms = rtt_ms as f64 + 2.0 * packet_ms;
        let bdp_packets = round_ms / packet_ms;
        let measured = outcome.flows[0].delivered_bytes as f64 / 8e3;
        let share = measured / (window.min(bdp_packets) * MSS / round_ms);
        assert!(
            (0.99..1.01).contains(&share),
            "{mbit} Mbit/s, {window}: {share}"
        );
        let waits_ms = (window - bdp_packets).max(0.0) * packet_ms;
        let queueing_ms = outcome.edges[BOTTLENECK].queueing_us.unwrap().p50 / 1e3;
        let off = (queueing_ms - waits_ms).abs();
        assert!(off < 2.0 * packet_ms, "{queueing_ms} ms, not {waits_ms}");
    }
}

#[test]
fn a_rate_is_kept_and_leaves_no_queue() {
    for (mbit, rtt_ms, paced) in [(12, 40, 6), (50, 20, 45), (100, 5, 30)] {
        let network = Dumbbell::new(mbit, rtt_ms, 10.0).plane("constant");
        let config = network.warm_config(1, 0.2);
        let outcome = observed(&config, &[&format!("constant:rate={paced}mbit")]);
        let measured_mbit = outcome.flows[0].delivered_bytes as f64 * 8e-6 / 8.0;
        let share = measured_mbit / f64::from(paced);
        assert!(
            (0.98..1.01).contains(&share),
            "{paced} Mbit/s of {mbit}: {share}"
        );
        let queueing_us = outcome.edges[BOTTLENECK].queueing_us.unwrap().p95;
        assert!(queueing_us < 1.0, "{queueing_us}");
    }
}

#[test]
fn the_figure_of_windows_below_at_and_above_the_product() {
    let network = Dumbbell::new(12, 40, 4.0).plane("constant");
    let mut throughput = Panel::new("throughput", "Mbit/s");
    let mut queueing = Panel::new("queueing delay", "ms");
    for window in [60, 40, 20] {
        let spec = format!("constant:cwnd={window}");
        let outcome = observed(&network.config(1), &[&spec]);
        let name = format!("{window} segments");
        throughput = throughput.line(&name, series::throughput(&outcome.flows[0], 0.1));
        queueing = queueing.line(&name, series::queueing(&outcome.edges[BOTTLENECK]));
    }
    Figure::new(
        "constant",
        "Fixed windows on 12 Mbit/s, 40 ms: one BDP is 40 packets",
    )
    .panel(throughput)
    .panel(queueing)
    .check();
}
