//! Bytes that are not what was written: never a panic, never half a message, and never a
//! message that would not be written as these bytes.

use fairwater_proto::{DecodeErrorKind, Dialect, ToDatapath, ToPlane};
use proptest::prelude::*;

use crate::messages;

/// Decodes in both directions and dialects; whatever decodes is encoded again to an equal
/// message, and in our encoding to the same bytes. How many messages there were.
fn check(packet: &[u8]) -> usize {
    let mut messages = 0;
    for dialect in [Dialect::Own, Dialect::Ccp] {
        let frames: Vec<_> = dialect.split(packet).collect();
        let mut results = 0;
        for (i, message) in dialect.to_plane(packet).enumerate() {
            results += 1;
            let Ok(message) = message else { continue };
            messages += 1;
            let mut again = Vec::new();
            dialect.encode_to_plane(&message, &mut again).unwrap();
            let reread: Vec<_> = dialect.to_plane(&again).collect();
            assert_eq!(reread, [Ok(message)]);
            assert!(dialect == Dialect::Ccp || again == frames[i]);
        }
        assert!(results == frames.len() || results == frames.len() + 1);
        for (i, message) in dialect.to_datapath(packet).enumerate() {
            let Ok(message) = message else { continue };
            messages += 1;
            let mut again = Vec::new();
            dialect.encode_to_datapath(&message, &mut again).unwrap();
            let reread: Vec<_> = dialect.to_datapath(&again).collect();
            assert_eq!(reread, [Ok(message)]);
            assert!(dialect == Dialect::Ccp || again == frames[i]);
        }
    }
    messages
}

/// Every field at its extremes: any aligned or unaligned number of 1, 2, 4 or 8 bytes among the
/// first bytes, where all lengths, counts, kinds and indices are.
fn extremes(message: &[u8]) {
    for at in 0..message.len().min(120) {
        for width in [1, 2, 4, 8] {
            let Some(field) = message.get(at..at + width) else {
                continue;
            };
            let mut value = [0; 8];
            value[..width].copy_from_slice(field);
            let value = u64::from_le_bytes(value);
            let values = [0, 1, 2, u64::MAX, u64::MAX - 1, u64::MAX >> 1];
            for value in values
                .into_iter()
                .chain([value.wrapping_add(1), value.wrapping_sub(1)])
            {
                let mut damaged = message.to_vec();
                damaged[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
                check(&damaged);
            }
        }
    }
}

/// A message cut anywhere is no message, and what comes before it in the packet is read.
fn truncations(dialect: Dialect, message: &[u8]) {
    let whole = check(message);
    assert!(whole > 0);
    for cut in 0..message.len() {
        assert_eq!(check(&message[..cut]), 0, "cut at {cut}");
        let packet = [message, &message[..cut]].concat();
        assert_eq!(check(&packet), whole, "cut at {cut}");
        let last = dialect.to_plane(&packet).last().unwrap();
        let kind = last.map_err(|malformed| (malformed.kind, malformed.offset));
        if cut > 0 {
            assert_eq!(kind, Err((DecodeErrorKind::Truncated, packet.len())));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn messages_to_planes(message in messages::to_plane()) {
        for dialect in [Dialect::Own, Dialect::Ccp] {
            let mut packet = Vec::new();
            if dialect.encode_to_plane(&message, &mut packet).is_ok() {
                truncations(dialect, &packet);
                extremes(&packet);
            }
        }
    }

    #[test]
    fn messages_to_datapaths(message in messages::to_datapath()) {
        for dialect in [Dialect::Own, Dialect::Ccp] {
            let mut packet = Vec::new();
            if dialect.encode_to_datapath(&message, &mut packet).is_ok() {
                let first = dialect.split(&packet).next().unwrap();
                truncations(dialect, first);
                extremes(first);
            }
        }
    }
}

proptest! {
    #[test]
    fn any_bytes(bytes: Vec<u8>) {
        check(&bytes);
    }

    #[test]
    fn any_bytes_after_a_header(
        own: bool, kind: u8, body in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let length = u16::try_from(8 + body.len()).unwrap().to_le_bytes();
        let header = if own {
            [b'F', b'W', 1, kind & 0x87, length[0], length[1], 0, 0]
        } else {
            [kind % 6, 0, length[0], length[1], 1, 0, 0, 0]
        };
        check(&[&header[..], &body].concat());
    }
}

/// A message between two whole ones.
fn between(closed: &[u8], bad: &[u8]) -> Vec<Result<(), (usize, DecodeErrorKind)>> {
    let packet = [closed, bad, closed].concat();
    let dialect = Dialect::of(closed).unwrap();
    let messages = dialect.to_plane(&packet);
    messages
        .map(|m| m.map(drop).map_err(|m| (m.offset, m.kind)))
        .collect()
}

#[test]
fn one_bad_message_costs_no_other_unless_its_end_cannot_be_told() {
    let flow = fairwater_proto::FlowId {
        slot: 1,
        generation: 2,
    };
    let closed = |dialect: Dialect| {
        let mut bytes = Vec::new();
        let message = ToPlane::Closed { flow };
        dialect.encode_to_plane(&message, &mut bytes).unwrap();
        bytes
    };
    let own = closed(Dialect::Own);
    let with = |bytes: &[u8], at: usize, value: u8| {
        let mut bytes = bytes.to_vec();
        bytes[at] = value;
        bytes
    };
    let skipped = |at: usize, kind| vec![Ok(()), Err((16 + at, kind)), Ok(())];
    let ended = |at: usize, kind| vec![Ok(()), Err((16 + at, kind))];
    for (at, value, expected) in [
        (0, b'G', ended(0, DecodeErrorKind::Magic)),
        (2, 2, skipped(2, DecodeErrorKind::Version)),
        (3, 0, skipped(3, DecodeErrorKind::Type)),
        (3, 0x84, skipped(3, DecodeErrorKind::Type)),
        (4, 7, ended(4, DecodeErrorKind::Length)),
        (4, 33, ended(32, DecodeErrorKind::Truncated)),
        (6, 3, ended(4, DecodeErrorKind::TooLong)),
    ] {
        assert_eq!(between(&own, &with(&own, at, value)), expected, "{at}");
    }
    let ccp = closed(Dialect::Ccp);
    for (at, value, expected) in [
        (0, 2, skipped(0, DecodeErrorKind::Type)),
        (0, 6, skipped(0, DecodeErrorKind::Type)),
        (1, 1, skipped(0, DecodeErrorKind::Type)),
        (2, 7, ended(2, DecodeErrorKind::Length)),
        (2, 33, ended(32, DecodeErrorKind::Truncated)),
        (3, 0x80, ended(2, DecodeErrorKind::TooLong)),
        (12, 1, skipped(12, DecodeErrorKind::Length)),
    ] {
        assert_eq!(between(&ccp, &with(&ccp, at, value)), expected, "{at}");
    }
}

#[test]
fn what_is_neither_encodings_has_no_dialect() {
    for packet in [&b""[..], b"F", b"FX", b"WF", &[6, 0, 8, 0], &[0, 1, 8, 0]] {
        assert_eq!(Dialect::of(packet), None, "{packet:?}");
    }
}

#[test]
fn a_program_has_a_number() {
    let mut packet = Vec::new();
    let message = ToDatapath::Uninstall { program: 1 };
    Dialect::Own
        .encode_to_datapath(&message, &mut packet)
        .unwrap();
    packet[8] = 0;
    let read = Dialect::Own.to_datapath(&packet).next().unwrap();
    let malformed = read.unwrap_err();
    assert_eq!(
        (malformed.offset, malformed.kind),
        (8, DecodeErrorKind::Value)
    );
}
