//! The runtime that hosts congestion control algorithms, and the API their authors write
//! against.
//!
//! An [`Algorithm`] is programs, `new_flow`, and a [`Flow`] with `on_report` and `on_close`
//! (CCP §4). The [`Plane`] hosts any number of algorithms, sans I/O: a datapath hands it
//! [`Event`]s and takes its [`Command`]s. Nothing here has a clock; time is the datapath's and
//! comes with each report.
//!
//! The additive-increase, multiplicative-decrease algorithm of CCP §4.2:
//!
//! ```
#![doc = include_str!("../examples/aimd.rs")]
//! ```

mod aggregate;
mod algorithm;
mod careful_resume;
mod contain;
mod control;
mod event;
mod hosted;
mod nested;
mod notice;
mod observer;
mod plane;
mod programs;
mod report;
mod requirements;

pub use aggregate::{Aggregate, By, Claim, Group, Key, Member, divide};
pub use algorithm::{Algorithm, Ecn, Flow};
pub use careful_resume::{CarefulResumeConfig, CarefulResumeStatus, InvalidCarefulResume};
pub use control::Control;
pub use event::{Command, CommandSink, Event, RawReport};
pub use fairwater_lang::{ConstantValue, MAX_RATE, Signal, SignalSet, Signals, nearest};
pub use fairwater_proto::{
    Abilities, Capabilities, Fallback, FlowId, FlowInfo, SignalQualities, SignalQuality,
};
pub use hosted::{
    AggregateSnapshot, AlgorithmStatistics, Controller, FlowSnapshot, HostedAlgorithm,
};
pub use nested::{Nested, NestedFlow};
pub use notice::{Notice, Reason};
pub use observer::PlaneObserver;
pub use plane::{MAX_FLOWS, Plane, PlaneError, PlaneStatistics};
pub use programs::{
    AlgorithmError, Field, LoadedProgram, ProgramHandle, ProgramId, ProgramSource, Programs, Var,
};
pub use report::Report;
pub use requirements::{Requirements, Unmet};
