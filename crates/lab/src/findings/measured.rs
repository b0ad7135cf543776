//! From what the lab measured of real TCP.

use super::{
    EdgeFinding, EdgeSample, Finding, FlowFinding, FlowSample, GroupFinding, Spread, jain,
};
use crate::results::{Percentiles, Results, RunResult};
use crate::scenario::{Point, World};

impl Finding {
    /// What a run of a point on real TCP found out: `results` has a run for each flow.
    #[must_use]
    pub fn of_experiment(point: &Point, results: &Results) -> Self {
        let sampled = point.config.measure.interval.is_some();
        let flows: Vec<FlowFinding> = results
            .runs
            .iter()
            .enumerate()
            .map(|(index, run)| flow(run, point.group_of(index), sampled))
            .collect();
        let throughputs: Vec<f64> = flows.iter().map(|flow| flow.throughput_bps).collect();
        let groups = point.groups.iter().map(|group| {
            let of = |index: &usize| group.flows.contains(index);
            let indices: Vec<usize> = (0..flows.len()).filter(of).collect();
            let throughputs: Vec<f64> = indices.iter().map(|index| throughputs[*index]).collect();
            GroupFinding {
                name: group.name.clone(),
                algorithm: group.sender.text().to_owned(),
                flows: group.flows.len(),
                throughput_bps: throughputs.iter().sum(),
                jain: jain(&throughputs),
                retransmissions: indices.iter().map(|i| flows[*i].retransmissions).sum(),
                timeouts: 0,
                marked: 0,
                unfinished: 0,
                requests: Vec::new(),
            }
        });
        let notices = results.runs.iter().filter_map(|run| {
            let disturbance = run.disturbance.as_ref()?;
            Some(format!(
                "{}: disturbed by the machine: {disturbance}",
                run.name
            ))
        });
        Finding {
            point: point.index,
            variables: point.variables.iter().cloned().collect(),
            seed: point.config.seed,
            world: World::Linux.name().to_owned(),
            measured_s: results.duration_s,
            jain: jain(&throughputs),
            groups: groups.collect(),
            edges: vec![bottleneck(point, results, sampled)],
            flows,
            notices: notices.collect(),
        }
    }
}

fn spread(percentiles_ms: Percentiles) -> Spread {
    Spread {
        p50: percentiles_ms.p50 * 1e3,
        p95: percentiles_ms.p95 * 1e3,
        ..Spread::default()
    }
}

fn flow(run: &RunResult, group: usize, sampled: bool) -> FlowFinding {
    // What passed the bottleneck when the sample was taken: a sender's own idea of its delivery
    // rate is of some time before.
    let link = &run.series.link;
    let width_s = link.first().map_or(1.0, |first| 2.0 * first.at_s);
    let passed = |at_s: f64| {
        let interval = link.get((at_s / width_s) as usize).or(link.last());
        interval.map_or(0.0, |interval| interval.throughput_bps)
    };
    let samples = run.series.tcp.iter().map(|sample| FlowSample {
        at_s: sample.at.as_secs_f64(),
        cwnd_bytes: sample.cwnd_bytes(),
        pacing_bps: sample.pacing_bps.unwrap_or(0),
        srtt_us: sample.srtt_us.into(),
        throughput_bps: passed(sample.at.as_secs_f64()),
    });
    FlowFinding {
        name: run.name.clone(),
        group,
        throughput_bps: run.throughput_bps,
        segments: 0,
        retransmissions: run.retransmissions,
        timeouts: 0,
        marked: 0,
        rtt_us: None,
        queueing_us: Some(spread(run.queueing_delay_ms)),
        samples: if sampled {
            samples.collect()
        } else {
            Vec::new()
        },
    }
}

fn bottleneck(point: &Point, results: &Results, sampled: bool) -> EdgeFinding {
    let runs = &results.runs;
    let from = point.config.flows.first().map(|flow| flow.from);
    let edges = point.config.edges.iter();
    let name = edges.clone().find(|edge| Some(edge.from) == from);
    let lengths = runs.iter().map(|run| run.series.link.len());
    let intervals = if sampled {
        lengths.min().unwrap_or(0)
    } else {
        0
    };
    let width_s = results.duration_s / intervals.max(1) as f64;
    let samples = (0..intervals).map(|index| {
        let of = || runs.iter().map(|run| &run.series.link[index]);
        let delays: Vec<f64> = of().filter_map(|link| link.queueing_delay_ms).collect();
        EdgeSample {
            at_s: (index + 1) as f64 * width_s,
            throughput_bps: of().map(|link| link.throughput_bps).sum(),
            queueing_us: (!delays.is_empty())
                .then(|| delays.iter().sum::<f64>() * 1e3 / delays.len() as f64),
            queued_bytes: 0,
            dropped: of().map(|link| link.dropped).sum(),
            marked: 0,
        }
    });
    EdgeFinding {
        name: name.map_or_else(|| "bottleneck".to_owned(), |edge| edge.name.clone()),
        throughput_bps: runs.iter().map(|run| run.throughput_bps).sum(),
        utilisation: runs.iter().map(|run| run.utilisation).sum(),
        packets: runs.iter().map(|run| run.packets).sum(),
        dropped: runs.iter().map(|run| run.dropped).sum(),
        lost: 0,
        marked: 0,
        queueing_us: match runs.as_slice() {
            [alone] => Some(spread(alone.queueing_delay_ms)),
            _ => None,
        },
        samples: samples.collect(),
    }
}
