#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod error;
mod layout;
mod prefixes;
mod probe;
mod receive;
mod ring;
mod send;
mod settings;
mod skeleton;
mod tc;

pub use error::HtbError;
pub use layout::Boundary;
pub use probe::KernelScheduler;
pub use receive::{KernelReceivebox, ReceiveOptions};
pub use send::*;
pub use settings::Framing;
