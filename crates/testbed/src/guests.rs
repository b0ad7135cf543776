//! Guests behind the sending host: a namespace for each flow, whose packets the host forwards to the network and
//! where a box at the host's ports can act on them.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::{AsFd, BorrowedFd};

use fairwater_experiment::{EdgeTreatment, FlowConfig};
use fairwater_netlink::{Namespace, add_address, bring_up, make_veth};

use crate::path::{add_route, configure_tcp};

/// Name of a guest's interface in its namespace.
const INTERFACE: &str = "eth0";

/// Puts a box at the ports of guests on the sending host.
pub trait EdgeAttacher: fmt::Debug + Sync {
    /// Puts the box at the ports in `host`, a network namespace. The box goes with what is returned.
    ///
    /// # Errors
    /// Why it cannot be there.
    fn attach(
        &self,
        host: BorrowedFd<'_>,
        ports: &[GuestPort],
    ) -> Result<Box<dyn Any>, Box<dyn Error + Send + Sync>>;
}

/// The port of a guest on the sending host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestPort {
    /// Name of the interface.
    pub name: String,
    /// What the box does with the guest's connections; `None` leaves them alone.
    pub treatment: Option<EdgeTreatment>,
}

/// The guests of an experiment, one for each flow.
#[derive(Debug)]
pub(crate) struct Guests {
    namespaces: Vec<Namespace>,
    ports: Vec<GuestPort>,
}

impl Guests {
    /// Makes them, behind `host`, which forwards to the network.
    ///
    /// # Errors
    /// Those of the kernel.
    pub(crate) fn new(host: &Namespace, flows: &[FlowConfig]) -> io::Result<Self> {
        host.inside(|| fs::write("/proc/sys/net/ipv4/ip_forward", "1"))??;
        let mut guests = Self {
            namespaces: Vec::new(),
            ports: Vec::new(),
        };
        for (number, flow) in (1..).zip(flows) {
            let name = format!("vnet{number}");
            let address = IpAddr::V4(Ipv4Addr::new(10, 0, 2, number));
            let guest = Namespace::new()?;
            host.inside(|| -> io::Result<()> {
                make_veth(&name, INTERFACE, guest.as_fd())?;
                bring_up(&name)?;
                // The guest asks at its interface for whoever it sends to.
                fs::write(format!("/proc/sys/net/ipv4/conf/{name}/proxy_arp"), "1")?;
                add_route(address, 32, &name)
            })??;
            guest.inside(|| -> io::Result<()> {
                configure_tcp(flow.tcp.ecn != fairwater_experiment::Ecn::Off)?;
                bring_up("lo")?;
                bring_up(INTERFACE)?;
                add_address(INTERFACE, address, 32)?;
                add_route(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0, INTERFACE)
            })??;
            guests.namespaces.push(guest);
            guests.ports.push(GuestPort {
                name,
                treatment: flow.edge.clone(),
            });
        }
        Ok(guests)
    }

    /// Their namespaces, by flow.
    pub(crate) fn namespaces(&self) -> &[Namespace] {
        &self.namespaces
    }

    /// Their ports on the host, by flow.
    pub(crate) fn ports(&self) -> &[GuestPort] {
        &self.ports
    }
}
