//! Names of flows.

use std::net::SocketAddr;

use fairwater_wire::{Packet, VlanTags};

/// Which way a packet goes through a guest's port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the guest into the network.
    FromGuest,
    /// From the network to the guest.
    ToGuest,
}

/// A guest's connection. Two guests of one host that talk to each other are two flows, one at the port of
/// each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// The guest's port, by the number that the box gave it.
    pub interface: u32,
    /// VLAN tags.
    pub vlan: VlanTags,
    /// The guest's address and port.
    pub guest: SocketAddr,
    /// The other end's address and port.
    pub peer: SocketAddr,
}

impl FlowKey {
    /// The flow of a TCP packet at a guest's port; `None` for what is not a whole TCP segment.
    #[must_use]
    pub fn of(packet: &Packet<'_>, interface: u32, direction: Direction) -> Option<Self> {
        let tcp = packet.tcp()?;
        let source = SocketAddr::new(packet.source(), tcp.source_port());
        let destination = SocketAddr::new(packet.destination(), tcp.destination_port());
        let (guest, peer) = match direction {
            Direction::FromGuest => (source, destination),
            Direction::ToGuest => (destination, source),
        };
        Some(Self {
            interface,
            vlan: packet.layout().vlan(),
            guest,
            peer,
        })
    }
}
