//! Packets of bundles as the bytes that both boxes read.

use std::net::{IpAddr, Ipv4Addr};

use fairwater_bundle::{Prefix, expand};
use fairwater_tcp::{HEADERS, Segment};
use fairwater_wire::{Checksum, Packet, Seq, TcpFlags, TcpOption, compose};

use crate::datagrams;
use crate::guest::codepoint;
use crate::packet::{PacketHandle, spread};

/// The address of every receiver in the packets of bundles (RFC 2544: for measurements).
pub(crate) const RECEIVERS: IpAddr = IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1));

/// Where bundles' packets go, and where they come from.
pub(super) fn prefixes() -> (Vec<Prefix>, Vec<Prefix>) {
    let senders = Prefix::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), 8);
    let receivers = Prefix::new(RECEIVERS, 32);
    (
        receivers.into_iter().collect(),
        senders.into_iter().collect(),
    )
}

/// Buffers in which packets are written.
#[derive(Debug, Default)]
pub(super) struct Bytes {
    packet: Vec<u8>,
    payload: Vec<u8>,
}

impl Bytes {
    /// The packet on the wire, of as many bytes as it has in the simulator. Address, port and first sequence
    /// number of the sender name the connection, so that nothing has to be looked up when it has ended; the ID
    /// of IPv4 is another in each packet, as Linux makes it.
    pub(super) fn write(&mut self, packet: &PacketHandle, segment: &Segment) -> Option<Packet<'_>> {
        let [_, b, c, d] = packet.connection.to_be_bytes();
        let source = IpAddr::V4(Ipv4Addr::new(10, b, c, d));
        let ip = compose::Ip {
            ecn: codepoint(packet.ecn),
            id: (segment.timestamp.as_nanos() / 1_000) as u16,
            ..compose::Ip::new(source, RECEIVERS)
        };
        let headers = if packet.is_datagram() {
            datagrams::HEADERS
        } else {
            HEADERS
        };
        let length = packet.size_bytes.saturating_sub(headers) as usize;
        self.payload.clear();
        self.payload.resize(length, 0);
        self.packet
            .resize(packet.size_bytes.max(headers) as usize, 0);
        let written = if packet.is_datagram() {
            for (byte, number) in self.payload.iter_mut().zip(segment.seq.to_be_bytes()) {
                *byte = number;
            }
            let ports = (1024, 443);
            let (payload, into) = (&self.payload, &mut self.packet);
            compose::udp(&ip, ports, payload, Checksum::Partial, into)
        } else {
            self.write_tcp(&ip, packet, segment)
        };
        let written = self.packet.get(..written.ok()?)?;
        Packet::parse_ip(written).ok()
    }

    fn write_tcp(
        &mut self,
        ip: &compose::Ip,
        packet: &PacketHandle,
        segment: &Segment,
    ) -> Result<usize, compose::ComposeError> {
        let name = u64::from(packet.connection) << 32 | u64::from(packet.generation);
        let first = spread(name) as u32;
        let flags = if segment.syn {
            TcpFlags::SYN
        } else {
            TcpFlags::ACK
        };
        let tcp = compose::Tcp {
            source_port: packet.generation as u16,
            destination_port: 443,
            seq: Seq(first).plus(segment.seq as u32),
            ack: Seq(0),
            flags,
            window: u16::MAX,
            urgent: 0,
        };
        let value = (segment.timestamp.as_nanos() / 1_000_000) as u32;
        let options = [TcpOption::Timestamps { value, echo: 0 }];
        let (payload, into) = (&self.payload, &mut self.packet);
        compose::tcp(ip, &tcp, &options, payload, Checksum::Partial, into)
    }

    /// The packet as the sendbox carries it.
    pub(super) fn segment(
        &mut self,
        packet: &PacketHandle,
        segment: &Segment,
    ) -> fairwater_bundle::Segment {
        let mut found = fairwater_bundle::Segment {
            ip_bytes: packet.size_bytes,
            identity: None,
        };
        if let Some(written) = self.write(packet, segment) {
            expand(&written, None, &mut |segment| found = *segment);
        }
        found
    }
}
