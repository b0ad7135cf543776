//! Recordings of flows, and their replay.
//!
//! A recording is a folder that has, for each invocation of a flow's program, all that the program
//! read, what the plane had staged, and what came of it; and beside it the plane's events and commands,
//! all in order ([`Record`]). [`Recorder`] observes a plane and its datapaths and writes one;
//! [`Recording`] reads it. [`replay`] runs it again: the programs by any back end, and the algorithm
//! over the reports. [`Stepper`] goes from invocation to invocation.
//!
//! The folder has `recording.json`, the [head](Head); `programs.json`; a file of Apache Parquet for
//! each second ([the columns](table)), whose name has its number and a hash of its bytes; and
//! `end.json` once the recorder has ended. Each file is there whole or not at all, so that whoever kills
//! the recorder loses the last second.

mod columns;
mod condition;
mod folder;
mod head;
mod incident;
mod reader;
mod record;
mod recorder;
pub mod replay;
mod reports;
mod step;
pub mod table;
mod writer;

pub use condition::{Condition, ConditionError};
pub use head::{Constant, FORMAT, Head, RecordedAlgorithm, RecordedProgram, VERSION};
pub use incident::{IncidentError, IncidentReplay, ReplayedReport, incident};
pub use reader::{Damage, ReadError, Recording};
pub use record::{
    Arrival, Began, Controls, FlowCommand, Info, Invoked, PlaneEvent, Record, Report, Stage, State,
    What,
};
pub use recorder::{Candidate, Filter, Recorder};
pub use step::{Clause, Direction, Mark, NamedValue, Step, StepError, Stepper, Target};
pub use writer::{End, WriteError, Writer};
