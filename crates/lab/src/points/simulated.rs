//! The result of a point that was simulated.

use std::time::Duration;

use fairwater_experiment::{Backend, Controller, Experiment};
use fairwater_net::Time;
use fairwater_results::{
    BundleResult, BundleSample, CongestionState, EdgeResult, EdgeSample, Fallback, FallbackCause,
    FlowResult, FlowSample, GroupResult, PointResult, RequestResult, Spread, classes, jain,
};
use fairwater_scenario::Point;
use fairwater_sim::{BundleOutcome, EdgeOutcome, FlowOutcome, Outcome, Quantiles, Request};
use fairwater_tcp::State;

/// The result of a point that was simulated.
#[must_use]
pub fn simulated(point: &Point, outcome: &Outcome) -> PointResult {
    let config = &point.experiment;
    let measured = (Time::ZERO + config.duration).since(config.measure.from);
    let interval = config.measure.interval.unwrap_or(Duration::ZERO);
    let mut flows: Vec<FlowResult> = config
        .flows
        .iter()
        .zip(&outcome.flows)
        .enumerate()
        .map(|(index, (config, outcome))| FlowResult {
            name: config.name.clone(),
            group: point.group_of(index),
            ..flow(outcome, measured, interval)
        })
        .collect();
    for (flow, config) in flows.iter_mut().zip(&config.flows) {
        if let (Some(fallback), Controller::Plane(algorithm)) =
            (&mut flow.fallback, &config.controller)
        {
            fallback.explain(
                algorithm,
                "",
                outcome.notices.iter().map(|(_, text)| text.as_str()),
            );
        }
    }
    let throughputs: Vec<f64> = flows.iter().map(|flow| flow.throughput_bps).collect();
    let groups = point.groups.iter().map(|group| {
        let throughputs = &throughputs[group.flows.clone()];
        let outcomes = &outcome.flows[group.flows.clone()];
        let sum = |of: fn(&FlowOutcome) -> u64| outcomes.iter().map(of).sum();
        let requests: Vec<RequestResult> = outcomes
            .iter()
            .flat_map(|flow| flow.requests.iter().map(request))
            .collect();
        GroupResult {
            name: group.name.clone(),
            algorithm: group.sender.text().to_owned(),
            flows: group.flows.len(),
            throughput_bps: throughputs.iter().sum(),
            jain: jain(throughputs),
            retransmissions: sum(|flow| flow.retransmissions),
            timeouts: sum(|flow| flow.timeouts),
            marked: sum(|flow| flow.marked),
            unfinished: sum(|flow| flow.unfinished),
            requests: classes(&requests, &config.measure.size_classes),
            completions: match config.measure.requests {
                true => requests,
                false => Vec::new(),
            },
        }
    });
    let edges = config.edges.iter().zip(&outcome.edges);
    PointResult {
        point: point.index,
        variables: point.variables.iter().cloned().collect(),
        seed: config.seed,
        backend: Backend::Sim.name().to_owned(),
        measured_s: measured.as_secs_f64(),
        jain: jain(&throughputs),
        groups: groups.collect(),
        edges: edges
            .map(|(config, outcome)| EdgeResult {
                name: config.name.clone(),
                ..edge(outcome, measured, interval)
            })
            .chain(outcome.sendboxes.iter().map(|sendbox| EdgeResult {
                name: format!("sendbox of {}", sendbox.bundle),
                ..edge(&sendbox.queue, measured, interval)
            }))
            .collect(),
        flows,
        disturbed: false,
        notices: sparse_samples(config)
            .into_iter()
            .chain(notices(outcome))
            .collect(),
    }
}

/// A simulated flow's time under the fallback. A plane is only silent in the simulator where the
/// scenario says so.
pub(crate) fn fallback(fallback: fairwater_sim::Fallback) -> Fallback {
    let cause = match fallback.is_for_good {
        true => FallbackCause::Failed,
        false => FallbackCause::Outage,
    };
    Fallback {
        share: fallback.share,
        cause,
        reason: cause.text().to_owned(),
    }
}

/// A simulated sender's state.
pub(crate) fn congestion_state(state: State) -> CongestionState {
    match state {
        State::Open => CongestionState::Open,
        State::Disorder => CongestionState::Disorder,
        State::Cwr => CongestionState::Cwr,
        State::Recovery => CongestionState::Recovery,
        State::Loss => CongestionState::Loss,
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

fn flow(outcome: &FlowOutcome, measured: Duration, interval: Duration) -> FlowResult {
    FlowResult {
        name: String::new(),
        group: 0,
        throughput_bps: bps(outcome.delivered_bytes, measured),
        segments: outcome.segments,
        retransmissions: outcome.retransmissions,
        timeouts: outcome.timeouts,
        marked: outcome.marked,
        fallback: outcome.fallback.map(fallback),
        rtt_us: outcome.rtt_us.map(spread),
        queueing_us: None,
        samples: outcome
            .samples
            .iter()
            .map(|sample| FlowSample {
                at_s: sample.at.as_secs_f64(),
                cwnd_bytes: sample.cwnd,
                ssthresh_bytes: sample.ssthresh,
                state: sample.state.map(congestion_state),
                pacing_bps: sample.rate.saturating_mul(8),
                srtt_us: sample.srtt_us,
                throughput_bps: bps(sample.delivered_bytes, interval),
            })
            .collect(),
    }
}

fn edge(outcome: &EdgeOutcome, measured: Duration, interval: Duration) -> EdgeResult {
    EdgeResult {
        name: String::new(),
        throughput_bps: bps(outcome.bytes, measured),
        utilisation: outcome.utilisation,
        packets: outcome.packets,
        dropped: outcome.dropped,
        lost: outcome.lost,
        marked: outcome.marked,
        queueing_us: outcome.queueing_us.map(spread),
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
        bundles: outcome
            .bundles
            .iter()
            .map(|outcome| bundle(outcome, measured, interval))
            .collect(),
    }
}

fn bundle(outcome: &BundleOutcome, measured: Duration, interval: Duration) -> BundleResult {
    BundleResult {
        bundle: outcome.bundle.clone(),
        throughput_bps: bps(outcome.bytes, measured),
        packets: outcome.packets,
        dropped: outcome.dropped,
        queueing_us: outcome.queueing_us.map(spread),
        samples: outcome
            .samples
            .iter()
            .map(|sample| BundleSample {
                at_s: sample.at.as_secs_f64(),
                arrived_bps: bps(sample.arrived_bytes, interval),
                throughput_bps: bps(sample.bytes, interval),
                queueing_us: sample.queueing_us,
                queued_bytes: sample.queued_bytes,
                dropped: sample.dropped,
            })
            .collect(),
    }
}

fn spread(quantiles: Quantiles) -> Spread {
    Spread {
        min: Some(quantiles.min),
        mean: Some(quantiles.mean),
        p50: quantiles.p50,
        p95: quantiles.p95,
        p99: Some(quantiles.p99),
        max: None,
    }
}

fn request(request: &Request) -> RequestResult {
    let us = |time: Duration| time.as_nanos() as f64 / 1e3;
    RequestResult {
        start_s: request.start.as_secs_f64(),
        bytes: request.bytes,
        fct_us: us(request.took),
        ideal_us: us(request.ideal),
    }
}

/// Says that flows share the samples of a few, and so have fewer than usual.
fn sparse_samples(experiment: &Experiment) -> Option<String> {
    let interval = experiment.measure.interval?;
    let sampled = experiment.flows.len() + experiment.edges.len();
    let is_shared = interval == experiment.sample_interval(u32::MAX);
    is_shared.then(|| {
        format!(
            "{sampled} flows and links are sampled each {interval:?} only; `[measure] interval` \
             sets another interval"
        )
    })
}

/// Notices of one run that are kept.
const MAX_NOTICES: usize = 20;

fn notices(outcome: &Outcome) -> Vec<String> {
    let changes = outcome
        .sendboxes
        .iter()
        .flat_map(|sendbox| &sendbox.changes);
    let all: Vec<_> = outcome.notices.iter().chain(changes).collect();
    let more = all.len().saturating_sub(MAX_NOTICES);
    let mut notices: Vec<String> = all
        .iter()
        .take(MAX_NOTICES)
        .map(|(at, text)| format!("{:.6} s: {text}", at.as_secs_f64()))
        .collect();
    if more > 0 {
        notices.push(format!("and {more} more"));
    }
    for (node, done) in &outcome.boxes {
        if done.switches > 0 {
            let times = done.switches;
            notices.push(format!(
                "selectors of host {} switched {times} times",
                node.0
            ));
        }
        if done.early_acks > 0 || done.altered_packets > 0 {
            let (early, altered) = (done.early_acks, done.altered_packets);
            let what = format!("a defect: {early} ACKs came early, {altered} packets were altered");
            notices.push(format!("the box of host {}: {what}", node.0));
        }
    }
    notices
}
