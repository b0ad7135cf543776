//! TUN devices of the test bed.

use std::io;
use std::os::fd::OwnedFd;

use fairwater_netlink::{TunKind, TunOffloads, make_tun};

/// The name of the device in each namespace.
pub(crate) const DEVICE: &str = "fw0";

/// Makes a TUN device in the calling thread's network namespace. It carries bare IP packets, with no
/// offloads.
///
/// # Errors
/// Those of [`make_tun`].
pub(crate) fn create() -> io::Result<OwnedFd> {
    Ok(make_tun(DEVICE, TunKind::Ip, TunOffloads::None)?.0)
}

/// The same with Ethernet frames, under a name of one's own.
///
/// # Errors
/// Those of [`make_tun`].
pub(crate) fn create_tap(name: &str) -> io::Result<OwnedFd> {
    Ok(make_tun(name, TunKind::Ethernet, TunOffloads::None)?.0)
}
