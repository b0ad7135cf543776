//! What the plane keeps of its algorithms and flows, and shows of them.

use crate::{Algorithm, Flow, Key, LoadedProgram, Member, Requirements};

/// Counts of one algorithm, from the start of the plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AlgorithmStatistics {
    /// Flows that the algorithm controls now.
    pub flows: u64,
    /// Flows that it was given, those that came back from the fallback counted again.
    pub started: u64,
    /// Reports delivered to it.
    pub reports: u64,
    /// Reports not delivered: their program was no longer the flow's, or the flow was withdrawn.
    pub superseded: u64,
    /// Flows put under the datapath's fallback for good.
    pub withdrawn: u64,
}

/// An algorithm in a plane.
pub struct HostedAlgorithm {
    pub(crate) algorithm: Box<dyn Algorithm>,
    pub(crate) name: String,
    pub(crate) requirements: Requirements,
    pub(crate) programs: Vec<LoadedProgram>,
    pub(crate) statistics: AlgorithmStatistics,
}

impl HostedAlgorithm {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its programs, by the index that [`RawReport::program`](crate::RawReport::program) and
    /// [`Command::switch`](crate::Command::switch) use.
    #[must_use]
    pub fn programs(&self) -> &[LoadedProgram] {
        &self.programs
    }

    /// What it needs of a datapath.
    #[must_use]
    pub fn requirements(&self) -> &Requirements {
        &self.requirements
    }

    /// Its counts.
    #[must_use]
    pub fn statistics(&self) -> AlgorithmStatistics {
        self.statistics
    }
}

impl std::fmt::Debug for HostedAlgorithm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostedAlgorithm")
            .field("name", &self.name)
            .field("programs", &self.programs.len())
            .field("statistics", &self.statistics)
            .finish_non_exhaustive()
    }
}

/// What controls a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Controller {
    /// The flow's algorithm.
    Algorithm,
    /// The datapath's fallback, for good.
    Fallback,
}

/// What the plane knows of one aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AggregateSnapshot<'a> {
    /// Which one of the plane's; a number is given out again when its aggregate has ended.
    pub index: u32,
    /// Index of its algorithm.
    pub algorithm: usize,
    /// What its flows have in common.
    pub key: &'a Key,
    /// How many flows it has.
    pub members: usize,
}

/// What the plane knows of one flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowSnapshot<'a> {
    /// Index of its algorithm.
    pub algorithm: usize,
    /// Index of the program that it was last switched to.
    pub program: u32,
    /// What controls the flow.
    pub controller: Controller,
    /// The aggregate that it is a member of.
    pub aggregate: Option<AggregateSnapshot<'a>>,
}

/// The flow in a slot.
pub(crate) struct HostedFlow {
    pub(crate) generation: u32,
    pub(crate) algorithm: u32,
    pub(crate) program: u32,
    pub(crate) role: Role,
}

/// Who controls a flow.
pub(crate) enum Role {
    /// Nobody: it is withdrawn, or its author's function is at work on it.
    Withdrawn,
    /// Its algorithm, by itself.
    Alone(Box<dyn Flow>),
    /// An aggregate.
    Member {
        /// Its index in the plane.
        aggregate: u32,
        /// Which of its members.
        member: Member,
    },
}

// What a plane keeps of each flow, idle ones too.
const _: () = assert!(size_of::<Option<HostedFlow>>() <= 40);

impl std::fmt::Debug for HostedFlow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HostedFlow")
            .field("generation", &self.generation)
            .field("algorithm", &self.algorithm)
            .field("program", &self.program)
            .field("running", &!matches!(self.role, Role::Withdrawn))
            .finish_non_exhaustive()
    }
}
