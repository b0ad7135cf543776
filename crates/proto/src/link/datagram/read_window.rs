//! How much a datapath may leave unread in the socket buffer that it shares with others.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::pipe::{PipeFlags, pipe_with};

/// The unread packets of one datapath that is answered from the plane's own socket.
///
/// The kernel charges each packet to the sending socket until the packet is read, and does not
/// tell who has read what. So every few packets carry a *receipt*: the write end of a pipe, which
/// the kernel closes when the packet is read without taking the descriptor (`recv`, `recvfrom`),
/// or when the datapath's socket is closed. One receipt is on its way at a time.
#[derive(Debug)]
pub(super) struct ReadWindow {
    /// Bytes that may be unread, as the kernel counts them.
    limit: usize,
    largest: usize,
    /// Bytes sent since the start, or since the receipt that returned last, up to the packet with
    /// the receipt.
    covered: usize,
    /// Bytes sent after the packet with the receipt.
    beyond: usize,
    /// The read end of the pipe of the receipt on its way.
    receipt: Option<OwnedFd>,
}

/// What may be done with the next packet.
pub(super) enum Admission {
    /// Send the packet.
    Plain,
    /// Send the packet together with this descriptor.
    WithReceipt(OwnedFd),
    /// Keep the packet: the datapath has to read first.
    Wait,
}

impl ReadWindow {
    /// The window of a datapath that has not shown that it reads, bytes: ten small packets, which
    /// is the kernel's own default for a socket's queue.
    const FIRST: usize = 8 << 10;

    /// The window of a datapath that reads, bytes.
    const LARGEST: usize = 64 << 10;

    /// The part of the shared buffer that one datapath may take.
    const PART: usize = 128;

    /// For a socket whose buffer holds `shared` bytes.
    pub(super) fn new(shared: usize) -> Self {
        Self {
            limit: Self::FIRST,
            largest: (shared / Self::PART).clamp(Self::FIRST, Self::LARGEST),
            covered: 0,
            beyond: 0,
            receipt: None,
        }
    }

    /// Whether a packet of this many bytes may be sent now.
    pub(super) fn admit(&mut self, bytes: usize) -> io::Result<Admission> {
        let size = charged(bytes);
        if self.unread() + size > self.limit && self.receipt.is_some() {
            if !self.has_returned()? {
                self.limit = Self::FIRST;
                return Ok(Admission::Wait);
            }
            self.receipt = None;
            self.covered = self.beyond;
            self.beyond = 0;
            self.limit = (2 * self.limit).min(self.largest);
        }
        if self.receipt.is_some() || self.unread() + size < self.limit / 2 {
            return Ok(Admission::Plain);
        }
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        self.receipt = Some(read);
        Ok(Admission::WithReceipt(write))
    }

    /// The packet was sent, with a receipt or without.
    pub(super) fn sent(&mut self, bytes: usize, with_receipt: bool) {
        if with_receipt || self.receipt.is_none() {
            self.covered += charged(bytes);
        } else {
            self.beyond += charged(bytes);
        }
    }

    /// The packet with the receipt could not be sent.
    pub(super) fn withdraw_receipt(&mut self) {
        self.receipt = None;
    }

    fn unread(&self) -> usize {
        self.covered + self.beyond
    }

    fn has_returned(&self) -> io::Result<bool> {
        let Some(receipt) = &self.receipt else {
            return Ok(true);
        };
        let mut fds = [PollFd::new(receipt, PollFlags::empty())];
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        rustix::io::retry_on_intr(|| rustix::event::poll(&mut fds, Some(&now)))?;
        Ok(fds[0].revents().contains(PollFlags::HUP))
    }
}

/// What the kernel charges for a packet: its bytes and `skb_shared_info` in one allocation of the
/// next power of two, and the `sk_buff`.
const fn charged(bytes: usize) -> usize {
    (bytes + 320).next_power_of_two() + 256
}
