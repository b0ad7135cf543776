//! The two hosts of a path: `sender` and `receiver`, each a namespace with one TUN device. The
//! router between them is the [emulator](crate::emulator), which holds the devices' other ends.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::OwnedFd;

use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;

use fairwater_netlink::{
    Namespace, Netlink, TunKind, TunOffloads, add_address, index_of, make_tun,
};

/// Two hosts, and the network's ends of their devices.
#[derive(Debug)]
pub(crate) struct Path {
    /// The host that sends.
    pub(crate) sender: Namespace,
    /// The host that receives.
    pub(crate) receiver: Namespace,
    /// The sender's address.
    pub(crate) sender_address: IpAddr,
    /// The receiver's address.
    pub(crate) receiver_address: IpAddr,
    pub(crate) sender_device: OwnedFd,
    pub(crate) receiver_device: OwnedFd,
}

/// The name of the device in each namespace.
const DEVICE: &str = "fw0";

/// Largest IP packet, bytes.
pub(crate) const MTU: u32 = 1500;

/// Packets a device holds for the emulator. A drop there would be a drop in the sending host,
/// which TCP answers otherwise than one in the network, so there is room for any window.
const DEVICE_QUEUE_PACKETS: u32 = 20_000;

/// What is set in each namespace, under `/proc/sys/net`, and why.
const SYSCTLS: [(&str, &str); 4] = [
    // The names an algorithm is compared under are set per socket; a socket starts under the
    // one algorithm that every kernel has, not under the machine's default, whose pacing would
    // outlive it.
    ("ipv4/tcp_congestion_control", "reno"),
    // No flow starts with what another measured.
    ("ipv4/tcp_no_metrics_save", "1"),
    // Buffers grow to 64 MiB, so that the congestion window, not these, is the limit.
    ("ipv4/tcp_rmem", "4096 131072 67108864"),
    ("ipv4/tcp_wmem", "4096 65536 67108864"),
];

/// Where a flow has ECN or the link marks: connections have ECN, whoever begins them (RFC 3168), and a lost SYN is
/// sent again with the offer (RFC 3168 §6.1.1.1 lets a host go without).
const ECN: [(&str, &str); 2] = [("ipv4/tcp_ecn", "1"), ("ipv4/tcp_ecn_fallback", "0")];

impl Path {
    /// Makes the hosts, with IPv4 addresses, or IPv6 ones, and with ECN where that is asked for.
    ///
    /// # Errors
    /// Those of the kernel, for want of `CAP_SYS_ADMIN`, `CAP_NET_ADMIN` or `/dev/net/tun`.
    pub(crate) fn new(ipv6: bool, ecn: bool) -> io::Result<Self> {
        let (sender_address, receiver_address) = if ipv6 {
            (
                IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1)),
                IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 1, 0, 0, 0, 1)),
            )
        } else {
            (
                IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)),
                IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1)),
            )
        };
        let (sender, sender_device) = host(sender_address, ecn)?;
        let (receiver, receiver_device) = host(receiver_address, ecn)?;
        Ok(Path {
            sender,
            receiver,
            sender_address,
            receiver_address,
            sender_device,
            receiver_device,
        })
    }
}

/// A namespace with a device that has `address` and carries everything else.
fn host(address: IpAddr, ecn: bool) -> io::Result<(Namespace, OwnedFd)> {
    let namespace = Namespace::new()?;
    let device = namespace.inside(|| -> io::Result<OwnedFd> {
        configure_tcp(ecn)?;
        // Packets of neighbour discovery would count on the link of an IPv4 run. A kernel
        // without IPv6 has nothing to turn off.
        let disable_ipv6 = "/proc/sys/net/ipv6/conf/default/disable_ipv6";
        match address {
            IpAddr::V4(_) if !fs::exists(disable_ipv6)? => {}
            IpAddr::V4(_) => fs::write(disable_ipv6, "1")?,
            IpAddr::V6(_) => fs::write(disable_ipv6, "0")?,
        }
        let device = make_tun(DEVICE, TunKind::Ip, TunOffloads::None)?.0;
        configure(address)?;
        Ok(device)
    })??;
    Ok((namespace, device))
}

/// Sets what the lab needs of TCP in the calling thread's namespace.
pub(crate) fn configure_tcp(ecn: bool) -> io::Result<()> {
    let of_ecn = ECN.into_iter().filter(|_| ecn);
    for (name, value) in SYSCTLS.into_iter().chain(of_ecn) {
        fs::write(format!("/proc/sys/net/{name}"), value)?;
    }
    Ok(())
}

fn configure(address: IpAddr) -> io::Result<()> {
    let index = index_of(DEVICE)?;
    let mut netlink = Netlink::new(NETLINK_ROUTE)?;

    let mut link = LinkMessage::default();
    link.header.index = index;
    link.header.flags = LinkFlags::Up;
    link.header.change_mask = LinkFlags::Up;
    link.attributes = vec![
        LinkAttribute::Mtu(MTU),
        LinkAttribute::TxQueueLen(DEVICE_QUEUE_PACKETS),
    ];
    netlink.change(RouteNetlinkMessage::SetLink(link))?;

    let (prefix_len, anywhere) = match address {
        IpAddr::V4(_) => (32, IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
        IpAddr::V6(_) => (128, IpAddr::V6(Ipv6Addr::UNSPECIFIED)),
    };
    add_address(DEVICE, address, prefix_len)?;
    add_route(anywhere, 0, DEVICE)
}

/// Sends what goes to a prefix out of a device.
pub(crate) fn add_route(to: IpAddr, prefix_len: u8, device: &str) -> io::Result<()> {
    let mut route = RouteMessage::default();
    route.header = RouteHeader {
        address_family: match to {
            IpAddr::V4(_) => AddressFamily::Inet,
            IpAddr::V6(_) => AddressFamily::Inet6,
        },
        destination_prefix_length: prefix_len,
        table: RouteHeader::RT_TABLE_MAIN,
        protocol: RouteProtocol::Static,
        scope: RouteScope::Universe,
        kind: RouteType::Unicast,
        ..RouteHeader::default()
    };
    route.attributes = vec![
        RouteAttribute::Destination(RouteAddress::from(to)),
        RouteAttribute::Oif(index_of(device)?),
    ];
    Netlink::new(NETLINK_ROUTE)?.change(RouteNetlinkMessage::NewRoute(route))
}
