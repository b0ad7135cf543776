//! CCP §7.3: many senders answer at once over a short path, and the plane is slow beside it.

use std::time::Duration;

use fairwater_net::{Capacity, Limit, QueueConfig, Rate, Time};
use fairwater_sim::{
    Controller, Experiment, FlowConfig, Measure, Native, NodeId, Path, PlaneConfig, TcpConfig,
    Traffic,
};

use crate::support::{edge, link, outcome};

/// 50 to 1: node 0 is the switch, node 1 the receiver; 20 µs, 10 Gbit/s.
fn incast(controller: &Controller, segments: u64, period: Duration, seed: u64) -> Experiment {
    const SENDERS: u32 = 50;
    let rate = Capacity::Rate(Rate::from_bps(10_000_000_000).unwrap());
    let mut wire = link(rate, Duration::from_micros(5));
    wire.queue = QueueConfig::DropTail(Limit::Packets(1_000));
    let mut edges = vec![
        edge("down", 0, 1, wire.clone()),
        edge("up", 1, 0, wire.clone()),
    ];
    let mut flows = Vec::new();
    for sender in 2..2 + SENDERS {
        edges.push(edge("in", sender, 0, wire.clone()));
        edges.push(edge("out", 0, sender, wire.clone()));
        flows.push(FlowConfig {
            name: format!("sender {sender}"),
            from: NodeId(sender),
            to: NodeId(1),
            path: Path::Shortest,
            controller: controller.clone(),
            traffic: Traffic::Bytes(segments * 1448),
            start: Time::ZERO,
            start_jitter: Duration::from_micros(10),
            stop: None,
            priority: 0,
            tag: 0,
            bundle: None,
            edge: None,
            tcp: TcpConfig {
                min_rto: Duration::from_millis(1),
                handshake: false,
                ..TcpConfig::default()
            },
        });
    }
    Experiment {
        seed,
        duration: Duration::from_secs(2),
        nodes: 2 + SENDERS,
        edges,
        flows,
        bundles: Vec::new(),
        plane: PlaneConfig {
            delay: Duration::from_micros(10),
            period,
            ..PlaneConfig::default()
        },
        measure: Measure::default(),
    }
}

#[test]
fn an_incast_of_ccps_figure_14_is_done_under_each_controller() {
    let native = Controller::Native(Native::Reno);
    let plane = Controller::Plane("reno".to_owned());
    for segments in [10, 100, 1_000] {
        for (controller, period_us) in [(&native, 0), (&plane, 10), (&plane, 1_000)] {
            let period = Duration::from_micros(period_us);
            let outcome = outcome(&incast(controller, segments, period, 7));
            let took = |flow: &fairwater_sim::FlowOutcome| flow.requests[0].took;
            assert!(outcome.flows.iter().all(|flow| flow.unfinished == 0));
            let tail = outcome.flows.iter().map(took).max().unwrap();
            // All of it at 10 Gbit/s; and not so long that the link stood still most of the time.
            let least = Rate::from_bps(10_000_000_000)
                .unwrap()
                .time_for(50 * segments * 1_500);
            assert!(tail > least, "{tail:?} < {least:?}");
            assert!(
                tail < 3 * least + Duration::from_millis(10),
                "{controller:?}: {tail:?}"
            );
            assert_eq!(outcome.notices, []);
            // Ten segments are under way before the plane has said a word.
            let reports = *controller == plane && segments > 10;
            assert!(outcome.reports > 0 || !reports);
        }
    }
}
