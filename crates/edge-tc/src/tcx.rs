//! Programs at an interface, by tcx (Linux 6.6): one link for each direction.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use fairwater_edge::Direction;
use libbpf_rs::libbpf_sys;

/// Attaches a program behind those that are at the interface already. Dropping the link detaches the program.
///
/// # Errors
/// Of the kernel: the interface is gone, or there is no tcx.
pub(crate) fn attach(
    program: BorrowedFd<'_>,
    interface: u32,
    direction: Direction,
) -> io::Result<OwnedFd> {
    // At the host's side of a guest's port, what the guest sends comes in.
    let kind = match direction {
        Direction::FromGuest => libbpf_sys::BPF_TCX_INGRESS,
        Direction::ToGuest => libbpf_sys::BPF_TCX_EGRESS,
    };
    let interface = i32::try_from(interface).map_err(io::Error::other)?;
    #[expect(unsafe_code, reason = "libbpf-rs has no tcx")]
    // SAFETY: the program's descriptor is open for the call, no options are passed, and the descriptor that
    // comes back has no other owner.
    unsafe {
        let link =
            libbpf_sys::bpf_link_create(program.as_raw_fd(), interface, kind, std::ptr::null());
        if link < 0 {
            Err(io::Error::from_raw_os_error(-link))
        } else {
            Ok(OwnedFd::from_raw_fd(link))
        }
    }
}
