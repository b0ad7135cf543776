//! AF_XDP sockets: frames go between an interface's queue and this process past the kernel's network stack.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::net::SendFlags;
use xdp::nic::NicIndex;
use xdp::slab::{HeapSlab, Slab};
use xdp::socket::{XdpSocket, XdpSocketBuilder};
use xdp::umem::{FrameSize, UmemCfgBuilder};
use xdp::{CompletionRing, FillRing, Packet, RingConfigBuilder, RxRing, TxRing, Umem};

use super::PacketPort;
use redirect::Redirect;

mod redirect;

/// Frames of each direction.
const FRAMES: u32 = 4096;

/// Frames that a socket in copy mode sends in one call (`TX_BATCH_SIZE` of net/xdp/xsk.c).
const BATCH: usize = 32;

/// Bytes of an Ethernet header.
const ETHERNET: usize = 14;

/// Largest IP packet: a frame of 2048 bytes without what the kernel keeps for itself, and the Ethernet header.
const MAX_MTU: u16 = 2048 - 256 - ETHERNET as u16;

/// Where the packets of an [`XdpPort`] go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XdpConfig {
    /// Index of the interface.
    pub interface: u32,
    /// Its queue; what the interface's other queues receive goes to the kernel.
    pub queue: u32,
    /// Ethernet address of this end.
    pub own: [u8; 6],
    /// Ethernet address of the next hop, to which all packets go: the kernel resolves no addresses for this socket.
    pub next_hop: [u8; 6],
    /// Largest IP packet, bytes: 1778 at most.
    pub mtu: u16,
    /// Whether the kernel runs the program before the interface's driver has made a packet of the frame. It needs the
    /// driver's support; without it, any Ethernet interface will do.
    pub is_native: bool,
}

/// One queue of an interface, all of whose packets are this port's: the kernel sees none of them, ARP included, so each
/// neighbour needs a permanent entry (`ip neigh`). In copy mode, which any driver has.
///
/// It needs `CAP_NET_RAW` and `CAP_BPF` with `CAP_NET_ADMIN`. The program is gone with the port, and with the process.
pub struct XdpPort {
    socket: XdpSocket,
    receiving: RxRing,
    free: FillRing,
    sending: TxRing,
    sent: CompletionRing,
    received: HeapSlab,
    ready: HeapSlab,
    /// Destination and source of each frame.
    addresses: [u8; 12],
    mtu: usize,
    /// Frames that the kernel has yet to send.
    in_flight: usize,
    /// The device took no more.
    is_full: bool,
    /// Frames that the kernel may fill at once.
    owed: usize,
    _redirect: Redirect,
    /// Dropped last: packets and rings point into it.
    umem: Umem,
}

impl std::fmt::Debug for XdpPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("XdpPort")
            .field("in_flight", &self.in_flight)
            .field("is_full", &self.is_full)
            .finish_non_exhaustive()
    }
}

fn failed(error: impl std::fmt::Display) -> io::Error {
    io::Error::other(error.to_string())
}

impl XdpPort {
    /// Takes the queue.
    ///
    /// # Errors
    /// The kernel has no AF_XDP, the interface or the queue is not there or has another program or socket, or the
    /// process lacks a right.
    pub fn new(config: &XdpConfig) -> io::Result<Self> {
        if config.mtu > MAX_MTU {
            let message = format!("an MTU of {} is more than {MAX_MTU}", config.mtu);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        let frames = UmemCfgBuilder {
            frame_size: FrameSize::TwoK,
            frame_count: 2 * FRAMES,
            ..UmemCfgBuilder::default()
        };
        let mut umem = Umem::map(frames.build().map_err(failed)?)?;
        let rings = RingConfigBuilder {
            rx_count: FRAMES,
            tx_count: FRAMES,
            fill_count: FRAMES,
            completion_count: FRAMES,
        };
        let mut builder = XdpSocketBuilder::new().map_err(failed)?;
        let rings = builder.build_rings(&umem, rings.build().map_err(failed)?);
        let (rings, mut flags) = rings.map_err(failed)?;
        flags.force_copy();
        let (Some(receiving), Some(sending)) = (rings.rx_ring, rings.tx_ring) else {
            return Err(failed("the kernel made no rings"));
        };
        let mut free = rings.fill_ring;
        #[expect(unsafe_code, reason = "the kernel writes to the frames")]
        // SAFETY: the frames' memory is dropped after the socket, which is the last field but those before it.
        let owed = FRAMES as usize - unsafe { free.enqueue(&mut umem, FRAMES as usize) };
        let socket = builder.bind(NicIndex::new(config.interface), config.queue, flags);
        let socket = socket.map_err(failed)?;
        let redirect = Redirect::new(
            config.interface,
            config.queue,
            socket.as_raw_fd(),
            config.is_native,
        )?;
        let mut addresses = [0; 12];
        addresses[..6].copy_from_slice(&config.next_hop);
        addresses[6..].copy_from_slice(&config.own);
        Ok(Self {
            socket,
            receiving,
            free,
            sending,
            sent: rings.completion_ring,
            received: HeapSlab::with_capacity(BATCH),
            ready: HeapSlab::with_capacity(BATCH),
            addresses,
            mtu: usize::from(config.mtu),
            in_flight: 0,
            is_full: false,
            owed,
            _redirect: redirect,
            umem,
        })
    }

    /// A frame with room for the largest packet.
    fn frame(&mut self) -> Option<Packet> {
        // Half of the frames are for what is received.
        if self.in_flight >= FRAMES as usize {
            return None;
        }
        #[expect(
            unsafe_code,
            reason = "a frame points into the memory that both ends share"
        )]
        // SAFETY: it goes to the ring or back to `umem` within this port's calls.
        let mut frame = unsafe { self.umem.alloc() }?;
        let room = i32::try_from(ETHERNET + self.mtu).ok()?;
        if frame.adjust_tail(room).is_err() {
            self.umem.free_packet(frame);
            return None;
        }
        Some(frame)
    }

    /// Has the kernel send what is in the ring.
    fn kick(&self) -> io::Result<()> {
        match rustix::net::send(self.borrow(), &[], SendFlags::DONTWAIT) {
            // It sends the rest at the next call; an interface that is down loses packets, as any does.
            Ok(_) | Err(Errno::AGAIN | Errno::BUSY | Errno::NOBUFS | Errno::NETDOWN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn reap(&mut self) {
        let done = self.sent.dequeue(&mut self.umem, FRAMES as usize);
        self.in_flight -= done;
    }

    fn borrow(&self) -> BorrowedFd<'_> {
        #[expect(unsafe_code, reason = "the library gives no borrowed descriptor")]
        // SAFETY: the socket is open as long as this port is.
        unsafe {
            BorrowedFd::borrow_raw(self.socket.raw_fd())
        }
    }

    /// Puts what is ready into the ring.
    fn submit(&mut self) -> io::Result<()> {
        #[expect(unsafe_code, reason = "the kernel reads the frames")]
        // SAFETY: the frames' memory is dropped after the socket.
        let count = unsafe { self.sending.send(&mut self.ready) };
        self.in_flight += count;
        // The ring has room for all frames in flight.
        debug_assert!(self.ready.is_empty(), "the ring is full");
        self.kick()
    }
}

impl PacketPort for XdpPort {
    fn receive(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        #[expect(
            unsafe_code,
            reason = "packets point into the memory that both ends share"
        )]
        // SAFETY: they go back to `umem` below.
        let count = unsafe { self.receiving.recv(&self.umem, &mut self.received) };
        while let Some(frame) = self.received.pop_back() {
            if let Some(packet) = frame.get(ETHERNET..) {
                take(packet);
            }
            self.umem.free_packet(frame);
        }
        self.owed += count;
        if self.owed > 0 {
            #[expect(unsafe_code, reason = "the kernel writes to the frames")]
            // SAFETY: the frames' memory is dropped after the socket.
            let given = unsafe { self.free.enqueue(&mut self.umem, self.owed) };
            self.owed -= given;
        }
        Ok(count)
    }

    fn send(&mut self, write: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> io::Result<usize> {
        self.reap();
        self.is_full = false;
        let mut count = 0;
        while count < BATCH {
            let Some(mut frame) = self.frame() else {
                self.is_full = true;
                break;
            };
            let mut length = None;
            if let Some((header, packet)) = frame.split_at_mut_checked(ETHERNET) {
                length = write(packet);
                let is_v6 = packet.first().is_some_and(|first| first >> 4 == 6);
                let kind: [u8; 2] = if is_v6 { [0x86, 0xdd] } else { [8, 0] };
                header[..12].copy_from_slice(&self.addresses);
                header[12..].copy_from_slice(&kind);
            }
            let unused = length.and_then(|length| i32::try_from(self.mtu - length).ok());
            let is_cut = unused.is_some_and(|unused| frame.adjust_tail(-unused).is_ok());
            if !is_cut {
                self.umem.free_packet(frame);
                break;
            }
            // There is room for a batch.
            let _ = self.ready.push_front(frame);
            count += 1;
        }
        if count > 0 || self.in_flight > 0 {
            self.submit()?;
        }
        Ok(count)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.borrow()
    }

    fn is_full(&self) -> bool {
        self.is_full
    }
}
