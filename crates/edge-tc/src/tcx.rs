//! Programs at a guest's port.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use fairwater_edge::Direction;
use fairwater_kernel::{TcxHook, attach_tcx};

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
    let hook = match direction {
        Direction::FromGuest => TcxHook::Ingress,
        Direction::ToGuest => TcxHook::Egress,
    };
    attach_tcx(program, interface, hook)
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::os::fd::AsFd;

    use fairwater_exec::frame::FrameLayout;
    use fairwater_kernel::is_tcx_attached;
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
            let before = is_tcx_attached(link.as_fd()).unwrap();
            remove("vnet0").unwrap();
            (before, is_tcx_attached(link.as_fd()).unwrap())
        });
        assert_eq!(checked.unwrap(), (true, false));
    }
}
