//! What crosses between the plane and a datapath, in process: plain data, no I/O.

use fairwater_proto::{FlowId, FlowInfo};

use crate::ProgramId;

/// What a datapath tells the plane.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Event<'a> {
    /// A flow started under the algorithm of this index (the order of [`crate::Plane::add`]).
    Created {
        /// The flow.
        flow: FlowId,
        /// The algorithm's index.
        algorithm: usize,
        /// What is known of the flow.
        info: &'a FlowInfo,
    },
    /// A program reported.
    Reported {
        /// The flow.
        flow: FlowId,
        /// The values.
        report: RawReport<'a>,
    },
    /// The flow was under the datapath's fallback because the plane was silent, and is back; or it
    /// is handed over to another algorithm. The algorithm starts from the flow's present state.
    Resumed {
        /// The flow.
        flow: FlowId,
        /// Index of the algorithm, the flow's present one or another.
        algorithm: usize,
        /// What is known of the flow now.
        info: &'a FlowInfo,
    },
    /// The flow's segments have another size from now on: the path's MTU was found to be another
    /// (RFC 4821, RFC 8899).
    MssChanged {
        /// The flow.
        flow: FlowId,
        /// Maximum segment size, bytes of payload; at least 1.
        mss: u32,
    },
    /// The datapath stopped the flow's program for good: it goes on under the fallback.
    Faulted {
        /// The flow.
        flow: FlowId,
        /// Why, as one clause: "its program set Cwnd to 0".
        reason: &'a str,
    },
    /// The flow ended.
    Closed {
        /// The flow.
        flow: FlowId,
    },
}

impl Event<'_> {
    /// The flow that it is about.
    #[must_use]
    pub const fn flow(&self) -> FlowId {
        match self {
            Self::Created { flow, .. }
            | Self::Reported { flow, .. }
            | Self::Resumed { flow, .. }
            | Self::MssChanged { flow, .. }
            | Self::Faulted { flow, .. }
            | Self::Closed { flow } => *flow,
        }
    }
}

/// A report as the datapath sends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawReport<'a> {
    /// The program that reported.
    pub program: ProgramId,
    /// The datapath's time, µs.
    pub time_us: u64,
    /// cwnd after the invocation, bytes.
    pub cwnd: u64,
    /// Pacing rate after the invocation, bytes/s; 0 is none.
    pub rate: u64,
    /// The report variables, in declaration order.
    pub fields: &'a [u64],
}

/// What the plane tells a datapath to do with one flow. Empty commands are never sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Command {
    /// Switch to this program: its variables take their initial values, its timer restarts.
    /// `updates` then apply to the new program.
    pub switch: Option<ProgramId>,
    /// Set cwnd, bytes; at least 1.
    pub cwnd: Option<u64>,
    /// Set the pacing rate, bytes/s; 0 is no rate.
    pub rate: Option<u64>,
    /// Set control variables: index in `Program::variables`, value.
    pub updates: Vec<(u16, u64)>,
    /// Put the flow under the datapath's fallback for good.
    pub withdraw: bool,
    /// Hand the flow over to the algorithm of this index: the datapath answers with
    /// [`Event::Resumed`]. The present program runs until then.
    pub hand_over: Option<u32>,
}

impl Command {
    /// Hands a flow over to the algorithm of this index.
    #[must_use]
    pub fn hand_over(algorithm: usize) -> Self {
        Self {
            // The plane's algorithms are counted by a `u32`.
            hand_over: u32::try_from(algorithm).ok(),
            ..Self::default()
        }
    }
}

/// Where the plane's commands go: a datapath, or a test.
pub trait CommandSink {
    /// Carries out one command. A flow that is gone is not an error.
    fn command(&mut self, flow: FlowId, command: &Command);
}
