//! Netlink without a runtime: [requests](Netlink), and the [network interfaces](Interfaces) that come and go.

mod interfaces;
mod request;

pub use interfaces::{Interface, Interfaces};
pub use request::Netlink;
