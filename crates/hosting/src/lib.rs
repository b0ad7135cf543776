//! What the command and the Python package share: resolving the spec of an algorithm, and hosting
//! algorithms on this machine's TCP.
//!
//! Algorithms in Rust run in a thread of this process ([`AttachedPlane`]). Algorithms in Python
//! run in worker processes ([`AlgorithmProcess`], and [`worker`] for the other end), each with a
//! heartbeat of its own, so that an algorithm that blocks or dies harms its own flows alone.
//! [`HostedAlgorithms`] does both; [`InProcessPlane`] hosts for datapaths of this process. Nothing here prints.

mod attached;
pub mod bundle;
mod changed_default;
pub mod control;
mod controllers;
mod files;
mod fork;
pub mod host;
mod hosted;
mod in_process;
mod lab_edge;
pub mod metrics;
mod plane;
mod process;
mod resolve;
pub mod service_manager;
mod stop;
mod tcp_notices;
pub mod worker;

pub use attached::{AttachError, AttachedPlane};
pub use changed_default::DefaultError;
pub use controllers::sample_controllers;
pub use files::FolderResolver;
pub use fork::{exit_forked_plane, on_fork_in_child};
pub use hosted::{HostError, HostedAlgorithms};
pub use in_process::InProcessPlane;
pub use lab_edge::LabEdge;
pub use plane::{DuplicateName, plane_of, require_different};
pub use process::{AlgorithmProcess, ProcessEnd, ProcessError, finish_all};
pub use resolve::{
    PythonRuntime, ResolveError, ResolvedAlgorithm, embed_python, is_python_spec, own_command,
    python_source, resolve, resolve_argument,
};
pub use stop::Stop;

/// An algorithm, and the name that it is hosted under.
pub type NamedAlgorithm = (String, ResolvedAlgorithm);

/// The longest that a turn of the plane sleeps, and so the latest that it notices a signal.
pub const TURN: std::time::Duration = std::time::Duration::from_millis(50);
