//! The sendbox in this process: packets leave the site's port for a TAP device, and a thread schedules them.

mod device;
mod diversion;
mod frame;
mod sendbox;
mod super_packet;
mod worker;

pub use sendbox::{TapSendbox, TapSendboxConfig};
