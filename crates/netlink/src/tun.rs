//! TUN devices: one end is a network interface, the other is this process.

use std::ffi::c_char;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{self, Updater};

/// Makes a TUN device of that name in the calling thread's network namespace. It carries bare IP packets, one
/// per read and write, with no offloads; reads do not block. It is gone when the descriptor is
/// closed.
///
/// # Errors
/// Those of opening `/dev/net/tun` and of `TUNSETIFF`.
pub fn make_tun(name: &str) -> io::Result<OwnedFd> {
    open(name, libc::IFF_TUN)
}

/// The same with Ethernet frames.
///
/// # Errors
/// As for [`make_tun`].
pub fn make_tap(name: &str) -> io::Result<OwnedFd> {
    open(name, libc::IFF_TAP)
}

fn open(device: &str, kind: libc::c_int) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
    let mut name: [c_char; libc::IFNAMSIZ] = [0; libc::IFNAMSIZ];
    for (to, from) in name.iter_mut().zip(device.bytes()) {
        *to = from as c_char;
    }
    let mut request = libc::ifreq {
        ifr_name: name,
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_flags: (kind | libc::IFF_NO_PI) as i16,
        },
    };
    #[expect(unsafe_code, reason = "rustix has no typed form of TUNSETIFF")]
    // SAFETY: TUNSETIFF reads and writes one `ifreq`, which is what it is given.
    unsafe {
        let set = Updater::<{ libc::TUNSETIFF as ioctl::Opcode }, libc::ifreq>::new(&mut request);
        ioctl::ioctl(&fd, set)?;
    }
    Ok(fd)
}
