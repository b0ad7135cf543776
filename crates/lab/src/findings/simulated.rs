//! From what a simulation found out.

use std::time::Duration;

use fairwater_net::Time;
use fairwater_sim::{EdgeOutcome, FlowOutcome, Outcome, Request};

use super::size_class::classes;
use super::{EdgeFinding, EdgeSample, Finding, FlowFinding, FlowSample, GroupFinding, jain};
use crate::scenario::{Point, World};

impl Finding {
    /// What the simulation of a point found out.
    #[must_use]
    pub fn of_simulation(point: &Point, outcome: &Outcome) -> Self {
        let config = &point.config;
        let measured = (Time::ZERO + config.duration).since(config.measure.from);
        let interval = config.measure.interval.unwrap_or(Duration::ZERO);
        let flows: Vec<FlowFinding> = config
            .flows
            .iter()
            .zip(&outcome.flows)
            .enumerate()
            .map(|(index, (config, outcome))| FlowFinding {
                name: config.name.clone(),
                group: point.group_of(index),
                ..flow(outcome, measured, interval)
            })
            .collect();
        let throughputs: Vec<f64> = flows.iter().map(|flow| flow.throughput_bps).collect();
        let groups = point.groups.iter().map(|group| {
            let throughputs = &throughputs[group.flows.clone()];
            let outcomes = &outcome.flows[group.flows.clone()];
            let sum = |of: fn(&FlowOutcome) -> u64| outcomes.iter().map(of).sum();
            let requests: Vec<Request> = outcomes
                .iter()
                .flat_map(|flow| flow.requests.iter().copied())
                .collect();
            GroupFinding {
                name: group.name.clone(),
                algorithm: group.sender.text().to_owned(),
                flows: group.flows.len(),
                throughput_bps: throughputs.iter().sum(),
                jain: jain(throughputs),
                retransmissions: sum(|flow| flow.retransmissions),
                timeouts: sum(|flow| flow.timeouts),
                marked: sum(|flow| flow.marked),
                unfinished: sum(|flow| flow.unfinished),
                requests: classes(&requests),
            }
        });
        let edges = config.edges.iter().zip(&outcome.edges);
        Finding {
            point: point.index,
            variables: point.variables.iter().cloned().collect(),
            seed: config.seed,
            world: World::Sim.name().to_owned(),
            measured_s: measured.as_secs_f64(),
            jain: jain(&throughputs),
            groups: groups.collect(),
            edges: edges
                .map(|(config, outcome)| EdgeFinding {
                    name: config.name.clone(),
                    ..edge(outcome, measured, interval)
                })
                .collect(),
            flows,
            notices: notices(outcome),
        }
    }
}

/// Bits per second of bytes in a time; 0 in none.
fn bps(bytes: u64, time: Duration) -> f64 {
    if time.is_zero() {
        0.0
    } else {
        bytes as f64 * 8.0 / time.as_secs_f64()
    }
}

fn flow(outcome: &FlowOutcome, measured: Duration, interval: Duration) -> FlowFinding {
    FlowFinding {
        name: String::new(),
        group: 0,
        throughput_bps: bps(outcome.delivered_bytes, measured),
        segments: outcome.segments,
        retransmissions: outcome.retransmissions,
        timeouts: outcome.timeouts,
        marked: outcome.marked,
        rtt_us: Some(outcome.rtt_us.into()),
        queueing_us: None,
        samples: outcome
            .samples
            .iter()
            .map(|sample| FlowSample {
                at_s: sample.at.as_secs_f64(),
                cwnd_bytes: sample.cwnd,
                pacing_bps: sample.rate.saturating_mul(8),
                srtt_us: sample.srtt_us,
                throughput_bps: bps(sample.delivered_bytes, interval),
            })
            .collect(),
    }
}

fn edge(outcome: &EdgeOutcome, measured: Duration, interval: Duration) -> EdgeFinding {
    EdgeFinding {
        name: String::new(),
        throughput_bps: bps(outcome.bytes, measured),
        utilisation: outcome.utilisation,
        packets: outcome.packets,
        dropped: outcome.dropped,
        lost: outcome.lost,
        marked: outcome.marked,
        queueing_us: Some(outcome.queueing_us.into()),
        samples: outcome
            .samples
            .iter()
            .map(|sample| EdgeSample {
                at_s: sample.at.as_secs_f64(),
                throughput_bps: bps(sample.bytes, interval),
                queueing_us: sample.queueing_us,
                queued_bytes: sample.queued_bytes,
                dropped: sample.dropped,
                marked: sample.marked,
            })
            .collect(),
    }
}

/// Notices of one run that are kept.
const MAX_NOTICES: usize = 20;

fn notices(outcome: &Outcome) -> Vec<String> {
    let more = outcome.notices.len().saturating_sub(MAX_NOTICES);
    let mut notices: Vec<String> = outcome
        .notices
        .iter()
        .take(MAX_NOTICES)
        .map(|(at, text)| format!("{:.6} s: {text}", at.as_secs_f64()))
        .collect();
    if more > 0 {
        notices.push(format!("and {more} more"));
    }
    notices
}
