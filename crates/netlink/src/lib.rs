//! The kernel's network without a runtime: netlink [requests](Netlink), the [interfaces](Interfaces) that come
//! and go, [namespaces](Namespace) without names, the interfaces of made-up networks ([`make_veth`]),
//! and [devices](make_tun) whose other end is a process.

mod ethernet;
mod interfaces;
mod namespace;
mod raw;
mod request;
mod topology;
mod tun;

pub use ethernet::{add_neighbour, complete_checksums, ethernet_address};
pub use interfaces::{Interface, Interfaces, LinkFacts, link_facts};
pub use namespace::{Namespace, enter};
pub use raw::{Batch, attributes};
pub use request::Netlink;
pub use topology::{
    add_address, bring_up, enslave, index_of, is_ethernet, limit_offload, make_bridge, make_veth,
    remove, rename, set_queue_length,
};
pub use tun::{TunKind, TunOffloads, make_tap, make_tun};
