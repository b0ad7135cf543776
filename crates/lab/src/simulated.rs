//! Comparisons in the simulator: the same link and the same measures, in virtual time
//! and with no more than this process.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fairwater_experiment::{
    Backend, Controller, Experiment, FlowProgress, Measure, Native, Progress, TICK, TcpConfig,
};
use fairwater_net::{Capacity, Time};
use fairwater_plane::Plane;
use fairwater_results::{
    AtBottleneck, Fallback, PacketLog, PacketRecord, Results, RunResult, Series, SocketSample,
    Window,
};
use fairwater_sim::{FlowOutcome, Observer, Outcome, PacketOutcome, SimulationError};

use crate::comparison::{BOTTLENECK, Candidate, Comparison};
use crate::error::LabError;
use crate::points;

/// What an experiment in the simulator gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulated {
    /// What was measured: the same experiment gives the same, on every machine.
    pub results: Results,
    /// What the plane had to say, with the virtual time: faults, algorithms that failed.
    pub notices: Vec<String>,
}

/// Runs an experiment in the simulator; `plane` makes a plane with the algorithms that candidates
/// name, one for each run, and `progress` hears at most ten times a second how far it is. Setting
/// `cancel` ends it soon.
///
/// # Errors
/// What kept it from running, [`LabError::Cancelled`], or what `plane` failed with.
pub fn simulate<E: From<LabError>>(
    comparison: &Comparison<Controller>,
    mut plane: impl FnMut() -> Result<Plane, E>,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Simulated, E> {
    let capacity = comparison.check_description()?;
    if comparison.ipv6 {
        return Err(LabError::SimulatedIpv6.into());
    }
    let groups = comparison.groups();
    let mut runs = Vec::with_capacity(comparison.candidates.len());
    let mut notices = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        let run = Run {
            comparison,
            capacity: &capacity,
            candidates: group,
            cancel,
        };
        let mut observer = ProgressObserver::new(&run, (number, groups.len()), progress);
        let mut length = comparison.duration + comparison.link.rtt * SPARE_RTTS + SPARE;
        let (window, outcome) = loop {
            let outcome = run.simulate(length, plane()?, &mut observer)?;
            let window = run.window(&observer.log);
            // What left the bottleneck by then has come out half an RTT later. More is needed only
            // where handshakes were lost: the same again, and a little more.
            let needed = window.to + comparison.link.rtt;
            if needed <= Time::ZERO + length {
                break (window, outcome);
            }
            length = needed.since(Time::ZERO);
        };
        notices.extend(
            outcome
                .notices
                .iter()
                .map(|(at, text)| format!("{:.6} s: {text}", at.as_secs_f64())),
        );
        runs.extend(run.measure(&observer.log, &outcome, window));
    }
    let results = Results {
        link: comparison.link.to_string(),
        on: Backend::Sim,
        duration_s: comparison.duration.as_secs_f64(),
        together: comparison.together,
        ipv6: false,
        traffic: None,
        kernel: None,
        runs,
    };
    Ok(Simulated { results, notices })
}

/// Simulated beyond the duration, for the handshake, flows that start with jitter, and what is on
/// its way in the end.
const SPARE_RTTS: u32 = 4;
const SPARE: Duration = Duration::from_millis(10);

/// Samples of a run: what the report draws.
const SAMPLES: u32 = 600;

/// One run: candidates that share the link, or one that has it alone.
struct Run<'a> {
    comparison: &'a Comparison<Controller>,
    capacity: &'a Capacity,
    candidates: &'a [Candidate<Controller>],
    cancel: &'a AtomicBool,
}

impl Run<'_> {
    fn simulate(
        &self,
        length: Duration,
        plane: Plane,
        observer: &mut ProgressObserver<'_>,
    ) -> Result<Outcome, LabError> {
        observer.begin();
        fairwater_sim::run(&self.experiment(length), plane, observer).map_err(|error| match error {
            SimulationError::Config(error) => LabError::Simulator(error),
            SimulationError::Stopped => LabError::Cancelled,
        })
    }

    fn experiment(&self, length: Duration) -> Experiment {
        let controller = Controller::clone;
        let mut experiment = self
            .comparison
            .experiment(self.capacity, self.candidates, controller);
        experiment.duration = length;
        // Flows that begin at the same moment would stay in step; real ones never do.
        if experiment.flows.len() > 1 {
            for flow in &mut experiment.flows {
                flow.start_jitter = self.comparison.link.rtt;
            }
        }
        experiment.measure = Measure {
            interval: Some(self.interval()),
            watch: Some(BOTTLENECK),
            ..Measure::default()
        };
        experiment
    }

    fn interval(&self) -> Duration {
        self.comparison.duration / SAMPLES
    }

    fn window(&self, log: &PacketLog) -> Window {
        let from = log.first_data(self.candidates.len());
        Window {
            from,
            to: from + self.comparison.duration,
        }
    }

    fn measure<'a>(
        &'a self,
        log: &'a PacketLog,
        outcome: &'a Outcome,
        window: Window,
    ) -> impl Iterator<Item = RunResult> + 'a {
        let notices = &outcome.notices;
        let flows = self.candidates.iter().zip(&outcome.flows).zip(0..);
        flows.map(move |((candidate, outcome), index)| {
            let at_link = AtBottleneck::of_flow(log, index, window, self.capacity);
            let congestion_control = name(&candidate.congestion_control);
            let by_the_end = outcome.samples.iter().filter(|s| s.at <= window.to);
            RunResult {
                name: candidate.label.clone(),
                throughput_bps: at_link.throughput_bps,
                utilisation: at_link.utilisation,
                queueing_delay_ms: at_link.queueing_delay_ms(),
                loss: at_link.loss,
                packets: at_link.packets,
                dropped: at_link.dropped + at_link.lost,
                marked: at_link.marked,
                retransmissions: by_the_end.map(|sample| sample.retransmissions).sum(),
                cpu_seconds: None,
                emulator_cpu_seconds: None,
                fallback: fallback(&candidate.congestion_control, outcome, notices),
                disturbed: false,
                disturbance: None,
                tries: 1,
                steal: None,
                lateness_ms: None,
                real_time: None,
                series: Series {
                    tcp: self.samples(&congestion_control, outcome, window),
                    link: at_link.intervals,
                },
                congestion_control,
            }
        })
    }

    /// A flow's samples, as the lab takes them of sockets.
    fn samples(&self, name: &str, outcome: &FlowOutcome, window: Window) -> Vec<SocketSample> {
        let mss = TcpConfig::default().mss;
        let interval_s = self.interval().as_secs_f64();
        let mut retransmissions = 0u64;
        let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let sample = |sample: &fairwater_sim::Sample| {
            retransmissions += sample.retransmissions;
            SocketSample {
                at: Time::ZERO + sample.at.since(window.from),
                congestion_control: name.to_owned(),
                cwnd_packets: small(sample.cwnd / u64::from(mss)),
                mss_bytes: mss,
                ssthresh_packets: sample.ssthresh.map(|bytes| small(bytes / u64::from(mss))),
                state: sample.state.map(points::congestion_state),
                srtt_us: small(sample.srtt_us),
                pacing_bps: (sample.rate > 0).then(|| sample.rate.saturating_mul(8)),
                delivery_bps: (sample.delivered_bytes as f64 * 8.0 / interval_s) as u64,
                retransmissions: small(retransmissions),
            }
        };
        let within = |sample: &&fairwater_sim::Sample| {
            window.from <= sample.at && sample.at < window.to && sample.cwnd > 0
        };
        outcome.samples.iter().filter(within).map(sample).collect()
    }
}

/// A flow's time under the fallback, with the reason that the plane gave.
fn fallback(
    controller: &Controller,
    outcome: &FlowOutcome,
    notices: &[(Time, String)],
) -> Option<Fallback> {
    let mut fallback = outcome.fallback.map(points::fallback)?;
    if let Controller::Plane(algorithm) = controller {
        fallback.explain(algorithm, "", notices.iter().map(|(_, text)| text.as_str()));
    }
    Some(fallback)
}

/// What a congestion control is called in results.
fn name(controller: &Controller) -> String {
    match controller {
        Controller::Plane(name) => name.clone(),
        Controller::Native(Native::Reno) => "native:reno".to_owned(),
        Controller::Native(Native::Cubic) => "native:cubic".to_owned(),
        Controller::Native(Native::Constant(bytes)) => format!("native:constant:{bytes}B"),
    }
}

/// Records what becomes of packets, tells progress, and ends the run when asked to.
struct ProgressObserver<'a> {
    cancel: &'a AtomicBool,
    progress: &'a mut dyn FnMut(&Progress),
    now: Progress,
    labels: Vec<String>,
    /// The last update: its real time, and its virtual time.
    last: (Instant, Time),
    log: PacketLog,
    /// By flow: bytes that passed the bottleneck since then.
    bytes: Vec<u64>,
}

impl<'a> ProgressObserver<'a> {
    fn new(
        run: &Run<'a>,
        (number, runs): (usize, usize),
        progress: &'a mut dyn FnMut(&Progress),
    ) -> Self {
        let labels = run.candidates.iter().map(|one| one.label.clone());
        ProgressObserver {
            cancel: run.cancel,
            progress,
            now: Progress {
                run: number,
                runs,
                attempt: 1,
                elapsed: Duration::ZERO,
                duration: run.comparison.duration,
                flows: Vec::new(),
            },
            labels: labels.collect(),
            last: (Instant::now(), Time::ZERO),
            log: PacketLog::default(),
            bytes: vec![0; run.candidates.len()],
        }
    }

    fn begin(&mut self) {
        self.log = PacketLog::default();
        self.bytes.fill(0);
        self.last = (Instant::now(), Time::ZERO);
        self.now.elapsed = Duration::ZERO;
        self.now.flows.clear();
        (self.progress)(&self.now);
    }

    fn update(&mut self, now: Time) {
        let seconds = now.since(self.last.1).as_secs_f64();
        let flow = |(label, bytes): (&String, &mut u64)| FlowProgress {
            label: label.clone(),
            throughput_bps: std::mem::take(bytes) as f64 * 8.0 / seconds.max(1e-9),
            cwnd_bytes: None,
            srtt: None,
            retransmissions: None,
        };
        let flows = self.labels.iter().zip(&mut self.bytes);
        self.now.flows = flows.map(flow).collect();
        self.now.elapsed = now.since(Time::ZERO).min(self.now.duration);
        self.last = (Instant::now(), now);
        (self.progress)(&self.now);
    }
}

impl Observer for ProgressObserver<'_> {
    fn progress(&mut self, now: Time) -> ControlFlow<()> {
        if self.cancel.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        if self.last.0.elapsed() >= TICK {
            self.update(now);
        }
        ControlFlow::Continue(())
    }

    fn packet_outcome(&mut self, flow: usize, fate: &PacketOutcome) {
        // At most 64 flows share a link.
        let index = flow as u8;
        self.log.push(match *fate {
            PacketOutcome::Delivered(ref times) => {
                if let Some(bytes) = self.bytes.get_mut(flow) {
                    *bytes += u64::from(times.size_bytes);
                }
                PacketRecord::delivered(index, times)
            }
            PacketOutcome::Dropped {
                at,
                size_bytes,
                reason,
            } => PacketRecord::dropped(index, at, size_bytes, reason),
        });
    }
}
