//! The runtime that hosts congestion control algorithms, and the API their authors write
//! against.
//!
//! An [ is programs, `new_flow`, and a [`Flow`] with `on_report` and `on_close`.
//! The [`Plane`] hosts any number of algorithms, sans I/O: a datapath hands it [`Event`]s and
//! takes its [`Command`]s.

mod event;

pub use event::{Command, CommandSink, Event, FlowId, FlowInfo, RawReport};
