//! What an experiment found out.

use fairwater_net::{Capacity, Time};
use hdrhistogram::Histogram;
use serde::Serialize;

use crate::link_log::{LinkLog, PacketRecord};
use crate::sampler::TcpSample;
use crate::scenario::World;
use crate::traffic::Traffic;

/// All runs of an experiment, in the order asked for. Serialised, it is the JSON of
/// `fairwater try --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Results {
    /// The link, as text that describes it.
    pub link: String,
    /// Where it ran. What the simulator has nothing of is `None` in the results of a simulation.
    pub on: World,
    /// How long each run lasted, seconds.
    pub duration_s: f64,
    /// Whether the contenders shared the link, rather than having it alone in turn.
    pub together: bool,
    /// Whether they sent over IPv6.
    pub ipv6: bool,
    /// What sent on real TCP.
    pub traffic: Option<Traffic>,
    /// The release of the kernel whose TCP it was.
    pub kernel: Option<String>,
    /// One a contender.
    pub runs: Vec<RunResult>,
}

/// What one contender did.
///
/// All but `retransmissions` and `cpu_seconds` is measured at the bottleneck, over the run's
/// duration from the first packet of data that arrives there; bytes are those of IP packets.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunResult {
    /// The contender's label.
    pub name: String,
    /// The kernel's name of its congestion control; in the simulator the plane's, or `native:reno`
    /// of one inside the simulated sender.
    pub congestion_control: String,
    /// Bits per second that left the bottleneck.
    pub throughput_bps: f64,
    /// The throughput's share of what the bottleneck could carry in that time: of a trace, the
    /// opportunities that came.
    pub utilisation: f64,
    /// The time its packets spent in the queue.
    pub queueing_delay_ms: Percentiles,
    /// The share of its packets that were dropped at the bottleneck, 0 to 1.
    pub loss: f64,
    /// Packets that left the bottleneck.
    pub packets: u64,
    /// Packets dropped there.
    pub dropped: u64,
    /// Of those that left, the packets with a mark (ECN CE).
    pub marked: u64,
    /// Segments that its sender sent again.
    pub retransmissions: u64,
    /// CPU time, user and system: of the programs that sent and received, and of this process
    /// (the plane and its algorithms, and the lab's bulk sender) without the emulator's and the
    /// sampler's threads. Of contenders together, an equal share of this process's. What the
    /// kernel does in softirq when packets arrive, the congestion control's work for each ACK
    /// included, is in `emulator_cpu_seconds`: it runs inside the emulator's writes.
    pub cpu_seconds: Option<f64>,
    /// CPU time of the emulator's threads during the run.
    pub emulator_cpu_seconds: Option<f64>,
    /// Whether the machine disturbed the run in each of its tries.
    pub disturbed: bool,
    /// What disturbed it, as a clause; `None` when nothing did.
    pub disturbance: Option<String>,
    /// How often it was run; only the least disturbed try is reported.
    pub tries: u32,
    /// The share of the machine's CPU time that its host gave to others, 0 to 1.
    pub steal: Option<f64>,
    /// How late the emulator handed packets over.
    pub lateness_ms: Option<Lateness>,
    /// Whether the emulator had real-time priority.
    pub real_time: Option<bool>,
    /// How the run went in time; for plots, not in the JSON.
    #[serde(skip)]
    pub series: Series,
}

/// Exact percentiles.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Percentiles {
    /// The median.
    pub p50: f64,
    /// 95 of 100 are at most this.
    pub p95: f64,
}

/// How late packets were handed over, milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Lateness {
    /// The median.
    pub p50: f64,
    /// 99 of 100 are at most this.
    pub p99: f64,
    /// The latest.
    pub max: f64,
}

impl Lateness {
    pub(crate) fn of(histogram_ns: &Histogram<u64>) -> Self {
        let ms = |ns: u64| ns as f64 / 1e6;
        Lateness {
            p50: ms(histogram_ns.value_at_quantile(0.5)),
            p99: ms(histogram_ns.value_at_quantile(0.99)),
            max: ms(histogram_ns.max()),
        }
    }
}

/// A run in time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    /// Its socket, each few milliseconds; times are since the run's first data.
    pub tcp: Vec<TcpSample>,
    /// The bottleneck, in intervals of equal length.
    pub link: Vec<LinkInterval>,
}

/// What passed the bottleneck in an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkInterval {
    /// Its middle, seconds since the run's first data.
    pub at_s: f64,
    /// Bits per second that left the bottleneck.
    pub throughput_bps: f64,
    /// Mean queueing delay of the packets that left, ms; `None` when none did.
    pub queueing_delay_ms: Option<f64>,
    /// Packets dropped.
    pub dropped: u64,
}

/// The time over which a run is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) from: Time,
    pub(crate) to: Time,
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
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FlowAtLink {
    pub(crate) throughput_bps: f64,
    pub(crate) utilisation: f64,
    pub(crate) queueing_delay_ms: Percentiles,
    pub(crate) loss: f64,
    pub(crate) packets: u64,
    pub(crate) dropped: u64,
    pub(crate) marked: u64,
    pub(crate) intervals: Vec<LinkInterval>,
}

/// Intervals in a series.
const INTERVALS: usize = 300;

impl FlowAtLink {
    pub(crate) fn measure(log: &LinkLog, flow: u8, window: Window, capacity: &Capacity) -> Self {
        let records: Vec<&PacketRecord> = log
            .iter()
            .filter(|record| record.flow == flow && window.has(record.departed))
            .collect();
        let mut queued_ns = Vec::with_capacity(records.len());
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
            queued_ns.push(queued);
            bytes += u64::from(record.size_bytes);
            if let Some(bin) = bin {
                bin.packets += 1;
                bin.bytes += u64::from(record.size_bytes);
                bin.queued_ns += queued;
            }
        }
        queued_ns.sort_unstable();
        let dropped = records.len() - queued_ns.len();
        let possible = capacity.bytes_between(window.from, window.to).unwrap_or(0);
        FlowAtLink {
            throughput_bps: bytes as f64 * 8.0 / window.seconds(),
            utilisation: share(bytes, possible),
            queueing_delay_ms: Percentiles {
                p50: nearest_rank(&queued_ns, 50) as f64 / 1e6,
                p95: nearest_rank(&queued_ns, 95) as f64 / 1e6,
            },
            loss: share(dropped as u64, records.len() as u64),
            packets: queued_ns.len() as u64,
            dropped: dropped as u64,
            marked: records.iter().filter(|record| record.marked).count() as u64,
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

/// The smallest value that at least `percent` of 100 of the sorted values do not exceed; 0 of
/// none.
fn nearest_rank(sorted: &[u64], percent: usize) -> u64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use fairwater_net::{DropReason, Rate};

    use super::*;

    fn at_ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    #[test]
    fn a_flow_is_measured_by_its_own_packets_within_the_window() {
        let mut log = LinkLog::default();
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
        let flow = FlowAtLink::measure(&log, 0, window, &capacity);
        assert_eq!(flow.throughput_bps, 1_000_000.0 / 1.001);
        assert!((flow.utilisation - 0.4995).abs() < 1e-5);
        assert_eq!(
            flow.queueing_delay_ms,
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
        let flow = FlowAtLink::measure(&LinkLog::default(), 0, window, &Capacity::Unlimited);
        assert_eq!(flow.throughput_bps, 0.0);
        assert_eq!(flow.loss, 0.0);
        assert_eq!(flow.queueing_delay_ms, Percentiles { p50: 0.0, p95: 0.0 });
    }
}
