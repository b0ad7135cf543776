//! What is written is read.

use fairwater_proto::{Dialect, EncodeError, ToDatapath, ToPlane};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::messages;

proptest! {
    #[test]
    fn our_encoding_says_everything_a_datapath_says(
        sent in vec(messages::to_plane(), 1..8)
    ) {
        let mut packet = Vec::new();
        for message in &sent {
            Dialect::Own.encode_to_plane(message, &mut packet).unwrap();
        }
        prop_assert_eq!(Dialect::of(&packet), Some(Dialect::Own));
        let kinds: Vec<_> = Dialect::Own.split(&packet).map(|m| m[3]).collect();
        prop_assert_eq!(kinds, sent.iter().map(ToPlane::kind).collect::<Vec<_>>());
        let read: Result<Vec<_>, _> = Dialect::Own.to_plane(&packet).collect();
        prop_assert_eq!(read.unwrap(), sent);
    }

    #[test]
    fn our_encoding_says_everything_a_plane_says(
        sent in vec(messages::to_datapath(), 1..8)
    ) {
        let mut packet = Vec::new();
        for message in &sent {
            Dialect::Own.encode_to_datapath(message, &mut packet).unwrap();
        }
        prop_assert_eq!(Dialect::of(&packet), Some(Dialect::Own));
        let kinds: Vec<_> = Dialect::Own.split(&packet).map(|m| m[3]).collect();
        prop_assert_eq!(kinds, sent.iter().map(ToDatapath::kind).collect::<Vec<_>>());
        let read: Result<Vec<_>, _> = Dialect::Own.to_datapath(&packet).collect();
        prop_assert_eq!(read.unwrap(), sent);
    }

    #[test]
    fn ccp_says_what_it_can_of_a_datapath(sent in vec(messages::to_plane(), 1..8)) {
        let (mut packet, mut expected) = (Vec::new(), Vec::new());
        for message in &sent {
            let before = packet.len();
            match Dialect::Ccp.encode_to_plane(message, &mut packet) {
                Ok(()) => expected.push(crate::ccp::understood_by_plane(message)),
                Err(why) => {
                    prop_assert_eq!(packet.len(), before);
                    let expected = match message {
                        ToPlane::MssChanged { .. } | ToPlane::Refused(_) => EncodeError::Message,
                        ToPlane::Reported { .. } => EncodeError::EmptyReport,
                        _ => return Err(TestCaseError::fail(format!("{message:?}: {why}"))),
                    };
                    prop_assert_eq!(why, expected);
                }
            }
        }
        prop_assert!(packet.is_empty() || Dialect::of(&packet) == Some(Dialect::Ccp));
        let read: Result<Vec<_>, _> = Dialect::Ccp.to_plane(&packet).collect();
        prop_assert_eq!(read.unwrap(), expected);
    }

    #[test]
    fn ccp_says_what_it_can_of_a_plane(sent in messages::to_datapath()) {
        let mut packet = Vec::new();
        match Dialect::Ccp.encode_to_datapath(&sent, &mut packet) {
            Ok(()) => {
                let read: Result<Vec<_>, _> = Dialect::Ccp.to_datapath(&packet).collect();
                crate::ccp::assert_understood(&sent, &read.unwrap());
            }
            Err(why) => {
                prop_assert!(packet.is_empty());
                match sent {
                    ToDatapath::Command { withdraw: false, updates, .. } => {
                        prop_assert_eq!(why, EncodeError::Register);
                        prop_assert!(updates.iter().any(|u| u.variable >= 110));
                    }
                    ToDatapath::Install { .. } => prop_assert!(false, "{}", why),
                    _ => prop_assert_eq!(why, EncodeError::Message),
                }
            }
        }
    }
}

#[test]
fn what_is_too_long_is_not_written() {
    let long = "x".repeat(256);
    let flow = fairwater_proto::FlowId {
        slot: 1 << 20,
        generation: 0,
    };
    let hello = ToPlane::Hello(fairwater_proto::Hello {
        name: &long,
        instance: 0,
        capabilities: fairwater_proto::Capabilities::ALL,
    });
    let body = vec![0; fairwater_proto::own::MAX_MESSAGE];
    let longest = &body[16..];
    let mut packet = b"before".to_vec();
    let mut refused = |dialect: Dialect, message: &ToDatapath<'_>| {
        let why = dialect.encode_to_datapath(message, &mut packet);
        (packet.len() == 6).then_some(why.unwrap_err())
    };
    let body = &body[..];
    let install = |body| ToDatapath::Install {
        idle_restart: true,
        program: 1,
        body,
    };
    assert_eq!(
        refused(Dialect::Own, &install(body)),
        Some(EncodeError::TooLong)
    );
    assert_eq!(
        refused(Dialect::Own, &ToDatapath::Uninstall { program: 0 }),
        Some(EncodeError::Program)
    );
    for body in [&[][..], &[1; 8], &[0; 9], &[255; 24]] {
        assert_eq!(
            refused(Dialect::Ccp, &install(body)),
            Some(EncodeError::Program)
        );
    }
    let mut body = vec![0; 8 + 16 * 2048];
    body[4..6].copy_from_slice(&2048u16.to_le_bytes());
    assert_eq!(
        refused(Dialect::Ccp, &install(&body)),
        Some(EncodeError::TooLong)
    );
    let refused = |dialect: Dialect, message: &ToPlane<'_>| {
        dialect
            .encode_to_plane(message, &mut Vec::new())
            .unwrap_err()
    };
    assert_eq!(refused(Dialect::Own, &hello), EncodeError::Name);
    assert_eq!(
        refused(Dialect::Ccp, &ToPlane::Closed { flow }),
        EncodeError::Slot
    );
    let mut packet = Vec::new();
    Dialect::Own
        .encode_to_datapath(&install(longest), &mut packet)
        .unwrap();
    assert_eq!(packet.len(), fairwater_proto::own::MAX_MESSAGE);
    assert!(Dialect::Own.to_datapath(&packet).all(|m| m.is_ok()));
}
