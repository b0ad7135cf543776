//! The network that is simulated: bulk flows over one bottleneck, three hops there and three back.

use std::time::Duration;

use fairwater_net::{Capacity, Limit, LinkConfig, QueueConfig, Rate, Time};
use fairwater_sim::{
    Controller, Edge, Experiment, FlowConfig, Measure, NodeId, Path, PlaneConfig, TcpConfig,
    Traffic,
};

/// Each flow is from a host of its own over two routers to a host of its own. Hosts' links have
/// ten times the bottleneck's rate, no delay, and room for everything.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dumbbell {
    pub(super) name: &'static str,
    pub(super) flows: u32,
    /// The bottleneck's rate.
    pub(super) mbit: u64,
    /// Virtual time.
    pub(super) seconds: f64,
    /// Flows begin within this time, drawn evenly.
    pub(super) start_jitter: Duration,
}

/// How many times the bottleneck's rate the hosts' links have.
pub(super) const ACCESS: u64 = 10;
/// One way over the bottleneck.
pub(super) const DELAY: Duration = Duration::from_millis(10);

impl Dumbbell {
    /// Packets of 1500 bytes that wait at the bottleneck at most: one bandwidth-delay product.
    pub(super) const fn buffer_packets(&self) -> u64 {
        let bdp_bytes = self.mbit * 1_000_000 / 8 * 2 * DELAY.as_millis() as u64 / 1_000;
        bdp_bytes.div_ceil(1_500)
    }

    pub(super) fn config(&self, controller: &Controller) -> Experiment {
        let buffer = Limit::Packets(self.buffer_packets());
        let wire = |mbit: u64, limit, delay| {
            let rate = Rate::from_bps(mbit * 1_000_000);
            let capacity = rate.map_or(Capacity::Unlimited, Capacity::Rate);
            LinkConfig::new(capacity, QueueConfig::DropTail(limit), delay)
        };
        let edge = |from, to, link| Edge {
            name: format!("{from}-{to}"),
            from: NodeId(from),
            to: NodeId(to),
            link,
        };
        let mut edges = vec![
            edge(0, 1, wire(self.mbit, buffer, DELAY)),
            edge(1, 0, wire(self.mbit, buffer, DELAY)),
        ];
        let mut flows = Vec::new();
        for index in 0..self.flows {
            let (from, to) = (2 + 2 * index, 3 + 2 * index);
            for (a, b) in [(from, 0), (0, from), (1, to), (to, 1)] {
                let access = wire(ACCESS * self.mbit, Limit::Unlimited, Duration::ZERO);
                edges.push(edge(a, b, access));
            }
            flows.push(FlowConfig {
                name: format!("flow {index}"),
                from: NodeId(from),
                to: NodeId(to),
                path: Path::Shortest,
                controller: controller.clone(),
                traffic: Traffic::Bulk,
                start: Time::ZERO,
                start_jitter: self.start_jitter,
                stop: None,
                priority: 0,
                tag: 0,
                bundle: None,
                edge: None,
                tcp: TcpConfig::default(),
            });
        }
        Experiment {
            seed: 1,
            duration: Duration::from_secs_f64(self.seconds),
            nodes: 2 + 2 * self.flows,
            edges,
            flows,
            bundles: Vec::new(),
            plane: PlaneConfig::default(),
            measure: Measure::default(),
        }
    }
}
