//! What a simulation will take, estimated before it begins.

use std::time::Duration;

use fairwater_net::Time;

use crate::routes::Finder;
use crate::{Controller, EdgeId, Experiment, FlowConfig, Path, Traffic};

/// Most turns of applications (phases of on/off traffic, requests, writes) that a simulation may
/// have; they take some minutes.
pub const MAX_TURNS: f64 = 1e9;

/// Most memory that a simulation may take by its estimate, bytes.
pub const MAX_MEMORY_BYTES: f64 = 4e9;

/// Memory of a flow with one open connection, bytes: measured at 10,000 flows.
const FLOW_BYTES: f64 = 32.0 * 1024.0;

/// Memory of a sending host's datapath with one flow of the plane's, bytes: measured likewise.
const DATAPATH_BYTES: f64 = 36.0 * 1024.0;

/// Memory of a connection that waits to be served, bytes.
const CONNECTION_BYTES: f64 = 8.0 * 1024.0;

/// Samples that all flows and edges have together.
pub(crate) fn samples(config: &Experiment) -> u128 {
    let interval_ns = config.measure.interval.map_or(0, |i| i.as_nanos());
    let of_each = config.duration.as_nanos().checked_div(interval_ns);
    let sampled = config.flows.len() + config.edges.len() + config.bundles.len();
    of_each.unwrap_or(0).saturating_mul(sampled as u128)
}

/// What a simulation will take.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Estimate {
    /// Turns of applications.
    pub(crate) turns: f64,
    /// Memory, bytes.
    pub(crate) memory_bytes: f64,
}

impl Estimate {
    /// Flows that have no path count as if nothing held them up.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub(crate) fn new(config: &Experiment, finder: &mut Finder<'_>) -> Self {
        let paths: Vec<_> = config.flows.iter().map(|flow| path(flow, finder)).collect();
        let unserved = unserved(config, &paths);
        let mut turns = 0.0;
        let mut requests = 0.0;
        let mut waiting = 0.0;
        let mut open = 0.0;
        for (flow, path) in config.flows.iter().zip(&paths) {
            let of_flow = turns_of(config, flow, path);
            turns += of_flow;
            if let Traffic::Requests { .. } = flow.traffic {
                let share = path.iter().map(|edge| unserved[edge.0 as usize]);
                waiting += of_flow * share.fold(0.0, f64::max);
            }
            match flow.traffic {
                Traffic::Requests { .. } | Traffic::PingPong { .. } | Traffic::Echo { .. } => {
                    requests += of_flow;
                }
                Traffic::Pool { connections, .. } => {
                    requests += of_flow;
                    open += f64::from(connections);
                }
                _ => {}
            }
        }
        let flows = config.flows.iter();
        let mut hosts: Vec<_> = flows
            .filter(|flow| matches!(flow.controller, Controller::Plane(_)) || flow.edge.is_some())
            .map(|flow| (flow.from, flow.edge.is_some()))
            .collect();
        hosts.sort_unstable();
        hosts.dedup();
        let samples = samples(config) as f64 * size_of::<crate::Sample>() as f64;
        let memory_bytes = config.flows.len() as f64 * FLOW_BYTES
            + (hosts.len() + config.bundles.len()) as f64 * DATAPATH_BYTES
            + (waiting + open) * CONNECTION_BYTES
            + requests * size_of::<crate::Request>() as f64
            + samples;
        Estimate {
            turns,
            memory_bytes,
        }
    }
}

/// The edges of a flow's path; of several, the first.
fn path(flow: &FlowConfig, finder: &mut Finder<'_>) -> Vec<EdgeId> {
    match &flow.path {
        Path::Shortest => finder.shortest(flow.from, flow.to).unwrap_or_default(),
        Path::Along { forward, .. } => forward.first().cloned().unwrap_or_default(),
    }
}

/// By edge: the share of the bytes that requests ask for over it and it cannot carry.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn unserved(config: &Experiment, paths: &[Vec<EdgeId>]) -> Vec<f64> {
    let mut offered = vec![0.0; config.edges.len()];
    for (flow, path) in config.flows.iter().zip(paths) {
        if let Traffic::Requests { load, .. } | Traffic::Pool { load, .. } = flow.traffic {
            for edge in path {
                if let Some(offered) = offered.get_mut(edge.0 as usize) {
                    *offered += load;
                }
            }
        }
    }
    let share = |(offered, edge): (f64, &crate::Edge)| {
        let rate = edge.link.capacity.nominal_rate();
        let carried = rate.map_or(f64::INFINITY, |rate| rate.bps() as f64 / 8.0);
        (1.0 - carried / offered).max(0.0)
    };
    offered.into_iter().zip(&config.edges).map(share).collect()
}

/// Turns that the application of a flow takes.
#[expect(clippy::cast_precision_loss, reason = "an estimate")]
fn turns_of(config: &Experiment, flow: &FlowConfig, path: &[EdgeId]) -> f64 {
    let end = Time::ZERO + config.duration;
    let stop = flow.stop.unwrap_or(end).min(end);
    let active_s = stop.since(flow.start).as_secs_f64();
    match &flow.traffic {
        Traffic::Bulk | Traffic::Bytes(_) => 1.0,
        Traffic::OnOff { on, off } => {
            2.0 * active_s / on.saturating_add(*off).as_secs_f64().max(1e-9)
        }
        Traffic::Limited { rate } => {
            let chunk = u64::from(flow.tcp.mss).max(rate / 1_000).max(1);
            active_s * *rate as f64 / chunk as f64
        }
        Traffic::Requests { sizes, load } | Traffic::Pool { sizes, load, .. } => {
            active_s * load / sizes.mean().max(1.0)
        }
        Traffic::ConstantRate { rate, packet_bytes } => {
            active_s * *rate as f64 / f64::from(*packet_bytes).max(1.0)
        }
        Traffic::PingPong { think, count, .. } | Traffic::Echo { think, count, .. } => {
            let edges = path
                .iter()
                .filter_map(|edge| config.edges.get(edge.0 as usize));
            let delay: Duration = edges.map(|edge| edge.link.delay).sum();
            let each_s = delay.saturating_add(*think).as_secs_f64().max(1e-6);
            let most = count.map_or(f64::INFINITY, |count| count as f64);
            (active_s / each_s).min(most)
        }
    }
}
