//! Programs at an interface, by tcx (Linux 6.6): one link for each direction.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::libbpf_sys;

/// Where at an interface a program is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hook {
    /// Packets that come in.
    Ingress,
    /// Packets that go out.
    Egress,
}

/// Attaches a program behind those that are at the interface already. Dropping the link detaches the program.
///
/// # Errors
/// Of the kernel: the interface is gone, or there is no tcx.
pub fn attach(program: BorrowedFd<'_>, interface: u32, hook: Hook) -> io::Result<OwnedFd> {
    let kind = match hook {
        Hook::Ingress => libbpf_sys::BPF_TCX_INGRESS,
        Hook::Egress => libbpf_sys::BPF_TCX_EGRESS,
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

/// Whether the link's interface is still there: the kernel detaches the program from one that goes.
///
/// # Errors
/// The kernel does not describe the link.
pub fn is_attached(link: BorrowedFd<'_>) -> io::Result<bool> {
    let mut info = libbpf_sys::bpf_link_info::default();
    let mut size = u32::try_from(size_of_val(&info)).map_err(io::Error::other)?;
    #[expect(
        unsafe_code,
        reason = "libbpf-rs describes links only by a search through all"
    )]
    // SAFETY: the kernel writes at most `size` bytes into `info`, and of a tcx link it writes `tcx`.
    let (error, interface) = unsafe {
        let error =
            libbpf_sys::bpf_link_get_info_by_fd(link.as_raw_fd(), &raw mut info, &raw mut size);
        (error, info.__bindgen_anon_1.tcx.ifindex)
    };
    if error < 0 {
        return Err(io::Error::from_raw_os_error(-error));
    }
    Ok(interface != 0)
}
