//! Comparisons over QUIC: noq connections on the same link, in virtual time, with the same measures.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fairwater_experiment::{Backend, Progress, TICK};
use fairwater_net::{Capacity, Time};
use fairwater_quic::virtual_time::{FlowOutcome, VirtualError, VirtualFlow, VirtualRun};
use fairwater_quic::{Algorithm, Options};
use fairwater_results::{
    AtBottleneck, PacketLog, PacketRecord, Results, RunResult, Series, SocketSample, Window,
};
use noq_proto::congestion::{ControllerFactory, CubicConfig, NewRenoConfig};

use crate::comparison::{Candidate, Comparison};
use crate::error::LabError;

/// What controls a QUIC connection.
#[derive(Clone)]
pub enum QuicController {
    /// An algorithm in a plane, in lockstep with the connection.
    Plane(Algorithm),
    /// noq's own Cubic.
    Cubic,
    /// noq's own NewReno.
    NewReno,
}

impl QuicController {
    fn name(&self) -> String {
        match self {
            Self::Plane(algorithm) => algorithm.name().to_owned(),
            Self::Cubic => "noq:cubic".to_owned(),
            Self::NewReno => "noq:reno".to_owned(),
        }
    }

    fn controllers(
        &self,
        start: Instant,
    ) -> Result<Arc<dyn ControllerFactory + Send + Sync>, LabError> {
        Ok(match self {
            Self::Plane(algorithm) => {
                let options = Options::default().lockstep(start);
                let options = options.algorithm(algorithm.clone());
                options.noq(algorithm.name())?
            }
            Self::Cubic => Arc::new(CubicConfig::default()),
            Self::NewReno => Arc::new(NewRenoConfig::default()),
        })
    }
}

/// Simulated beyond the duration, for the handshake and what is on its way in the end.
const SPARE_RTTS: u32 = 6;
const SPARE: Duration = Duration::from_millis(10);

/// Runs a comparison over QUIC; `progress` hears at most ten times a second how far it is. Setting
/// `cancel` ends it soon.
///
/// # Errors
/// What kept it from running, or [`LabError::Cancelled`].
pub fn over_quic(
    comparison: &Comparison<QuicController>,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Results, LabError> {
    let capacity = comparison.check_description()?;
    if comparison.ipv6 {
        return Err(LabError::SimulatedIpv6);
    }
    let groups = comparison.groups();
    let mut runs = Vec::with_capacity(comparison.candidates.len());
    for (number, group) in groups.iter().enumerate() {
        let mut now = Progress {
            run: number,
            runs: groups.len(),
            attempt: 1,
            elapsed: Duration::ZERO,
            duration: comparison.duration,
            flows: Vec::new(),
        };
        progress(&now);
        let mut told = Instant::now();
        let mut observe = |at: Time| {
            if cancel.load(Ordering::Relaxed) {
                return ControlFlow::Break(());
            }
            if told.elapsed() >= TICK {
                told = Instant::now();
                now.elapsed = at.since(Time::ZERO).min(now.duration);
                progress(&now);
            }
            ControlFlow::Continue(())
        };
        let run = virtual_run(comparison, group)?;
        let outcomes = run.run_over(&capacity, &mut observe)?;
        runs.extend(measure(comparison, group, &outcomes, &capacity));
    }
    Ok(Results {
        link: comparison.link.to_string(),
        on: Backend::Sim,
        duration_s: comparison.duration.as_secs_f64(),
        together: comparison.together,
        ipv6: false,
        traffic: None,
        kernel: None,
        runs,
    })
}

fn virtual_run(
    comparison: &Comparison<QuicController>,
    group: &[Candidate<QuicController>],
) -> Result<VirtualRun, LabError> {
    let start = Instant::now();
    // Flows that begin at the same moment would stay in step.
    let apart = comparison.link.rtt / u32::try_from(group.len().max(1)).unwrap_or(1);
    let mut flows = Vec::with_capacity(group.len());
    for (candidate, number) in group.iter().zip(0..) {
        flows.push(VirtualFlow {
            controllers: candidate.congestion_control.controllers(start)?,
            start: apart * number,
            bytes: None,
        });
    }
    Ok(VirtualRun {
        link: comparison.link.clone(),
        duration: comparison.duration + comparison.link.rtt * SPARE_RTTS + SPARE,
        seed: comparison.link.seed,
        start,
        flows,
    })
}

fn measure(
    comparison: &Comparison<QuicController>,
    group: &[Candidate<QuicController>],
    outcomes: &[FlowOutcome],
    capacity: &Capacity,
) -> Vec<RunResult> {
    let log = packet_log(outcomes);
    let from = log.first_data(outcomes.len());
    let window = Window {
        from,
        to: from + comparison.duration,
    };
    let flows = group.iter().zip(outcomes).zip(0..);
    flows
        .map(|((candidate, outcome), index)| {
            let at_link = AtBottleneck::of_flow(&log, index, window, capacity);
            let congestion_control = candidate.congestion_control.name();
            RunResult {
                name: candidate.label.clone(),
                throughput_bps: at_link.throughput_bps,
                utilisation: at_link.utilisation,
                queueing_delay_ms: at_link.queueing_delay_ms(),
                loss: at_link.loss,
                packets: at_link.packets,
                dropped: at_link.dropped + at_link.lost,
                marked: at_link.marked,
                // QUIC sends data again, never packets.
                retransmissions: 0,
                cpu_seconds: None,
                emulator_cpu_seconds: None,
                fallback: None,
                disturbed: false,
                disturbance: None,
                tries: 1,
                steal: None,
                lateness_ms: None,
                real_time: None,
                series: Series {
                    tcp: samples(comparison, outcome, &congestion_control, window),
                    link: at_link.intervals,
                },
                congestion_control,
            }
        })
        .collect()
}

/// What became of all packets, in order of time.
fn packet_log(outcomes: &[FlowOutcome]) -> PacketLog {
    let mut records: Vec<_> = outcomes
        .iter()
        .zip(0..)
        .flat_map(|(outcome, flow)| {
            let delivered = outcome.packets.iter();
            let delivered = delivered.map(move |times| PacketRecord::delivered(flow, times));
            let dropped = outcome.dropped.iter().map(move |dropped| {
                PacketRecord::dropped(flow, dropped.at, dropped.size_bytes, dropped.reason)
            });
            delivered.chain(dropped)
        })
        .collect();
    records.sort_by_key(|record| record.departed);
    let mut log = PacketLog::default();
    records.into_iter().for_each(|record| log.push(record));
    log
}

/// Samples of a run: what the report draws.
const SAMPLES: u32 = 600;

fn samples(
    comparison: &Comparison<QuicController>,
    outcome: &FlowOutcome,
    name: &str,
    window: Window,
) -> Vec<SocketSample> {
    let interval = comparison.duration / SAMPLES;
    let mss = u32::from(outcome.mtu.max(1));
    let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    let mut next = window.from;
    let mut samples = Vec::new();
    for (at, cwnd, rate) in &outcome.controls {
        if *at < next || *at >= window.to {
            continue;
        }
        next = *at + interval;
        samples.push(SocketSample {
            at: Time::ZERO + at.since(window.from),
            congestion_control: name.to_owned(),
            cwnd_packets: small(cwnd / u64::from(mss)),
            mss_bytes: mss,
            ssthresh_packets: None,
            state: None,
            srtt_us: 0,
            pacing_bps: (*rate > 0).then(|| rate.saturating_mul(8)),
            delivery_bps: 0,
            retransmissions: 0,
        });
    }
    samples
}

impl From<VirtualError> for LabError {
    fn from(error: VirtualError) -> Self {
        match error {
            VirtualError::Stopped => Self::Cancelled,
            other => Self::Quic(other.to_string()),
        }
    }
}

impl From<fairwater_quic::QuicError> for LabError {
    fn from(error: fairwater_quic::QuicError) -> Self {
        Self::Quic(error.to_string())
    }
}
