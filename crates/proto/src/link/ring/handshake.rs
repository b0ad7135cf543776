//! Passing the rings' files over the connection.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use super::mapping::Mapping;
use super::wakeup::Wakeup;
use crate::link::seqpacket::Connection;

/// What the message begins with; the last byte is the version. A u64 follows: the capacity of
/// each ring, bytes.
const MAGIC: [u8; 8] = *b"FWRING\0\x01";

/// What both ends have once they are joined.
pub(super) struct Shared {
    pub(super) mapping: Mapping,
    pub(super) to_plane: Wakeup,
    pub(super) to_datapath: Wakeup,
}

/// The plane's part: makes everything, and passes it.
pub(super) fn offer(connection: &Connection, capacity: usize) -> io::Result<Shared> {
    let (file, mapping) = Mapping::create(capacity)?;
    let (to_plane, to_datapath) = (Wakeup::new()?, Wakeup::new()?);
    let message = [MAGIC, (capacity as u64).to_le_bytes()].concat();
    let files = [file.as_fd(), to_plane.as_fd(), to_datapath.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&files));
    // The first message on a connection has room: it does not block.
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    let message = [IoSlice::new(&message)];
    rustix::net::sendmsg(connection, &message, &mut control, flags)?;
    Ok(Shared {
        mapping,
        to_plane,
        to_datapath,
    })
}

/// The datapath's part: waits for what the plane passes, up to `spin`.
pub(super) fn accept(connection: &Connection, spin: Duration) -> io::Result<Shared> {
    let deadline = Instant::now() + spin;
    let mut message = [0; 17];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let length = loop {
        let mut parts = [IoSliceMut::new(&mut message)];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        match rustix::net::recvmsg(connection, &mut parts, &mut control, flags) {
            Ok(received) => break received.bytes,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait(connection, deadline)?,
            Err(errno) => return Err(errno.into()),
        }
    };
    let files = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files.collect::<Vec<OwnedFd>>()),
        _ => None,
    });
    let files = <[OwnedFd; 3]>::try_from(files.unwrap_or_default());
    let (magic, capacity) = message[..16].split_at(8);
    let (true, Ok([file, to_plane, to_datapath]), Ok(capacity)) =
        (length == 16 && magic == MAGIC, files, capacity.try_into())
    else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "whoever listens there offers no rings, or rings of another version",
        ));
    };
    let capacity = usize::try_from(u64::from_le_bytes(capacity)).unwrap_or(usize::MAX);
    Ok(Shared {
        mapping: Mapping::open(&file, capacity)?,
        to_plane: Wakeup::received(to_plane)?,
        to_datapath: Wakeup::received(to_datapath)?,
    })
}

fn wait(connection: &Connection, deadline: Instant) -> io::Result<()> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let timeout = Timespec {
        tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: left.subsec_nanos().into(),
    };
    let mut fds = [PollFd::new(connection, PollFlags::IN)];
    match rustix::event::poll(&mut fds, Some(&timeout)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}
