//! Flows that go from one algorithm to another.

use fairwater_plane::*;
use fairwater_proto::{Dialect, ToDatapath, ToPlane};
use fairwater_service::{Config, HandOverError};

use crate::support::*;

/// The peer is asked, answers with the flow's state, and is switched to the other algorithm's
/// program; the present program runs until then, and its reports harm nothing.
#[test]
fn a_peers_flow_is_handed_over_at_its_answer() {
    let mut service = service(Config::default());
    let peer = introduced_peer(&mut service);
    let first = start(&mut service, peer, id(0, 1), "echo");
    service.receive();
    let flow = service.flows().next().unwrap();
    service.hand_over(flow, 1).unwrap();
    let asked = Received::HandOver {
        flow: id(0, 1),
        algorithm: "second".to_owned(),
    };
    assert_eq!(service.receive(), [(peer, asked)]);
    assert_eq!(service.plane().flow(flow).unwrap().algorithm, 0);

    service.say(
        peer,
        &ToPlane::Resumed {
            flow: id(0, 1),
            algorithm: "second",
            info: FlowInfo {
                ssthresh: Some(33_000),
                ..info(33_000)
            },
        },
    );
    let received = service.receive();
    let [
        (_, Received::Install(second)),
        (_, Received::Command { switch, cwnd, .. }),
    ] = &received[..]
    else {
        panic!("{received:?}");
    };
    assert_eq!((*switch, *cwnd), (Some(*second), Some(33_000)));
    assert_eq!(service.plane().flow(flow).unwrap().algorithm, 1);

    // A report of the former program was under way.
    service.say(peer, &reported(id(0, 1), first, &[5_000]));
    assert_eq!(service.receive(), []);
    service.say(peer, &reported(id(0, 1), *second, &[6_000]));
    let received = service.receive();
    assert!(
        matches!(
            &received[..],
            [(
                _,
                Received::Command {
                    cwnd: Some(6_000),
                    ..
                }
            )]
        ),
        "{received:?}"
    );
}

/// libccp's encoding has no message for it: the flow is switched at once.
#[test]
fn a_flow_of_a_libccp_is_handed_over_at_once() {
    let mut service = service(Config::default());
    let peer = service.connect(0).unwrap();
    let say = |service: &mut fairwater_service::Service, message: &ToPlane<'_>| {
        let mut packet = Vec::new();
        Dialect::Ccp.encode_to_plane(message, &mut packet).unwrap();
        service.on_packet(peer, &packet, 1);
    };
    let receive = |service: &mut fairwater_service::Service| {
        let mut switches = Vec::new();
        while let Some((_, packet)) = service.poll_transmit() {
            for message in Dialect::Ccp.to_datapath(packet) {
                if let ToDatapath::Command { switch, cwnd, .. } = message.unwrap() {
                    switches.push((switch, cwnd));
                }
            }
        }
        switches
    };
    say(&mut service, &created(id(0, 0), "echo"));
    let first = receive(&mut service);
    assert!(matches!(first[..], [(Some(_), Some(10_000))]), "{first:?}");
    let flow = service.flows().next().unwrap();
    service.hand_over(flow, 1).unwrap();
    let second = receive(&mut service);
    assert!(
        matches!(second[..], [(Some(_), Some(10_000))]),
        "{second:?}"
    );
    assert_ne!(first, second);
    assert_eq!(service.plane().flow(flow).unwrap().algorithm, 1);
}

#[test]
fn what_cannot_be_handed_over_is_said() {
    let mut service = service(Config::default());
    let mut capabilities = Capabilities::ALL;
    capabilities.signals = capabilities
        .signals
        .with(Signal::LostPkts, SignalQuality::Absent);
    let (id_, refused) = service.register("poor", capabilities);
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0].algorithm, 2);
    let notices: Vec<_> = service.drain_notices().map(|n| n.to_string()).collect();
    let expected = "datapath poor cannot run lossy: it has no signal Ack.lost_pkts_sample";
    assert_eq!(notices, [expected]);
    let event = Event::Created {
        flow: id(0, 1),
        algorithm: 0,
        info: &info(10_000),
    };
    service.on_event(id_, event, &mut crate::direct::Commands::default());
    let flow = service.flows().next().unwrap();
    let unmet = vec![Unmet::Signal(Signal::LostPkts)];
    assert_eq!(service.hand_over(flow, 2), Err(HandOverError::Unmet(unmet)));
    assert_eq!(
        service.hand_over(flow, 9),
        Err(HandOverError::UnknownAlgorithm)
    );
    assert_eq!(
        service.hand_over(id(7, 7), 1),
        Err(HandOverError::UnknownFlow)
    );
    assert_eq!(service.plane().flow(flow).unwrap().algorithm, 0);
}

/// An aggregate that hands each member over to the other algorithm as soon as it is given it.
struct HandsOn {
    name: &'static str,
    to: &'static str,
}

impl Algorithm for HandsOn {
    fn name(&self) -> &str {
        self.name
    }

    fn aggregate_by(&self, info: &FlowInfo) -> Option<Key> {
        By::All.key(info)
    }

    fn new_aggregate(&self, _: &Key, _: &FlowInfo) -> Option<Box<dyn Aggregate>> {
        Some(Box::new(HandsOnTo(self.to)))
    }

    fn new_flow(&self, _: &FlowInfo, _: &mut Control) -> Box<dyn Flow> {
        unreachable!("every flow has a key")
    }
}

struct HandsOnTo(&'static str);

impl Aggregate for HandsOnTo {
    fn create_subflow(&mut self, member: Member, _: &FlowInfo, group: &mut Group) {
        group.control(member).unwrap().hand_over(self.0);
    }

    fn on_report(&mut self, _: Member, _: &Report, _: &mut Group) {}
}

/// Each event carries a hand-over one step further, so that algorithms that hand a flow to and fro
/// hold nobody up.
#[test]
fn hand_overs_without_end_of_a_libccp_flow_take_turns_with_the_rest() {
    let mut plane = Plane::new();
    for (name, to) in [("here", "there"), ("there", "here")] {
        plane
            .add(|programs| {
                programs.add("all", "(def (Report (acked 0))) (when true (report))")?;
                Ok(HandsOn { name, to })
            })
            .unwrap();
    }
    let mut service = fairwater_service::Service::new(plane, Config::default());
    let peer = service.connect(0).unwrap();
    let mut packet = Vec::new();
    let message = created(id(0, 0), "here");
    Dialect::Ccp.encode_to_plane(&message, &mut packet).unwrap();
    service.on_packet(peer, &packet, 1);
    let flow = service.flows().next().unwrap();
    let at = |service: &fairwater_service::Service| service.plane().flow(flow).unwrap().algorithm;
    assert_eq!(at(&service), 1);
    for turn in 0..10_000 {
        assert_eq!(at(&service), (turn + 1) % 2);
        service.tick(turn as u64);
    }
    // What the flow is switched to is merged.
    let mut packets = 0;
    while service.poll_transmit().is_some() {
        packets += 1;
    }
    assert!(packets <= 4, "{packets}");
    service.peer_gone(peer);
    assert_eq!(service.plane().aggregates().count(), 0);
}
