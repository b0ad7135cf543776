//! Peers that keep to the protocol.

use fairwater_plane::SignalSet;
use fairwater_proto::{
    Capabilities, Dialect, Hello, Refusal, RefusalReason, SignalQualities, ToPlane,
};
use fairwater_service::{Config, ServiceNotice};

use crate::support::*;

fn command(flow: fairwater_plane::FlowId, acked: u64) -> Received {
    Received::Command {
        flow,
        switch: None,
        cwnd: Some(acked),
        updates: vec![(1, acked)],
        withdraw: false,
    }
}

#[test]
fn a_program_is_installed_once_before_the_first_switch_to_it() {
    let mut service = service(Config::default());
    let peer = introduced_peer(&mut service);
    service.say(peer, &created(id(0, 1), ""));
    service.say(peer, &created(id(5, 9), "echo"));
    let received: Vec<_> = service
        .receive()
        .into_iter()
        .map(|(_, message)| message)
        .collect();
    let Received::Install(number) = received[0] else {
        panic!("{received:?}");
    };
    assert!(number > 1, "number 1 empties libccp's table");
    let switched = |flow| Received::Command {
        flow,
        switch: Some(number),
        cwnd: Some(10_000),
        updates: vec![],
        withdraw: false,
    };
    assert_eq!(received[1..], [switched(id(0, 1)), switched(id(5, 9))]);
}

#[test]
fn flows_of_two_peers_do_not_mix_whatever_their_names() {
    let mut service = service(Config::default());
    let (one, two) = (introduced_peer(&mut service), introduced_peer(&mut service));
    let program = start(&mut service, one, id(0, 1), "");
    assert_eq!(start(&mut service, two, id(0, 1), ""), program);
    service.say(one, &reported(id(0, 1), program, &[111]));
    service.say(two, &reported(id(0, 1), program, &[222]));
    let mut received = service.receive();
    received.sort_by_key(|(peer, _)| *peer);
    let expected = [(one, command(id(0, 1), 111)), (two, command(id(0, 1), 222))];
    assert_eq!(received, expected);
    service.peer_gone(one);
    assert_eq!(service.statistics().flows, 1);
    service.say(two, &reported(id(0, 1), program, &[333]));
    assert_eq!(service.receive(), [(two, command(id(0, 1), 333))]);
}

#[test]
fn the_algorithm_is_chosen_by_name_and_an_unknown_name_gets_the_first() {
    let mut service = service(Config::default());
    let peer = introduced_peer(&mut service);
    let first = start(&mut service, peer, id(0, 1), "");
    assert_ne!(start(&mut service, peer, id(1, 1), "second"), first);
    assert_eq!(start(&mut service, peer, id(2, 1), "brooklyn"), first);
    assert_eq!(service.statistics().unknown_algorithm, 1);
}

#[test]
fn commands_of_a_peer_that_does_not_read_merge_and_others_are_not_delayed() {
    let mut service = service(Config::default());
    let (slow, quick) = (introduced_peer(&mut service), introduced_peer(&mut service));
    let program = start(&mut service, slow, id(0, 1), "");
    start(&mut service, quick, id(0, 1), "");
    service.say(slow, &reported(id(0, 1), program, &[1]));
    let (peer, first) = service.poll_transmit().unwrap();
    assert_eq!(peer, slow);
    let first = first.to_vec();
    service.retry(slow);
    for acked in 2..=1000 {
        service.say(slow, &reported(id(0, 1), program, &[acked]));
        service.say(quick, &reported(id(0, 1), program, &[acked]));
        assert_eq!(service.receive(), [(quick, command(id(0, 1), acked))]);
    }
    service.writable(slow);
    let (_, again) = service.poll_transmit().unwrap();
    assert_eq!(again, first);
    assert_eq!(service.receive(), [(slow, command(id(0, 1), 1000))]);
    assert_eq!(service.statistics().merged, 998);
}

#[test]
fn a_new_life_of_a_datapath_ends_the_flows_of_the_former() {
    let mut service = service(Config::default());
    let peer = introduced_peer(&mut service);
    let program = start(&mut service, peer, id(0, 1), "");
    service.say(peer, &hello(1));
    assert_eq!(service.receive(), [(peer, Received::Welcome)]);
    assert_eq!(service.statistics().flows, 1);
    service.say(peer, &hello(2));
    assert_eq!(service.receive(), [(peer, Received::Welcome)]);
    assert_eq!(service.statistics().flows, 0);
    service.say(peer, &reported(id(0, 1), program, &[9]));
    let refusals = service.statistics().refused(RefusalReason::UnknownFlow);
    assert_eq!(refusals, 1);
    // Its programs are gone with it.
    service.receive();
    service.say(peer, &created(id(0, 1), ""));
    let received = service.receive();
    assert_eq!(received[0], (peer, Received::Install(program)));
}

#[test]
fn a_flow_that_the_plane_does_not_know_is_taken_when_it_resumes() {
    let mut service = service(Config::default());
    let peer = introduced_peer(&mut service);
    let resumed = ToPlane::Resumed {
        flow: id(3, 4),
        algorithm: "echo",
        info: info(20_000),
    };
    for install in [true, false] {
        service.say(peer, &resumed);
        let mut received = service.receive();
        if install {
            assert!(matches!(received.remove(0).1, Received::Install(_)));
        }
        assert!(
            matches!(
                received[..],
                [(
                    _,
                    Received::Command {
                        switch: Some(_),
                        cwnd: Some(20_000),
                        ..
                    }
                )]
            ),
            "{received:?}"
        );
        assert_eq!(service.statistics().flows, 1);
    }
}

#[test]
fn each_peer_hears_a_sign_of_life_in_each_period() {
    let mut service = service(Config {
        alive_us: 1000,
        ..Config::default()
    });
    let peer = introduced_peer(&mut service);
    let stranger = service.connect(0).unwrap();
    let mut welcomes = 0;
    for now_us in (1..=10_000).step_by(250) {
        service.tick(now_us);
        for (to, message) in service.receive() {
            assert_eq!((to, message), (peer, Received::Welcome));
            welcomes += 1;
        }
    }
    assert!((8..=10).contains(&welcomes), "{welcomes}");
    assert_ne!(peer, stranger);
}

#[test]
fn a_peer_without_a_signal_is_refused_the_program_that_reads_it_and_others_are_not() {
    let mut service = service(Config::default());
    let poor = service.connect(0).unwrap();
    let mut signals = SignalSet::EMPTY;
    signals.insert(fairwater_plane::Signal::BytesAcked);
    service.say(
        poor,
        &ToPlane::Hello(Hello {
            name: "poor",
            instance: 1,
            capabilities: Capabilities {
                signals: SignalQualities::exact(signals),
                max_programs: 8,
                ..Capabilities::ALL
            },
        }),
    );
    let rich = service.connect(0).unwrap();
    service.say(rich, &hello(1));
    service.receive();
    service.say(poor, &created(id(0, 1), "lossy"));
    let withdrawn = Received::Command {
        flow: id(0, 1),
        switch: None,
        cwnd: None,
        updates: vec![],
        withdraw: true,
    };
    assert_eq!(service.receive(), [(poor, withdrawn)]);
    start(&mut service, poor, id(1, 1), "echo");
    start(&mut service, rich, id(0, 1), "lossy");
    let notices: Vec<_> = service.drain_notices().collect();
    let refused: Vec<_> = notices
        .iter()
        .filter(|n| matches!(n, ServiceNotice::ProgramRefused { .. }))
        .map(ToString::to_string)
        .collect();
    assert_eq!(refused.len(), 1, "{notices:?}");
    assert!(refused[0].contains("Ack.lost_pkts_sample"), "{refused:?}");
    assert!(refused[0].contains("poor"), "{refused:?}");
}

#[test]
fn a_program_that_a_datapath_refuses_is_not_sent_again() {
    let mut service = service(Config::default());
    let peer = introduced_peer(&mut service);
    let program = start(&mut service, peer, id(0, 1), "");
    let refused = |flow, reason, program| {
        ToPlane::Refused(Refusal {
            message: 0x82,
            reason,
            flow,
            program,
        })
    };
    service.say(peer, &refused(None, RefusalReason::Full, program));
    service.say(
        peer,
        &refused(Some(id(0, 1)), RefusalReason::UnknownProgram, program),
    );
    let received = service.receive();
    assert!(
        matches!(
            &received[..],
            [(_, Received::Command { withdraw: true, .. })]
        ),
        "{received:?}"
    );
    service.say(peer, &created(id(1, 1), ""));
    let received = service.receive();
    assert!(
        matches!(
            &received[..],
            [(_, Received::Command { withdraw: true, .. })]
        ),
        "{received:?}"
    );
    assert_eq!(service.statistics().refused_total(), 0);
}

/// A plane that was held up answers old reports of flows that are under the fallback by then.
#[test]
fn a_command_that_came_too_late_costs_the_flow_nothing() {
    let mut service = service(Config::default());
    let peer = introduced_peer(&mut service);
    let flow = id(0, 1);
    let program = start(&mut service, peer, flow, "");
    let late = Refusal {
        message: 0x83,
        reason: RefusalReason::OutOfOrder,
        flow: Some(flow),
        program: 0,
    };
    service.say(peer, &ToPlane::Refused(late));
    assert_eq!(service.receive(), []);
    service.say(peer, &reported(flow, program, &[7]));
    assert_eq!(service.receive(), [(peer, command(flow, 7))]);
}

#[test]
fn a_peer_that_keeps_few_programs_is_given_no_more() {
    let mut service = service(Config::default());
    let peer = service.connect(0).unwrap();
    service.say(
        peer,
        &ToPlane::Hello(Hello {
            name: "small",
            instance: 1,
            capabilities: Capabilities {
                max_programs: 1,
                ..Capabilities::ALL
            },
        }),
    );
    service.receive();
    start(&mut service, peer, id(0, 1), "echo");
    service.say(peer, &created(id(1, 1), "second"));
    let received = service.receive();
    assert!(
        matches!(
            &received[..],
            [(_, Received::Command { withdraw: true, .. })]
        ),
        "{received:?}"
    );
    let notices: Vec<_> = service.drain_notices().map(|n| n.to_string()).collect();
    assert!(
        notices.iter().any(|n| n.contains("no more than 1 program")),
        "{notices:?}"
    );
}

#[test]
fn a_silent_stranger_gives_way_when_there_are_too_many_peers() {
    let mut service = service(Config {
        max_peers: 2,
        ..Config::default()
    });
    let busy = introduced_peer(&mut service);
    start(&mut service, busy, id(0, 1), "");
    let idle = service.connect(5).unwrap();
    let new = service.connect(6).unwrap();
    assert!(!service.is_connected(idle));
    assert!(service.is_connected(busy) && service.is_connected(new));
    service.on_packet(idle, &bytes(&hello(3)), 7);
    assert_eq!(service.statistics().refused(RefusalReason::UnknownPeer), 1);
}

#[test]
fn slots_are_bounded_and_come_back() {
    let mut service = service(Config {
        max_flows: 2,
        ..Config::default()
    });
    let peer = introduced_peer(&mut service);
    start(&mut service, peer, id(0, 1), "");
    start(&mut service, peer, id(1, 1), "");
    service.say(peer, &created(id(2, 1), ""));
    service.say(peer, &created(id(u32::MAX, 1), ""));
    assert_eq!(service.statistics().refused(RefusalReason::Full), 2);
    service.say(peer, &ToPlane::Closed { flow: id(0, 1) });
    service.receive();
    start(&mut service, peer, id(0, 2), "");
    assert_eq!(service.statistics().flows, 2);
}

#[test]
fn what_speaks_libccps_encoding_is_not_sent_what_it_cannot_read() {
    let mut service = service(Config::default());
    let peer = service.connect(0).unwrap();
    let mut packet = Vec::new();
    Dialect::Ccp
        .encode_to_plane(&hello(1), &mut packet)
        .unwrap();
    service.on_packet(peer, &packet, 1);
    service.tick(1_000_000);
    service.on_packet(peer, &[1, 0, 3, 0, 9, 9], 2);
    assert_eq!(service.poll_transmit(), None);
    assert_eq!(service.statistics().refused(RefusalReason::Malformed), 1);
}

/// Our library for transports written for libccp greets in both dialects.
#[test]
fn who_greets_in_both_dialects_is_spoken_to_in_ours() {
    let in_libccps = |message: &ToPlane<'_>| {
        let mut packet = Vec::new();
        Dialect::Ccp.encode_to_plane(message, &mut packet).unwrap();
        packet
    };
    let mut service = service(Config::default());
    let peer = service.connect(0).unwrap();
    service.say(peer, &hello(1));
    // Said before the Welcome was read.
    service.on_packet(peer, &in_libccps(&hello(1)), 1);
    service.on_packet(peer, &in_libccps(&created(id(0, 0), "")), 1);
    assert_eq!(service.receive(), [(peer, Received::Welcome)]);
    assert_eq!(service.statistics().flows, 0);
    start(&mut service, peer, id(0, 0), "");

    // Found by a report of a flow that a former plane controlled, it is taken for libccp.
    let found = service.connect(0).unwrap();
    service.on_packet(found, &in_libccps(&reported(id(0, 0), 9, &[1])), 1);
    assert_eq!(service.statistics().flows, 2);
    assert!(service.poll_transmit().is_some());
    service.say(found, &hello(2));
    assert_eq!(service.statistics().flows, 1);
    let dialects: Vec<_> = service.peers().map(|peer| peer.dialect).collect();
    assert_eq!(dialects, [Some(Dialect::Own); 2]);
    assert_eq!(service.receive(), [(found, Received::Welcome)]);
    start(&mut service, found, id(0, 0), "");
    assert_eq!(service.statistics().refused_total(), 0);
}
