//! Frames of a site as a sendbox carries them.

use std::hash::Hasher;
use std::net::IpAddr;

use fairwater_bundle::{BundlePacket, Segment, expand};
use fairwater_net::{Ecn, Packet, Time};
use fairwater_wire::{Checksum, EcnCodepoint, Layout, Rewriter, Transport};
use siphasher::sip::SipHasher13;

use super::super_packet::{VirtioHeader, cut};

/// Protocols of control messages about other packets: served before all else.
const ICMP: u8 = 1;
const ICMP_V6: u8 = 58;

/// An Ethernet frame with an IP packet.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) bytes: Vec<u8>,
    /// What is left to devices.
    pub(crate) header: VirtioHeader,
    pub(crate) layout: Layout,
    /// Of all packets on the wire that it becomes.
    ip_bytes: u32,
    flow: u64,
    priority: u8,
    /// Index of the device it came from.
    pub(crate) device: usize,
    /// When it was read.
    pub(crate) read_at: Time,
}

/// How flows are told apart: a hash under a key of this process, so that nobody can make flows collide.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FlowHash(pub(crate) [u64; 2]);

impl FlowHash {
    fn of(self, packet: &fairwater_wire::Packet<'_>) -> u64 {
        let [first, second] = self.0;
        let mut hasher = SipHasher13::new_with_keys(first, second);
        for address in [packet.source(), packet.destination()] {
            let address = match address {
                IpAddr::V4(v4) => v4.to_ipv6_mapped(),
                IpAddr::V6(v6) => v6,
            };
            hasher.write(&address.octets());
        }
        let layout = packet.layout();
        hasher.write_u8(layout.protocol());
        // Fragments have no ports: those between two hosts are one flow, so that they stay in order.
        let ports = match layout.transport() {
            Transport::Tcp => packet
                .tcp()
                .map(|tcp| [tcp.source_port(), tcp.destination_port()]),
            Transport::Udp => packet
                .udp()
                .map(|udp| [udp.source_port(), udp.destination_port()]),
            Transport::Fragment(..) | Transport::Other(_) => None,
        };
        for port in ports.unwrap_or_default() {
            hasher.write_u16(port);
        }
        hasher.finish()
    }
}

/// The class of a packet, served first if 0: by its DSCP (RFC 4594), and ICMP before all, which tells of errors.
fn class(packet: &fairwater_wire::Packet<'_>) -> u8 {
    if matches!(packet.layout().protocol(), ICMP | ICMP_V6) {
        return 0;
    }
    match packet.traffic_class() >> 2 {
        // CS5 to CS7, EF and VOICE-ADMIT.
        40.. => 0,
        // LE (RFC 8622) and CS1.
        1 | 8 => 2,
        _ => 1,
    }
}

impl Frame {
    /// Reads the headers of a frame; `None` if it has no IP packet that can be read.
    pub(crate) fn parse(
        (header, bytes): (VirtioHeader, &[u8]),
        (device, read_at): (usize, Time),
        hash: FlowHash,
    ) -> Option<Self> {
        let packet = fairwater_wire::Packet::parse_ethernet(bytes).ok()?;
        let layout = packet.layout();
        let headers = layout.payload_offset() - layout.network_offset();
        let payload = layout.end() - layout.payload_offset();
        // All segments but the first have headers of their own.
        let more = header.segmentation().map_or(0, |how| {
            payload.div_ceil(usize::from(how.payload_bytes)).max(1) - 1
        });
        Some(Self {
            header,
            layout,
            ip_bytes: u32::try_from(packet.ip_length() + more * headers).ok()?,
            flow: hash.of(&packet),
            priority: class(&packet),
            bytes: bytes.to_vec(),
            device,
            read_at,
        })
    }

    /// Cuts a super-packet, so that no piece has more than so many bytes of payload unless one segment has; gives all
    /// pieces, or else the whole, to `each`.
    pub(crate) fn cut(self, most_bytes: u64, hash: FlowHash, each: &mut dyn FnMut(Self)) {
        let Some(how) = self.header.segmentation() else {
            each(self);
            return;
        };
        let segments = most_bytes / u64::from(how.payload_bytes);
        let segments = usize::try_from(segments).unwrap_or(usize::MAX);
        let of = (self.device, self.read_at);
        let is_cut = cut(
            self.header,
            &self.bytes,
            self.layout,
            segments,
            &mut |header, piece| {
                // The headers are those that were read before, but for lengths and numbers.
                if let Some(piece) = Self::parse((header, piece), of, hash) {
                    each(piece);
                }
            },
        );
        if !is_cut {
            each(self);
        }
    }

    pub(crate) fn is_super_packet(&self) -> bool {
        self.header.segmentation().is_some()
    }

    /// Where the packet goes.
    pub(crate) fn destination(&self) -> IpAddr {
        self.layout.packet(&self.bytes).destination()
    }
}

impl Packet for Frame {
    fn size_bytes(&self) -> u32 {
        self.ip_bytes
    }

    fn flow(&self) -> u64 {
        self.flow
    }

    fn priority(&self) -> u8 {
        self.priority
    }

    fn ecn(&self) -> Ecn {
        match self.layout.packet(&self.bytes).ecn() {
            EcnCodepoint::NotEct => Ecn::NotEct,
            EcnCodepoint::Ect0 => Ecn::Ect0,
            EcnCodepoint::Ect1 => Ecn::Ect1,
            EcnCodepoint::Ce => Ecn::Ce,
        }
    }

    fn mark_ce(&mut self) {
        let mut rewriter = Rewriter::new(&mut self.bytes, self.layout, Checksum::Complete);
        rewriter.set_ecn(EcnCodepoint::Ce);
    }
}

impl BundlePacket for Frame {
    fn for_each_segment(&self, each: &mut dyn FnMut(&Segment)) {
        let packet = self.layout.packet(&self.bytes);
        expand(&packet, self.header.segmentation(), each);
    }
}
