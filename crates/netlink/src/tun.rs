//! TUN and TAP devices: one end is a network interface, the other is this process.

use std::ffi::c_char;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{self, IntegerSetter, Updater};

/// What a device carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TunKind {
    /// Bare IP packets (TUN).
    Ip,
    /// Ethernet frames (TAP).
    Ethernet,
}

/// What a device leaves to its process: `TUN_F_*` of linux/if_tun.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TunOffloads {
    /// Nothing: each packet comes as it would leave on a wire.
    None,
    /// Checksums, and segmentation of TCP, with ECN too. A `struct virtio_net_hdr` stands before each packet, both
    /// ways.
    Tcp,
}

/// Makes a device in the calling thread's network namespace; returns its descriptor and its name, in which the
/// kernel has put a number for `%d`. Each read and write is one packet, and reads do not block. The device is gone,
/// with what waits in it, when the descriptor is closed.
///
/// # Errors
/// Those of opening `/dev/net/tun`, of `TUNSETIFF` and `TUNSETOFFLOAD`: there is no driver, the name is taken, or the
/// process lacks `CAP_NET_ADMIN`.
pub fn make_tun(name: &str, kind: TunKind, offloads: TunOffloads) -> io::Result<(OwnedFd, String)> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
    let mut bytes: [c_char; libc::IFNAMSIZ] = [0; libc::IFNAMSIZ];
    for (to, from) in bytes.iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    let kind = match kind {
        TunKind::Ip => libc::IFF_TUN,
        TunKind::Ethernet => libc::IFF_TAP,
    };
    let (header, offloaded) = match offloads {
        TunOffloads::None => (0, 0),
        // TUN_F_CSUM, TUN_F_TSO4, TUN_F_TSO6, TUN_F_TSO_ECN.
        TunOffloads::Tcp => (libc::IFF_VNET_HDR, 1 | 2 | 4 | 8),
    };
    let mut request = libc::ifreq {
        ifr_name: bytes,
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_flags: i16::try_from(kind | libc::IFF_NO_PI | header).map_err(io::Error::other)?,
        },
    };
    #[expect(unsafe_code, reason = "rustix has no typed form of these")]
    // SAFETY: TUNSETIFF reads and writes one `ifreq`, and TUNSETOFFLOAD takes an integer.
    unsafe {
        let set = Updater::<{ libc::TUNSETIFF as ioctl::Opcode }, libc::ifreq>::new(&mut request);
        ioctl::ioctl(&file, set)?;
        if offloads != TunOffloads::None {
            let set =
                IntegerSetter::<{ libc::TUNSETOFFLOAD as ioctl::Opcode }>::new_usize(offloaded);
            ioctl::ioctl(&file, set)?;
        }
    }
    let given = request.ifr_name.iter().take_while(|byte| **byte != 0);
    let name = given.map(|byte| char::from(byte.cast_unsigned())).collect();
    Ok((file, name))
}

/// [`make_tun`] for Ethernet frames as they would leave on a wire, under a name without `%d`.
///
/// # Errors
/// As for [`make_tun`].
pub fn make_tap(name: &str) -> io::Result<OwnedFd> {
    Ok(make_tun(name, TunKind::Ethernet, TunOffloads::None)?.0)
}
