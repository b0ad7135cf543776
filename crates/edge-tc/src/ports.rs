//! The ports of guests: interfaces whose names match, as they come and go.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fairwater_kernel::tcx::{self, Hook};
use fairwater_netlink::{Interface, Interfaces};

/// A port at which the edge is.
#[derive(Debug)]
struct Port {
    name: String,
    /// Dropping them detaches the programs. The kernel detaches them with the interface.
    links: [OwnedFd; 2],
}

impl Port {
    /// Whether the port is the interface of that name, and not another that got its number.
    fn is_still(&self, name: Option<&&str>) -> bool {
        let is_attached = |link: &OwnedFd| tcx::is_attached(link.as_fd()).unwrap_or(true);
        name == Some(&self.name.as_str()) && self.links.iter().all(is_attached)
    }
}

/// What became of a port.
#[derive(Debug)]
pub enum PortChange {
    /// The edge is there now.
    Attached {
        /// Number of the interface.
        interface: u32,
        /// Name of the interface.
        name: String,
    },
    /// The interface is gone, or its name does not match any more.
    Detached {
        /// Number of the interface.
        interface: u32,
        /// Name of the interface.
        name: String,
    },
    /// The edge cannot be there; tried again when the interfaces change.
    Failed {
        /// Name of the interface.
        name: String,
        /// Why.
        source: io::Error,
    },
}

/// The ports of guests on this host.
#[derive(Debug)]
pub(crate) struct Ports {
    interfaces: Interfaces,
    attached: BTreeMap<u32, Port>,
}

impl Ports {
    /// None yet.
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self {
            interfaces: Interfaces::new()?,
            attached: BTreeMap::new(),
        })
    }

    /// Names of the ports by the number of the interface.
    pub(crate) fn names(&self) -> impl Iterator<Item = (u32, &str)> {
        let attached = self.attached.iter();
        attached.map(|(index, port)| (*index, port.name.as_str()))
    }

    /// Whether interfaces may have come or gone.
    pub(crate) fn have_changed(&mut self) -> bool {
        self.interfaces.have_changed()
    }

    /// Attaches the programs (from the guest, to the guest) to all interfaces that are `wanted` by name, and
    /// detaches them from others. `prepare` runs before packets of a new port are seen.
    ///
    /// # Errors
    /// The interfaces cannot be listed.
    pub(crate) fn update(
        &mut self,
        programs: [BorrowedFd<'_>; 2],
        wanted: impl Fn(&str) -> bool,
        mut prepare: impl FnMut(u32, &str) -> io::Result<()>,
    ) -> io::Result<Vec<PortChange>> {
        let mut changes = Vec::new();
        let listed = self.interfaces.list()?;
        let is_wanted = |interface: &&Interface| !interface.is_loopback && wanted(&interface.name);
        let wanted: BTreeMap<_, _> = listed
            .iter()
            .filter(is_wanted)
            .map(|interface| (interface.index, interface.name.as_str()))
            .collect();
        let gone = self
            .attached
            .extract_if(.., |index, port| !port.is_still(wanted.get(index)));
        for (interface, Port { name, .. }) in gone {
            changes.push(PortChange::Detached { interface, name });
        }
        for (interface, name) in wanted {
            if self.attached.contains_key(&interface) {
                continue;
            }
            let [from_guest, to_guest] = programs;
            let links = prepare(interface, name).and_then(|()| {
                Ok([
                    tcx::attach(from_guest, interface, Hook::Ingress)?,
                    tcx::attach(to_guest, interface, Hook::Egress)?,
                ])
            });
            let name = name.to_owned();
            changes.push(match links {
                Ok(links) => {
                    let port = Port {
                        name: name.clone(),
                        links,
                    };
                    self.attached.insert(interface, port);
                    PortChange::Attached { interface, name }
                }
                Err(source) => PortChange::Failed { name, source },
            });
        }
        Ok(changes)
    }
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::os::fd::AsFd;

    use fairwater_exec::frame::FrameLayout;
    use fairwater_netlink::{Interfaces, Namespace, make_veth, remove};

    use fairwater_kernel::tcx::{Hook, attach, is_attached};

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
            let link = attach(program, port.index, Hook::Ingress).unwrap();
            let before = is_attached(link.as_fd()).unwrap();
            remove("vnet0").unwrap();
            (before, is_attached(link.as_fd()).unwrap())
        });
        assert_eq!(checked.unwrap(), (true, false));
    }
}
