//! A bundle as one flow of the plane: its signals, and what planes are told of it.

use std::time::Duration;

use fairwater_datapath::{Config, Fallback, Signal, Signals};
use fairwater_net::Time;
use fairwater_proto::{Abilities, SignalQualities, SignalQuality};

use crate::EpochSize;
use crate::estimate::{Estimates, Estimator};

/// What planes are told of a box with bundles: it enforces windows and rates, and without a plane it steps aside.
///
/// Acknowledged data, marks and losses come once an epoch. Nothing is acknowledged out of order, since the receivebox
/// counts whatever comes, and there are no timeouts: a bundle retransmits nothing, and a silent path releases it.
#[must_use]
pub fn datapath_config() -> Config {
    let base = Config::default();
    Config {
        name: "bundle".to_owned(),
        signals: qualities(base.signals),
        abilities: Abilities {
            window: true,
            rate: true,
            // End hosts answer marks as they like.
            ecn: false,
            // A bundle does not restart.
            idle_restart: false,
        },
        fallback: Fallback::Release,
        ..base
    }
}

fn qualities(exact: SignalQualities) -> SignalQualities {
    use SignalQuality::{Absent, Degraded, Exact, Inferred};
    [
        (Signal::BytesAcked, Inferred),
        (Signal::PacketsAcked, Inferred),
        (Signal::BytesMisordered, Degraded),
        (Signal::PacketsMisordered, Degraded),
        (Signal::EcnBytes, Inferred),
        (Signal::EcnPackets, Inferred),
        (Signal::LostPkts, Inferred),
        (Signal::Now, Exact),
        (Signal::BytesInFlight, Inferred),
        (Signal::PacketsInFlight, Inferred),
        (Signal::BytesPending, Exact),
        (Signal::RateIncoming, Exact),
        (Signal::RateOutgoing, Exact),
        (Signal::RttSampleUs, Exact),
        (Signal::WasTimeout, Exact),
        (Signal::AppLimited, Exact),
        (Signal::Undo, Absent),
    ]
    .into_iter()
    .fold(exact, |all, (signal, quality)| all.with(signal, quality))
}

/// The signals of a bundle now, with what happened since this was called last.
pub(crate) fn take(
    now: Time,
    estimator: &mut Estimator,
    estimates: &Estimates,
    pending_bytes: u64,
    epoch: EpochSize,
) -> Signals {
    let progress = estimator.take_progress();
    let (bytes_in_flight, packets_in_flight) =
        estimator.in_flight(now, epoch, estimates.receive_rate);
    let mut signals = Signals::default();
    signals[Signal::Now] = now.as_nanos() / 1_000;
    signals[Signal::BytesAcked] = progress.received.bytes;
    signals[Signal::PacketsAcked] = progress.received.packets;
    signals[Signal::EcnBytes] = progress.received.ce_bytes;
    signals[Signal::EcnPackets] = progress.received.ce_packets;
    signals[Signal::LostPkts] = progress.lost;
    signals[Signal::BytesInFlight] = bytes_in_flight;
    signals[Signal::PacketsInFlight] = packets_in_flight;
    signals[Signal::BytesPending] = pending_bytes;
    signals[Signal::RateIncoming] = estimates.receive_rate.unwrap_or(0.0) as u64;
    signals[Signal::RateOutgoing] = estimates.send_rate.unwrap_or(0.0) as u64;
    signals[Signal::RttSampleUs] = estimates.rtt.map_or(u64::MAX, micros);
    signals[Signal::AppLimited] = u64::from(estimator.is_app_limited());
    signals
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
