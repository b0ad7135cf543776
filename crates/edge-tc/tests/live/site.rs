//! A host with a bridge, a guest behind one of its ports and the guest's peer behind another.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::thread::{self, JoinHandle};

use fairwater_netlink::{Namespace, add_address, bring_up, enslave, make_bridge, make_veth};

/// Names of the guest's and of the peer's port on the host.
pub(crate) const PORTS: [&str; 2] = ["vnet0", "uplink"];

/// Bytes of one write.
const WRITE: usize = 64 * 1024;

/// Three namespaces without names; they end with the test.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) host: Namespace,
    pub(crate) guest: Namespace,
    pub(crate) peer: Namespace,
}

/// What a transfer came to.
#[derive(Debug)]
pub(crate) struct Transfer {
    /// Most bytes that the guest was allowed to have in flight, as it saw it, after the handshake's round.
    pub(crate) greatest_window: u64,
    /// Whether what arrived is what was sent.
    pub(crate) intact: bool,
}

impl Site {
    pub(crate) fn new() -> io::Result<Self> {
        let site = Self {
            host: Namespace::new()?,
            guest: Namespace::new()?,
            peer: Namespace::new()?,
        };
        site.host.inside(|| -> io::Result<()> {
            make_bridge("br0")?;
            for (port, namespace) in PORTS.iter().zip([&site.guest, &site.peer]) {
                make_veth(port, "eth0", namespace.as_fd())?;
                enslave(port, "br0")?;
                bring_up(port)?;
            }
            bring_up("br0")
        })??;
        for (number, namespace) in (1..).zip([&site.guest, &site.peer]) {
            namespace.inside(|| -> io::Result<()> {
                // New namespaces inherit the machine's default.
                fs::write("/proc/sys/net/ipv4/tcp_congestion_control", "reno")?;
                bring_up("lo")?;
                bring_up("eth0")?;
                add_address("eth0", address(number), 24)?;
                add_address("eth0", address_v6(number), 64)
            })??;
        }
        Ok(site)
    }

    /// Waits for one connection at the peer and reads all of it; the sum of what arrived.
    pub(crate) fn receiver(&self, v6: bool) -> io::Result<(SocketAddr, JoinHandle<u64>)> {
        let at = if v6 { address_v6(2) } else { address(2) };
        let listener = self.peer.inside(|| TcpListener::bind((at, 0)))??;
        let address = listener.local_addr()?;
        let reader = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut buffer = vec![0; WRITE];
            let mut sum = Sum::default();
            loop {
                match stream.read(&mut buffer).unwrap() {
                    0 => return sum.value,
                    read => sum.add(&buffer[..read]),
                }
            }
        });
        Ok((address, reader))
    }

    /// Connects from the guest.
    pub(crate) fn connect(&self, to: SocketAddr) -> io::Result<TcpStream> {
        self.guest.inside(|| TcpStream::connect(to))?
    }

    /// Sends so many bytes from the guest to the peer; `midway` is called when half of them are written.
    pub(crate) fn transfer(&self, v6: bool, bytes: usize, midway: impl FnOnce()) -> Transfer {
        let (address, reader) = self.receiver(v6).unwrap();
        let mut stream = self.connect(address).unwrap();
        let mut sum = Sum::default();
        let mut greatest_window = 0;
        let mut midway = Some(midway);
        let mut sent = 0;
        while sent < bytes {
            let data: Vec<u8> = (sent..sent + WRITE)
                .map(|at| (at * 31 >> 7) as u8)
                .collect();
            stream.write_all(&data).unwrap();
            sum.add(&data);
            sent += data.len();
            if sent >= 4 * WRITE {
                greatest_window = greatest_window.max(u64::from(window_of(&stream)));
            }
            if sent >= bytes / 2
                && let Some(midway) = midway.take()
            {
                midway();
            }
        }
        drop(stream);
        Transfer {
            greatest_window,
            intact: reader.join().unwrap() == sum.value,
        }
    }
}

fn address(number: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, 0, number))
}

fn address_v6(number: u8) -> IpAddr {
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number.into()))
}

/// A sum that depends on the order of the bytes.
#[derive(Debug, Default)]
struct Sum {
    value: u64,
}

impl Sum {
    fn add(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.value = (self.value ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

/// The window that the peer advertised to a socket last, bytes.
fn window_of(stream: &TcpStream) -> u32 {
    let mut bytes = [0u8; 256];
    let mut length = libc::socklen_t::try_from(bytes.len()).unwrap();
    #[expect(unsafe_code, reason = "no library knows the window")]
    // SAFETY: the buffer is as long as `length` says.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    assert_eq!(result, 0);
    // Offset of `tcpi_snd_wnd` in `struct tcp_info` of linux/tcp.h.
    u32::from_ne_bytes(bytes[228..232].try_into().unwrap())
}
