//! Descriptors that carry an IP packet with each read and write: TUN devices and sockets of packets.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;

use super::PacketPort;

/// Packets of one call.
const BATCH: usize = 64;

/// A TUN device without packet information, or a Unix socket of datagrams or packets, which does not block.
#[derive(Debug)]
pub struct DescriptorPort {
    fd: OwnedFd,
    buffer: Vec<u8>,
    /// Bytes of a packet in `buffer` for which there was no room.
    held: Option<usize>,
}

impl DescriptorPort {
    /// Of a descriptor whose packets have at most `mtu` bytes.
    #[must_use]
    pub fn new(fd: OwnedFd, mtu: u16) -> Self {
        Self {
            fd,
            buffer: vec![0; usize::from(mtu)],
            held: None,
        }
    }

    /// Sends what is in the buffer; false if there is no room.
    fn flush(&mut self, length: usize) -> io::Result<bool> {
        let packet = self.buffer.get(..length).unwrap_or_default();
        match rustix::io::write(&self.fd, packet) {
            // An interface that is down, or a host short of memory, loses packets, as any does.
            Ok(_) | Err(Errno::IO | Errno::NOMEM) => Ok(true),
            Err(Errno::AGAIN | Errno::NOBUFS) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl PacketPort for DescriptorPort {
    fn receive(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        let mut buffer = [0; u16::MAX as usize];
        for count in 0..BATCH {
            match rustix::io::read(&self.fd, &mut buffer[..]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => take(buffer.get(..length).unwrap_or_default()),
                Err(Errno::AGAIN) => return Ok(count),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(BATCH)
    }

    fn send(&mut self, write: &mut dyn FnMut(&mut [u8]) -> Option<usize>) -> io::Result<usize> {
        for count in 0..BATCH {
            let length = self.held.take().or_else(|| write(&mut self.buffer));
            let Some(length) = length else {
                return Ok(count);
            };
            if !self.flush(length)? {
                self.held = Some(length);
                return Ok(count);
            }
        }
        Ok(BATCH)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    fn is_full(&self) -> bool {
        self.held.is_some()
    }
}
