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

/// Whether the link's interface is still there: the kernel detaches the program from one that goes.
///
/// # Errors
/// The kernel does not describe the link.
pub(crate) fn is_attached(link: BorrowedFd<'_>) -> io::Result<bool> {
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

#[cfg(test)]
mod tests {
    use std::env;
    use std::os::fd::AsFd;

    use fairwater_exec::frame::FrameLayout;
    use fairwater_netlink::{Interfaces, Namespace, make_veth, remove};

    use super::*;
    use crate::{Options, Programs};

    #[test]
    fn a_link_tells_that_its_interface_has_gone() {
        let (here, there) = match (Namespace::new(), Namespace::new()) {
            (Ok(here), Ok(there)) => (here, there),
            (Err(error), _) | (_, Err(error)) => {
                let required = env::var_os("FAIRWATER_REQUIRE_PRIVILEGED");
                assert!(required.is_none_or(|value| value != "1"), "{error}");
                println!("skipped: namespaces cannot be made: {error}");
                return;
            }
        };
        let programs = Programs::load(&Options::new(FrameLayout::new(8))).unwrap();
        let checked = here.inside(|| {
            make_veth("vnet0", "eth0", there.as_fd()).unwrap();
            let listed = Interfaces::new().unwrap().list().unwrap();
            let port = listed.iter().find(|it| it.name == "vnet0").unwrap();
            let program = programs.from_guest.as_fd();
            let link = attach(program, port.index, Direction::FromGuest).unwrap();
            let before = is_attached(link.as_fd()).unwrap();
            remove("vnet0").unwrap();
            (before, is_attached(link.as_fd()).unwrap())
        });
        assert_eq!(checked.unwrap(), (true, false));
    }
}
