//! Super-packets as a TAP device carries them: the kernel leaves checksums and the segmentation of TCP to its process,
//! which leaves both to the kernel again. Only where a whole super-packet would keep a slow link busy for long it is cut.

use fairwater_bundle::Segmentation;
use fairwater_wire::checksum::{Sum, updated};
use fairwater_wire::{Layout, Transport};

/// `struct virtio_net_hdr` of linux/virtio_net.h, which stands before each frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct VirtioHeader(pub(crate) [u8; VirtioHeader::BYTES]);

/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`: the transport's checksum is that of the pseudo-header alone.
const NEEDS_CHECKSUM: u8 = 1;
/// `VIRTIO_NET_HDR_GSO_TCPV4` and `…TCPV6`.
const TCP_V4: u8 = 1;
const TCP_V6: u8 = 4;
/// `VIRTIO_NET_HDR_GSO_ECN`: the first segment has CWR set.
const ECN: u8 = 0x80;

/// Flags of a TCP header: only the last segment has the first two, only the first one has the third (RFC 3168 §6.1.2).
const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

impl VirtioHeader {
    pub(crate) const BYTES: usize = 10;

    /// How the frame becomes packets on the wire. The kernel lets IPv4's IDs grow, whatever they did before a receiver
    /// coalesced the packets: the header does not tell.
    pub(crate) fn segmentation(self) -> Option<Segmentation> {
        let [_, kind, _, _, low, high, ..] = self.0;
        let payload_bytes = u16::from_ne_bytes([low, high]);
        let is_tcp = matches!(kind & !ECN, TCP_V4 | TCP_V6);
        (is_tcp && payload_bytes > 0).then_some(Segmentation {
            payload_bytes,
            fixed_id: false,
        })
    }

    const fn needs_checksum(self) -> bool {
        self.0[0] & NEEDS_CHECKSUM != 0
    }

    /// That of a piece.
    fn of_piece(mut self, headers: usize, is_first: bool, is_super: bool) -> Self {
        if !is_first {
            self.0[1] &= !ECN;
        }
        if !is_super {
            self.0[1] = 0;
            self.0[4] = 0;
            self.0[5] = 0;
        }
        let headers = u16::try_from(headers).unwrap_or(0).to_ne_bytes();
        self.0[2..4].copy_from_slice(&headers);
        self
    }
}

/// Cuts a frame into pieces of at most `segments` segments, and gives each to `each`; `false`, and nothing done, if it
/// is no super-packet, or small enough.
pub(crate) fn cut(
    header: VirtioHeader,
    frame: &[u8],
    layout: Layout,
    segments: usize,
    each: &mut dyn FnMut(VirtioHeader, &[u8]),
) -> bool {
    let Some(how) = header.segmentation().filter(|_| header.needs_checksum()) else {
        return false;
    };
    let size = usize::from(how.payload_bytes);
    let most = size.saturating_mul(segments.max(1));
    let payload = frame.get(layout.payload_offset()..layout.end());
    let headers = frame.get(..layout.payload_offset());
    let (Some(payload), Some(headers), Transport::Tcp) = (payload, headers, layout.transport())
    else {
        return false;
    };
    if payload.len() <= most {
        return false;
    }
    let mut piece = Vec::with_capacity(headers.len() + most);
    for (index, part) in payload.chunks(most).enumerate() {
        let start = index * most;
        piece.clear();
        piece.extend_from_slice(headers);
        piece.extend_from_slice(part);
        let place = Place {
            start,
            segment: index * segments.max(1),
            is_last: start + part.len() == payload.len(),
        };
        place.write(&mut piece, layout, (payload.len(), part.len()));
        let header = header.of_piece(headers.len(), index == 0, part.len() > size);
        each(header, &piece);
    }
    true
}

/// Where in its super-packet a piece is.
struct Place {
    /// Bytes of payload before it.
    start: usize,
    /// Segments before it.
    segment: usize,
    is_last: bool,
}

impl Place {
    /// Changes the headers, which are those of the super-packet: of `before` bytes of payload `after` are there.
    fn write(&self, piece: &mut [u8], layout: Layout, (before, after): (usize, usize)) {
        let (network, transport) = (layout.network_offset(), layout.transport_offset());
        let removed = (before - after) as u16;
        if layout.is_v6() {
            change(piece, network + 4, |length| length.wrapping_sub(removed));
        } else {
            let changes: [(usize, &dyn Fn(u16) -> u16); 2] = [
                (2, &|length| length.wrapping_sub(removed)),
                (4, &|id| id.wrapping_add(self.segment as u16)),
            ];
            for (at, to) in changes {
                let (old, new) = change(piece, network + at, to);
                change(piece, network + 10, |sum| updated(sum, old, new));
            }
        }
        // The sequence number, as two words.
        if let Some(bytes) = piece.get_mut(transport + 4..transport + 8) {
            let number = bytes.first_chunk().copied().map_or(0, u32::from_be_bytes);
            let number = number.wrapping_add(self.start as u32);
            bytes.copy_from_slice(&number.to_be_bytes());
        }
        if let Some(flags) = piece.get_mut(transport + 13) {
            if !self.is_last {
                *flags &= !(FIN | PSH);
            }
            if self.start > 0 {
                *flags &= !CWR;
            }
        }
        // The sum of the pseudo-header, not complemented, of which the length is a part.
        let header = layout.payload_offset() - transport;
        let lengths = [(header + before) as u16, (header + after) as u16];
        change(piece, transport + 16, |sum| {
            let [old, new] = lengths;
            Sum::ZERO.word(sum).word(!old).word(new).folded()
        });
    }
}

/// Changes a word; what it was and is.
fn change(bytes: &mut [u8], at: usize, to: impl Fn(u16) -> u16) -> (u16, u16) {
    let Some(word) = bytes.get_mut(at..at + 2) else {
        return (0, 0);
    };
    let old = word.first_chunk().copied().map_or(0, u16::from_be_bytes);
    let new = to(old);
    word.copy_from_slice(&new.to_be_bytes());
    (old, new)
}

#[cfg(test)]
mod tests {
    use fairwater_bundle::{BoundaryKey, BundleSecret, expand};
    use fairwater_wire::{Checksum, Packet, Seq, TcpFlags, VlanTags, compose};
    use proptest::prelude::*;

    use super::*;

    const MSS: u16 = 100;

    fn super_packet(is_v6: bool, payload: usize) -> (VirtioHeader, Vec<u8>) {
        let (source, destination) = match is_v6 {
            true => ("fd00::1", "fd00::2"),
            false => ("10.0.0.1", "10.0.0.2"),
        };
        let ip = compose::Ip::new(source.parse().unwrap(), destination.parse().unwrap());
        let tcp = compose::Tcp {
            source_port: 443,
            destination_port: 50_000,
            seq: Seq(u32::MAX - 150),
            ack: Seq(7),
            flags: TcpFlags::ACK | TcpFlags::PSH | TcpFlags::FIN | TcpFlags::CWR,
            window: 1_000,
            urgent: 0,
        };
        let data: Vec<u8> = (0..payload).map(|index| (index % 251) as u8).collect();
        let mut bytes = vec![0; payload + 200];
        let start = compose::ethernet([2; 6], [4; 6], VlanTags::NONE, is_v6, &mut bytes).unwrap();
        let rest = &mut bytes[start..];
        let length = compose::tcp(&ip, &tcp, &[], &data, Checksum::Partial, rest).unwrap();
        bytes.truncate(start + length);
        let mut header = [0; VirtioHeader::BYTES];
        header[0] = NEEDS_CHECKSUM;
        header[1] = ECN | if is_v6 { TCP_V6 } else { TCP_V4 };
        header[4..6].copy_from_slice(&MSS.to_ne_bytes());
        (VirtioHeader(header), bytes)
    }

    /// Fills in the checksum, as a device does.
    fn finished(frame: &[u8]) -> Vec<u8> {
        let mut frame = frame.to_vec();
        let layout = Layout::of_ethernet(&frame).unwrap();
        let at = layout.transport_offset();
        let sum = Sum::ZERO.bytes(&frame[at..layout.end()]).checksum();
        frame[at + 16..at + 18].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    proptest! {
        /// The pieces are sound, have all bytes in order, and become the same packets on the wire as the whole, with
        /// the same hashes.
        #[test]
        fn pieces_are_what_the_whole_would_become(
            is_v6: bool, payload in 101_usize..5_000, segments in 0_usize..20,
        ) {
            let (header, whole) = super_packet(is_v6, payload);
            let layout = Layout::of_ethernet(&whole).unwrap();
            let key: BoundaryKey = BundleSecret([3; 32]).boundary_key();
            let hashes = |frame: &[u8], header: VirtioHeader| {
                let mut found = Vec::new();
                let packet = Packet::parse_ethernet(frame).unwrap();
                expand(&packet, header.segmentation(), &mut |segment| {
                    found.push((segment.ip_bytes, key.hash(&segment.identity.unwrap())));
                });
                found
            };
            let (mut data, mut found, mut flags) = (Vec::new(), Vec::new(), Vec::new());
            let is_cut = cut(header, &whole, layout, segments, &mut |header, piece| {
                let sound = finished(piece);
                let packet = Packet::parse_ethernet(&sound).unwrap();
                assert!(packet.has_valid_checksums());
                let layout = packet.layout();
                let part = &piece[layout.payload_offset()..layout.end()];
                assert!(part.len() <= usize::from(MSS) * segments.max(1));
                assert_eq!(header.segmentation().is_some(), part.len() > usize::from(MSS));
                data.extend_from_slice(part);
                found.extend(hashes(piece, header));
                flags.push(piece[layout.transport_offset() + 13]);
            });
            prop_assert_eq!(is_cut, payload > usize::from(MSS) * segments.max(1));
            if is_cut {
                prop_assert_eq!(&data, &whole[layout.payload_offset()..layout.end()]);
                prop_assert_eq!(found, hashes(&whole, header));
                let last = flags.len() - 1;
                for (index, flags) in flags.into_iter().enumerate() {
                    prop_assert_eq!(flags & (FIN | PSH) != 0, index == last);
                    prop_assert_eq!(flags & CWR != 0, index == 0);
                }
            }
        }
    }

    #[test]
    fn what_is_no_super_packet_stays_whole() {
        let (mut header, whole) = super_packet(false, 1_000);
        let layout = Layout::of_ethernet(&whole).unwrap();
        let never = &mut |_, _: &[u8]| panic!("cut");
        header.0[0] = 0;
        assert!(!cut(header, &whole, layout, 1, never));
        assert!(!cut(VirtioHeader::default(), &whole, layout, 1, never));
        assert_eq!(VirtioHeader([255; 10]).segmentation(), None);
    }
}
