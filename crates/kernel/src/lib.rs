//! What datapaths in the kernel share: Linux TCP by `struct_ops`, a box at a host's edge by tc.
//!
//! ```text
//!   kernel side ── signals ─▶ frame ◀──── stage ──── plane
//!        │ tail call            │                     ▲
//!        ▼                      ▼                     │
//!     program ── cwnd, rate ─▶ enforced    report ─▶ ring ┘
//! ```
//!
//! A [`Frame`] is one flow's memory, mapped into the plane. The plane writes commands there as a stage, which the
//! flow's program applies when the datapath invokes it next, without a system call. Reports and the beginning and end
//! of flows come by a ring. A heartbeat in the [plane's page](PlanePage) tells the kernel side that the plane
//! lives. `bpf/` has the C side of all this, `fairwater_exec::frame` what generated programs know of it.
//!
//! A kernel datapath brings its own programs, finds the frame of a flow, fills in the signals and enforces
//! the controls. [`KernelFlows`] does the rest of a
//! [`DirectDatapath`](fairwater_service::DirectDatapath): events, commands, hand-overs, and bringing both sides into
//! line after a silence.

#![deny(unsafe_code)]

mod clock;
pub mod code;
mod error;
mod flows;
mod frame;
mod inbox;
mod layout;
mod page;
mod program;
mod shared;
mod skeleton;
mod staging;
pub mod tcx;
mod test_run;
mod wakeup;

pub use clock::{now_ns, now_us};
pub use error::KernelError;
pub use flows::{FrameAlgorithms, KernelFlows, Memory, Turn};
pub use frame::{FlowState, Frame, Frames};
pub use layout::{CWND_PACKETS, MAX_ALGORITHMS, MAX_PROGRAMS, PAGE_BYTES};
pub use page::PlanePage;
pub use program::{NamedProgram, ProgramMaps, ProgramSet, ProgramTable, Target, load};
pub use shared::Shared;
pub use test_run::{Outcome, TestContext, run, run_in};
