//! Two sites with a host and a router each, and an emulated link between the routers; traffic between the hosts.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fairwater_net::LinkConfig;
use fairwater_netlink::{
    Namespace, Netlink, add_address, bring_up, limit_offload, make_tap, make_veth,
};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use socket2::SockRef;

use crate::Family;
use crate::clock::Clock;
use crate::emulator::Emulator;

/// Port of the receiver's host that accepts bulk data.
const BULK: u16 = 5001;

/// One of the four machines, each a network namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Machine {
    /// The host that sends: `eth0`, 10.1.0.2.
    Sender,
    /// Its router: `lan0`, 10.1.0.1, and `wan0`, 192.0.2.1.
    SenderRouter,
    /// The receiver's router: `wan0`, 192.0.2.2, and `lan0`, 10.2.0.1.
    ReceiverRouter,
    /// The host that receives: `eth0`, 10.2.0.2.
    Receiver,
}

impl Machine {
    /// All of them, from the sender to the receiver.
    pub const ALL: [Self; 4] = [
        Self::Sender,
        Self::SenderRouter,
        Self::ReceiverRouter,
        Self::Receiver,
    ];
}

/// Two sites: namespaces without names, which end with this. With IPv6 the sites are `fd01::/64` and `fd02::/64`, and
/// the link is `fd00::/64`.
#[derive(Debug)]
pub struct TwoSites {
    machines: [Namespace; 4],
    /// The link, if it is emulated.
    _emulator: Option<Emulator>,
}

impl TwoSites {
    /// Makes them, with these links from the sender's router and back.
    ///
    /// # Errors
    /// Those of the kernel, for want of `CAP_SYS_ADMIN`, `CAP_NET_ADMIN` or `/dev/net/tun`.
    pub fn new(links: [&LinkConfig; 2]) -> io::Result<Self> {
        Self::make(Some(links))
    }

    /// Makes them with a wire between the routers: nothing but the processor limits its rate.
    ///
    /// # Errors
    /// Those of the kernel, for want of `CAP_SYS_ADMIN` or `CAP_NET_ADMIN`.
    pub fn wired() -> io::Result<Self> {
        Self::make(None)
    }

    fn make(links: Option<[&LinkConfig; 2]>) -> io::Result<Self> {
        let made = || Namespace::new();
        let machines = [made()?, made()?, made()?, made()?];
        let [sender, near, far, receiver] = &machines;
        let emulated = match links {
            Some(links) => {
                let near = near.inside(|| make_tap("wan0"))??;
                Some((links, near, far.inside(|| make_tap("wan0"))??))
            }
            None => {
                near.inside(|| make_veth("wan0", "wan0", far.as_fd()))??;
                None
            }
        };
        for (site, router, host) in [(1, near, sender), (2, far, receiver)] {
            router.inside(|| -> io::Result<()> {
                make_veth("lan0", "eth0", host.as_fd())?;
                for device in ["lo", "lan0", "wan0"] {
                    bring_up(device)?;
                }
                fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
                fs::write("/proc/sys/net/ipv6/conf/all/forwarding", "1")?;
                for family in [Family::V4, Family::V6] {
                    add_address("lan0", at_site(family, site, 1), length(family))?;
                    add_address("wan0", at_link(family, site), length(family))?;
                    let other = 3 - site;
                    let there = at_site(family, other, 0);
                    add_route(there, length(family), at_link(family, other))?;
                }
                Ok(())
            })??;
            host.inside(|| -> io::Result<()> {
                for device in ["lo", "eth0"] {
                    bring_up(device)?;
                }
                for family in [Family::V4, Family::V6] {
                    add_address("eth0", at_site(family, site, 2), length(family))?;
                    add_route(anywhere(family), 0, at_site(family, site, 1))?;
                }
                Ok(())
            })??;
        }
        // A device that is not up yet refuses packets, which ends the emulator.
        let emulator = emulated
            .map(|(links, near, far)| Emulator::between([&near, &far], Clock::start(), links, 0));
        Ok(Self {
            machines,
            _emulator: emulator.transpose()?,
        })
    }

    /// Lets the hosts send packets of one segment alone: no segmentation offload.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn without_offload(&self) -> io::Result<()> {
        for host in [Machine::Sender, Machine::Receiver] {
            self.namespace(host).inside(|| limit_offload("eth0", 1))??;
        }
        Ok(())
    }

    /// The namespace of a machine.
    #[must_use]
    pub const fn namespace(&self, machine: Machine) -> &Namespace {
        &self.machines[machine as usize]
    }

    /// The same, as a descriptor.
    #[must_use]
    pub fn descriptor(&self, machine: Machine) -> BorrowedFd<'_> {
        self.namespace(machine).as_fd()
    }

    /// The address of the receiver's host.
    #[must_use]
    pub fn receiver(family: Family) -> IpAddr {
        at_site(family, 2, 2)
    }

    /// Begins to send bulk data from the sender's host to the receiver's, by so many connections with Cubic.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn bulk(&self, family: Family, connections: usize) -> io::Result<Bulk> {
        let to = SocketAddr::new(Self::receiver(family), BULK);
        let listener = self
            .namespace(Machine::Receiver)
            .inside(|| TcpListener::bind(to))??;
        let received = Arc::<AtomicU64>::default();
        let stop = Arc::<AtomicBool>::default();
        let mut threads = Vec::new();
        let mut streams = Vec::new();
        for _ in 0..connections {
            let out = self.namespace(Machine::Sender).inside(|| {
                let stream = TcpStream::connect(to)?;
                // A kernel without Cubic sends by its default.
                let _ = SockRef::from(&stream).set_tcp_congestion(b"cubic");
                Ok::<_, io::Error>(stream)
            })??;
            let (into, _) = listener.accept()?;
            streams.push(out.try_clone()?);
            streams.push(into.try_clone()?);
            let ended = Arc::clone(&stop);
            threads.push(thread::spawn(move || send(out, &ended)));
            let count = Arc::clone(&received);
            threads.push(thread::spawn(move || receive(into, &count)));
        }
        Ok(Bulk {
            received,
            stop,
            streams,
            threads,
        })
    }

    /// Sends so many small datagrams from a machine to the receiver's host, which sends each back.
    ///
    /// # Errors
    /// Those of the kernel.
    pub fn ping(
        &self,
        from: Machine,
        family: Family,
        (count, interval): (usize, Duration),
    ) -> io::Result<Vec<Ping>> {
        let any = SocketAddr::new(anywhere(family), 0);
        let to = SocketAddr::new(Self::receiver(family), 0);
        let echo = self
            .namespace(Machine::Receiver)
            .inside(|| UdpSocket::bind(to))??;
        let to = echo.local_addr()?;
        let socket = self.namespace(from).inside(|| UdpSocket::bind(any))??;
        socket.connect(to)?;
        socket.set_read_timeout(Some(Duration::from_millis(1)))?;
        echo.set_read_timeout(Some(Duration::from_millis(50)))?;
        let stop = Arc::<AtomicBool>::default();
        let ended = Arc::clone(&stop);
        let answers = thread::spawn(move || {
            let mut buffer = [0; 64];
            while !ended.load(Relaxed) {
                if let Ok((length, from)) = echo.recv_from(&mut buffer) {
                    let _ = echo.send_to(&buffer[..length], from);
                }
            }
        });
        let began = Instant::now();
        let mut found: Vec<Ping> = Vec::with_capacity(count);
        let last = interval * u32::try_from(count).unwrap_or(u32::MAX) + Duration::from_secs(1);
        let is_open =
            |found: &[Ping]| found.len() < count || found.iter().any(|ping| ping.delay.is_none());
        while began.elapsed() < last && is_open(&found) {
            let due = interval * u32::try_from(found.len()).unwrap_or(u32::MAX);
            if found.len() < count && began.elapsed() >= due {
                // A network that is not there yet loses it.
                let _ = socket.send(&(found.len() as u64).to_be_bytes());
                found.push(Ping {
                    sent: began.elapsed(),
                    delay: None,
                });
            }
            let mut buffer = [0; 64];
            let Ok(8) = socket.recv(&mut buffer) else {
                continue;
            };
            let number = buffer.first_chunk().copied().map(u64::from_be_bytes);
            let index = number.and_then(|number| usize::try_from(number).ok());
            if let Some(ping) = index.and_then(|index| found.get_mut(index)) {
                ping.delay = Some(began.elapsed().saturating_sub(ping.sent));
            }
        }
        stop.store(true, Relaxed);
        let _ = answers.join();
        Ok(found)
    }
}

/// A small datagram that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ping {
    /// When, since the first could be sent.
    pub sent: Duration,
    /// How long it took there and back; `None` if it did not come back within a second of the last one's time.
    pub delay: Option<Duration>,
}

/// Bulk data under way, until this is dropped.
#[derive(Debug)]
pub struct Bulk {
    received: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    streams: Vec<TcpStream>,
    threads: Vec<JoinHandle<()>>,
}

impl Bulk {
    /// Bytes that the receiver's host has read.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.received.load(Relaxed)
    }
}

impl Drop for Bulk {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for stream in &self.streams {
            // What has ended already is no error.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn send(mut stream: TcpStream, stop: &AtomicBool) {
    let data = [0; 64 * 1024];
    while !stop.load(Relaxed) && stream.write_all(&data).is_ok() {}
}

fn receive(mut stream: TcpStream, count: &AtomicU64) {
    let mut buffer = vec![0; 256 * 1024];
    while let Ok(length @ 1..) = stream.read(&mut buffer) {
        count.fetch_add(length as u64, Relaxed);
    }
}

fn at_site(family: Family, site: u8, number: u8) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::new(10, site, 0, number)),
        Family::V6 => {
            let first = 0xfd00 | u16::from(site);
            IpAddr::V6(Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, number.into()))
        }
    }
}

fn at_link(family: Family, number: u8) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::new(192, 0, 2, number)),
        Family::V6 => IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number.into())),
    }
}

const fn length(family: Family) -> u8 {
    match family {
        Family::V4 => 24,
        Family::V6 => 64,
    }
}

const fn anywhere(family: Family) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        Family::V6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}

/// Sends what goes to a prefix by a router.
fn add_route(to: IpAddr, prefix_len: u8, gateway: IpAddr) -> io::Result<()> {
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
        RouteAttribute::Gateway(RouteAddress::from(gateway)),
    ];
    Netlink::new(NETLINK_ROUTE)?.change(RouteNetlinkMessage::NewRoute(route))
}
