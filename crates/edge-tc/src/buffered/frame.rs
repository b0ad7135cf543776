//! Frames as the device carries them: a virtio header, the port's header of `bpf/redirect.h`, then the frame.
//!
//! A VLAN tag that the kernel keeps beside the packet stands behind the addresses of the port's header, on the way in
//! and on the way out.

use fairwater_edge::Direction;
use fairwater_wire::Checksum;

/// Bytes of `struct virtio_net_hdr`.
pub(crate) const VIRTIO: usize = 10;
/// Bytes of the port's header, `PORT_HEADER` of `bpf/redirect.h`.
const PORT_HEADER: usize = 14;
/// Bytes of the two addresses of an Ethernet header.
const ADDRESSES: usize = 12;
/// Bytes of a VLAN tag.
const TAG: usize = 4;
/// The header's first bytes.
const MAGIC: [u8; 4] = [2, b'f', b'w', b'b'];
/// `VIRTIO_NET_HDR_F_NEEDS_CSUM`.
const NEEDS_CHECKSUM: u8 = 1;

/// Where a frame comes from or goes to, and what its device adds to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrameInfo {
    /// The guest's port.
    pub(crate) interface: u32,
    /// Which way the frame goes.
    pub(crate) direction: Direction,
    /// `struct virtio_net_hdr`: segmentation and the checksum that are left to devices.
    pub(crate) virtio: [u8; VIRTIO],
}

impl FrameInfo {
    /// Of a frame that leaves nothing to devices.
    pub(crate) const fn plain(interface: u32, direction: Direction) -> Self {
        Self {
            interface,
            direction,
            virtio: [0; VIRTIO],
        }
    }

    /// What the TCP checksum's field holds.
    pub(crate) const fn checksum(&self) -> Checksum {
        if self.virtio[0] & NEEDS_CHECKSUM == 0 {
            Checksum::Complete
        } else {
            Checksum::Partial
        }
    }
}

/// What was read from the device, in its buffer; `None` if it is no frame of a port.
pub(crate) fn decode(buffer: &mut [u8]) -> Option<(FrameInfo, &mut [u8])> {
    let (virtio, rest) = buffer.split_first_chunk_mut::<VIRTIO>()?;
    let header = rest.first_chunk::<PORT_HEADER>()?;
    if !header.starts_with(&MAGIC) {
        return None;
    }
    let direction = match header[4] {
        0 => Direction::FromGuest,
        1 => Direction::ToGuest,
        _ => return None,
    };
    let info = FrameInfo {
        interface: u32::from_be_bytes([header[8], header[9], header[10], header[11]]),
        direction,
        virtio: *virtio,
    };
    if !is_tag(header[12..].first_chunk()?) {
        return Some((info, rest.get_mut(PORT_HEADER..)?));
    }
    let tag = *rest.get(ADDRESSES..)?.first_chunk::<TAG>()?;
    let frame = rest.get_mut(PORT_HEADER..)?;
    if frame.len() < TAG + PORT_HEADER {
        return None;
    }
    // Behind the tag the frame begins: its addresses move to make room for the tag.
    frame.copy_within(TAG..TAG + ADDRESSES, 0);
    frame[ADDRESSES..ADDRESSES + TAG].copy_from_slice(&tag);
    Some((info, frame))
}

/// What is written to the device in front of the frame, and which parts of the frame follow; `None` if it is no frame.
pub(crate) fn encode<'a>(
    info: &FrameInfo,
    frame: &'a [u8],
    headers: &mut Vec<u8>,
) -> Option<[&'a [u8]; 2]> {
    let (addresses, rest) = frame.split_first_chunk::<ADDRESSES>()?;
    let tag = rest.first_chunk::<TAG>()?;
    let is_tagged = is_tag(tag.first_chunk()?);
    let behind = if is_tagged { rest.get(TAG..)? } else { rest };
    let version = network_version(behind)?;
    headers.clear();
    headers.extend_from_slice(&info.virtio);
    headers.extend_from_slice(&MAGIC);
    headers.extend_from_slice(&[u8::from(info.direction == Direction::ToGuest), 0, 2, 0]);
    headers.extend_from_slice(&info.interface.to_be_bytes());
    if is_tagged {
        headers.extend_from_slice(tag);
    }
    // The kernel takes what lies between link and network headers from IP packets only.
    headers.extend_from_slice(if version == 6 { &[0x86, 0xdd] } else { &[8, 0] });
    Some([addresses, behind])
}

/// Whether an EtherType is that of a VLAN tag (IEEE 802.1Q, 802.1ad).
const fn is_tag(ether_type: &[u8; 2]) -> bool {
    matches!(ether_type, [0x81, 0] | [0x88, 0xa8])
}

/// IP's version in a frame, from its EtherType on, past inner tags.
fn network_version(mut rest: &[u8]) -> Option<u8> {
    while is_tag(rest.first_chunk()?) {
        rest = rest.get(TAG..)?;
    }
    Some(rest.get(2)? >> 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a device would hand back of what was written to it.
    fn through_device(info: &FrameInfo, frame: &[u8]) -> Option<(FrameInfo, Vec<u8>)> {
        let mut headers = Vec::new();
        let [a, b] = encode(info, frame, &mut headers)?;
        let mut bytes = [&headers, a, b].concat();
        let (info, frame) = decode(&mut bytes)?;
        Some((info, frame.to_vec()))
    }

    #[test]
    fn frames_come_back_as_they_were_with_port_direction_and_tags() {
        let addresses = [[1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]].concat();
        let tag = |id: u8| [0x81, 0, 0, id];
        for tags in [vec![], vec![tag(5)], vec![tag(5), tag(6)]] {
            for (ether_type, first) in [([8, 0], 0x45), ([0x86, 0xdd], 0x60)] {
                let network = [&ether_type[..], &[first], &[9; 40]].concat();
                let frame = [addresses.clone(), tags.concat(), network].concat();
                for direction in [Direction::FromGuest, Direction::ToGuest] {
                    let info = FrameInfo {
                        virtio: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
                        ..FrameInfo::plain(0x0102_0304, direction)
                    };
                    assert_eq!(through_device(&info, &frame), Some((info, frame.clone())));
                }
            }
        }
    }

    #[test]
    fn what_is_no_frame_of_a_port_is_refused() {
        let info = FrameInfo::plain(1, Direction::FromGuest);
        for length in 0..16 {
            assert_eq!(through_device(&info, &vec![0x81; length]), None, "{length}");
        }
        for length in 0..60 {
            let _ = decode(&mut vec![0x81; length]);
        }
    }
}
