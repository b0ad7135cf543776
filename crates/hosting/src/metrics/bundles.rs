//! The metrics of bundles.

use std::sync::atomic::AtomicU64;

use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::bundle::{BoxRows, BundleRow, ReceiveboxStatus, SendboxRow};

type Labels = Vec<(&'static str, String)>;
type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;
type Counters = Family<Labels, Counter<u64, AtomicU64>>;

/// Registers what boxes tell. Without boxes there is nothing.
pub(super) fn register(registry: &mut Registry, boxes: &BoxRows) {
    if let Some(sendbox) = &boxes.sendbox {
        register_sendbox(registry, sendbox);
    }
    if let Some(receivebox) = &boxes.receivebox {
        register_receivebox(registry, receivebox);
    }
}

fn of(name: &str) -> Labels {
    vec![("bundle", name.to_owned())]
}

/// A gauge of a bundle: name, help, and value, if there is one.
type BundleGauge = (&'static str, &'static str, fn(&BundleRow) -> Option<f64>);

const GAUGES: [BundleGauge; 10] = [
    (
        "bundle_rate_bits_per_second",
        "Rate that is enforced on a bundle; absent while none is",
        |row| row.rate_bps.map(|rate| rate as f64),
    ),
    (
        "bundle_send_rate_bits_per_second",
        "Rate at which a bundle leaves its sendbox",
        |row| row.send_rate_bps.map(|rate| rate as f64),
    ),
    (
        "bundle_receive_rate_bits_per_second",
        "Rate at which a bundle comes to its receivebox",
        |row| row.receive_rate_bps.map(|rate| rate as f64),
    ),
    (
        "bundle_queue_bytes",
        "Bytes of a bundle that wait at the sendbox",
        |row| Some(row.queue_bytes as f64),
    ),
    (
        "bundle_queue_seconds",
        "Time that the queue at the sendbox takes at the enforced rate",
        |row| row.queue_us.map(seconds),
    ),
    (
        "bundle_network_queue_seconds",
        "RTT above the least RTT",
        |row| row.network_queue_us.map(seconds),
    ),
    ("bundle_min_rtt_seconds", "Least RTT of a bundle", |row| {
        row.min_rtt_us.map(seconds)
    }),
    (
        "bundle_match_ratio",
        "Share of boundary packets that feedback matched",
        |row| row.match_ratio,
    ),
    (
        "bundle_coverage_ratio",
        "Share of packets that pass the receivebox",
        |row| Some(row.coverage),
    ),
    (
        "bundle_out_of_order_ratio",
        "Share of boundary packets that arrived out of order",
        |row| row.out_of_order,
    ),
];

fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}

fn register_sendbox(registry: &mut Registry, sendbox: &SendboxRow) {
    for (name, help, value) in GAUGES {
        let family = Gauges::default();
        for row in &sendbox.bundles {
            if let Some(value) = value(row) {
                family.get_or_create(&of(&row.name)).set(value);
            }
        }
        registry.register(name, help, family);
    }
    let modes = Gauges::default();
    for row in &sendbox.bundles {
        let labels = [of(&row.name), vec![("mode", row.mode.clone())]].concat();
        modes.get_or_create(&labels).set(1.0);
    }
    registry.register("bundle_mode", "1 for the mode that a bundle is in", modes);
    let bytes = Counters::default();
    let packets = Counters::default();
    for row in &sendbox.bundles {
        bytes.get_or_create(&of(&row.name)).inc_by(row.sent_bytes);
        packets
            .get_or_create(&of(&row.name))
            .inc_by(row.sent_packets);
    }
    let help = "Bytes of a bundle that left the sendbox";
    registry.register("bundle_sent_bytes", help, bytes);
    let help = "Packets of a bundle that left the sendbox";
    registry.register("bundle_sent_packets", help, packets);
    for (name, help, value) in [
        (
            "sendbox_dropped_packets",
            "Packets that queues of the sendbox dropped",
            sendbox.dropped,
        ),
        (
            "sendbox_passed_packets",
            "Packets that passed by the sendbox, as it was late",
            sendbox.passed,
        ),
        (
            "sendbox_stalls",
            "Times that the sendbox was late",
            sendbox.stalls,
        ),
    ] {
        registry.register(name, help, ConstCounter::new(value));
    }
    let help = "Messages that the sendbox refused";
    register_refusals(registry, "sendbox_messages_refused", help, &sendbox.refused);
}

fn register_receivebox(registry: &mut Registry, receivebox: &ReceiveboxStatus) {
    let bytes = Counters::default();
    let packets = Counters::default();
    let marked = Counters::default();
    for row in &receivebox.bundles {
        bytes.get_or_create(&of(&row.name)).inc_by(row.bytes);
        packets.get_or_create(&of(&row.name)).inc_by(row.packets);
        marked.get_or_create(&of(&row.name)).inc_by(row.ce_packets);
    }
    let help = "Bytes of a bundle that came to the receivebox";
    registry.register("bundle_received_bytes", help, bytes);
    let help = "Packets of a bundle that came to the receivebox";
    registry.register("bundle_received_packets", help, packets);
    let help = "Packets of a bundle that came to the receivebox with ECN's CE";
    registry.register("bundle_received_ce_packets", help, marked);
    let answered = ConstCounter::new(receivebox.answered);
    registry.register(
        "receivebox_answers",
        "Feedback that the receivebox sent",
        answered,
    );
    let help = "Messages that the receivebox refused";
    register_refusals(
        registry,
        "receivebox_messages_refused",
        help,
        &receivebox.refused,
    );
}

fn register_refusals(registry: &mut Registry, name: &str, help: &str, refused: &[(String, u64)]) {
    let family = Counters::default();
    for (reason, count) in refused {
        let labels = vec![("reason", reason.clone())];
        family.get_or_create(&labels).inc_by(*count);
    }
    registry.register(name, help, family);
}
