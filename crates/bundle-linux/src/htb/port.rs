//! The queueing discipline of a sendbox's port: made, changed, and removed with nothing left.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::thread;
use std::time::{Duration, Instant};

use fairwater_netlink::{Batch, LinkFacts, limit_offload, link_facts};

use super::options::{LeafScheduler, Plan};
use super::tc::{Class, KEEPER, Tc, UNLIMITED};
use crate::BoxError;

/// Bytes that a bundle may send at once, and the time of its rate that it may if that is more.
const BURST_BYTES: u32 = 30_000;
const BURST_PER_S: u64 = 1_000;
/// A leaf's own rate, bytes/s, and its burst: one packet. Everything else is lent by the bundle.
const LEAF_RATE: u64 = 1_000;
const LEAF_BURST: u32 = 1_600;
const LEAF_CEIL_BURST: u32 = 1_000_000;
/// Bytes that a leaf sends before the next one's turn: a packet of Ethernet.
const QUANTUM: u32 = 1_514;
/// How long what waits may take to leave at the end.
const DRAIN_TIME: Duration = Duration::from_millis(200);

/// An interface that this process alone has.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) name: String,
    pub(super) facts: LinkFacts,
    pub(super) tc: Tc,
    has_root: bool,
    /// Kept while the process has the interface; the kernel takes it back from a killed one.
    _claim: UnixDatagram,
}

impl Port {
    /// Claims the interface, and removes what an earlier process left.
    pub(super) fn claim(name: &str) -> Result<Self, BoxError> {
        let facts = link_facts(name).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => BoxError::NoPort(name.to_owned()),
            _ => BoxError::io("ask for the interface")(error),
        })?;
        // Abstract names are the network namespace's, as numbers of interfaces are.
        let address = format!("fairwater-bundle-htb.{}", facts.index);
        let claim = SocketAddr::from_abstract_name(address)
            .and_then(|address| UnixDatagram::bind_addr(&address))
            .map_err(|error| match error.kind() {
                io::ErrorKind::AddrInUse => BoxError::Taken(name.to_owned()),
                _ => BoxError::io("claim the interface")(error),
            })?;
        let tc = Tc::new(facts.index).map_err(BoxError::io("open a netlink socket"))?;
        let mut this = Self {
            name: name.to_owned(),
            facts,
            tc,
            has_root: false,
            _claim: claim,
        };
        this.remove_leftovers()?;
        Ok(this)
    }

    /// Removes an earlier process's root.
    fn remove_leftovers(&mut self) -> Result<(), BoxError> {
        if has_own_root(&mut self.tc, &self.name)? {
            self.remove()
                .map_err(BoxError::io("remove what was left"))?;
        }
        Ok(())
    }

    /// Makes the root and all classes, unlimited.
    pub(super) fn build(
        &mut self,
        plan: Plan,
        leaves: LeafScheduler,
        fifo_bytes: &[u32],
        max_segments: Option<u32>,
    ) -> Result<(), BoxError> {
        self.tc
            .add_root()
            .map_err(BoxError::io("put HTB at the interface"))?;
        self.has_root = true;
        let mut batch = Batch::default();
        if let (Some(segments), Some(before)) = (max_segments, self.facts.gso_max_segs) {
            // The kernel keeps what the interface had, for a next process if this one is killed.
            let keeper = Class {
                minor: KEEPER,
                quantum: before,
                ..leaf(0, 0, 7)
            };
            self.tc.add_class(&mut batch, &keeper);
            self.submit(&mut batch)?;
            limit_offload(&self.name, segments.max(1))
                .map_err(BoxError::io("limit segmentation at the interface"))?;
        }
        for (bundle, bytes) in (0..plan.bundles).zip(fifo_bytes) {
            let class = plan.class_of(bundle);
            self.tc.add_class(&mut batch, &inner(class, UNLIMITED));
            for (minor, band) in plan.leaves_of(bundle) {
                self.tc.add_class(&mut batch, &leaf(minor, class, band));
                match leaves {
                    LeafScheduler::FlowMap => self.tc.set_fifo(&mut batch, minor, *bytes, true),
                    LeafScheduler::Kernel(kind) => {
                        self.tc.set_scheduler(&mut batch, minor, kind.name());
                    }
                }
            }
        }
        self.submit(&mut batch)
    }

    fn submit(&mut self, batch: &mut Batch) -> Result<(), BoxError> {
        self.tc
            .submit(batch)
            .map_err(BoxError::io("change classes"))
    }

    /// Sets the rates of bundles, bytes/s with link headers, by their classes.
    pub(super) fn set_rates(&mut self, rates: &[(u32, u64)]) -> Result<(), BoxError> {
        let mut batch = Batch::default();
        for (minor, rate) in rates {
            self.tc.change_class(&mut batch, &inner(*minor, *rate));
        }
        self.submit(&mut batch)
    }

    /// Sets the limit of leaves.
    pub(super) fn set_fifos(&mut self, minors: &[u32], bytes: u32) -> Result<(), BoxError> {
        let mut batch = Batch::default();
        for minor in minors {
            self.tc.set_fifo(&mut batch, *minor, bytes, false);
        }
        self.submit(&mut batch)
    }

    /// Waits until nothing waits, for a moment.
    pub(super) fn drain(&mut self) {
        let end = Instant::now() + DRAIN_TIME;
        while let Ok(Some(root)) = self.tc.root()
            && root.is_ours
            && root.backlog > 0
            && Instant::now() < end
        {
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Removes the root, and gives the interface back what it had.
    fn remove(&mut self) -> io::Result<()> {
        let segments = self.tc.quantum(KEEPER)?;
        self.tc.remove_root()?;
        self.has_root = false;
        segments.map_or(Ok(()), |segments| limit_offload(&self.name, segments))
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        if self.has_root {
            // The interface may be gone, and a next process tries again.
            let _ = self.remove();
        }
    }
}

/// A bundle's class.
fn inner(minor: u32, rate: u64) -> Class {
    let burst = u32::try_from(rate / BURST_PER_S).unwrap_or(u32::MAX);
    let burst = burst.max(BURST_BYTES);
    Class {
        minor,
        parent: 0,
        rate,
        ceil: rate,
        burst,
        ceil_burst: burst,
        quantum: QUANTUM,
        prio: 0,
    }
}

/// A leaf of a bundle's class.
const fn leaf(minor: u32, parent: u32, prio: u32) -> Class {
    Class {
        minor,
        parent,
        rate: LEAF_RATE,
        ceil: UNLIMITED,
        burst: LEAF_BURST,
        ceil_burst: LEAF_CEIL_BURST,
        quantum: QUANTUM,
        prio,
    }
}

/// Whether a sendbox's root is at the interface; an error if somebody else's is.
fn has_own_root(tc: &mut Tc, interface: &str) -> Result<bool, BoxError> {
    let root = tc
        .root()
        .map_err(BoxError::io("list queueing disciplines"))?;
    match root {
        Some(root) if root.is_ours => Ok(true),
        // Those that the kernel chose have no number.
        Some(root) if root.handle != 0 => Err(BoxError::ForeignQdisc {
            interface: interface.to_owned(),
            kind: root.kind,
            handle: root.handle >> 16,
        }),
        _ => Ok(false),
    }
}

/// Whether a sendbox has its queue at an interface now, or a killed one has left it there. Changes nothing.
///
/// # Errors
/// There is no such interface, somebody else's queueing discipline is there, or the kernel could not be asked.
pub fn has_classes(interface: &str) -> Result<bool, BoxError> {
    let facts = link_facts(interface).map_err(|_| BoxError::NoPort(interface.to_owned()))?;
    let mut tc = Tc::new(facts.index).map_err(BoxError::io("open a netlink socket"))?;
    has_own_root(&mut tc, interface)
}

/// Removes what a killed process left at an interface; whether anything was.
///
/// # Errors
/// Another process has bundles there, somebody else's queueing discipline is there, or the kernel refused.
pub fn remove_leftovers(interface: &str) -> Result<bool, BoxError> {
    let was_there = has_classes(interface)?;
    if was_there {
        Port::claim(interface)?;
    }
    Ok(was_there)
}
