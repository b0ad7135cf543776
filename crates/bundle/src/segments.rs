//! Super-packets, expanded by arithmetic: each box sees them where offloads make them, and both boxes must find the
//! same boundary packets.

use fairwater_wire::{Packet, Transport};

use crate::{Identity, MAX_SEGMENTS};

/// How a super-packet becomes packets on the wire (generic segmentation offload).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Segmentation {
    /// Bytes of the transport's payload in each segment but the last.
    pub payload_bytes: u16,
    /// Whether all segments have the same IPv4 ID (`SKB_GSO_TCP_FIXEDID`); else the ID grows by one.
    pub fixed_id: bool,
}

/// One packet on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Total length of its IP packet, bytes.
    pub ip_bytes: u32,
    /// What identifies it; `None` for packets that are never boundaries.
    pub identity: Option<Identity>,
}

/// Calls `each` for every packet on the wire that this packet becomes: once without segmentation, and for packets
/// that cannot be segmented. At most [`MAX_SEGMENTS`] times.
pub fn expand(
    packet: &Packet<'_>,
    segmentation: Option<Segmentation>,
    each: &mut dyn FnMut(&Segment),
) {
    let layout = packet.layout();
    let length = packet.ip_length();
    let headers = layout.payload_offset() - layout.network_offset();
    let payload = layout.end() - layout.payload_offset();
    let size = segmentation.map_or(0, |how| usize::from(how.payload_bytes));
    let is_segmented = size != 0 && payload > size && payload.div_ceil(size) <= MAX_SEGMENTS;
    let identity = Identity::of(packet);
    let (Some(how), Some(first), true) = (segmentation, identity, is_segmented) else {
        each(&Segment {
            ip_bytes: bytes(length),
            identity,
        });
        return;
    };
    for index in 0..payload.div_ceil(size) {
        let start = index * size;
        let part = size.min(payload - start);
        let identity = match layout.transport() {
            Transport::Tcp => first.tcp_segment(index as u32, bytes(size), how.fixed_id),
            Transport::Udp => udp_segment(packet, start, part),
            _ => first,
        };
        each(&Segment {
            ip_bytes: bytes(headers + part),
            identity: Some(identity),
        });
    }
}

/// The datagram of `part` payload bytes from `start` (`UDP_SEGMENT`).
fn udp_segment(packet: &Packet<'_>, start: usize, part: usize) -> Identity {
    let (ports, payload) = packet.udp().map_or(([0; 2], &[][..]), |udp| {
        ([udp.source_port(), udp.destination_port()], udp.payload())
    });
    let payload = payload.get(start..start + part).unwrap_or_default();
    Identity::udp(packet.source(), packet.destination(), ports, payload)
}

fn bytes(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
