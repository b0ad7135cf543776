//! Several packets received by one system call (recvmmsg).

use std::io;
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use rustix::net::{AddressFamily, SocketAddrAny};

use super::{Address, Sender};

/// Room for packets, and those that were received last.
#[derive(Debug, Default)]
pub struct Batch {
    buffers: Vec<Vec<u8>>,
    packets: Vec<Packet>,
}

/// What is known of the packet in a buffer.
#[derive(Debug)]
struct Packet {
    from: Option<Sender>,
    /// `None` when the packet did not fit.
    length: Option<usize>,
}

impl Batch {
    /// The most packets of one batch.
    pub const MOST: usize = 64;

    /// Room for some packets, at most [`Batch::MOST`], of some length each, bytes.
    #[must_use]
    pub fn new(packets: usize, bytes: usize) -> Self {
        let packets = packets.clamp(1, Self::MOST);
        Self {
            buffers: vec![vec![0; bytes]; packets],
            packets: Vec::with_capacity(packets),
        }
    }

    /// How many packets came.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether none came.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// The packets in order of arrival, and who sent each. The sender is `None` if it has no
    /// address, so that it cannot be answered; the packet is `None` if it did not fit.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (Option<&Sender>, Option<&[u8]>)> {
        self.packets
            .iter()
            .zip(&self.buffers)
            .map(|(packet, buffer)| {
                let bytes = packet.length.and_then(|length| buffer.get(..length));
                (packet.from.as_ref(), bytes)
            })
    }

    /// Replaces the packets by those that are there now.
    #[expect(unsafe_code, reason = "rustix has no recvmmsg")]
    pub(super) fn receive(&mut self, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.packets.clear();
        // Not initialized as a whole, for that would cost more than the system call.
        let mut names = [const { MaybeUninit::<libc::sockaddr_storage>::uninit() }; Self::MOST];
        let mut vectors = [const { MaybeUninit::<libc::iovec>::uninit() }; Self::MOST];
        let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; Self::MOST];
        let mut controls = [const { MaybeUninit::<Control>::uninit() }; Self::MOST];
        let slots = (vectors.iter_mut().zip(&mut names)).zip(headers.iter_mut().zip(&mut controls));
        let mut count: libc::c_uint = 0;
        for (buffer, ((vector, name), (header, control))) in self.buffers.iter_mut().zip(slots) {
            let vector = vector.write(libc::iovec {
                iov_base: buffer.as_mut_ptr().cast(),
                iov_len: buffer.len(),
            });
            // SAFETY: a plain C structure, for which zeros are valid.
            let header = header.write(unsafe { mem::zeroed() });
            header.msg_hdr.msg_name = name.as_mut_ptr().cast();
            header.msg_hdr.msg_namelen = ADDRESS_BYTES;
            header.msg_hdr.msg_iov = vector;
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = control.as_mut_ptr().cast();
            header.msg_hdr.msg_controllen = size_of::<Control>() as _;
            count += 1;
        }
        let received = loop {
            // SAFETY: the first `count` headers are initialized and point to the names, vectors,
            // controls and buffers above, which live until the call returns and which nothing else
            // refers to meanwhile.
            let received = unsafe {
                libc::recvmmsg(
                    socket.as_raw_fd(),
                    headers.as_mut_ptr().cast(),
                    count,
                    libc::MSG_DONTWAIT as _,
                    ptr::null_mut(),
                )
            };
            if let Ok(received) = usize::try_from(received) {
                break received;
            }
            match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                error => return Err(error),
            }
        };
        for (header, name) in headers.iter().zip(&names).take(received) {
            // SAFETY: the kernel says that it filled in this many of the `count` headers.
            let header = unsafe { header.assume_init_ref() };
            let length = usize::try_from(header.msg_len).ok();
            let fits = header.msg_hdr.msg_flags & libc::MSG_TRUNC == 0;
            // SAFETY: the kernel wrote as many bytes of the name and of the control message as it
            // says.
            let (address, user) = unsafe {
                let address = address(name, header.msg_hdr.msg_namelen);
                (address, user(&header.msg_hdr))
            };
            self.packets.push(Packet {
                from: address
                    .zip(user)
                    .map(|(address, user)| Sender { address, user }),
                length: length.filter(|_| fits),
            });
        }
        Ok(())
    }
}

/// Room for the one control message that the socket asks for: the sender's credentials.
#[repr(C)]
struct Control {
    header: libc::cmsghdr,
    credentials: libc::ucred,
}

const ADDRESS_BYTES: libc::socklen_t = size_of::<libc::sockaddr_storage>() as libc::socklen_t;

/// The address that the kernel wrote; a sender without one has the family alone, or nothing.
///
/// # Safety
/// `length` bytes of `name` are initialized, if that many fit.
#[expect(unsafe_code, reason = "the kernel wrote it as a C structure")]
unsafe fn address(
    name: &MaybeUninit<libc::sockaddr_storage>,
    length: libc::socklen_t,
) -> Option<Address> {
    const FAMILY_BYTES: libc::socklen_t = size_of::<libc::sa_family_t>() as libc::socklen_t;
    if length <= FAMILY_BYTES || length > ADDRESS_BYTES {
        return None;
    }
    // SAFETY: `length` bytes were written, the family among them, and rustix reads no others.
    let address = unsafe { SocketAddrAny::read(name.as_ptr().cast(), length) };
    (address.address_family() == AddressFamily::UNIX).then_some(Address(address))
}

/// The user who sent the packet, as the kernel attached it (unix(7), `SO_PASSCRED`).
///
/// # Safety
/// The control message is initialized as far as the header says.
#[expect(unsafe_code, reason = "the kernel wrote it as a C structure")]
unsafe fn user(header: &libc::msghdr) -> Option<u32> {
    // SAFETY: the macro looks at the lengths in the header alone.
    let control = unsafe { libc::CMSG_FIRSTHDR(header).as_ref() }?;
    let credentials = (
        control.cmsg_level,
        control.cmsg_type,
        control.cmsg_len as usize,
    );
    // SAFETY: computes from a size alone.
    let length = unsafe { libc::CMSG_LEN(size_of::<libc::ucred>() as libc::c_uint) } as usize;
    if credentials != (libc::SOL_SOCKET, libc::SCM_CREDENTIALS, length) {
        return None;
    }
    // SAFETY: the message is of the type whose data is this structure, and all of it was written.
    let credentials = unsafe {
        libc::CMSG_DATA(control)
            .cast::<libc::ucred>()
            .read_unaligned()
    };
    Some(credentials.uid)
}
