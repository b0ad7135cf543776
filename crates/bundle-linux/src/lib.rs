#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod error;
mod htb;
mod layout;
mod prefixes;
mod punctuality;
mod random;
mod receive;
mod ring;
mod settings;
mod skeleton;
mod socket;
mod tap;
mod thread;

pub use error::BoxError;
pub use htb::*;
pub use layout::ObservedBoundary;
pub use random::random;
pub use receive::*;
pub use settings::Framing;
pub use tap::{TapSendbox, TapSendboxConfig};

/// Port of messages between boxes, unless a configuration says another.
pub const MESSAGE_PORT: u16 = 6790;
