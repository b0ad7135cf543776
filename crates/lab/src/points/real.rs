//! The result of a point that ran on real TCP.

use std::sync::atomic::AtomicBool;

use fairwater_experiment::{Backend, Progress};
use fairwater_net::Time;
use fairwater_results::{
    ControllerProbe, EdgeResult, EdgeSample, FlowResult, FlowSample, GroupResult, PointResult,
    RunResult, Spread, TrafficProgram, jain,
};
use fairwater_scenario::{Point, Sender};
use fairwater_testbed::{EdgeAttacher, KernelSender, Measured, Run};

use crate::error::LabError;

/// Checks whether a point can run on real TCP, before anything is attached or started.
/// `sender` says how the kernel has a group's sender, `edge` puts boxes at guests' ports.
///
/// # Errors
/// What would keep it from running.
pub fn check_real(
    point: &Point,
    sender: impl Fn(&Sender) -> KernelSender,
    edge: Option<&dyn EdgeAttacher>,
) -> Result<(), LabError> {
    let run = Run {
        edge,
        ..run_of(point, sender)
    };
    Ok(run.check()?)
}

/// Runs a point on real TCP: all flows together on the link, by the test bed's own bulk sender.
/// `controllers` samples who controls flows of hosted algorithms, `edge` puts boxes at guests' ports.
///
/// # Errors
/// What kept it from running, or [`LabError::Cancelled`].
pub fn run_real(
    point: &Point,
    sender: impl Fn(&Sender) -> KernelSender,
    controllers: Option<ControllerProbe>,
    edge: Option<&dyn EdgeAttacher>,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<PointResult, LabError> {
    let run = Run {
        controllers,
        edge,
        ..run_of(point, sender)
    };
    let measured = run.run(cancel, progress)?;
    Ok(result(point, &measured))
}

/// Maximum attempts for a run disturbed by other load.
const TRIES: u32 = 3;

fn run_of(point: &Point, sender: impl Fn(&Sender) -> KernelSender) -> Run<'_> {
    let senders = point.groups.iter().flat_map(|group| {
        let sender = sender(&group.sender);
        group.flows.clone().map(move |_| sender.clone())
    });
    Run {
        experiment: &point.experiment,
        senders: senders.collect(),
        program: TrafficProgram::Bulk,
        ipv6: false,
        tries: TRIES,
        controllers: None,
        edge: None,
        user_plane: None,
        quic: None,
    }
}

fn result(point: &Point, measured: &Measured) -> PointResult {
    let experiment = &point.experiment;
    let begin_s = experiment.measure.from.as_secs_f64();
    let measured_s = experiment.duration.as_secs_f64() - begin_s;
    let sampled = experiment.measure.interval.is_some();
    let flows: Vec<FlowResult> = measured
        .flows
        .iter()
        .enumerate()
        .map(|(index, run)| flow(run, point.group_of(index), sampled, begin_s, measured_s))
        .collect();
    let throughputs: Vec<f64> = flows.iter().map(|flow| flow.throughput_bps).collect();
    let groups = point.groups.iter().map(|group| {
        let of = &flows[group.flows.clone()];
        let throughputs = &throughputs[group.flows.clone()];
        GroupResult {
            name: group.name.clone(),
            algorithm: group.sender.text().to_owned(),
            flows: group.flows.len(),
            throughput_bps: throughputs.iter().sum(),
            jain: jain(throughputs),
            retransmissions: of.iter().map(|flow| flow.retransmissions).sum(),
            timeouts: 0,
            marked: of.iter().map(|flow| flow.marked).sum(),
            unfinished: 0,
            requests: Vec::new(),
            completions: Vec::new(),
        }
    });
    let notices = measured.flows.iter().filter_map(|run| {
        let disturbance = run.disturbance.as_ref()?;
        Some(format!(
            "{}: disturbed by the machine: {disturbance}",
            run.name
        ))
    });
    PointResult {
        point: point.index,
        variables: point.variables.iter().cloned().collect(),
        seed: experiment.seed,
        backend: Backend::Linux.name().to_owned(),
        measured_s,
        jain: jain(&throughputs),
        groups: groups.collect(),
        edges: vec![bottleneck(point, measured, sampled, begin_s, measured_s)],
        disturbed: measured.flows.iter().any(|run| run.disturbed),
        notices: notices.collect(),
        flows,
    }
}

fn flow(run: &RunResult, group: usize, sampled: bool, begin_s: f64, measured_s: f64) -> FlowResult {
    // What passed the bottleneck when the sample was taken: a sender's own idea of its delivery
    // rate is of some time before.
    let link = &run.series.link;
    let width_s = measured_s / link.len().max(1) as f64;
    let passed = |at_s: f64| {
        let interval = link.get(((at_s - begin_s) / width_s).max(0.0) as usize);
        interval
            .or(link.last())
            .map_or(0.0, |interval| interval.throughput_bps)
    };
    let begin = Time::from_nanos((begin_s * 1e9) as u64);
    let within = || run.series.tcp.iter().filter(|sample| sample.at >= begin);
    let samples = within().map(|sample| FlowSample {
        at_s: sample.at.as_secs_f64(),
        cwnd_bytes: sample.cwnd_bytes(),
        ssthresh_bytes: sample.ssthresh_bytes(),
        state: sample.state,
        pacing_bps: sample.pacing_bps.unwrap_or(0),
        srtt_us: sample.srtt_us.into(),
        throughput_bps: passed(sample.at.as_secs_f64()),
    });
    let rtts: Vec<f64> = within()
        .filter(|sample| sample.srtt_us > 0)
        .map(|sample| sample.srtt_us.into())
        .collect();
    FlowResult {
        name: run.name.clone(),
        group,
        throughput_bps: run.throughput_bps,
        segments: 0,
        retransmissions: run.retransmissions,
        timeouts: 0,
        marked: run.marked,
        fallback: run.fallback.clone(),
        rtt_us: (!rtts.is_empty()).then(|| Spread::of(rtts)),
        queueing_us: (run.packets > 0).then(|| Spread {
            p50: run.queueing_delay_ms.p50 * 1e3,
            p95: run.queueing_delay_ms.p95 * 1e3,
            ..Spread::default()
        }),
        samples: match sampled {
            true => samples.collect(),
            false => Vec::new(),
        },
    }
}

fn bottleneck(
    point: &Point,
    measured: &Measured,
    sampled: bool,
    begin_s: f64,
    measured_s: f64,
) -> EdgeResult {
    let all = &measured.bottleneck;
    let from = point.experiment.flows.first().map(|flow| flow.from);
    let mut edges = point.experiment.edges.iter();
    let name = edges.find(|edge| Some(edge.from) == from);
    let width_s = measured_s / all.intervals.len().max(1) as f64;
    let samples = all.intervals.iter().map(|interval| EdgeSample {
        at_s: begin_s + interval.at_s + width_s / 2.0,
        throughput_bps: interval.throughput_bps,
        queueing_us: interval.queueing_delay_ms.map(|ms| ms * 1e3),
        queued_bytes: 0,
        dropped: interval.dropped,
        marked: 0,
    });
    EdgeResult {
        name: name.map_or_else(|| "bottleneck".to_owned(), |edge| edge.name.clone()),
        throughput_bps: all.throughput_bps,
        utilisation: all.utilisation,
        packets: all.packets,
        dropped: all.dropped,
        lost: all.lost,
        marked: all.marked,
        queueing_us: (all.packets > 0).then_some(all.queueing_us),
        samples: match sampled {
            true => samples.collect(),
            false => Vec::new(),
        },
        bundles: Vec::new(),
    }
}
