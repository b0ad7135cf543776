//! Members of an aggregate at one peer and at several.

use fairwater_plane::*;
use fairwater_proto::{FlowId, ToPlane};
use fairwater_service::{Config, PeerId, Service};

use crate::support::*;

/// A window for all flows together.
const WINDOW: u64 = 60_000;

struct SharedWindow;

impl Algorithm for SharedWindow {
    fn name(&self) -> &str {
        "shared"
    }

    fn aggregate_by(&self, info: &FlowInfo) -> Option<Key> {
        By::Host.key(info)
    }

    fn new_aggregate(&self, _: &Key, _: &FlowInfo) -> Option<Box<dyn Aggregate>> {
        Some(Box::new(Self))
    }

    fn new_flow(&self, _: &FlowInfo, _: &mut Control) -> Box<dyn Flow> {
        unreachable!("every flow has a key")
    }
}

impl Aggregate for SharedWindow {
    fn create_subflow(&mut self, _: Member, _: &FlowInfo, group: &mut Group) {
        let share = WINDOW / group.len() as u64;
        group.each(|_, control| control.set_cwnd(share));
    }

    fn on_report(&mut self, _: Member, report: &Report, group: &mut Group) {
        group.each(|_, control| control.set_cwnd(report.time_us()));
    }

    fn on_close(&mut self, _: Member, group: &mut Group) {
        let share = WINDOW / (group.len() as u64).max(1);
        group.each(|_, control| control.set_cwnd(share));
    }
}

pub(crate) fn service() -> Service {
    let mut plane = Plane::new();
    plane
        .add(|programs| {
            programs.add("all", "(def (Report (acked 0))) (when true (report))")?;
            Ok(SharedWindow)
        })
        .unwrap();
    let config = Config {
        instance: INSTANCE,
        ..Config::default()
    };
    Service::new(plane, config)
}

/// The windows that were set, in order.
pub(crate) fn windows(service: &mut Service) -> Vec<(PeerId, u32, u64)> {
    let received = service.receive().into_iter();
    let window = |(peer, message)| match message {
        Received::Command { flow, cwnd, .. } => Some((peer, flow.slot, cwnd?)),
        _ => None,
    };
    received.filter_map(window).collect()
}

fn flow(slot: u32) -> FlowId {
    id(slot, 1)
}

#[test]
fn members_of_all_peers_hear_of_one_flows_event() {
    let mut service = service();
    let (a, b) = (introduced_peer(&mut service), introduced_peer(&mut service));
    let program = start(&mut service, a, flow(0), "shared");
    service.say(a, &created(flow(3), "shared"));
    assert_eq!(windows(&mut service), [(a, 3, 30_000), (a, 0, 30_000)]);
    service.say(b, &created(flow(0), "shared"));
    let mut received = windows(&mut service);
    received.sort();
    assert_eq!(received, [(a, 0, 20_000), (a, 3, 20_000), (b, 0, 20_000)]);

    service.say(b, &reported(flow(0), program, &[0]));
    let mut received = windows(&mut service);
    received.sort();
    assert_eq!(received, [(a, 0, 1_000), (a, 3, 1_000), (b, 0, 1_000)]);

    service.say(a, &ToPlane::Closed { flow: flow(3) });
    let mut received = windows(&mut service);
    received.sort();
    assert_eq!(received, [(a, 0, 30_000), (b, 0, 30_000)]);
    service.say(
        a,
        &ToPlane::Faulted {
            flow: flow(0),
            fault: 1,
        },
    );
    assert_eq!(windows(&mut service), [(b, 0, 60_000)]);
}

#[test]
fn a_peer_that_is_lost_leaves_its_share_to_the_others() {
    let mut service = service();
    let (a, b) = (introduced_peer(&mut service), introduced_peer(&mut service));
    for slot in 0..3 {
        service.say(a, &created(flow(slot), "shared"));
    }
    service.say(b, &created(flow(0), "shared"));
    windows(&mut service);
    service.peer_gone(a);
    // One command: what was not sent yet is merged.
    assert_eq!(windows(&mut service), [(b, 0, 60_000)]);
    assert_eq!(service.plane().aggregates().count(), 1);
    service.peer_gone(b);
    assert_eq!(service.plane().aggregates().count(), 0);
    assert_eq!(service.plane().statistics(), PlaneStatistics::default());
}
