//! The flow runtime for datapaths in user space: signals in, controls and messages out.

#![cfg_attr(not(any(feature = "std", feature = "native")), no_std)]

extern crate alloc;

mod config;
mod datapath;
pub mod fallback;
mod flow;
mod invoke;
mod messages;
mod news;
mod outgoing;
mod peer;
mod program;
mod silence;
mod slab;
mod stage;
mod statistics;
mod transmit;

pub use config::{Backend, Config, MAX_FLOWS};
pub use datapath::{ControlsError, Datapath, StartError, UnknownFlow};
pub use flow::{Controls, FlowState, FlowView};
pub use peer::PeerId;
pub use statistics::Statistics;
pub use transmit::MIN_PACKET;
