//! Segments that a box writes in a guest's name.

use fairwater_wire::{
    Checksum, EcnCodepoint, Packet, SackBlock, SackBlocks, Seq, TcpFlags, TcpOption, compose,
};

use crate::Segment;

/// Most bytes of IP and TCP headers with options.
const MAX_HEADERS: usize = 100;

/// What a segment has of its own.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'a> {
    pub(super) seq: Seq,
    pub(super) flags: TcpFlags,
    pub(super) ecn: EcnCodepoint,
    /// TSval, if the connection has timestamps.
    pub(super) clock: Option<u32>,
    pub(super) sack: &'a [SackBlock],
    /// Where urgent data ends.
    pub(super) urgent: Option<Seq>,
}

/// What all segments of a guest have in common, as its last packet had it: addresses, hop limit, DSCP, and what the
/// guest says as a receiver. IP options and extension headers are not carried on.
#[derive(Debug)]
pub(super) struct Template {
    /// The Ethernet header with its VLAN tags; empty where packets begin with IP's.
    link: Vec<u8>,
    ip: compose::Ip,
    ports: (u16, u16),
    ack: Seq,
    window: u16,
    /// TSecr.
    echo: u32,
}

impl Template {
    /// Of a packet from the guest, with its link header.
    pub(super) fn new(packet: &Packet<'_>, link: &[u8], segment: &Segment) -> Option<Self> {
        let tcp = packet.tcp()?;
        let mut template = Self {
            link: link.to_vec(),
            ip: compose::Ip::new(packet.source(), packet.destination()),
            ports: (tcp.source_port(), tcp.destination_port()),
            ack: segment.ack,
            window: segment.window,
            echo: 0,
        };
        template.update(packet, segment);
        Some(template)
    }

    /// The guest has sent another packet.
    pub(super) fn update(&mut self, packet: &Packet<'_>, segment: &Segment) {
        let bytes = packet.ip_bytes();
        let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
        self.ip.dscp = packet.traffic_class() >> 2;
        if packet.source().is_ipv6() {
            self.ip.hop_limit = byte(7);
            let label = u32::from_be_bytes([0, byte(1), byte(2), byte(3)]);
            self.ip.flow_label = label & 0xf_ffff;
        } else {
            self.ip.hop_limit = byte(8);
        }
        // What a late packet says as a receiver is out of date.
        if segment.has(TcpFlags::ACK) && !segment.ack.is_before(self.ack) {
            self.ack = segment.ack;
            self.window = segment.window;
            self.echo = segment.options.timestamps.map_or(self.echo, |(_, e)| e);
        }
    }

    /// Whether packets begin with Ethernet's header.
    pub(super) const fn is_ethernet(&self) -> bool {
        !self.link.is_empty()
    }

    /// What the end says as a receiver, whatever its last packet said.
    pub(super) const fn set_acknowledgement(&mut self, ack: Seq, window: u16) {
        self.ack = ack;
        self.window = window;
    }

    /// What the end says as a receiver: acknowledgement number and window field.
    pub(super) const fn acknowledgement(&self) -> (Seq, u16) {
        (self.ack, self.window)
    }

    /// The packet; `None` if it cannot be written.
    pub(super) fn write(&self, fields: &Fields<'_>, payload: &[u8]) -> Option<Vec<u8>> {
        let urgent = fields.urgent.filter(|end| end.is_after(fields.seq));
        let tcp = compose::Tcp {
            source_port: self.ports.0,
            destination_port: self.ports.1,
            seq: fields.seq,
            ack: self.ack,
            flags: match urgent {
                Some(_) => fields.flags | TcpFlags::URG,
                None => fields.flags,
            },
            window: self.window,
            urgent: urgent.map_or(0, |end| {
                u16::try_from(end.bytes_since(fields.seq)).unwrap_or(u16::MAX)
            }),
        };
        let ip = compose::Ip {
            ecn: fields.ecn,
            ..self.ip
        };
        let clock = fields.clock.map(|value| TcpOption::Timestamps {
            value,
            echo: self.echo,
        });
        let blocks: Vec<_> = fields.sack.iter().map(|block| block.to_bytes()).collect();
        // RFC 7323 appendix A: three blocks fit beside timestamps.
        let most = if clock.is_some() { 3 } else { SackBlocks::MAX };
        let blocks = blocks.get(..blocks.len().min(most)).unwrap_or(&[]);
        let sack = SackBlocks::new(blocks).map(TcpOption::Sack);
        let options: Vec<_> = clock.into_iter().chain(sack).collect();
        let mut bytes = vec![0; self.link.len() + MAX_HEADERS + payload.len()];
        let (link, rest) = bytes.split_at_mut(self.link.len());
        link.copy_from_slice(&self.link);
        let length = compose::tcp(&ip, &tcp, &options, payload, Checksum::Complete, rest).ok()?;
        bytes.truncate(self.link.len() + length);
        Some(bytes)
    }
}
