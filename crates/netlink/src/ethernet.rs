//! Ethernet interfaces: their addresses, neighbours, and what a driver leaves to the wire.

use std::io;
use std::net::IpAddr;

use netlink_packet_route::link::{LinkAttribute, LinkMessage};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use rustix::ioctl::{self, Updater};
use rustix::net::{AddressFamily as SocketFamily, SocketType, socket};

use crate::{Netlink, index_of};

/// The Ethernet address of an interface, in the namespace of the calling thread.
///
/// # Errors
/// There is none (`NotFound`), or the kernel could not be asked.
pub fn ethernet_address(name: &str) -> io::Result<[u8; 6]> {
    let mut found = None;
    let all = RouteNetlinkMessage::GetLink(LinkMessage::default());
    Netlink::new(NETLINK_ROUTE)?.dump(all, |answer| {
        let RouteNetlinkMessage::NewLink(link) = answer else {
            return;
        };
        let is_it = |each: &LinkAttribute| matches!(each, LinkAttribute::IfName(it) if it == name);
        if !link.attributes.iter().any(is_it) {
            return;
        }
        found = link.attributes.iter().find_map(|each| match each {
            LinkAttribute::Address(bytes) => bytes.as_slice().try_into().ok(),
            _ => None,
        });
    })?;
    found.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}

/// Tells the kernel for good where on an interface an address is: it asks no more.
///
/// # Errors
/// The interface is not there, or the process lacks `CAP_NET_ADMIN`.
pub fn add_neighbour(name: &str, address: IpAddr, ethernet: [u8; 6]) -> io::Result<()> {
    let mut message = NeighbourMessage::default();
    message.header.ifindex = index_of(name)?;
    message.header.state = NeighbourState::Permanent;
    let destination = match address {
        IpAddr::V4(address) => {
            message.header.family = AddressFamily::Inet;
            NeighbourAddress::Inet(address)
        }
        IpAddr::V6(address) => {
            message.header.family = AddressFamily::Inet6;
            NeighbourAddress::Inet6(address)
        }
    };
    message.attributes = vec![
        NeighbourAttribute::Destination(destination),
        NeighbourAttribute::LinkLayerAddress(ethernet.to_vec()),
    ];
    Netlink::new(NETLINK_ROUTE)?.change(RouteNetlinkMessage::NewNeighbour(message))
}

/// `struct ethtool_value` of linux/ethtool.h.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// `ETHTOOL_STXCSUM` of linux/ethtool.h.
const SET_SENT_CHECKSUMS: u32 = 0x17;

/// `SIOCETHTOOL` of linux/sockios.h.
const ETHTOOL: ioctl::Opcode = 0x8946;

/// Has the kernel write whole checksums into what leaves an interface, rather than leave that to the driver: for a pair
/// of virtual ones whose other end is read as a wire would be.
///
/// # Errors
/// The interface is not there, has no such setting, or the process lacks `CAP_NET_ADMIN`.
pub fn complete_checksums(name: &str) -> io::Result<()> {
    let mut value = EthtoolValue {
        command: SET_SENT_CHECKSUMS,
        data: 0,
    };
    let mut bytes = [0; libc::IFNAMSIZ];
    for (to, from) in bytes.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    let mut request = libc::ifreq {
        ifr_name: bytes,
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_data: (&raw mut value).cast(),
        },
    };
    let any = socket(SocketFamily::INET, SocketType::DGRAM, None)?;
    #[expect(unsafe_code, reason = "rustix has no typed form of it")]
    // SAFETY: SIOCETHTOOL reads one `ifreq`, and of what that points to one `ethtool_value`, which lives until it
    // returns.
    unsafe {
        ioctl::ioctl(&any, Updater::<ETHTOOL, libc::ifreq>::new(&mut request))?;
    }
    Ok(())
}
