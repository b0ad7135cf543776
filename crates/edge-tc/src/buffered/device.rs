//! The TAP device through which buffered connections' packets come and go.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fairwater_netlink::{TunKind, TunOffloads, bring_up, index_of, make_tun, set_queue_length};

/// The device's name; the kernel puts a number in.
const NAME: &str = "fwbuf%d";
/// Packets that may wait in the device. With segmentation offload each has up to 64 KiB.
const QUEUE: u32 = 4096;

/// A TAP device of this process. It is gone, with what waits in it, when this is dropped.
#[derive(Debug)]
pub(crate) struct Device {
    file: OwnedFd,
    /// Number of the interface.
    pub(crate) interface: u32,
}

impl Device {
    /// Makes one in the calling thread's network namespace. Reads do not block.
    ///
    /// # Errors
    /// There is no `/dev/net/tun`, or the process lacks `CAP_NET_ADMIN`.
    pub(crate) fn create() -> io::Result<Self> {
        let (file, name) = make_tun(NAME, TunKind::Ethernet, TunOffloads::Tcp)?;
        set_queue_length(&name, QUEUE)?;
        bring_up(&name)?;
        Ok(Self {
            interface: index_of(&name)?,
            file,
        })
    }

    /// The next packet, at the beginning of `buffer`; `None` if there is none now.
    ///
    /// # Errors
    /// The device is gone.
    pub(crate) fn read(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match rustix::io::read(&self.file, buffer) {
            Ok(length) => Ok(Some(length)),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes one packet.
    ///
    /// # Errors
    /// The kernel has no memory, or the device is gone.
    pub(crate) fn write(&self, parts: &[IoSlice<'_>]) -> io::Result<()> {
        rustix::io::writev(&self.file, parts)?;
        Ok(())
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
