//! What of our messages libccp's encoding carries, and how.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use fairwater_proto::ccp::{flow_of, sid_of};
use fairwater_proto::{
    DecodeErrorKind, Dialect, FlowId, FlowInfo, Hello, ToDatapath, ToPlane, Update, Updates,
};
use proptest::prelude::*;

/// What a plane makes of a datapath's message after libccp's encoding.
pub(crate) fn understood_by_plane<'a>(message: &ToPlane<'a>) -> ToPlane<'a> {
    let heard = |flow: FlowId| FlowId {
        slot: flow.slot,
        generation: flow.generation % 4096,
    };
    match *message {
        ToPlane::Hello(hello) => ToPlane::Hello(Hello {
            name: "libccp",
            instance: hello.instance % (1 << 32),
            capabilities: fairwater_proto::ccp::CAPABILITIES,
        }),
        ToPlane::Created {
            flow,
            algorithm,
            ref info,
        }
        | ToPlane::Resumed {
            flow,
            algorithm,
            ref info,
        } => ToPlane::Created {
            flow: heard(flow),
            algorithm,
            info: FlowInfo {
                local: ipv4(info.local),
                remote: ipv4(info.remote),
                mss: info.mss,
                cwnd: info.cwnd.min(u64::from(u32::MAX)),
                srtt_us: 0,
                now_us: 0,
                tag: 0,
                ..FlowInfo::default()
            },
        },
        ToPlane::Reported {
            flow,
            program,
            fields,
            ..
        } => ToPlane::Reported {
            flow: heard(flow),
            program,
            time_us: None,
            cwnd: 0,
            rate: 0,
            fields,
        },
        ToPlane::Closed { flow } | ToPlane::Faulted { flow, .. } => {
            ToPlane::Closed { flow: heard(flow) }
        }
        ToPlane::MssChanged { .. } | ToPlane::Refused(_) => {
            panic!("libccp's encoding has no such message")
        }
    }
}

fn ipv4(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) => ip,
        IpAddr::V6(ip) => ip.to_ipv4_mapped().unwrap_or(Ipv4Addr::UNSPECIFIED),
    };
    (ip, address.port()).into()
}

/// The messages received do together what the one sent says.
pub(crate) fn assert_understood(sent: &ToDatapath<'_>, received: &[ToDatapath<'_>]) {
    let ToDatapath::Command {
        flow,
        switch,
        cwnd,
        rate,
        updates,
        ..
    } = *sent
    else {
        let heard = match sent.clone() {
            // Not carried.
            ToDatapath::Install { program, body, .. } => ToDatapath::Install {
                program,
                idle_restart: true,
                body,
            },
            other => other,
        };
        return assert_eq!(received, std::slice::from_ref(&heard));
    };
    let mut all = Vec::new();
    for (i, message) in received.iter().enumerate() {
        let ToDatapath::Command {
            flow: heard,
            updates,
            ..
        } = message
        else {
            panic!("{message:?}");
        };
        assert_eq!(Some(*heard), Dialect::Ccp.name_on_wire(flow));
        all.extend(updates.iter());
        if i > 0 {
            let more = ToDatapath::Command {
                flow: *heard,
                switch: None,
                cwnd: None,
                rate: None,
                updates: *updates,
                withdraw: false,
            };
            assert_eq!(*message, more, "only the first does more than update");
        }
    }
    let [
        ToDatapath::Command {
            switch: s,
            cwnd: c,
            rate: r,
            ..
        },
        ..,
    ] = received
    else {
        panic!("nothing was received");
    };
    assert_eq!((*s, *c, *r), (switch, cwnd, rate));
    assert_eq!(Updates::from(&all[..]), updates);
}

proptest! {
    #[test]
    fn each_sid_is_one_flows(sid: u32) {
        prop_assert_eq!(sid_of(flow_of(sid)), Some(sid));
    }
}

#[test]
fn libccps_own_sids_are_slots_of_generation_0() {
    for (sid, slot) in [(1, 0), (2, 1), (1024, 1023)] {
        let flow = FlowId {
            slot,
            generation: 0,
        };
        assert_eq!(flow_of(sid), flow);
    }
}

/// An UPDATE_FIELDS for flow 1 of these entries: type, register, value.
fn update_fields(entries: &[(u8, u32, u64)]) -> Vec<u8> {
    let mut bytes = vec![3, 0];
    bytes.extend(
        u16::try_from(12 + 13 * entries.len())
            .unwrap()
            .to_le_bytes(),
    );
    bytes.extend(1u32.to_le_bytes());
    bytes.extend(u32::try_from(entries.len()).unwrap().to_le_bytes());
    for (kind, register, value) in entries {
        bytes.push(*kind);
        bytes.extend(register.to_le_bytes());
        bytes.extend(value.to_le_bytes());
    }
    bytes
}

#[test]
fn only_controls_cwnd_and_rate_are_set() {
    for kind in 0..=255u8 {
        for register in [0, 1, 3, 4, 5, 6, 109, 110, 65_536, u32::MAX] {
            let allowed = match kind {
                0 | 8 => register < 110,
                2 => register == 4 || register == 5,
                _ => false,
            };
            let packet = update_fields(&[(2, 4, 1), (kind, register, 7)]);
            let read = Dialect::Ccp.to_datapath(&packet).next().unwrap();
            match read {
                Ok(_) => assert!(allowed, "{kind} {register}"),
                Err(malformed) => {
                    assert!(!allowed, "{kind} {register}");
                    assert_eq!(malformed.kind, DecodeErrorKind::Register);
                    assert_eq!((malformed.offset, malformed.message), (12 + 13, 3));
                }
            }
        }
    }
}

#[test]
fn the_last_cwnd_and_rate_count_and_volatile_controls_are_controls() {
    let packet = update_fields(&[
        (2, 4, 1),
        (8, 3, 30),
        (2, 5, 2),
        (2, 4, 10),
        (0, 3, 31),
        (2, 5, 20),
    ]);
    let read: Vec<_> = Dialect::Ccp.to_datapath(&packet).collect();
    let updates = [30, 31].map(|value| Update { variable: 3, value });
    let command = ToDatapath::Command {
        flow: flow_of(1),
        switch: None,
        cwnd: Some(10),
        rate: Some(20),
        updates: (&updates).into(),
        withdraw: false,
    };
    assert_eq!(read, [Ok(command)]);
}

#[test]
fn no_more_entries_than_libccp_reads() {
    for (entries, ok) in [(127, true), (128, false), (222, false)] {
        let packet = update_fields(&vec![(0, 1, 1); entries]);
        let read = Dialect::Ccp.to_datapath(&packet).next().unwrap();
        assert_eq!(read.is_ok(), ok, "{entries}");
    }
}
