//! One flow: what each ACK touches, and the rest.

use alloc::boxed::Box;
use alloc::sync::Arc;

use fairwater_exec::frame::Fault;
use fairwater_exec::invocation::Registers;
use fairwater_lang::Signals;
use fairwater_proto::{FlowId, FlowInfo};

use crate::enforced::Enforced;
use crate::fallback::{Controller, Path, Takeover};
use crate::program::Compiled;
use crate::stage::Stage;
use crate::{Config, PeerId};

/// Window and rate that a transport enforces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Controls {
    /// The congestion window, bytes; at least 1.
    pub cwnd: u64,
    /// The pacing rate, bytes/s; 0 is none: the window alone limits.
    pub rate: u64,
}

impl Controls {
    /// No window and no rate: nobody controls the flow, under a fallback that is
    /// [`Fallback::Release`](fairwater_proto::Fallback::Release).
    pub const RELEASED: Self = Self {
        cwnd: u64::MAX,
        rate: 0,
    };
}

/// What controls a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FlowState {
    /// The fallback, until the plane has chosen a program.
    Waiting,
    /// A program.
    Running,
    /// The fallback, because the plane is silent. When it speaks again, the flow's next ACK
    /// resumes it.
    Silent,
    /// The fallback, for good: its program or plane set controls that cannot be applied.
    Faulted(Fault),
    /// The fallback, for good: the plane withdrew it.
    Withdrawn,
    /// The fallback, for good: its peer was removed.
    Orphaned,
}

impl FlowState {
    /// Whether the plane may still choose a program.
    pub(crate) const fn may_switch(self) -> bool {
        matches!(self, Self::Waiting | Self::Running | Self::Silent)
    }
}

/// The live state of a flow, for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowStatus<'a> {
    /// Its identifier.
    pub flow: FlowId,
    /// Its peer; `None` when that was removed.
    pub peer: Option<PeerId>,
    /// The algorithm that it asked for.
    pub algorithm: &'a str,
    /// What controls it.
    pub state: FlowState,
    /// The number of the program that runs.
    pub program: Option<u32>,
    /// The program's variables, in the order of `fairwater_lang::Program::variables`.
    pub variables: &'a [u64],
    /// Window and rate in force; [`Controls::RELEASED`] when the fallback has released the flow.
    pub controls: Controls,
    /// Whether commands wait for the next invocation.
    pub is_staged: bool,
    /// Whether the plane has been told that the flow exists.
    pub is_announced: bool,
    /// What was known when it started. `mss` is up to date; `srtt_us` is brought up to date at each
    /// report, and at each ACK under the fallback.
    pub info: &'a FlowInfo,
}

/// Index of the peer of a flow without a peer.
pub(crate) const NO_PEER: u32 = u32::MAX;

/// What each invocation touches: one cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Hot {
    pub(crate) registers: Registers,
    /// There is one when the state is [`FlowState::Running`] and only then.
    pub(crate) program: Option<Arc<Compiled>>,
    pub(crate) variables: Box<[u64]>,
    pub(crate) generation: u32,
    /// Index of the peer.
    pub(crate) peer: u32,
    /// The next invocation has more to do than to run the program: there is none, or a stage.
    pub(crate) attention: bool,
    /// No congestion was signalled since the flow began.
    pub(crate) is_lossless: bool,
    /// cwnd has not come back to [`Cold::timeout_ssthresh`] since the last timeout.
    pub(crate) is_after_timeout: bool,
}

const _: () = assert!(size_of::<Hot>() == 64);

/// What few invocations touch.
#[derive(Debug)]
pub(crate) struct Cold {
    pub(crate) state: FlowState,
    pub(crate) stage: Option<Box<Stage>>,
    /// The number of the program that runs.
    pub(crate) number: u32,
    pub(crate) algorithm: Arc<str>,
    pub(crate) info: FlowInfo,
    /// What is in force, where the transport holds one control alone.
    pub(crate) enforced: Option<Box<Enforced>>,
    /// The fallback's state while it controls the flow; `None` before its first ACK after a program, and
    /// before the transport was told that the flow is released.
    pub(crate) fallback: Option<Controller>,
    /// Slow start threshold of the last timeout under a program, bytes.
    pub(crate) timeout_ssthresh: u64,
    /// Whether the slot has a flow now.
    pub(crate) is_open: bool,
    /// Whether the observer sees the flow's invocations; `Hot::attention` is then set.
    pub(crate) is_observed: bool,
    pub(crate) announcements: PendingAnnouncements,
    pub(crate) links: Links,
}

impl Hot {
    /// What the program leaves, now that it runs no more.
    pub(crate) fn takeover(&self, cold: &Cold) -> Takeover {
        Takeover {
            cwnd: self.registers.cwnd,
            rate: self.registers.rate,
            is_lossless: self.is_lossless,
            timeout_ssthresh: if self.is_after_timeout {
                cold.timeout_ssthresh
            } else {
                0
            },
        }
    }
}

impl Cold {
    /// What the fallback reads of the signals.
    pub(crate) fn path<'a>(&self, config: &Config, signals: &'a Signals) -> Path<'a> {
        Path {
            mss: u64::from(self.info.mss),
            srtt_us: self.info.srtt_us,
            available: config.signals.present(),
            signals,
        }
    }

    pub(crate) fn is_released(&self) -> bool {
        self.fallback == Some(Controller::Released)
    }
}

/// Announcements of a flow, or of the flow that had its slot before, that the peer has not got yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PendingAnnouncements {
    /// The peer knows the flow.
    pub(crate) known: bool,
    pub(crate) arrival: Option<Arrival>,
    pub(crate) fault: bool,
    /// The flow's segments have another size than the peer was told.
    pub(crate) mss: bool,
    /// The generation of the flow that ended.
    pub(crate) closed: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrival {
    Created,
    Resumed,
}

/// Neighbours in the peer's list of flows with pending announcements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Links {
    pub(crate) listed: bool,
    pub(crate) previous: Option<u32>,
    pub(crate) next: Option<u32>,
}
