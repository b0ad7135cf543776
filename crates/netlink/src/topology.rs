//! Interfaces of made-up networks: pairs of virtual Ethernet devices, bridges, addresses. All are in the
//! namespace of the calling thread.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage,
};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use rustix::net::{AddressFamily as SocketFamily, SocketType, netdevice, socket};

use crate::Netlink;

/// Makes a pair of virtual Ethernet devices: `name` here, `peer` in another namespace.
///
/// # Errors
/// A name is taken, or the process lacks `CAP_NET_ADMIN`.
pub fn make_veth(name: &str, peer: &str, namespace: BorrowedFd<'_>) -> io::Result<()> {
    let mut other = LinkMessage::default();
    other.attributes = vec![
        LinkAttribute::IfName(peer.to_owned()),
        LinkAttribute::NetNsFd(namespace.as_raw_fd()),
    ];
    let data = InfoData::Veth(InfoVeth::Peer(other));
    make(
        name,
        vec![LinkInfo::Kind(InfoKind::Veth), LinkInfo::Data(data)],
    )
}

/// Makes a bridge.
///
/// # Errors
/// The name is taken, or the process lacks `CAP_NET_ADMIN`.
pub fn make_bridge(name: &str) -> io::Result<()> {
    make(name, vec![LinkInfo::Kind(InfoKind::Bridge)])
}

fn make(name: &str, info: Vec<LinkInfo>) -> io::Result<()> {
    let mut link = LinkMessage::default();
    link.attributes = vec![
        LinkAttribute::IfName(name.to_owned()),
        LinkAttribute::LinkInfo(info),
    ];
    Netlink::new(NETLINK_ROUTE)?.change(RouteNetlinkMessage::NewLink(link))
}

/// Makes an interface a port of a bridge.
///
/// # Errors
/// One of the two is not there, or the process lacks `CAP_NET_ADMIN`.
pub fn enslave(name: &str, bridge: &str) -> io::Result<()> {
    let controller = LinkAttribute::Controller(index_of(bridge)?);
    change(name, |link| link.attributes.push(controller))
}

/// Limits the segments of a packet that an interface is given for segmentation; 1 is none.
///
/// # Errors
/// It is not there, or the process lacks `CAP_NET_ADMIN`.
pub fn limit_offload(name: &str, segments: u32) -> io::Result<()> {
    change(name, |link| {
        link.attributes.push(LinkAttribute::GsoMaxSegs(segments));
    })
}

/// Removes an interface, and the other one of its pair.
///
/// # Errors
/// It is not there, or the process lacks `CAP_NET_ADMIN`.
pub fn remove(name: &str) -> io::Result<()> {
    let mut link = LinkMessage::default();
    link.header.index = index_of(name)?;
    Netlink::new(NETLINK_ROUTE)?.remove(RouteNetlinkMessage::DelLink(link))
}

/// Brings an interface up.
///
/// # Errors
/// It is not there, or the process lacks `CAP_NET_ADMIN`.
pub fn bring_up(name: &str) -> io::Result<()> {
    change(name, |link| {
        link.header.flags = LinkFlags::Up;
        link.header.change_mask = LinkFlags::Up;
    })
}

/// Sets how many packets may wait in an interface.
///
/// # Errors
/// It is not there, or the process lacks `CAP_NET_ADMIN`.
pub fn set_queue_length(name: &str, packets: u32) -> io::Result<()> {
    change(name, |link| {
        link.attributes.push(LinkAttribute::TxQueueLen(packets));
    })
}

/// Renames an interface.
///
/// # Errors
/// It is not there, the new name is taken, or the process lacks `CAP_NET_ADMIN`.
pub fn rename(name: &str, to: &str) -> io::Result<()> {
    change(name, |link| {
        link.attributes.push(LinkAttribute::IfName(to.to_owned()));
    })
}

fn change(name: &str, how: impl FnOnce(&mut LinkMessage)) -> io::Result<()> {
    let mut link = LinkMessage::default();
    link.header.index = index_of(name)?;
    how(&mut link);
    Netlink::new(NETLINK_ROUTE)?.change(RouteNetlinkMessage::SetLink(link))
}

/// Gives an interface an address, usable at once: nobody else is there to have it.
///
/// # Errors
/// The interface is not there, or the process lacks `CAP_NET_ADMIN`.
pub fn add_address(name: &str, address: IpAddr, prefix_len: u8) -> io::Result<()> {
    let mut message = AddressMessage::default();
    message.header.family = match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    };
    message.header.prefix_len = prefix_len;
    message.header.index = index_of(name)?;
    message.header.flags = AddressHeaderFlags::Nodad;
    message.attributes = vec![
        AddressAttribute::Local(address),
        AddressAttribute::Address(address),
        AddressAttribute::Flags(AddressFlags::Nodad),
    ];
    Netlink::new(NETLINK_ROUTE)?.change(RouteNetlinkMessage::NewAddress(message))
}

/// Number of an interface.
///
/// # Errors
/// It is not there.
pub fn index_of(name: &str) -> io::Result<u32> {
    let any = socket(SocketFamily::INET, SocketType::DGRAM, None)?;
    Ok(netdevice::name_to_index(any, name)?)
}

/// Whether an interface carries Ethernet frames.
///
/// # Errors
/// The kernel could not be asked.
pub fn is_ethernet(name: &str) -> io::Result<bool> {
    let mut found = false;
    let all = RouteNetlinkMessage::GetLink(LinkMessage::default());
    Netlink::new(NETLINK_ROUTE)?.dump(all, |answer| {
        if let RouteNetlinkMessage::NewLink(link) = answer {
            let named =
                |each: &LinkAttribute| matches!(each, LinkAttribute::IfName(it) if it == name);
            found |= link.header.link_layer_type == LinkLayerType::Ether
                && link.attributes.iter().any(named);
        }
    })?;
    Ok(found)
}
