//! Bad messages: each is refused as a whole, counted, and changes nothing.

use fairwater_datapath::{Config, Datapath, FlowState, PeerId};
use fairwater_lang::{MAX_RATE, SignalSet, binary, compile};
use fairwater_proto::{
    Dialect, FlowId, Refusal, RefusalReason, SignalQualities, ToDatapath, Update, Updates, Welcome,
};

use crate::harness::{COUNT, Harness, ack, config, info};

/// All that can be seen of the flows and of what is installed.
fn snapshot(datapath: &Datapath) -> String {
    let flows: Vec<_> = datapath.flows().map(|flow| datapath.flow(flow)).collect();
    let statistics = datapath.statistics();
    format!(
        "{flows:?} {} {} {}",
        statistics.programs, statistics.installs, statistics.commands
    )
}

fn body(source: &str) -> Vec<u8> {
    binary::encode(&compile("test", source).unwrap().program)
}

fn encode(message: &ToDatapath<'_>) -> Vec<u8> {
    let mut packet = Vec::new();
    Dialect::Own
        .encode_to_datapath(message, &mut packet)
        .unwrap();
    packet
}

const fn command(flow: FlowId) -> ToDatapath<'static> {
    ToDatapath::Command {
        flow,
        switch: None,
        cwnd: None,
        rate: None,
        updates: Updates::NONE,
        withdraw: false,
    }
}

/// Gives the message to the datapath, which must refuse it for that reason.
fn refuses(harness: &mut Harness, message: &ToDatapath<'_>, reason: RefusalReason) {
    let peer = harness.peer;
    refuses_packet(harness, peer, &encode(message), reason);
}

fn refuses_packet(harness: &mut Harness, peer: PeerId, packet: &[u8], reason: RefusalReason) {
    let before = snapshot(&harness.datapath);
    let refused = harness.datapath.statistics().refused(reason);
    harness.datapath.on_message(peer, packet, harness.now_us);
    assert_eq!(snapshot(&harness.datapath), before);
    let statistics = harness.datapath.statistics();
    assert_eq!(statistics.refused(reason), refused + 1, "{packet:?}");
}

#[test]
fn a_truncated_message_is_malformed_wherever_it_ends() {
    let mut harness = Harness::with_program();
    let flow = harness.running();
    let other = body("(when true (:= Cwnd 5))");
    let updates = [Update {
        variable: 2,
        value: 3,
    }];
    let messages = [
        ToDatapath::Welcome(Welcome {
            instance: 99,
            alive_us: 1,
        }),
        ToDatapath::Install {
            idle_restart: true,
            program: 9,
            body: &other,
        },
        ToDatapath::Uninstall { program: 1 },
        ToDatapath::Command {
            flow,
            switch: Some(1),
            cwnd: Some(1),
            rate: Some(1),
            updates: (&updates).into(),
            withdraw: true,
        },
        ToDatapath::Refused(Refusal {
            message: 1,
            reason: RefusalReason::Full,
            flow: Some(flow),
            program: 3,
        }),
    ];
    for message in &messages {
        let packet = encode(message);
        for end in 1..packet.len() {
            let peer = harness.peer;
            refuses_packet(&mut harness, peer, &packet[..end], RefusalReason::Malformed);
        }
    }
}

#[test]
fn a_truncated_program_is_refused_wherever_it_ends() {
    let mut harness = Harness::with_program();
    let body = body(COUNT);
    for end in 0..body.len() {
        let install = ToDatapath::Install {
            program: 9,
            idle_restart: true,
            body: &body[..end],
        };
        refuses(&mut harness, &install, RefusalReason::BadProgram);
    }
}

#[test]
fn an_unknown_peer_is_not_heard() {
    let mut harness = Harness::with_program();
    harness.running();
    let stranger = harness.datapath.add_peer(Dialect::Own, 0);
    harness.datapath.remove_peer(stranger);
    let uninstall = encode(&ToDatapath::Uninstall { program: 1 });
    refuses_packet(
        &mut harness,
        stranger,
        &uninstall,
        RefusalReason::UnknownPeer,
    );
    // The next one is another peer, even in the same place.
    let next = harness.datapath.add_peer(Dialect::Own, 0);
    assert_ne!(next, stranger);
    refuses_packet(
        &mut harness,
        stranger,
        &uninstall,
        RefusalReason::UnknownPeer,
    );
}

#[test]
fn nothing_comes_before_welcome() {
    let mut harness = Harness::new(config());
    let body = body(COUNT);
    let install = ToDatapath::Install {
        idle_restart: true,
        program: 1,
        body: &body,
    };
    refuses(&mut harness, &install, RefusalReason::OutOfOrder);
    harness.welcome(1);
    refuses(
        &mut harness,
        &ToDatapath::Uninstall { program: 1 },
        RefusalReason::UnknownProgram,
    );
}

#[test]
fn a_flow_is_commanded_by_its_peer_alone_and_once_it_is_announced() {
    let mut harness = Harness::with_program();
    let flow = harness.start();
    refuses(&mut harness, &command(flow), RefusalReason::OutOfOrder);
    harness.drain();
    // There is no program to command, and none of that number to switch to.
    refuses(&mut harness, &command(flow), RefusalReason::OutOfOrder);
    let switch = |flow, number| ToDatapath::Command {
        flow,
        switch: Some(number),
        cwnd: None,
        rate: None,
        updates: Updates::NONE,
        withdraw: false,
    };
    for number in [0, 2, u32::MAX] {
        refuses(
            &mut harness,
            &switch(flow, number),
            RefusalReason::UnknownProgram,
        );
    }
    for (slot, generation) in [
        (0, 1),
        (0, u32::MAX),
        (1, 0),
        (u32::MAX, 0),
        (u32::MAX, u32::MAX),
    ] {
        let stranger = FlowId { slot, generation };
        refuses(
            &mut harness,
            &switch(stranger, 1),
            RefusalReason::UnknownFlow,
        );
    }
    let other = harness.datapath.add_peer(Dialect::Own, 0);
    let welcome = encode(&ToDatapath::Welcome(Welcome {
        instance: 5,
        alive_us: 1,
    }));
    harness.datapath.on_message(other, &welcome, 0);
    let packet = encode(&switch(flow, 1));
    refuses_packet(&mut harness, other, &packet, RefusalReason::UnknownFlow);
    harness.datapath.close(flow).unwrap();
    refuses(&mut harness, &switch(flow, 1), RefusalReason::UnknownFlow);
}

#[test]
fn a_command_is_obeyed_whole_or_not_at_all() {
    let mut harness = Harness::with_program();
    let flow = harness.running();
    let with = |cwnd, rate, updates: &'static [Update], switch| ToDatapath::Command {
        flow,
        switch,
        cwnd,
        rate,
        updates: updates.into(),
        withdraw: false,
    };
    const GOOD: Update = Update {
        variable: 2,
        value: 7,
    };
    // A report variable, and variables that are not there.
    const BAD: [&[Update]; 3] = [
        &[
            GOOD,
            Update {
                variable: 0,
                value: 1,
            },
        ],
        &[
            GOOD,
            Update {
                variable: 3,
                value: 1,
            },
        ],
        &[
            Update {
                variable: u16::MAX,
                value: u64::MAX,
            },
            GOOD,
        ],
    ];
    for updates in BAD {
        for switch in [None, Some(1)] {
            refuses(
                &mut harness,
                &with(Some(5_000), Some(1), updates, switch),
                RefusalReason::BadUpdate,
            );
        }
    }
    for (cwnd, rate) in [
        (Some(0), None),
        (Some(1), Some(MAX_RATE + 1)),
        (None, Some(u64::MAX)),
    ] {
        refuses(
            &mut harness,
            &with(cwnd, rate, &[GOOD], Some(1)),
            RefusalReason::BadControl,
        );
    }
    assert_eq!(harness.ack(flow, 0), None);
    // The extremes that are allowed.
    harness.send(&with(Some(u64::MAX), Some(MAX_RATE), &[GOOD], None));
    let controls = harness.ack(flow, 0).unwrap();
    assert_eq!((controls.cwnd, controls.rate), (u64::MAX, MAX_RATE));
}

#[test]
fn an_installed_program_does_not_change() {
    let mut harness = Harness::with_program();
    let flow = harness.running();
    let (same, another) = (body(COUNT), body("(when true (:= Cwnd 5))"));
    let installs = harness.datapath.statistics().installs;
    harness.send(&ToDatapath::Install {
        idle_restart: true,
        program: 1,
        body: &same,
    });
    assert_eq!(harness.datapath.statistics().installs, installs);
    assert_eq!(harness.datapath.statistics().refused_total(), 0);
    let other = ToDatapath::Install {
        idle_restart: true,
        program: 1,
        body: &another,
    };
    refuses(&mut harness, &other, RefusalReason::ProgramInUse);
    assert_eq!(harness.ack(flow, 1).unwrap().cwnd, 10_001);
}

#[test]
fn peers_number_their_programs_apart() {
    let mut harness = Harness::with_program();
    let flow = harness.running();
    let other = harness.datapath.add_peer(Dialect::Own, 0);
    let program = body("(when true (:= Cwnd 5))");
    for message in [
        ToDatapath::Welcome(Welcome {
            instance: 5,
            alive_us: 1,
        }),
        ToDatapath::Install {
            idle_restart: true,
            program: 1,
            body: &program,
        },
        ToDatapath::Uninstall { program: 1 },
        ToDatapath::Welcome(Welcome {
            instance: 6,
            alive_us: 1,
        }),
    ] {
        harness.datapath.on_message(other, &encode(&message), 0);
    }
    assert_eq!(harness.datapath.statistics().refused_total(), 0);
    assert_eq!(harness.ack(flow, 1).unwrap().cwnd, 10_001);
    harness.command(flow, Some(1), &[]);
    assert_eq!(harness.ack(flow, 1).unwrap().cwnd, 10_002);
}

#[test]
fn programs_that_need_what_the_transport_lacks_are_refused() {
    let mut signals = SignalSet::EMPTY;
    signals.insert(fairwater_lang::Signal::Now);
    let mut harness = Harness::new(Config {
        signals: SignalQualities::exact(signals),
        ..config()
    });
    harness.welcome(1);
    let body = body(COUNT);
    let install = ToDatapath::Install {
        idle_restart: true,
        program: 1,
        body: &body,
    };
    refuses(&mut harness, &install, RefusalReason::MissingSignals);
}

#[test]
fn programs_and_flows_are_kept_up_to_their_bounds() {
    let mut harness = Harness::new(Config {
        max_programs: 2,
        max_flows: 2,
        ..config()
    });
    harness.welcome(1);
    for number in [1, u32::MAX] {
        harness.install(number, COUNT);
    }
    let body = body(COUNT);
    let third = ToDatapath::Install {
        idle_restart: true,
        program: 3,
        body: &body,
    };
    refuses(&mut harness, &third, RefusalReason::Full);
    harness.send(&ToDatapath::Uninstall { program: u32::MAX });
    harness.send(&third);
    assert_eq!(harness.datapath.statistics().programs, 2);

    let first = harness.start();
    harness.start();
    let peer = harness.peer;
    assert!(harness.datapath.start(peer, "", &info(1)).is_err());
    harness.datapath.close(first).unwrap();
    assert_eq!(harness.start().slot, first.slot);
}

#[test]
fn a_replayed_packet_does_nothing_new() {
    let mut harness = Harness::with_program();
    let flow = harness.running();
    let peer = harness.peer;
    let mut packet = encode(&ToDatapath::Welcome(Welcome {
        instance: 7,
        alive_us: 10_000,
    }));
    let body = body(COUNT);
    packet.extend(encode(&ToDatapath::Install {
        idle_restart: true,
        program: 1,
        body: &body,
    }));
    let before = snapshot(&harness.datapath);
    for _ in 0..3 {
        harness.datapath.on_message(peer, &packet, harness.now_us);
    }
    assert_eq!(snapshot(&harness.datapath), before);
    assert_eq!(harness.ack(flow, 1).unwrap().cwnd, 10_001);
}

#[test]
fn one_bad_message_does_not_cost_its_neighbours() {
    let mut harness = Harness::with_program();
    let flow = harness.running();
    let mut packet = encode(&ToDatapath::Uninstall { program: 77 });
    packet.extend(encode(&ToDatapath::Command {
        flow,
        switch: None,
        cwnd: Some(77_000),
        rate: None,
        updates: Updates::NONE,
        withdraw: false,
    }));
    let peer = harness.peer;
    harness.datapath.on_message(peer, &packet, harness.now_us);
    assert_eq!(harness.ack(flow, 0).unwrap().cwnd, 77_000);
    assert_eq!(harness.drain(), ["refused UnknownProgram"]);
}

#[test]
fn refusals_are_answered_now_and_then_but_never_refusals_of_refusals() {
    let mut harness = Harness::with_program();
    harness.drain();
    let refused = encode(&ToDatapath::Refused(Refusal {
        message: 1,
        reason: RefusalReason::Full,
        flow: None,
        program: 0,
    }));
    let peer = harness.peer;
    let mut malformed = refused.clone();
    malformed[8..10].copy_from_slice(&[0xff, 0xff]);
    for packet in [&refused, &malformed] {
        harness.datapath.on_message(peer, packet, 0);
    }
    assert_eq!(harness.datapath.statistics().refused_total(), 1);
    assert_eq!(harness.drain(), [""; 0]);

    let unknown = encode(&ToDatapath::Uninstall { program: 77 });
    for _ in 0..1000 {
        harness.datapath.on_message(peer, &unknown, 0);
    }
    let answers = harness.drain().len();
    assert!((1..100).contains(&answers), "{answers}");
    harness.datapath.on_message(peer, &unknown, 1_000_000);
    assert_eq!(harness.drain(), ["refused UnknownProgram"]);
}

#[test]
fn a_withdrawn_flow_stays_under_the_fallback() {
    let mut harness = Harness::with_program();
    let flow = harness.running();
    harness.send(&ToDatapath::Command {
        flow,
        switch: Some(1),
        cwnd: Some(1),
        rate: None,
        updates: Updates::NONE,
        withdraw: true,
    });
    assert_eq!(harness.ack(flow, 0), None);
    let withdrawn = |harness: &Harness| {
        let state = harness.datapath.flow(flow).unwrap().state;
        assert_eq!(state, FlowState::Withdrawn);
    };
    withdrawn(&harness);
    refuses(&mut harness, &command(flow), RefusalReason::OutOfOrder);
    harness.welcome(8);
    withdrawn(&harness);
    harness.datapath.close(flow).unwrap();
    assert_eq!(harness.drain(), ["refused OutOfOrder"]);
}

#[test]
fn invocations_of_flows_that_are_not_there_are_errors() {
    let mut harness = Harness::with_program();
    let flow = harness.running();
    harness.datapath.close(flow).unwrap();
    for (slot, generation) in [(0, 0), (0, 1), (1, 0), (u32::MAX, u32::MAX)] {
        let flow = FlowId { slot, generation };
        assert!(harness.datapath.invoke(flow, &ack(1, 1)).is_err());
        assert!(harness.datapath.flow(flow).is_none());
        assert!(harness.datapath.close(flow).is_err());
    }
}
