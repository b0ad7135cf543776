#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod layout;
mod prefixes;
mod receive;
mod ring;
mod settings;
mod skeleton;

pub use layout::Boundary;
pub use receive::{KernelReceivebox, ReceiveOptions};
pub use settings::Framing;
