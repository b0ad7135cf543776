//! Segments whose size changes in a flow's life, of peers and of direct datapaths.

use fairwater_plane::{
    Algorithm, Capabilities, Command, CommandSink, Control, Event, Flow, FlowId, FlowInfo, Plane,
    Report,
};
use fairwater_proto::{RefusalReason, ToPlane};
use fairwater_service::{Config, Service};

use crate::support::*;

/// Keeps a window of ten segments.
struct Ten;

struct TenFlow;

impl Algorithm for Ten {
    fn name(&self) -> &str {
        "ten"
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control) -> Box<dyn Flow> {
        control.set_cwnd(u64::from(info.mss) * 10);
        Box::new(TenFlow)
    }
}

impl Flow for TenFlow {
    fn on_report(&mut self, _: &Report, _: &mut Control) {}

    fn on_mss(&mut self, mss: u32, control: &mut Control) {
        if mss == 13 {
            panic!("no such segments");
        }
        control.set_cwnd(u64::from(mss) * 10);
    }
}

fn ten() -> Service {
    let mut plane = Plane::new();
    plane
        .add(|programs| {
            programs.add("idle", "(def (Report (acked 0))) (when true (report))")?;
            Ok(Ten)
        })
        .unwrap();
    let config = Config {
        instance: INSTANCE,
        ..Config::default()
    };
    Service::new(plane, config)
}

fn windows(received: &[(fairwater_service::PeerId, Received)]) -> Vec<Option<u64>> {
    let commands = received.iter().filter_map(|(_, received)| match received {
        Received::Command { cwnd, .. } => Some(*cwnd),
        _ => None,
    });
    commands.collect()
}

#[test]
fn a_peers_algorithm_goes_on_with_the_new_size() {
    let mut service = ten();
    let peer = introduced_peer(&mut service);
    service.say(peer, &created(id(0, 1), "ten"));
    assert_eq!(windows(&service.receive()), [Some(10_000)]);
    let changed = |mss| ToPlane::MssChanged {
        flow: id(0, 1),
        mss,
    };
    service.say(peer, &changed(1_400));
    assert_eq!(windows(&service.receive()), [Some(14_000)]);
    // Author code that fails costs its own flow alone, as anywhere.
    service.say(peer, &changed(13));
    let received = service.receive();
    assert!(
        matches!(
            received[..],
            [(_, Received::Command { withdraw: true, .. })]
        ),
        "{received:?}"
    );
    service.say(peer, &changed(1_400));
    assert_eq!(service.receive(), []);
}

#[test]
fn a_flow_that_nobody_knows_is_refused() {
    let mut service = ten();
    let peer = introduced_peer(&mut service);
    let changed = ToPlane::MssChanged {
        flow: id(0, 1),
        mss: 1_400,
    };
    service.say(peer, &changed);
    let received = service.receive();
    let [(_, Received::Refused(refusal))] = &received[..] else {
        panic!("{received:?}");
    };
    assert_eq!(refusal.reason, RefusalReason::UnknownFlow);
}

#[derive(Default)]
struct Windows(Vec<Option<u64>>);

impl CommandSink for Windows {
    fn command(&mut self, _: FlowId, command: &Command) {
        self.0.push(command.cwnd);
    }
}

#[test]
fn a_direct_datapaths_algorithm_goes_on_with_the_new_size() {
    let mut service = ten();
    let (datapath, _) = service.register("toy", Capabilities::ALL);
    let mut windows = Windows::default();
    let flow = id(3, 1);
    let info = info(10_000);
    let opened = Event::Created {
        flow,
        algorithm: 0,
        info: &info,
    };
    service.on_event(datapath, opened, &mut windows);
    service.on_event(datapath, Event::MssChanged { flow, mss: 900 }, &mut windows);
    let other = Event::MssChanged {
        flow: id(4, 1),
        mss: 800,
    };
    service.on_event(datapath, other, &mut windows);
    assert_eq!(windows.0, [Some(10_000), Some(9_000)]);
}
