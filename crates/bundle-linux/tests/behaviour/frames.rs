//! Frames, most of them sound, some that no host would send.

use fairwater_bundle_linux::MESSAGE_PORT;
use proptest::prelude::*;

/// What a frame is made of.
#[derive(Debug, Clone)]
pub(crate) struct Raw {
    /// Types of VLAN tags.
    tags: Vec<u16>,
    ether_type: u16,
    /// First byte of the IP header.
    version: u8,
    traffic_class: u8,
    fragment: u16,
    protocol: u8,
    /// Last bytes of the addresses.
    hosts: [u8; 2],
    /// Extension headers of IPv6: kind, length field, data.
    extensions: Vec<(u8, u8, Vec<u8>)>,
    /// The payload length of IPv6 says 0.
    jumbo: bool,
    /// Difference of the length field from what is there.
    excess: i16,
    /// Data offset instead of the right one, words.
    data_offset: Option<u8>,
    /// ID, ports, numbers, the payload.
    random: Vec<u8>,
    options: Vec<u8>,
    payload: usize,
    cut: Option<u16>,
    /// A port is that of messages between boxes: the first, or the second.
    message_port: Option<bool>,
}

/// What a packet is beside its bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gso {
    pub(crate) size: u16,
    pub(crate) fixed_id: bool,
    pub(crate) is_tunnel: bool,
}

pub(crate) fn gso() -> impl Strategy<Value = Option<Gso>> {
    let some = (1u16..60, any::<bool>(), 0u8..8).prop_map(|(size, fixed_id, tunnel)| {
        Some(Gso {
            size,
            fixed_id,
            is_tunnel: tunnel == 0,
        })
    });
    prop_oneof![2 => Just(None), 1 => some]
}

/// An option, perhaps one that lies about its length.
fn option() -> impl Strategy<Value = Vec<u8>> {
    let right = |kind: u8| match kind {
        0 | 1 => 1,
        2 => 4,
        3 => 3,
        4 => 2,
        5 | 19 => 18,
        8 => 10,
        34 => 6,
        172 | 174 => 8,
        _ => 5,
    };
    let known = prop::sample::select(vec![
        0u8, 1, 2, 3, 4, 5, 8, 8, 19, 29, 30, 34, 172, 174, 254,
    ]);
    let kind = prop_oneof![9 => known, 1 => any::<u8>()];
    let length = prop_oneof![8 => Just(None), 1 => (0u8..45).prop_map(Some)];
    (kind, length, any::<[u8; 16]>()).prop_map(move |(kind, length, data)| {
        let room = right(kind);
        let mut bytes = vec![kind];
        if room > 1 {
            bytes.push(length.unwrap_or(room));
            bytes.extend(data.iter().take(usize::from(room) - 2));
        }
        bytes
    })
}

/// The options of a segment, in whole words: mostly what hosts send.
fn options() -> impl Strategy<Value = Vec<u8>> {
    let mixed = prop::collection::vec(option(), 0..6).prop_map(|options| {
        let mut options = options.concat();
        options.truncate(40);
        options.resize(options.len().next_multiple_of(4), 1);
        options
    });
    let timestamps =
        any::<[u8; 8]>().prop_map(|values: [u8; 8]| [&[1, 1, 8, 10][..], &values].concat());
    prop_oneof![1 => Just(Vec::new()), 2 => timestamps, 3 => mixed]
}

fn extension() -> impl Strategy<Value = (u8, u8, Vec<u8>)> {
    let kind = prop::sample::select(vec![0u8, 43, 44, 51, 60, 135, 139, 140]);
    let data = prop_oneof![
        3 => Just(vec![0; 6]),
        1 => prop::collection::vec(any::<u8>(), 6..30),
        2 => Just(vec![0xc2, 4, 0, 1, 0, 0]),
    ];
    let length = prop_oneof![5 => Just(0u8), 1 => 0u8..4];
    (kind, length, data)
}

pub(crate) fn raw() -> impl Strategy<Value = Raw> {
    let tag = prop::sample::select(vec![0x8100u16, 0x88a8, 0x9100]);
    let tags = prop_oneof![3 => Just(Vec::new()), 1 => prop::collection::vec(tag, 0..4)];
    let ether_type = prop::sample::select(vec![0x0800u16, 0x0800, 0x86dd, 0x86dd, 0x0806]);
    let version = prop_oneof![6 => Just(None), 1 => any::<u8>().prop_map(Some)];
    let protocol = prop::sample::select(vec![6u8, 6, 6, 17, 17, 50, 1, 59]);
    let extensions =
        prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec(extension(), 0..11)];
    let rarely =
        |range: std::ops::Range<u8>| prop_oneof![8 => Just(None), 1 => range.prop_map(Some)];
    let payload = prop_oneof![4 => 0usize..90, 1 => 1_020usize..1_400];
    (
        (tags, ether_type, version, any::<u8>()),
        prop_oneof![6 => Just(0u16), 1 => Just(0x4000), 1 => any::<u16>()],
        (protocol, extensions, any::<bool>(), any::<[u8; 2]>()),
        prop_oneof![6 => Just(0i16), 1 => -60i16..60],
        rarely(0..16),
        (options(), prop::collection::vec(any::<u8>(), 1..200)),
        payload,
        prop_oneof![6 => Just(None), 1 => (14u16..200).prop_map(Some)],
        prop_oneof![4 => Just(None), 1 => any::<bool>().prop_map(Some)],
    )
        .prop_map(
            |(
                (tags, ether_type, version, traffic_class),
                fragment,
                (protocol, extensions, jumbo, hosts),
                excess,
                data_offset,
                (options, random),
                payload,
                cut,
                message_port,
            )| {
                let right = if ether_type == 0x0800 { 0x45 } else { 0x60 };
                Raw {
                    tags,
                    ether_type,
                    version: version.unwrap_or(right),
                    traffic_class,
                    fragment,
                    protocol,
                    hosts: hosts.map(|host| host % 4),
                    extensions,
                    jumbo,
                    excess,
                    data_offset,
                    random,
                    options,
                    payload,
                    cut,
                    message_port,
                }
            },
        )
}

impl Raw {
    pub(crate) fn frame(&self) -> Vec<u8> {
        let mut bytes = vec![2; 12];
        for tag in &self.tags {
            bytes.extend(tag.to_be_bytes());
            bytes.extend([0, 9]);
        }
        bytes.extend(self.ether_type.to_be_bytes());
        let transport = self.transport();
        let [from, to] = self.hosts;
        if self.ether_type == 0x86dd {
            self.put_ipv6(&mut bytes, &transport);
        } else {
            let room = usize::from(self.version & 0xf).max(5) * 4 - 20;
            let length = (20 + room + transport.len()) as u16;
            bytes.extend([self.version, self.traffic_class]);
            bytes.extend(length.wrapping_add_signed(self.excess).to_be_bytes());
            bytes.extend([self.at(0), self.at(1)]);
            bytes.extend(self.fragment.to_be_bytes());
            bytes.extend([
                64,
                self.protocol,
                0,
                0,
                10,
                0,
                from / 2,
                from,
                10,
                0,
                to / 2,
                to,
            ]);
            bytes.resize(bytes.len() + room, 1);
            bytes.extend(transport);
        }
        bytes.truncate(self.cut.map_or(usize::MAX, usize::from));
        bytes
    }

    fn at(&self, index: usize) -> u8 {
        self.random[index % self.random.len()]
    }

    fn put_ipv6(&self, bytes: &mut Vec<u8>, transport: &[u8]) {
        let mut payload = Vec::new();
        for (at, (_, length, data)) in self.extensions.iter().enumerate() {
            let next = self
                .extensions
                .get(at + 1)
                .map_or(self.protocol, |next| next.0);
            payload.extend([next, *length]);
            payload.extend(data);
            payload.resize(payload.len().next_multiple_of(8), 0);
        }
        payload.extend(transport);
        let first = self
            .extensions
            .first()
            .map_or(self.protocol, |first| first.0);
        let length = if self.jumbo && first == 0 {
            0
        } else {
            (payload.len() as u16).wrapping_add_signed(self.excess)
        };
        let class = self.traffic_class;
        bytes.extend([self.version | class >> 4, class << 4, 0, 0]);
        bytes.extend(length.to_be_bytes());
        bytes.extend([first, 64]);
        for host in self.hosts {
            bytes.extend([0x20; 14]);
            bytes.extend([host / 2, host]);
        }
        bytes.extend(payload);
    }

    fn transport(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = (2..6).map(|index| self.at(index)).collect();
        if let Some(is_second) = self.message_port {
            let at = 2 * usize::from(is_second);
            bytes[at..at + 2].copy_from_slice(&MESSAGE_PORT.to_be_bytes());
        }
        if self.protocol == 17 {
            let length = (8 + self.payload) as u16;
            bytes.extend(length.wrapping_add_signed(self.excess).to_be_bytes());
            bytes.extend([0, 0]);
        } else {
            let words = (5 + self.options.len() / 4) as u8;
            bytes.extend((6..14).map(|index| self.at(index)));
            bytes.push(self.data_offset.unwrap_or(words) << 4);
            bytes.push(self.at(14));
            bytes.extend([4, 0, 0, 0, 0, 0]);
            bytes.extend(&self.options);
        }
        bytes.extend((15..15 + self.payload).map(|index| self.at(index)));
        bytes
    }
}
