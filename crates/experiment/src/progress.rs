//! How far an experiment is.

use std::time::Duration;

/// How far an experiment is.
#[derive(Debug, Clone)]
pub struct Progress {
    /// The run at work, from 0.
    pub run: usize,
    /// How many runs there are.
    pub runs: usize,
    /// Which try of this run it is, from 1.
    pub attempt: u32,
    /// Time since the first packet; virtual in the simulator.
    pub elapsed: Duration,
    /// How long the run lasts.
    pub duration: Duration,
    /// The flows that run, in their order.
    pub flows: Vec<FlowProgress>,
}

/// How a flow is doing.
#[derive(Debug, Clone)]
pub struct FlowProgress {
    /// The flow's name.
    pub label: String,
    /// What left the bottleneck over the last half second, or since the last update, bits/s.
    pub throughput_bps: f64,
    /// Congestion window, bytes; `None` until there is a connection and in the simulator, as the
    /// others.
    pub cwnd_bytes: Option<u64>,
    /// Smoothed RTT.
    pub srtt: Option<Duration>,
    /// Segments retransmitted so far.
    pub retransmissions: Option<u32>,
}

/// Interval of progress updates.
pub const TICK: Duration = Duration::from_millis(100);
