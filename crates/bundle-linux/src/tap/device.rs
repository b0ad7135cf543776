//! The device through which the packets of a site's port come and go.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use fairwater_netlink::{
    TunKind, TunOffloads, bring_up, index_of, is_ethernet, make_tun, set_queue_length,
};

use super::super_packet::VirtioHeader;
use crate::BoxError;

/// The device's name; the kernel puts a number in.
const NAME: &str = "fwbundle%d";
/// Frames that may wait in the device: 50 ms at 1 Gbit/s, if none is a super-packet.
const QUEUE: u32 = 4096;

/// A TAP device of this process. It is gone, with what waits in it, when this is dropped.
#[derive(Debug)]
pub(crate) struct Device {
    file: OwnedFd,
    /// Number of the interface.
    pub(crate) interface: u32,
    /// Number of the site's port.
    pub(crate) port: u32,
    /// Keeps other sendboxes from the port: two would send a packet to each other for ever.
    _claim: UnixDatagram,
}

/// Takes the port for this process, as long as the socket is open. Abstract names are a network namespace's own.
fn claim(port: &str) -> Result<UnixDatagram, BoxError> {
    let name = SocketAddr::from_abstract_name(format!("fairwater-sendbox-{port}"));
    let bound = name.and_then(|name| UnixDatagram::bind_addr(&name));
    bound.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => BoxError::Taken(port.to_owned()),
        _ => BoxError::io("claim an interface")(error),
    })
}

impl Device {
    /// Makes one in the calling thread's network namespace. Reads do not block.
    pub(crate) fn create(port: &str) -> Result<Self, BoxError> {
        let number = index_of(port).map_err(|_| BoxError::NoPort(port.to_owned()))?;
        if !is_ethernet(port).map_err(BoxError::io("look at an interface"))? {
            return Err(BoxError::NotEthernet(port.to_owned()));
        }
        let claim = claim(port)?;
        let make = || -> io::Result<Self> {
            let (file, name) = make_tun(NAME, TunKind::Ethernet, TunOffloads::Tcp)?;
            set_queue_length(&name, QUEUE)?;
            bring_up(&name)?;
            Ok(Self {
                interface: index_of(&name)?,
                port: number,
                _claim: claim,
                file,
            })
        };
        make().map_err(BoxError::io("make a TAP device"))
    }

    /// The next frame, by way of `buffer`; `None` if there is none now.
    ///
    /// # Errors
    /// The device is gone.
    pub(crate) fn read<'a>(
        &self,
        buffer: &'a mut [u8],
    ) -> io::Result<Option<(VirtioHeader, &'a [u8])>> {
        match rustix::io::read(&self.file, &mut *buffer) {
            Ok(length) => {
                let read = buffer.get(..length).unwrap_or_default();
                let parts = read.split_first_chunk();
                Ok(parts.map(|(header, frame)| (VirtioHeader(*header), frame)))
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes one frame; whether the kernel took it.
    pub(crate) fn write(&self, header: VirtioHeader, frame: &[u8]) -> bool {
        let parts = [IoSlice::new(&header.0), IoSlice::new(frame)];
        rustix::io::writev(&self.file, &parts).is_ok()
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
