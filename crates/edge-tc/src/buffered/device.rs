//! The TAP device through which buffered connections' packets come and go.

use std::ffi::c_char;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fairwater_netlink::{bring_up, index_of, set_queue_length};
use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{self, IntegerSetter, Updater};

/// The device's name; the kernel puts a number in.
const NAME: &str = "fwbuf%d";
/// Packets that may wait in the device. With segmentation offload each has up to 64 KiB.
const QUEUE: u32 = 4096;
/// Checksums and TCP segments, with CWR too, may be left to the device: `TUN_F_*` of linux/if_tun.h.
const OFFLOADS: usize = 1 | 2 | 4 | 8;

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
        let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
        let mut name: [c_char; libc::IFNAMSIZ] = [0; libc::IFNAMSIZ];
        for (to, from) in name.iter_mut().zip(NAME.bytes()) {
            *to = from.cast_signed();
        }
        let kind = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
        let mut request = libc::ifreq {
            ifr_name: name,
            ifr_ifru: libc::__c_anonymous_ifr_ifru {
                ifru_flags: i16::try_from(kind).map_err(io::Error::other)?,
            },
        };
        #[expect(unsafe_code, reason = "rustix has no typed form of TUNSETIFF")]
        // SAFETY: TUNSETIFF reads and writes one `ifreq`, and TUNSETOFFLOAD takes an integer.
        unsafe {
            let set =
                Updater::<{ libc::TUNSETIFF as ioctl::Opcode }, libc::ifreq>::new(&mut request);
            ioctl::ioctl(&file, set)?;
            let offloads =
                IntegerSetter::<{ libc::TUNSETOFFLOAD as ioctl::Opcode }>::new_usize(OFFLOADS);
            ioctl::ioctl(&file, offloads)?;
        }
        let bytes = request.ifr_name.iter().take_while(|byte| **byte != 0);
        let name: String = bytes.map(|byte| char::from(byte.cast_unsigned())).collect();
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
