//! What boxes tell of their bundles.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use fairwater_bundle::{ModeChange, Refusal, RefusalCounts, SendboxStatus};
use fairwater_bundle_linux::LinuxReceiveboxStatus;
use serde::{Deserialize, Serialize};

use super::{ReceiveboxConfig, SendboxConfig};

/// Changes of modes that are kept.
const MOST_CHANGES: usize = 256;

/// The boxes of one process, at one time.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct BoxRows {
    /// Its sendbox, if it has one.
    pub sendbox: Option<SendboxRow>,
    /// Its receivebox, if it has one.
    pub receivebox: Option<ReceiveboxStatus>,
}

/// A sendbox, at one time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SendboxRow {
    /// How it carries packets: `tap` or `kernel`.
    pub data_plane: String,
    /// Interfaces from which the site's packets come.
    pub ports: Vec<String>,
    /// Its bundles, in the order of the configuration.
    pub bundles: Vec<BundleRow>,
    /// Changes of modes, the oldest first.
    pub changes: Vec<ChangeRow>,
    /// Packets that came from the site for a bundle.
    pub received: u64,
    /// Packets that went on.
    pub written: u64,
    /// Packets that queues dropped.
    pub dropped: u64,
    /// Packets that passed by the box, as it was late.
    pub passed: u64,
    /// Times that the box was late.
    pub stalls: u64,
    /// Times that the clock jumped, or the box stood still.
    pub clock_jumps: u64,
    /// Messages refused, by reason, without those that did not occur.
    pub refused: Vec<(String, u64)>,
}

/// A bundle at its sendbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BundleRow {
    /// Its name.
    pub name: String,
    /// Its number.
    pub number: u32,
    /// What is done with its traffic.
    pub mode: String,
    /// The algorithm.
    pub algorithm: String,
    /// The scheduler.
    pub scheduler: String,
    /// The enforced rate, bit/s, if one is.
    pub rate_bps: Option<u64>,
    /// Bytes in the sendbox's queue.
    pub queue_bytes: u64,
    /// Time that the queue takes at the rate, µs, if there is one.
    pub queue_us: Option<u64>,
    /// Queueing in the network: what the latest RTT is above the least, µs.
    pub network_queue_us: Option<u64>,
    /// The latest RTT, µs.
    pub rtt_us: Option<u64>,
    /// The least RTT, µs.
    pub min_rtt_us: Option<u64>,
    /// Rate at which the bundle left the sendbox, bit/s.
    pub send_rate_bps: Option<u64>,
    /// Rate at which it came to the receivebox, bit/s.
    pub receive_rate_bps: Option<u64>,
    /// Share of boundary packets that feedback matched, 0 to 1.
    pub match_ratio: Option<f64>,
    /// Share of packets that pass the receivebox, 0 to 1.
    pub coverage: f64,
    /// Share of boundary packets that arrived out of order, 0 to 1.
    pub out_of_order: Option<f64>,
    /// Mean packets of an epoch, N.
    pub epoch_packets: u64,
    /// Where the receivebox is.
    pub receivebox: Option<SocketAddr>,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Boundary packets that feedback matched.
    pub matched: u64,
    /// Feedback without a boundary packet.
    pub surplus: u64,
}

/// A change of a bundle's mode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeRow {
    /// The bundle's number.
    pub bundle: u32,
    /// How long ago it was, ms.
    pub ago_ms: u64,
    /// The change, as a sentence.
    pub sentence: String,
}

/// A receivebox, at one time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiveboxStatus {
    /// Interfaces at which packets come from the network.
    pub ports: Vec<String>,
    /// Where messages are received.
    pub listen: SocketAddr,
    /// Its bundles, in the order of the configuration.
    pub bundles: Vec<ReceiveBundleRow>,
    /// Feedback sent.
    pub answered: u64,
    /// Boundary packets that could not be told, as too many waited.
    pub lost: u64,
    /// Messages refused, by reason, without those that did not occur.
    pub refused: Vec<(String, u64)>,
}

/// A bundle at its receivebox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiveBundleRow {
    /// Its name.
    pub name: String,
    /// Its number.
    pub number: u32,
    /// Where the sendbox is, once it is known.
    pub sendbox: Option<SocketAddr>,
    /// Bytes received.
    pub bytes: u64,
    /// Packets received.
    pub packets: u64,
    /// Packets received with ECN's CE.
    pub ce_packets: u64,
    /// Mean packets of an epoch, N, as the sendbox tells.
    pub epoch_packets: u64,
}

/// Refused messages by reason, without reasons that did not occur.
#[must_use]
pub fn read_refusals(counts: &RefusalCounts) -> Vec<(String, u64)> {
    let all = Refusal::ALL.into_iter();
    all.map(|reason| (reason.to_string(), counts.of(reason)))
        .filter(|(_, count)| *count > 0)
        .collect()
}

/// The latest changes of modes.
#[derive(Debug, Default)]
pub(crate) struct ModeHistory {
    changes: VecDeque<(u32, Instant, String)>,
}

impl ModeHistory {
    /// Keeps a change; returns its sentence, with the bundle's name.
    pub(crate) fn keep(&mut self, change: &ModeChange, name: &str) -> String {
        let text = change.to_string();
        // A bundle is a number to its boxes.
        let text = text.split_once(": ").map_or(&*text, |(_, rest)| rest);
        let sentence = format!("Bundle {name}: {text}.");
        if self.changes.len() == MOST_CHANGES {
            self.changes.pop_front();
        }
        self.changes
            .push_back((change.bundle, Instant::now(), sentence.clone()));
        sentence
    }
}

pub(crate) fn sendbox_row(
    config: &SendboxConfig,
    data_plane: &str,
    status: &SendboxStatus,
    history: &ModeHistory,
) -> SendboxRow {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let bits = |bytes_per_s: f64| (bytes_per_s * 8.0) as u64;
    let bundles = status.bundles.iter().filter_map(|(number, bundle)| {
        let mut known = config.bundles.iter();
        let (names, _) = known.find(|(_, it)| it.channel.bundle == *number)?;
        let estimates = &bundle.estimates;
        Some(BundleRow {
            name: names.name.clone(),
            number: *number,
            mode: bundle.mode.to_string(),
            algorithm: names.algorithm.clone(),
            scheduler: names.scheduler.to_owned(),
            rate_bps: bundle.rate.map(|rate| rate.saturating_mul(8)),
            queue_bytes: bundle.queued_bytes,
            queue_us: (bundle.rate)
                .filter(|rate| *rate > 0)
                .map(|rate| bundle.queued_bytes.saturating_mul(1_000_000) / rate),
            network_queue_us: (estimates.rtt)
                .zip(estimates.min_rtt)
                .map(|(rtt, least)| micros(rtt.saturating_sub(least))),
            rtt_us: estimates.rtt.map(micros),
            min_rtt_us: estimates.min_rtt.map(micros),
            send_rate_bps: estimates.send_rate.map(bits),
            receive_rate_bps: estimates.receive_rate.map(bits),
            match_ratio: estimates.match_ratio,
            coverage: estimates.coverage,
            out_of_order: estimates.out_of_order,
            epoch_packets: bundle.epoch.packets(),
            receivebox: bundle.receivebox,
            sent_bytes: bundle.sent.0,
            sent_packets: bundle.sent.1,
            matched: bundle.matches.0,
            surplus: bundle.matches.1,
        })
    });
    let changes = history
        .changes
        .iter()
        .map(|(bundle, at, sentence)| ChangeRow {
            bundle: *bundle,
            ago_ms: u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX),
            sentence: sentence.clone(),
        });
    SendboxRow {
        data_plane: data_plane.to_owned(),
        ports: config.ports.clone(),
        bundles: bundles.collect(),
        changes: changes.collect(),
        received: status.received,
        written: status.written,
        dropped: status.dropped,
        passed: status.passed,
        stalls: status.stalls,
        clock_jumps: status.clock_jumps,
        refused: read_refusals(&status.refusals),
    }
}

pub(super) fn receivebox_status(
    config: &ReceiveboxConfig,
    status: &LinuxReceiveboxStatus,
) -> ReceiveboxStatus {
    let bundles = status.bundles.iter().filter_map(|(number, bundle)| {
        let mut known = config.bundles.iter();
        let (name, _) = known.find(|(_, it)| it.channel.bundle == *number)?;
        Some(ReceiveBundleRow {
            name: name.clone(),
            number: *number,
            sendbox: bundle.sendbox,
            bytes: bundle.counters.bytes,
            packets: bundle.counters.packets,
            ce_packets: bundle.counters.ce_packets,
            epoch_packets: bundle.epoch.packets(),
        })
    });
    ReceiveboxStatus {
        ports: config.ports.clone(),
        listen: config.listen,
        bundles: bundles.collect(),
        answered: status.answered,
        lost: status.lost,
        refused: read_refusals(&status.refusals),
    }
}
