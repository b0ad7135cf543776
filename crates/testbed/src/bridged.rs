//! A host with a bridge, a guest behind one of its ports and the guest's peer behind another.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::os::fd::AsFd;

use fairwater_net::LinkConfig;
use fairwater_netlink::{
    Namespace, add_address, bring_up, enslave, limit_offload, make_bridge, make_tap, make_veth,
};

use crate::clock::Clock;
use crate::emulator::Emulator;

/// Names of the guest's port and of the peer's on the host.
const PORTS: [&str; 2] = ["vnet0", "uplink"];
/// Name of their interface in the namespaces of guest and peer.
const INTERFACE: &str = "eth0";
/// Addresses of the guest and of its peer end in these.
const NUMBERS: [u8; 2] = [1, 2];

/// A host with a bridge, a guest behind its port `vnet0` and the guest's peer behind `uplink`: three network
/// namespaces without names, which end with this. Guest and peer use Reno unless a socket asks for another.
#[derive(Debug)]
pub struct BridgedSite {
    host: Namespace,
    guest: Namespace,
    peer: Namespace,
    /// The link to the peer, if it is emulated.
    _emulator: Option<Emulator>,
}

/// Which addresses a connection has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl BridgedSite {
    /// Makes the namespaces, the bridge and its ports.
    ///
    /// # Errors
    /// Those of the kernel, for want of `CAP_SYS_ADMIN` or `CAP_NET_ADMIN`.
    pub fn new() -> io::Result<Self> {
        Self::make(None)
    }

    /// The same, with emulated links between the bridge and the peer: towards the peer, and back.
    ///
    /// # Errors
    /// As for [`BridgedSite::new`], or there is no `/dev/net/tun`.
    pub fn with_links(links: [&LinkConfig; 2]) -> io::Result<Self> {
        Self::make(Some(links))
    }

    fn make(links: Option<[&LinkConfig; 2]>) -> io::Result<Self> {
        let mut site = Self {
            host: Namespace::new()?,
            guest: Namespace::new()?,
            peer: Namespace::new()?,
            _emulator: None,
        };
        let devices = match links {
            Some(links) => {
                let near = site.host.inside(|| make_tap(PORTS[1]))??;
                let far = site.peer.inside(|| make_tap(INTERFACE))??;
                Some((links, near, far))
            }
            None => None,
        };
        site.host.inside(|| -> io::Result<()> {
            make_bridge("br0")?;
            for (port, namespace) in PORTS.iter().zip([&site.guest, &site.peer]) {
                if links.is_none() || *port != PORTS[1] {
                    make_veth(port, INTERFACE, namespace.as_fd())?;
                }
                enslave(port, "br0")?;
                bring_up(port)?;
            }
            bring_up("br0")
        })??;
        for (number, namespace) in NUMBERS.into_iter().zip([&site.guest, &site.peer]) {
            namespace.inside(|| -> io::Result<()> {
                // New namespaces inherit the machine's default.
                fs::write("/proc/sys/net/ipv4/tcp_congestion_control", "reno")?;
                bring_up("lo")?;
                bring_up(INTERFACE)?;
                add_address(INTERFACE, address(Family::V4, number), 24)?;
                add_address(INTERFACE, address(Family::V6, number), 64)
            })??;
        }
        // A device that is not up yet refuses packets, which ends the emulator.
        if let Some((links, near, far)) = devices {
            let emulator = Emulator::between([&near, &far], Clock::start(), links, 0)?;
            site._emulator = Some(emulator);
        }
        Ok(site)
    }

    /// The host's namespace.
    #[must_use]
    pub const fn host(&self) -> &Namespace {
        &self.host
    }

    /// The guest's namespace.
    #[must_use]
    pub const fn guest(&self) -> &Namespace {
        &self.guest
    }

    /// Lets guest and peer send packets of one segment alone: no segmentation offload.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn without_offload(&self) -> io::Result<()> {
        for namespace in [&self.guest, &self.peer] {
            namespace.inside(|| limit_offload(INTERFACE, 1))??;
        }
        Ok(())
    }

    /// Listens at the peer.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn listen(&self, family: Family) -> io::Result<TcpListener> {
        let at = address(family, NUMBERS[1]);
        self.peer.inside(|| TcpListener::bind((at, 0)))?
    }

    /// Connects from the guest to a listener at the peer.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn connect(&self, to: &TcpListener) -> io::Result<TcpStream> {
        let to = to.local_addr()?;
        self.guest.inside(|| TcpStream::connect(to))?
    }
}

fn address(family: Family, number: u8) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::new(10, 0, 0, number)),
        Family::V6 => IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number.into())),
    }
}
