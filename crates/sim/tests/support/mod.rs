//! Networks that the tests run.

use std::time::Duration;

use fairwater_net::{
    Capacity, Limit, LinkConfig, LossConfig, Probability, QueueConfig, Rate, Time,
};
use fairwater_plane::Plane;
use fairwater_sim::{
    Controller, Edge, Experiment, FlowConfig, Measure, Native, NodeId, Outcome, Path, PlaneConfig,
    TcpConfig, Traffic,
};

/// Senders, a bottleneck, receivers: a host of its own for each end of each flow.
#[derive(Debug, Clone)]
pub(crate) struct Dumbbell {
    pub(crate) mbit: u64,
    /// Round trip without queues.
    pub(crate) rtt: Duration,
    /// Of the bottleneck's queue.
    pub(crate) limit: Limit,
    /// Parts in a thousand of the packets to the receivers that are lost.
    pub(crate) loss_per_mille: u32,
    pub(crate) seconds: f64,
    pub(crate) flows: Vec<FlowConfig>,
}

/// The edge to the receivers' router.
pub(crate) const BOTTLENECK: usize = 0;

impl Dumbbell {
    /// A buffer of one bandwidth-delay product.
    pub(crate) fn new(mbit: u64, rtt_ms: u64, seconds: f64) -> Self {
        let rtt = Duration::from_millis(rtt_ms);
        Self {
            mbit,
            rtt,
            limit: Limit::Bytes(rate(mbit).bytes_in(rtt)),
            loss_per_mille: 0,
            seconds,
            flows: Vec::new(),
        }
    }

    pub(crate) fn flow(mut self, controller: Controller, traffic: Traffic) -> Self {
        let index = self.flows.len();
        self.flows.push(FlowConfig {
            name: format!("flow {index}"),
            from: NodeId(0),
            to: NodeId(0),
            path: Path::Shortest,
            controller,
            traffic,
            start: Time::ZERO,
            start_jitter: Duration::ZERO,
            stop: None,
            priority: 0,
            tag: 0,
            bundle: None,
            edge: None,
            tcp: TcpConfig::default(),
        });
        self
    }

    pub(crate) fn native(self, native: Native) -> Self {
        self.flow(Controller::Native(native), Traffic::Bulk)
    }

    pub(crate) fn plane(self, algorithm: &str) -> Self {
        self.flow(Controller::Plane(algorithm.to_owned()), Traffic::Bulk)
    }

    /// Nodes 0 and 1 are the routers; flow i is from node 2 + 2 i to the node after it.
    pub(crate) fn config(&self, seed: u64) -> Experiment {
        let mut forward = link(Capacity::Rate(rate(self.mbit)), self.rtt / 2);
        forward.queue = QueueConfig::DropTail(self.limit);
        if let Some(loss) = Probability::from_ppb(self.loss_per_mille * 1_000_000) {
            forward.loss = LossConfig::Random(loss);
        }
        let back = link(Capacity::Unlimited, self.rtt / 2);
        let mut edges = vec![edge("bottleneck", 0, 1, forward), edge("back", 1, 0, back)];
        let mut flows = self.flows.clone();
        for (flow, index) in flows.iter_mut().zip(0..) {
            let (from, to) = (2 + 2 * index, 3 + 2 * index);
            (flow.from, flow.to) = (NodeId(from), NodeId(to));
            for (a, b) in [(from, 0), (0, from), (1, to), (to, 1)] {
                let name = format!("{a}-{b}");
                edges.push(edge(&name, a, b, link(Capacity::Unlimited, Duration::ZERO)));
            }
        }
        Experiment {
            seed,
            duration: Duration::from_secs_f64(self.seconds),
            nodes: 2 + 2 * u32::try_from(flows.len()).unwrap(),
            edges,
            flows,
            bundles: Vec::new(),
            plane: PlaneConfig::default(),
            measure: Measure::default(),
        }
    }

    /// Counted from that share of the duration on.
    pub(crate) fn warm_config(&self, seed: u64, warm: f64) -> Experiment {
        let mut config = self.config(seed);
        config.measure.from = Time::ZERO + config.duration.mul_f64(warm);
        config
    }
}

pub(crate) fn rate(mbit: u64) -> Rate {
    Rate::from_bps(mbit * 1_000_000).unwrap()
}

pub(crate) fn link(capacity: Capacity, delay: Duration) -> LinkConfig {
    LinkConfig::new(capacity, QueueConfig::DropTail(Limit::Unlimited), delay)
}

pub(crate) fn edge(name: &str, from: u32, to: u32, link: LinkConfig) -> Edge {
    Edge {
        name: name.to_owned(),
        from: NodeId(from),
        to: NodeId(to),
        link,
    }
}

/// A plane with these algorithms, by their specifications.
pub(crate) fn plane(algorithms: &[&str]) -> Plane {
    let mut plane = Plane::new();
    for spec in algorithms {
        let choice = fairwater_algorithms::by_spec(spec).unwrap();
        plane.add(|programs| choice.build(programs)).unwrap();
    }
    plane
}

/// Jain's index of fairness.
pub(crate) fn jain(outcome: &Outcome) -> f64 {
    let rates = outcome.flows.iter().map(|flow| flow.delivered_bytes as f64);
    let (sum, squares) = rates.fold((0.0, 0.0), |(s, q), rate| (s + rate, q + rate * rate));
    sum * sum / (squares * outcome.flows.len() as f64)
}
