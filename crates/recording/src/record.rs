//! What a recording consists of, in order.

use std::net::SocketAddr;

use fairwater_lang::{Signal, Signals};
use fairwater_plane::FlowInfo;
use serde::{Deserialize, Serialize};

/// Something that happened to a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Which of the recording's flows, from 0 in the order in which they began.
    pub flow: u32,
    /// The datapath's time, µs. Of an event or command of the plane, which has no clock: the latest time
    /// that the plane had heard of from the flow.
    pub time_us: u64,
    /// What happened.
    pub what: What,
}

/// What happened to a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// Recording of the flow began.
    Began(Began),
    /// The state before the flow's next invocation. A file has one before the first invocation of each
    /// flow, so that a replay can go on behind a file that is missing.
    State(State),
    /// The program, or the fallback, was invoked.
    Invoked(Box<Invoked>),
    /// The flow ended.
    Ended,
    /// The plane took in an event of the flow.
    Event(PlaneEvent),
    /// The plane commanded the flow.
    Command(FlowCommand),
    /// Records are missing here, of any flow: a file of the recording is damaged or gone.
    Gap,
}

/// The beginning of a flow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Began {
    /// Name of the flow's datapath.
    pub datapath: String,
    /// The algorithm that the flow asked for.
    pub algorithm: String,
    /// What the datapath knew of the flow.
    pub info: Info,
}

/// Window, rate, timer and variables of a flow.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct State {
    /// The program, an index of the recording's programs; `None` under the fallback.
    pub program: Option<u32>,
    /// Window and rate.
    pub controls: Controls,
    /// `Ack.now` at which `Micros` would read 0, µs, wrapping.
    pub timer_zero_us: u64,
    /// The program's variables.
    pub variables: Vec<u64>,
}

/// Window and rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Controls {
    /// The window, bytes.
    pub cwnd: u64,
    /// The pacing rate, bytes/s; 0 is none.
    pub rate: u64,
}

/// One invocation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Invoked {
    /// The program that ran, an index of the recording's programs; `None` if the fallback ran.
    pub program: Option<u32>,
    /// What the transport measured; `Ack.now` is the record's time.
    pub signals: Signals,
    /// Window and rate before the invocation.
    pub before: Controls,
    /// What the invocation applied of the plane's commands.
    pub stage: Option<Stage>,
    /// Window and rate afterwards.
    pub after: Controls,
    /// The report variables, if the program reported.
    pub report: Option<Vec<u64>>,
    /// Bits of [`fairwater_exec::frame::Fault`]; 0 is none. `after` is then the fallback's.
    pub fault: u32,
}

impl Invoked {
    /// The datapath's time, µs.
    #[must_use]
    pub fn now_us(&self) -> u64 {
        self.signals[Signal::Now]
    }
}

/// What an invocation applied of the plane's commands, merged.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Stage {
    /// The program that the flow was switched to, an index of the recording's programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub switch: Option<u32>,
    /// The window, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwnd: Option<u64>,
    /// The pacing rate, bytes/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<u64>,
    /// Control variables by their index, and their values.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub updates: Vec<(u16, u64)>,
}

/// An event that the plane took in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlaneEvent {
    /// The flow came under an algorithm, an index of the recording's algorithms.
    Created(Arrival),
    /// The flow came back from the fallback, or was handed over to an algorithm.
    Resumed(Arrival),
    /// A report arrived.
    Reported(Report),
    /// The segments have another size, bytes of payload.
    MssChanged(u32),
    /// The datapath stopped the program: why.
    Faulted(String),
    /// The flow ended.
    Closed,
}

/// A flow that came under an algorithm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrival {
    /// Index of the recording's algorithms.
    pub algorithm: u32,
    /// What the plane was told of the flow.
    pub info: Info,
}

/// A report as the plane took it in; the record's time is the report's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The program that reported, an index of the recording's programs.
    pub program: u32,
    /// Window and rate after the invocation that reported.
    pub controls: Controls,
    /// The report variables.
    pub fields: Vec<u64>,
}

/// What the plane commanded a flow.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FlowCommand {
    /// Switch, window, rate and updates.
    #[serde(flatten)]
    pub stage: Stage,
    /// The flow goes under the fallback for good.
    #[serde(skip_serializing_if = "is_false")]
    pub withdraw: bool,
    /// The algorithm that the flow is handed over to, an index of the recording's algorithms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hand_over: Option<u32>,
    /// An event of a flow that is not recorded led to the command: only an aggregate does that.
    #[serde(skip_serializing_if = "is_false")]
    pub is_unexplained: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
const fn is_false(value: &bool) -> bool {
    !*value
}

/// [`FlowInfo`] as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Info {
    /// The local address and port.
    pub local: SocketAddr,
    /// The remote address and port.
    pub remote: SocketAddr,
    /// Maximum segment size, bytes of payload.
    pub mss: u32,
    /// The window, bytes.
    pub cwnd: u64,
    /// The pacing rate, bytes/s; 0 is none.
    pub rate: u64,
    /// Slow-start threshold, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssthresh: Option<u64>,
    /// Smoothed RTT, µs; 0 when none was measured.
    pub srtt_us: u64,
    /// The datapath's time, µs.
    pub now_us: u64,
    /// The flow's tag; 0 is none.
    pub tag: u32,
}

impl From<&FlowInfo> for Info {
    fn from(info: &FlowInfo) -> Self {
        Self {
            local: info.local,
            remote: info.remote,
            mss: info.mss,
            cwnd: info.cwnd,
            rate: info.rate,
            ssthresh: info.ssthresh,
            srtt_us: info.srtt_us,
            now_us: info.now_us,
            tag: info.tag,
        }
    }
}

impl From<&Info> for FlowInfo {
    fn from(info: &Info) -> Self {
        Self {
            local: info.local,
            remote: info.remote,
            mss: info.mss,
            cwnd: info.cwnd,
            rate: info.rate,
            ssthresh: info.ssthresh,
            srtt_us: info.srtt_us,
            now_us: info.now_us,
            tag: info.tag,
        }
    }
}

impl Record {
    /// Records are missing here.
    pub(crate) const fn gap() -> Self {
        Self {
            flow: 0,
            time_us: 0,
            what: What::Gap,
        }
    }
}
