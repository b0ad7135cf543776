//! Results of algorithms compared on one link, and how each run went in time.

use std::fmt;

use fairwater_experiment::Backend;
use fairwater_net::Time;
use serde::{Deserialize, Serialize};

use crate::fallback::Fallback;

/// All runs of an experiment, in the order asked for. Serialised, it is the JSON of
/// `fairwater try --json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Results {
    /// The link, as text that describes it.
    pub link: String,
    /// Where it ran. What the simulator has nothing of is `None` in the results of a simulation.
    pub on: Backend,
    /// How long each run lasted, seconds.
    pub duration_s: f64,
    /// Whether the candidates shared the link, rather than having it alone in turn.
    pub together: bool,
    /// Whether they sent over IPv6.
    pub ipv6: bool,
    /// What sent on real TCP.
    pub traffic: Option<TrafficProgram>,
    /// The release of the kernel whose TCP it was.
    pub kernel: Option<String>,
    /// One a candidate.
    pub runs: Vec<RunResult>,
}

/// What one candidate did.
///
/// All but `retransmissions` and `cpu_seconds` is measured at the bottleneck, over the run's
/// duration from the first packet of data that arrives there; bytes are those of IP packets.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunResult {
    /// The candidate's label.
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
    /// sampler's threads. Of candidates together, an equal share of this process's. What the
    /// kernel does in softirq when packets arrive, the congestion control's work for each ACK
    /// included, is in `emulator_cpu_seconds`: it runs inside the emulator's writes.
    pub cpu_seconds: Option<f64>,
    /// CPU time of the emulator's threads during the run.
    pub emulator_cpu_seconds: Option<f64>,
    /// Whether and why the flow ran without its algorithm for part of the time.
    pub fallback: Option<Fallback>,
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

/// A run in time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    /// Its socket, each few milliseconds; times are since the run's first data.
    pub tcp: Vec<SocketSample>,
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

/// One socket at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct SocketSample {
    /// When, since the start of the run.
    pub at: Time,
    /// The algorithm in charge, as the kernel names it.
    pub congestion_control: String,
    /// Congestion window, packets of `mss_bytes`.
    pub cwnd_packets: u32,
    /// Maximum segment size, bytes of payload.
    pub mss_bytes: u32,
    /// Slow-start threshold, packets; `None` while there is none, or where it is not known.
    pub ssthresh_packets: Option<u32>,
    /// The state of congestion control; `None` where it is not known.
    pub state: Option<CongestionState>,
    /// Smoothed RTT, µs.
    pub srtt_us: u32,
    /// Pacing rate, bits/s; `None` when the flow is not paced.
    pub pacing_bps: Option<u64>,
    /// Delivery rate of the last measurement, bits/s of payload.
    pub delivery_bps: u64,
    /// Segments retransmitted so far.
    pub retransmissions: u32,
}

/// The states of Linux's congestion control (`tcpi_ca_state`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CongestionState {
    /// Nothing is wrong.
    Open,
    /// Duplicate or selective acknowledgements came.
    Disorder,
    /// The window is reduced for a mark.
    Cwr,
    /// What was lost is sent again.
    Recovery,
    /// A retransmission timeout.
    Loss,
}

impl CongestionState {
    /// The state of a number of the kernel's.
    #[must_use]
    pub fn from_kernel(state: u8) -> Option<Self> {
        let all = [
            Self::Open,
            Self::Disorder,
            Self::Cwr,
            Self::Recovery,
            Self::Loss,
        ];
        all.get(usize::from(state)).copied()
    }

    /// The name of the state, as tables have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Disorder => "disorder",
            Self::Cwr => "cwr",
            Self::Recovery => "recovery",
            Self::Loss => "loss",
        }
    }
}

impl SocketSample {
    /// Slow-start threshold, bytes.
    pub fn ssthresh_bytes(&self) -> Option<u64> {
        let packets = self.ssthresh_packets?;
        Some(u64::from(packets) * u64::from(self.mss_bytes))
    }

    /// Congestion window, bytes.
    pub fn cwnd_bytes(&self) -> u64 {
        u64::from(self.cwnd_packets) * u64::from(self.mss_bytes)
    }
}

/// The program that sends over real TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TrafficProgram {
    /// iperf3, a client and a server a flow. It sets the congestion control once connected.
    #[default]
    Iperf3,
    /// The test bed's own bulk sender, in this process: needs nothing, and sets the congestion
    /// control before it connects.
    Bulk,
}

impl fmt::Display for TrafficProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TrafficProgram::Iperf3 => "iperf3",
            TrafficProgram::Bulk => "the lab's bulk sender",
        })
    }
}
