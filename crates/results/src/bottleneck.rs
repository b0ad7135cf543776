//! One flow, or all flows, at the bottleneck: measured packet by packet.

use fairwater_net::{Capacity, DropReason, Time};

use crate::comparison::{LinkInterval, Percentiles};
use crate::packet_log::{PacketLog, PacketRecord};
use crate::spread::Spread;

/// The time over which a run is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// It begins.
    pub from: Time,
    /// It ends.
    pub to: Time,
}

impl Window {
    fn has(self, at: Time) -> bool {
        self.from <= at && at < self.to
    }

    fn seconds(self) -> f64 {
        self.to.since(self.from).as_secs_f64()
    }
}

/// One flow at the bottleneck.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AtBottleneck {
    /// What left, bits/s.
    pub throughput_bps: f64,
    /// The share of what the bottleneck could carry, 0 to 1.
    pub utilisation: f64,
    /// Time in the queue, µs.
    pub queueing_us: Spread,
    /// The share of packets dropped, 0 to 1.
    pub loss: f64,
    /// Packets that left.
    pub packets: u64,
    /// Packets dropped by the queue.
    pub dropped: u64,
    /// Packets lost at random.
    pub lost: u64,
    /// Packets that left with a mark (ECN CE).
    pub marked: u64,
    /// The window in intervals of equal length.
    pub intervals: Vec<LinkInterval>,
}

/// Intervals in a series.
const INTERVALS: usize = 300;

impl AtBottleneck {
    /// One flow.
    #[must_use]
    pub fn of_flow(log: &PacketLog, flow: u8, window: Window, capacity: &Capacity) -> Self {
        Self::measure(log, |other| other == flow, window, capacity)
    }

    /// The first `flows` flows together.
    #[must_use]
    pub fn of_all(log: &PacketLog, flows: usize, window: Window, capacity: &Capacity) -> Self {
        Self::measure(log, |flow| usize::from(flow) < flows, window, capacity)
    }

    /// The time in the queue, as results of comparisons have it.
    #[must_use]
    pub fn queueing_delay_ms(&self) -> Percentiles {
        Percentiles {
            p50: self.queueing_us.p50 / 1e3,
            p95: self.queueing_us.p95 / 1e3,
        }
    }

    fn measure(
        log: &PacketLog,
        is_measured: impl Fn(u8) -> bool,
        window: Window,
        capacity: &Capacity,
    ) -> Self {
        let records: Vec<&PacketRecord> = log
            .iter()
            .filter(|record| is_measured(record.flow) && window.has(record.departed))
            .collect();
        let mut queued_us = Vec::with_capacity(records.len());
        let mut bytes = 0u64;
        let mut bins = vec![Bin::default(); INTERVALS];
        let width = window.seconds() / INTERVALS as f64;
        for record in &records {
            let at = record.departed.since(window.from).as_secs_f64();
            let bin = bins.get_mut((at / width) as usize);
            if record.dropped.is_some() {
                if let Some(bin) = bin {
                    bin.dropped += 1;
                }
                continue;
            }
            let queued = record.served.since(record.enqueued).as_nanos() as u64;
            queued_us.push(queued as f64 / 1e3);
            bytes += u64::from(record.size_bytes);
            if let Some(bin) = bin {
                bin.packets += 1;
                bin.bytes += u64::from(record.size_bytes);
                bin.queued_ns += queued;
            }
        }
        let dropped = records.len() - queued_us.len();
        let is_lost = |record: &&&PacketRecord| record.dropped == Some(DropReason::RandomLoss);
        let lost = records.iter().filter(is_lost).count();
        let possible = capacity.bytes_between(window.from, window.to).unwrap_or(0);
        AtBottleneck {
            throughput_bps: bytes as f64 * 8.0 / window.seconds(),
            utilisation: share(bytes, possible),
            loss: share(dropped as u64, records.len() as u64),
            packets: queued_us.len() as u64,
            dropped: (dropped - lost) as u64,
            lost: lost as u64,
            marked: records.iter().filter(|record| record.marked).count() as u64,
            queueing_us: Spread::of(queued_us),
            intervals: bins
                .iter()
                .enumerate()
                .map(|(index, bin)| bin.interval((index as f64 + 0.5) * width, width))
                .collect(),
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    packets: u64,
    bytes: u64,
    queued_ns: u64,
    dropped: u64,
}

impl Bin {
    fn interval(&self, at_s: f64, width_s: f64) -> LinkInterval {
        LinkInterval {
            at_s,
            throughput_bps: self.bytes as f64 * 8.0 / width_s,
            queueing_delay_ms: (self.packets > 0)
                .then(|| self.queued_ns as f64 / self.packets as f64 / 1e6),
            dropped: self.dropped,
        }
    }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        part as f64 / whole as f64
    }
}

#[cfg(test)]
mod tests {
    use fairwater_net::Rate;

    use super::*;

    fn at_ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn a_flow_is_measured_by_its_own_packets_within_the_window() {
        let mut log = PacketLog::default();
        // 100 packets of flow 0, one each 10 ms from 1 s on, queued for 1 to 100 ms.
        for n in 1..=100 {
            let served = at_ms(1000 + 10 * n);
            log.push(PacketRecord {
                enqueued: served - std::time::Duration::from_millis(n),
                served,
                departed: served,
                size_bytes: 1250,
                flow: 0,
                marked: n <= 30,
                dropped: None,
            });
        }
        log.push(PacketRecord::dropped(
            0,
            at_ms(1500),
            1250,
            DropReason::QueueFull,
        ));
        // Another flow's, and one before the window.
        log.push(PacketRecord::dropped(
            1,
            at_ms(1500),
            1250,
            DropReason::QueueFull,
        ));
        log.push(PacketRecord::dropped(
            0,
            at_ms(999),
            1250,
            DropReason::QueueFull,
        ));
        let window = Window {
            from: at_ms(1000),
            to: at_ms(2001),
        };
        let capacity = Capacity::Rate(Rate::from_bps(2_000_000).expect("not zero"));
        let flow = AtBottleneck::of_flow(&log, 0, window, &capacity);
        assert_eq!(flow.throughput_bps, 1_000_000.0 / 1.001);
        assert!((flow.utilisation - 0.4995).abs() < 1e-5);
        assert_eq!(
            flow.queueing_delay_ms(),
            Percentiles {
                p50: 50.0,
                p95: 95.0
            }
        );
        assert_eq!(flow.loss, 1.0 / 101.0);
        assert_eq!(flow.intervals.iter().map(|bin| bin.dropped).sum::<u64>(), 1);
        let bits: f64 = flow.intervals.iter().map(|bin| bin.throughput_bps).sum();
        assert!((bits / INTERVALS as f64 - flow.throughput_bps).abs() < 1.0);
    }

    #[test]
    fn a_flow_that_sent_nothing_has_zeros() {
        let window = Window {
            from: at_ms(0),
            to: at_ms(1),
        };
        let flow = AtBottleneck::of_flow(&PacketLog::default(), 0, window, &Capacity::Unlimited);
        assert_eq!(flow.throughput_bps, 0.0);
        assert_eq!(flow.loss, 0.0);
        assert_eq!(flow.queueing_delay_ms(), Percentiles { p50: 0.0, p95: 0.0 });
    }
}
