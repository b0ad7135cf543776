//! Network interfaces of a namespace, and when they change.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkLayerType, LinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use crate::Netlink;

/// `RTMGRP_LINK`: interfaces come, go, and change their names.
const LINK_GROUP: u32 = 1;

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Interface {
    /// Its number, unique in its namespace while it is there.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Whether it is the loopback interface.
    pub is_loopback: bool,
}

/// The interfaces of the namespace of the thread that made this.
#[derive(Debug)]
pub struct Interfaces {
    requests: Netlink,
    changes: Socket,
}

impl Interfaces {
    /// Begins to listen for changes.
    ///
    /// # Errors
    /// Of the system.
    pub fn new() -> io::Result<Self> {
        let mut changes = Socket::new(NETLINK_ROUTE)?;
        changes.bind(&SocketAddr::new(0, LINK_GROUP))?;
        changes.set_non_blocking(true)?;
        Ok(Self {
            requests: Netlink::new(NETLINK_ROUTE)?,
            changes,
        })
    }

    /// A descriptor that is readable when something has changed.
    #[must_use]
    pub fn readable(&self) -> BorrowedFd<'_> {
        self.changes.as_fd()
    }

    /// Whether something may have changed since the last call.
    #[must_use]
    pub fn have_changed(&mut self) -> bool {
        let mut changed = false;
        let mut buffer = Vec::with_capacity(16 * 1024);
        loop {
            buffer.clear();
            match self.changes.recv(&mut buffer, 0) {
                Ok(0) => return changed,
                Ok(_) => changed = true,
                // What did not fit into the socket's buffer was a change (ENOBUFS).
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return changed,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return true,
            }
        }
    }

    /// The interfaces that there are now, by number.
    ///
    /// # Errors
    /// The kernel could not be asked.
    pub fn list(&mut self) -> io::Result<Vec<Interface>> {
        let mut found = Vec::new();
        let all = RouteNetlinkMessage::GetLink(LinkMessage::default());
        self.requests.dump(all, |answer| {
            if let RouteNetlinkMessage::NewLink(link) = answer {
                let name = link
                    .attributes
                    .iter()
                    .find_map(|attribute| match attribute {
                        LinkAttribute::IfName(name) => Some(name.clone()),
                        _ => None,
                    });
                found.extend(name.map(|name| Interface {
                    index: link.header.index,
                    name,
                    is_loopback: link.header.flags.contains(LinkFlags::Loopback),
                }));
            }
        })?;
        found.sort();
        Ok(found)
    }
}

/// What is known of an interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkFacts {
    /// The interface's number.
    pub index: u32,
    /// Whether its packets have Ethernet headers; else they begin with IP.
    pub has_ethernet: bool,
    /// Most segments of a packet that it is given for segmentation.
    pub gso_max_segs: Option<u32>,
}

/// What is known of the interface with this name, in the namespace of the calling thread.
///
/// # Errors
/// There is none (`NotFound`), or the kernel could not be asked.
pub fn link_facts(name: &str) -> io::Result<LinkFacts> {
    let mut found = None;
    let all = RouteNetlinkMessage::GetLink(LinkMessage::default());
    Netlink::new(NETLINK_ROUTE)?.dump(all, |answer| {
        let RouteNetlinkMessage::NewLink(link) = answer else {
            return;
        };
        let is_it = |attribute: &LinkAttribute| matches!(attribute, LinkAttribute::IfName(it) if it == name);
        if link.attributes.iter().any(is_it) {
            let segments = link.attributes.iter().find_map(|attribute| match attribute {
                LinkAttribute::GsoMaxSegs(segments) => Some(*segments),
                _ => None,
            });
            found = Some(LinkFacts {
                index: link.header.index,
                has_ethernet: matches!(
                    link.header.link_layer_type,
                    LinkLayerType::Ether | LinkLayerType::Loopback
                ),
                gso_max_segs: segments,
            });
        }
    })?;
    found.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
}
