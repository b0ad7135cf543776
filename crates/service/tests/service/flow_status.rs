//! What the service tells of flows: their status, why they left their algorithm, and which
//! algorithm a policy gives them.

use std::time::Duration;

use fairwater_plane::*;
use fairwater_proto::ToPlane;
use fairwater_service::{Config, Endpoints, Policy, PolicyKey, Rule, Server};

use crate::direct::Toy;
use crate::support::*;

fn rule(algorithm: &str, change: impl FnOnce(&mut Rule)) -> Rule {
    let mut rule = Rule {
        algorithm: algorithm.to_owned(),
        ..Rule::default()
    };
    change(&mut rule);
    rule
}

fn server(plane: Plane) -> Server {
    let config = Config {
        report_log_bytes: 4096,
        ..Config::default()
    };
    let mut server = Server::bind(plane, config, &Endpoints::default()).unwrap();
    server.add(Toy::default()).unwrap();
    server
}

#[test]
fn the_flows_of_a_direct_datapath_have_a_status() {
    let mut plane = Plane::new();
    plane.add(Echo::build("echo")).unwrap();
    let mut server = server(plane);
    while server.service().statistics().reports == 0 {
        server.turn(Duration::from_millis(5)).unwrap();
    }
    let flows = server.flows();
    assert_eq!(flows.len(), 1);
    let status = &flows[0];
    assert_eq!(
        (&*status.datapath, &*status.algorithm, &*status.program),
        ("toy", "echo", "count")
    );
    assert!(status.controlled && status.measures.cwnd_bytes > 0);
    assert_eq!(server.flow(status.id()).as_ref(), Some(status));
    let json = serde_json::to_value(status).unwrap();
    assert_eq!(json["remote"], "192.0.2.1:80");
}

/// The incident has the cause, the flow, and what its program reported last, by name.
#[test]
fn a_flow_that_is_withdrawn_leaves_an_incident() {
    let mut plane = Plane::new();
    plane
        .add(|programs| Ok(Fragile(Echo::build("fragile")(programs)?)))
        .unwrap();
    let mut server = server(plane);
    let incident = loop {
        server.turn(Duration::from_millis(5)).unwrap();
        if let Some(incident) = server.incidents().pop() {
            break incident;
        }
    };
    assert_eq!(incident.cause, "the algorithm panicked: too much");
    let flow = incident.flow.unwrap();
    assert_eq!((&*flow.algorithm, flow.controlled), ("fragile", false));
    let acked: Vec<_> = incident.reports.iter().map(|r| r.fields["acked"]).collect();
    assert_eq!(acked, [500, 1_000, 1_500, 2_000]);
    assert_eq!(incident.reports[3].program, "count");
    assert_eq!(server.incidents(), []);
}

/// Panics at 2,000 bytes.
struct Fragile(Echo);

impl Algorithm for Fragile {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control) -> Box<dyn Flow> {
        Box::new(FragileFlow(self.0.new_flow(info, control), self.0.acked()))
    }
}

struct FragileFlow(Box<dyn Flow>, Field);

impl Flow for FragileFlow {
    fn on_report(&mut self, report: &Report, control: &mut Control) {
        assert!(report[self.1] < 2_000, "too much");
        self.0.on_report(report, control);
    }
}

/// A peer's flow that a rule matches is handed over as it starts; the peer, which then knows, names
/// the policy's algorithm itself when the flow resumes.
#[test]
fn a_policy_hands_a_peers_new_flow_over() {
    let mut service = service(Config::default());
    service.set_policy(Policy {
        rules: vec![
            rule("lossy", |rule| rule.mark = Some(9)),
            rule("second", |rule| rule.remote_port = Some(80..=80)),
        ],
    });
    let peer = introduced_peer(&mut service);
    service.say(peer, &created(id(0, 1), "echo"));
    let asked = Received::HandOver {
        flow: id(0, 1),
        algorithm: "second".to_owned(),
    };
    assert!(service.receive().contains(&(peer, asked)));
    let resumed = ToPlane::Resumed {
        flow: id(0, 1),
        algorithm: "second",
        info: info(20_000),
    };
    service.say(peer, &resumed);
    let flow = service.flows().next().unwrap();
    assert_eq!(service.plane().flow(flow).unwrap().algorithm, 1);
    // One that asks for it already is left alone.
    service.receive();
    service.say(peer, &created(id(1, 1), "second"));
    let received = service.receive();
    let is_hand_over = |(_, message): &(_, Received)| matches!(message, Received::HandOver { .. });
    assert!(!received.iter().any(is_hand_over), "{received:?}");
}

#[test]
fn a_policy_leaves_a_flow_where_its_choice_cannot_run() {
    let mut service = service(Config::default());
    service.set_policy(Policy {
        rules: vec![rule("lossy", |_| {}), rule("second", |_| {})],
    });
    let mut capabilities = Capabilities::ALL;
    capabilities.signals = capabilities
        .signals
        .with(Signal::LostPkts, SignalQuality::Absent);
    let (poor, _) = service.register("poor", capabilities);
    let (rich, _) = service.register("rich", Capabilities::ALL);
    let info = info(10_000);
    let key = PolicyKey {
        datapath: "poor",
        local: info.local,
        remote: info.remote,
        tag: 0,
        cgroup: None,
    };
    assert_eq!(service.assign(poor, 0, &key), 0);
    assert_eq!(service.assign(rich, 0, &key), 2);
}
