#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod device;
mod diversion;
mod error;
mod frame;
mod observer;
mod prefixes;
mod punctuality;
mod random;
mod receivebox;
mod sendbox;
mod skeleton;
mod socket;
mod worker;

pub use error::BoxError;
pub use observer::Observer;
pub use random::random;
pub use receivebox::{LinuxReceivebox, LinuxReceiveboxConfig, LinuxReceiveboxStatus};
pub use sendbox::{TunSendbox, TunSendboxConfig};

/// Port of messages between boxes, unless a configuration says another.
pub const MESSAGE_PORT: u16 = 6790;
