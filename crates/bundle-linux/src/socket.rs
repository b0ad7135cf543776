//! The socket for messages between boxes, with the kernel's receive times.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

use fairwater_bundle::message::MAX_MESSAGE_BYTES;
use fairwater_kernel::now_ns;
use fairwater_net::Time;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, SockaddrLike, SockaddrStorage, recvmsg, setsockopt, sockopt,
};
use rustix::time::{ClockId, clock_gettime};

/// A stamp that is older tells of a clock that was set, not of a message that waited.
const MAX_AGE: Duration = Duration::from_secs(1);

/// The socket.
#[derive(Debug)]
pub(crate) struct MessageSocket {
    socket: UdpSocket,
    is_v6: bool,
}

/// A message that came.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Received {
    pub(crate) length: usize,
    pub(crate) from: SocketAddr,
    /// When the kernel received it.
    pub(crate) at: Time,
}

impl MessageSocket {
    /// Bytes of a buffer that tells longer messages from the longest.
    pub(crate) const BUFFER: usize = MAX_MESSAGE_BYTES + 1;

    pub(crate) fn bind(listen: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(listen)?;
        socket.set_nonblocking(true)?;
        setsockopt(&socket, sockopt::ReceiveTimestampns, &true)?;
        Ok(Self {
            is_v6: socket.local_addr()?.is_ipv6(),
            socket,
        })
    }

    pub(crate) fn port(&self) -> io::Result<u16> {
        Ok(self.socket.local_addr()?.port())
    }

    /// The next message; `None` if there is none now. Errors of earlier messages are passed over.
    pub(crate) fn receive(&self, buffer: &mut [u8; Self::BUFFER]) -> Option<Received> {
        // Each message that could not be delivered is told once.
        const MOST_ERRORS: usize = 64;
        let mut control = nix::cmsg_space!(nix::sys::time::TimeSpec);
        for _ in 0..MOST_ERRORS {
            let mut parts = [IoSliceMut::new(buffer)];
            let received = recvmsg::<SockaddrStorage>(
                self.socket.as_raw_fd(),
                &mut parts,
                Some(&mut control),
                MsgFlags::empty(),
            );
            match received {
                Ok(message) => {
                    let Some(from) = message.address.as_ref().and_then(address) else {
                        continue;
                    };
                    let stamps = message.cmsgs().into_iter().flatten();
                    let stamp = stamps
                        .filter_map(|control| match control {
                            ControlMessageOwned::ScmTimestampns(stamp) => Some(stamp.into()),
                            _ => None,
                        })
                        .next();
                    return Some(Received {
                        length: message.bytes,
                        from,
                        at: monotonic(stamp),
                    });
                }
                Err(nix::errno::Errno::EAGAIN) => return None,
                Err(_) => {}
            }
        }
        None
    }

    /// Sends a message; one that cannot be sent is lost, as on the network.
    pub(crate) fn send(&self, to: SocketAddr, bytes: &[u8]) {
        let to = match to {
            SocketAddr::V4(v4) if self.is_v6 => {
                SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0).into()
            }
            other => other,
        };
        let _ = self.socket.send_to(bytes, to);
    }
}

fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(v4) = storage.as_sockaddr_in() {
        return Some(SocketAddr::new(IpAddr::V4(v4.ip()), v4.port()));
    }
    debug_assert!(storage.family().is_some());
    let v6 = storage.as_sockaddr_in6()?;
    let ip: Ipv6Addr = v6.ip();
    match ip.to_ipv4_mapped() {
        Some(v4) => Some(SocketAddr::new(IpAddr::V4(v4), v6.port())),
        None => Some(SocketAddrV6::new(ip, v6.port(), 0, v6.scope_id()).into()),
    }
}

/// The kernel stamps by the clock of the day: what counts is how long ago that was.
fn monotonic(stamp: Option<Duration>) -> Time {
    let now = now_ns();
    let today = Duration::try_from(clock_gettime(ClockId::Realtime)).ok();
    let age = today
        .zip(stamp)
        .and_then(|(today, stamp)| today.checked_sub(stamp))
        .filter(|age| *age < MAX_AGE)
        .and_then(|age| u64::try_from(age.as_nanos()).ok());
    Time::from_nanos(now.saturating_sub(age.unwrap_or(0)))
}

impl AsFd for MessageSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
