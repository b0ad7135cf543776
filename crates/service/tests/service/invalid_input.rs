//! Peers that keep to nothing.

use std::collections::HashMap;

use fairwater_plane::FlowId;
use fairwater_proto::{Dialect, RefusalReason, ToPlane};
use fairwater_service::{Config, Service};
use proptest::prelude::*;

use crate::support::*;

/// A message of a peer, by small numbers, so that names meet often.
#[derive(Debug, Clone)]
enum Step {
    Hello(u64),
    Created(FlowId),
    Resumed(FlowId),
    Reported(FlowId, bool, Vec<u64>),
    Faulted(FlowId),
    Closed(FlowId),
    Bytes(Vec<u8>),
}

fn flow() -> impl Strategy<Value = FlowId> {
    (0..4u32, 0..3u32).prop_map(|(slot, generation)| FlowId { slot, generation })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        1 => (1..3u64).prop_map(Step::Hello),
        4 => flow().prop_map(Step::Created),
        1 => flow().prop_map(Step::Resumed),
        8 => (flow(), any::<bool>(), prop::collection::vec(0..5u64, 0..3))
            .prop_map(|(flow, known, fields)| Step::Reported(flow, known, fields)),
        1 => flow().prop_map(Step::Faulted),
        3 => flow().prop_map(Step::Closed),
        1 => prop::collection::vec(any::<u8>(), 0..40).prop_map(Step::Bytes),
    ]
}

/// What a peer's flows should be.
#[derive(Debug, Default)]
struct Model {
    instance: Option<u64>,
    /// The generation in each slot, and whether its algorithm has it still.
    flows: HashMap<u32, (u32, bool)>,
}

impl Model {
    fn has(&self, flow: FlowId) -> bool {
        self.flows
            .get(&flow.slot)
            .is_some_and(|f| f.0 == flow.generation)
    }

    fn apply(&mut self, step: &Step) {
        if let Step::Hello(instance) = step
            && self.instance.replace(*instance) != Some(*instance)
        {
            self.flows.clear();
        }
        if self.instance.is_none() {
            return;
        }
        match *step {
            Step::Created(flow) if !self.has(flow) => {
                self.flows.insert(flow.slot, (flow.generation, true));
            }
            Step::Resumed(flow) if !self.has(flow) => {
                self.flows.insert(flow.slot, (flow.generation, true));
            }
            Step::Faulted(flow) if self.has(flow) => {
                self.flows.insert(flow.slot, (flow.generation, false));
            }
            Step::Closed(flow) if self.has(flow) => {
                self.flows.remove(&flow.slot);
            }
            _ => {}
        }
    }

    /// The window that a report must be answered with, if it must be.
    fn answer(&self, step: &Step) -> Option<(FlowId, u64)> {
        match step {
            Step::Reported(flow, true, fields) if self.has(*flow) => {
                let running = self.flows[&flow.slot].1;
                (running && fields.len() == 1 && fields[0] > 0).then(|| (*flow, fields[0]))
            }
            _ => None,
        }
    }
}

fn packet(step: &Step, program: u32) -> Vec<u8> {
    match step {
        Step::Hello(instance) => bytes(&hello(*instance)),
        Step::Created(flow) => bytes(&created(*flow, "echo")),
        Step::Resumed(flow) => bytes(&ToPlane::Resumed {
            flow: *flow,
            algorithm: "echo",
            info: info(10_000),
        }),
        Step::Reported(flow, known, fields) => {
            let program = if *known { program } else { program + 1 };
            bytes(&reported(*flow, program, fields))
        }
        Step::Faulted(flow) => bytes(&ToPlane::Faulted {
            flow: *flow,
            fault: 1,
        }),
        Step::Closed(flow) => bytes(&ToPlane::Closed { flow: *flow }),
        Step::Bytes(bytes) => bytes.clone(),
    }
}

/// The number that the first algorithm's program has at every peer.
fn first_program(service: &mut Service) -> u32 {
    let scout = introduced_peer(service);
    let program = start(service, scout, id(0, 0), "echo");
    service.peer_gone(scout);
    program
}

proptest! {
    #[test]
    fn two_peers_have_what_a_model_says_and_nothing_of_each_others(
        steps in prop::collection::vec((0..2usize, step()), 0..200),
    ) {
        let mut service = service(Config::default());
        let program = first_program(&mut service);
        let peers = [service.connect(0).unwrap(), service.connect(0).unwrap()];
        let mut models = [Model::default(), Model::default()];
        for (who, step) in &steps {
            let expected = models[*who].answer(step);
            models[*who].apply(step);
            service.on_packet(peers[*who], &packet(step, program), 5);
            let received = service.receive();
            prop_assert!(received.iter().all(|(to, _)| *to == peers[*who]));
            let windows: Vec<_> = received
                .iter()
                .filter_map(|(_, message)| match message {
                    Received::Command { flow, switch: None, cwnd: Some(cwnd), .. } => Some((*flow, *cwnd)),
                    _ => None,
                })
                .collect();
            prop_assert_eq!(windows, expected.into_iter().collect::<Vec<_>>());
            let flows: usize = models.iter().map(|m| m.flows.len()).sum();
            prop_assert_eq!(service.statistics().flows, flows as u64);
        }
        let in_algorithms: u64 =
            service.plane().algorithms().iter().map(|a| a.statistics().flows).sum();
        let running: usize =
            models.iter().flat_map(|m| m.flows.values()).filter(|f| f.1).count();
        prop_assert_eq!(in_algorithms, running as u64);
    }

    #[test]
    fn any_bytes_are_counted_and_harm_nobody(
        packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..40),
        dialect in prop::option::of(prop_oneof![Just(Dialect::Own), Just(Dialect::Ccp)]),
    ) {
        let mut service = service(Config::default());
        let good = introduced_peer(&mut service);
        let program = start(&mut service, good, id(0, 1), "");
        let bad = service.connect(0).unwrap();
        if let Some(dialect) = dialect {
            let mut packet = Vec::new();
            dialect.encode_to_plane(&hello(9), &mut packet).unwrap();
            service.on_packet(bad, &packet, 1);
        }
        for packet in &packets {
            service.on_packet(bad, packet, 2);
        }
        while service.poll_transmit().is_some() {}
        service.say(good, &reported(id(0, 1), program, &[5]));
        let received = service.receive();
        let answered = matches!(received[..], [(to, Received::Command { cwnd: Some(5), .. })] if to == good);
        prop_assert!(answered);
    }
}

#[test]
fn a_message_cut_at_any_byte_changes_nothing() {
    let mut service = service(Config::default());
    let peer = introduced_peer(&mut service);
    let program = start(&mut service, peer, id(0, 1), "");
    let messages = [
        created(id(1, 1), "echo"),
        reported(id(0, 1), program, &[5]),
        ToPlane::Closed { flow: id(0, 1) },
        ToPlane::Faulted {
            flow: id(0, 1),
            fault: 1,
        },
        hello(2),
    ];
    let mut cuts = 0;
    for message in &messages {
        let whole = bytes(message);
        for length in 1..whole.len() {
            service.on_packet(peer, &whole[..length], 3);
            cuts += 1;
            for (_, message) in service.receive() {
                assert!(matches!(message, Received::Refused(_)), "{message:?}");
            }
        }
    }
    let statistics = service.statistics();
    assert_eq!(statistics.refused_total(), cuts);
    assert_eq!((statistics.flows, statistics.reports), (1, 0));
}

#[test]
fn who_has_not_said_hello_is_answered_that_and_no_more() {
    let mut service = service(Config::default());
    let peer = service.connect(0).unwrap();
    service.say(peer, &created(id(0, 1), ""));
    let received = service.receive();
    assert!(
        matches!(&received[..], [(_, Received::Refused(r))]
            if r.reason == RefusalReason::UnknownPeer && r.flow == Some(id(0, 1))),
        "{received:?}"
    );
    assert_eq!(service.statistics().flows, 0);
}

#[test]
fn a_peer_that_reads_no_refusals_makes_nothing_grow() {
    let mut service = service(Config::default());
    let peer = introduced_peer(&mut service);
    for _ in 0..10_000 {
        service.say(peer, &ToPlane::Closed { flow: id(9, 9) });
    }
    let statistics = service.statistics();
    assert_eq!(statistics.refused(RefusalReason::UnknownFlow), 10_000);
    let message = service.receive().len() as u64;
    assert!(
        message > 0 && message + statistics.untold == 10_000,
        "{message}"
    );
}

#[test]
fn a_ready_of_libccps_with_anything_else_behind_it_ends_no_flow() {
    let encode = |message: &ToPlane<'_>| {
        let mut packet = Vec::new();
        Dialect::Ccp.encode_to_plane(message, &mut packet).unwrap();
        packet
    };
    let (ready, create) = (encode(&hello(1)), encode(&created(id(0, 0), "echo")));
    for garbage in [&[0][..], &[0; 8], &[0xff; 12], &create[..40], &[9; 300]] {
        let mut service = service(Config::default());
        let peer = service.connect(0).unwrap();
        service.on_packet(peer, &ready, 1);
        service.on_packet(peer, &create, 2);
        assert_eq!(service.statistics().flows, 1);
        service.on_packet(peer, &[&ready, garbage].concat(), 3);
        assert_eq!(service.statistics().flows, 1, "{garbage:?}");
        // The READY, and what follows it.
        let refused = service.statistics().refused(RefusalReason::Malformed);
        assert_eq!(refused, 2, "{garbage:?}");
        // A READY by itself, and one with a whole message, are obeyed.
        service.on_packet(peer, &ready, 4);
        assert_eq!(service.statistics().flows, 0);
        service.on_packet(peer, &[&ready[..], &create].concat(), 5);
        assert_eq!(service.statistics().flows, 1);
    }
}
