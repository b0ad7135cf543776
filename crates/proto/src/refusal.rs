//! Messages that are not obeyed: what is said of them, and how they are counted.

use crate::FlowId;

/// A message that was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// The type of the message that was refused, as its encoding numbers it.
    pub message: u8,
    /// Why.
    pub reason: RefusalReason,
    /// The flow that it was about, if it was about one.
    pub flow: Option<FlowId>,
    /// The program that it was about; 0 for none.
    pub program: u32,
}

/// Why a message was refused. The discriminant is its code on the wire; each is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum RefusalReason {
    /// The bytes are not a message of the link's encoding.
    Malformed = 1,
    /// The encoding's version is not known.
    Version = 2,
    /// The sender has not said Hello, or is not known.
    UnknownPeer = 3,
    /// There is no such flow, or it is another peer's.
    UnknownFlow = 4,
    /// No such program is installed by this peer.
    UnknownProgram = 5,
    /// The program does not verify.
    BadProgram = 6,
    /// The program reads signals that the datapath lacks.
    MissingSignals = 7,
    /// The program's number is in use for another program.
    ProgramInUse = 8,
    /// The datapath keeps no more programs, or the plane no more flows; of a Hello: the plane takes
    /// no more datapaths.
    Full = 9,
    /// There is no such variable, or the plane may not set it.
    BadUpdate = 10,
    /// A control out of its range: cwnd 0, or a rate above the highest believed.
    BadControl = 11,
    /// There is no such algorithm.
    UnknownAlgorithm = 12,
    /// The message was not expected now: a flow that exists already is created, for instance.
    OutOfOrder = 13,
    /// A report whose fields are not those of its program.
    BadReport = 14,
}

impl RefusalReason {
    /// Every reason, by code.
    pub const ALL: [Self; 14] = [
        Self::Malformed,
        Self::Version,
        Self::UnknownPeer,
        Self::UnknownFlow,
        Self::UnknownProgram,
        Self::BadProgram,
        Self::MissingSignals,
        Self::ProgramInUse,
        Self::Full,
        Self::BadUpdate,
        Self::BadControl,
        Self::UnknownAlgorithm,
        Self::OutOfOrder,
        Self::BadReport,
    ];

    /// Its code on the wire, from 1 on.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The reason of that code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.code() == code)
    }
}

/// How many messages were refused, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RefusalCounts([u64; RefusalReason::ALL.len()]);

impl RefusalCounts {
    /// Counts one more.
    pub const fn add(&mut self, reason: RefusalReason) {
        self.0[reason as usize - 1] += 1;
    }

    /// Those for one reason.
    #[must_use]
    pub const fn of(&self, reason: RefusalReason) -> u64 {
        self.0[reason as usize - 1]
    }

    /// Those for any.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }
}
