//! Frames that no host would send: both boxes read the same of them, and give the same reasons.

use std::cell::RefCell;

use fairwater_edge::{Direction, Treatment};
use fairwater_lang::compile;
use fairwater_net::Time;
use proptest::prelude::*;

use crate::kernel::{Kernel, is_privileged};
use crate::pair::Pair;
use crate::plane::constant;

/// What a frame is made of.
#[derive(Debug, Clone)]
struct Raw {
    /// Types of VLAN tags.
    tags: Vec<u16>,
    ether_type: u16,
    /// First byte of the IP header.
    version: u8,
    fragment: u16,
    protocol: u8,
    /// Extension headers of IPv6: kind, length field, data.
    extensions: Vec<(u8, u8, Vec<u8>)>,
    /// The payload length of IPv6 says 0.
    jumbo: bool,
    /// Difference of the length field from what is there.
    excess: i16,
    /// Data offset instead of the right one, words.
    data_offset: Option<u8>,
    flags: u8,
    options: Vec<u8>,
    payload: usize,
    cut: Option<u16>,
}

fn kind() -> impl Strategy<Value = u8> {
    let known = prop::sample::select(vec![0u8, 1, 2, 3, 4, 5, 8, 19, 29, 30, 34, 172, 174, 254]);
    prop_oneof![9 => known, 1 => any::<u8>()]
}

/// An option, perhaps one that lies about its length.
fn option() -> impl Strategy<Value = Vec<u8>> {
    let right = |kind: u8| match kind {
        0 | 1 => 1,
        2 => 4,
        3 => 3,
        4 => 2,
        5 => 18,
        8 => 10,
        19 => 18,
        34 => 6,
        172 | 174 => 8,
        _ => 5,
    };
    let length = prop_oneof![8 => Just(None), 1 => (0u8..45).prop_map(Some)];
    (kind(), length, any::<[u8; 16]>()).prop_map(move |(kind, length, data)| {
        let room = right(kind);
        let mut bytes = vec![kind];
        if room > 1 {
            bytes.push(length.unwrap_or(room));
            bytes.extend(data.iter().take(usize::from(room) - 2));
        }
        bytes
    })
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

fn raw() -> impl Strategy<Value = Raw> {
    let tag = prop::sample::select(vec![0x8100u16, 0x88a8, 0x9100]);
    let ether_type = prop::sample::select(vec![0x0800u16, 0x0800, 0x86dd, 0x86dd, 0x0806]);
    let version = prop_oneof![6 => Just(None), 1 => any::<u8>().prop_map(Some)];
    let protocol = prop::sample::select(vec![6u8, 6, 6, 6, 17, 1, 59]);
    let rarely =
        |range: std::ops::Range<u8>| prop_oneof![8 => Just(None), 1 => range.prop_map(Some)];
    (
        (prop::collection::vec(tag, 0..4), ether_type, version),
        prop_oneof![6 => Just(0u16), 1 => Just(0x4000), 1 => any::<u16>()],
        (
            protocol,
            prop::collection::vec(extension(), 0..11),
            any::<bool>(),
        ),
        prop_oneof![6 => Just(0i16), 1 => -60i16..60],
        (rarely(0..16), any::<u8>()),
        prop::collection::vec(option(), 0..6),
        0usize..40,
        prop_oneof![6 => Just(None), 1 => (14u16..200).prop_map(Some)],
    )
        .prop_map(
            |(
                (tags, ether_type, version),
                fragment,
                (protocol, extensions, jumbo),
                excess,
                (data_offset, flags),
                options,
                payload,
                cut,
            )| {
                let mut options = options.concat();
                options.truncate(40);
                options.resize(options.len().next_multiple_of(4), 1);
                let right = if ether_type == 0x0800 { 0x45 } else { 0x60 };
                Raw {
                    tags,
                    ether_type,
                    version: version.unwrap_or(right),
                    fragment,
                    protocol,
                    extensions,
                    jumbo,
                    excess,
                    data_offset,
                    flags,
                    options,
                    payload,
                    cut,
                }
            },
        )
}

impl Raw {
    fn frame(&self) -> Vec<u8> {
        let mut bytes = vec![2; 12];
        for tag in &self.tags {
            bytes.extend(tag.to_be_bytes());
            bytes.extend([0, 9]);
        }
        bytes.extend(self.ether_type.to_be_bytes());
        let transport = self.transport();
        if self.ether_type == 0x86dd {
            self.put_ipv6(&mut bytes, &transport);
        } else {
            let room = usize::from(self.version & 0xf).max(5) * 4 - 20;
            let length = (20 + room + transport.len()) as u16;
            bytes.extend([self.version, 0]);
            bytes.extend(length.wrapping_add_signed(self.excess).to_be_bytes());
            bytes.extend([0, 0]);
            bytes.extend(self.fragment.to_be_bytes());
            bytes.extend([64, self.protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            bytes.resize(bytes.len() + room, 1);
            bytes.extend(transport);
        }
        bytes.truncate(self.cut.map_or(usize::MAX, usize::from));
        bytes
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
        bytes.extend([self.version, 0, 0, 0]);
        bytes.extend(length.to_be_bytes());
        bytes.extend([first, 64]);
        bytes.extend([0x20; 15]);
        bytes.push(1);
        bytes.extend([0x20; 15]);
        bytes.push(2);
        bytes.extend(payload);
    }

    fn transport(&self) -> Vec<u8> {
        let mut bytes = vec![0x9c, 0x40, 1, 187];
        if self.protocol == 17 {
            let length = (8 + self.payload) as u16;
            bytes.extend(length.wrapping_add_signed(self.excess).to_be_bytes());
            bytes.extend([0, 0]);
        } else {
            let words = (5 + self.options.len() / 4) as u8;
            bytes.extend([0, 0, 0, 7, 0, 0, 0, 9]);
            bytes.push(self.data_offset.unwrap_or(words) << 4);
            bytes.push(self.flags);
            bytes.extend([4, 0, 0, 0, 0, 0]);
            bytes.extend(&self.options);
        }
        bytes.resize(bytes.len() + self.payload, 0);
        bytes
    }
}

#[test]
fn the_same_is_read_of_any_frame() {
    if !is_privileged() {
        return;
    }
    let program = compile("test", &constant(5_000)).unwrap().program;
    let kernel = RefCell::new(Kernel::new(&program));
    let config = ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let frames = prop::collection::vec((any::<bool>(), raw()), 1..20);
    proptest!(config, |(frames in frames)| {
        let treatment = Treatment { ecn: true, max_scale: Some(2), ..Treatment::default() };
        let mut pair = Pair::new(&program, &treatment, kernel.borrow_mut());
        for (n, (to_guest, raw)) in (1000..).zip(frames) {
            let frame = raw.frame();
            if !Kernel::takes(&frame) {
                continue;
            }
            let direction = if to_guest { Direction::ToGuest } else { Direction::FromGuest };
            let passed = pair.pass(Time::from_millis(n), direction, &frame, &[]);
            prop_assert!(passed.is_ok(), "{:?} of {:02x?}", passed, frame);
        }
    });
}
