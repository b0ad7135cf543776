//! Ethernet frames of one connection of a guest.

use std::net::IpAddr;

use fairwater_edge::{Direction, FlowKey};
use fairwater_wire::{
    Checksum, EcnCodepoint, SackBlock, SackBlocks, Seq, TcpFlags, TcpOption, VlanTags, compose,
};

/// `BPF_PROG_TEST_RUN` lets packets come by the loopback interface.
const INTERFACE: u32 = 1;

/// Ends of a connection, and how its packets are carried.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Path {
    pub(crate) is_v6: bool,
    /// In the frame, the outer first.
    pub(crate) tags: &'static [u16],
    pub(crate) guest_port: u16,
}

/// The fields of a segment.
#[derive(Debug, Clone)]
pub(crate) struct Packet {
    pub(crate) direction: Direction,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) flags: TcpFlags,
    pub(crate) window: u16,
    pub(crate) payload: usize,
    pub(crate) ecn: EcnCodepoint,
    pub(crate) options: Vec<TcpOption<'static>>,
    pub(crate) sack: Vec<(u32, u32)>,
}

impl Path {
    fn guest(&self) -> IpAddr {
        if self.is_v6 {
            IpAddr::from([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7])
        } else {
            IpAddr::from([10, 0, 0, 1])
        }
    }

    fn peer(&self) -> IpAddr {
        if self.is_v6 {
            IpAddr::from([0x20, 1, 0xd, 0xb8, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9])
        } else {
            IpAddr::from([192, 0, 2, 1])
        }
    }

    fn vlan(&self) -> VlanTags {
        let tags = self.tags.iter();
        tags.fold(VlanTags::NONE, |tags, id| tags.with(*id).unwrap())
    }

    pub(crate) fn key(&self) -> FlowKey {
        FlowKey {
            interface: INTERFACE,
            vlan: self.vlan(),
            guest: (self.guest(), self.guest_port).into(),
            peer: (self.peer(), 443).into(),
        }
    }

    pub(crate) fn frame(&self, packet: &Packet) -> Vec<u8> {
        let (mut from, mut to) = ((self.guest(), self.guest_port), (self.peer(), 443));
        if packet.direction == Direction::ToGuest {
            std::mem::swap(&mut from, &mut to);
        }
        let ip = compose::Ip {
            ecn: packet.ecn,
            ..compose::Ip::new(from.0, to.0)
        };
        let tcp = compose::Tcp {
            source_port: from.1,
            destination_port: to.1,
            seq: Seq(packet.seq),
            ack: Seq(packet.ack),
            flags: packet.flags,
            window: packet.window,
            urgent: 0,
        };
        let blocks = packet.sack.iter().map(|&(start, end)| {
            let (start, end) = (Seq(start), Seq(end));
            SackBlock { start, end }.to_bytes()
        });
        let blocks: Vec<_> = blocks.collect();
        let mut options = packet.options.clone();
        options.extend(SackBlocks::new(&blocks).map(TcpOption::Sack));
        let payload = vec![0; packet.payload];
        let mut bytes = vec![0; 160 + packet.payload];
        let start = compose::ethernet([2; 6], [4; 6], self.vlan(), self.is_v6, &mut bytes).unwrap();
        let written = compose::tcp(
            &ip,
            &tcp,
            &options,
            &payload,
            Checksum::Complete,
            &mut bytes[start..],
        );
        bytes.truncate(start + written.unwrap());
        bytes
    }
}
