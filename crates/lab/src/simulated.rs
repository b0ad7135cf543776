//! Running an experiment in the simulator: the same link and the same measures, in virtual time
//! and with no more than this process.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use fairwater_net::{Capacity, Time};
use fairwater_plane::Plane;
use fairwater_sim::{
    Config, Ecn, Edge, EdgeId, Fate, FlowConfig, FlowOutcome, Governor, Measure, Native, NodeId,
    Observer, Outcome, Path, PlaneConfig, SimulationError, TcpConfig, Traffic,
};

use crate::error::LabError;
use crate::experiment::{Contender, Experiment};
use crate::link_log::{LinkLog, PacketRecord};
use crate::results::{FlowAtLink, Results, RunResult, Series, Window};
use crate::run::{FlowProgress, Progress, TICK, first_arrival};
use crate::sampler::TcpSample;
use crate::scenario::World;

/// What the simulator has in place of the kernel's congestion control of this name: the native one
/// of the same algorithm. The kernel's others it does not have.
#[must_use]
pub fn counterpart(kernel: &str) -> Option<Native> {
    match kernel {
        "reno" => Some(Native::Reno),
        "cubic" => Some(Native::Cubic),
        _ => None,
    }
}

/// What an experiment in the simulator gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulated {
    /// What was measured: the same experiment gives the same, on every machine.
    pub results: Results,
    /// What the plane had to say, with the virtual time: faults, algorithms that failed.
    pub notices: Vec<String>,
}

/// Runs an experiment in the simulator; `plane` makes a plane with the algorithms that contenders
/// name, one for each run, and `progress` is told at most ten times a second how it goes. Setting
/// `cancel` ends it soon.
///
/// # Errors
/// What kept it from running, [`LabError::Cancelled`], or what `plane` failed with.
pub fn simulate<E: From<LabError>>(
    experiment: &Experiment<Governor>,
    mut plane: impl FnMut() -> Result<Plane, E>,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Simulated, E> {
    let capacity = experiment.check_description()?;
    if experiment.ipv6 {
        return Err(LabError::SimulatedIpv6.into());
    }
    let groups = experiment.groups();
    let mut runs = Vec::with_capacity(experiment.contenders.len());
    let mut notices = Vec::new();
    for (number, group) in groups.iter().enumerate() {
        let run = Run {
            experiment,
            capacity: &capacity,
            contenders: group,
            cancel,
        };
        let mut watcher = Watcher::new(&run, (number, groups.len()), progress);
        let mut length = experiment.duration + experiment.link.rtt * SPARE_RTTS + SPARE;
        let (window, outcome) = loop {
            let outcome = run.simulate(length, plane()?, &mut watcher)?;
            let window = run.window(&watcher.log);
            // What left the bottleneck by then has come out half an RTT later. More is needed only
            // where handshakes were lost: the same again, and a little more.
            let needed = window.to + experiment.link.rtt;
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
        runs.extend(run.measure(&watcher.log, &outcome, window));
    }
    let results = Results {
        link: experiment.link.to_string(),
        on: World::Sim,
        duration_s: experiment.duration.as_secs_f64(),
        together: experiment.together,
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

/// Receive windows grow to 64 MiB, as those of the lab's hosts, so that the congestion window is
/// the limit.
const RECEIVE_WINDOW: u64 = 64 << 20;

/// The bottleneck, from the sender to the receiver, and the way back.
const BOTTLENECK: EdgeId = EdgeId(0);
const SENDER: NodeId = NodeId(0);
const RECEIVER: NodeId = NodeId(1);

/// One run: contenders that share the link, or one that has it alone.
struct Run<'a> {
    experiment: &'a Experiment<Governor>,
    capacity: &'a Capacity,
    contenders: &'a [Contender<Governor>],
    cancel: &'a AtomicBool,
}

impl Run<'_> {
    fn simulate(
        &self,
        length: Duration,
        plane: Plane,
        watcher: &mut Watcher<'_>,
    ) -> Result<Outcome, LabError> {
        watcher.begin();
        fairwater_sim::run(&self.config(length), plane, watcher).map_err(|error| match error {
            SimulationError::Config(error) => LabError::Simulator(error),
            SimulationError::Stopped => LabError::Cancelled,
        })
    }

    fn config(&self, length: Duration) -> Config {
        let link = &self.experiment.link;
        let edge = |name: &str, from, to, link| Edge {
            name: name.to_owned(),
            from,
            to,
            link,
        };
        // Flows that begin at the same moment would stay as one; real ones never do.
        let start_jitter = match self.contenders {
            [_alone] => Duration::ZERO,
            _ => link.rtt,
        };
        let flow = |contender: &Contender<Governor>| FlowConfig {
            name: contender.label.clone(),
            from: SENDER,
            to: RECEIVER,
            path: Path::Shortest,
            governor: contender.congestion_control.clone(),
            traffic: Traffic::Bulk,
            start: Time::ZERO,
            start_jitter,
            stop: None,
            priority: 0,
            tag: 0,
            tcp: TcpConfig {
                receive_window: RECEIVE_WINDOW,
                ecn: match link.mark {
                    Some(_) => Ecn::Classic,
                    None => Ecn::Off,
                },
                ..TcpConfig::default()
            },
        };
        Config {
            seed: link.seed,
            duration: length,
            nodes: 2,
            edges: vec![
                edge(
                    "bottleneck",
                    SENDER,
                    RECEIVER,
                    link.forward_config(self.capacity),
                ),
                edge("back", RECEIVER, SENDER, link.reverse_config()),
            ],
            flows: self.contenders.iter().map(flow).collect(),
            plane: PlaneConfig::default(),
            measure: Measure {
                interval: Some(self.interval()),
                watch: Some(BOTTLENECK),
                ..Measure::default()
            },
        }
    }

    fn interval(&self) -> Duration {
        self.experiment.duration / SAMPLES
    }

    fn window(&self, log: &LinkLog) -> Window {
        let from = first_arrival(log, self.contenders.len());
        Window {
            from,
            to: from + self.experiment.duration,
        }
    }

    fn measure<'a>(
        &'a self,
        log: &'a LinkLog,
        outcome: &'a Outcome,
        window: Window,
    ) -> impl Iterator<Item = RunResult> + 'a {
        let flows = self.contenders.iter().zip(&outcome.flows).zip(0..);
        flows.map(move |((contender, outcome), index)| {
            let at_link = FlowAtLink::measure(log, index, window, self.capacity);
            let congestion_control = name(&contender.congestion_control);
            let by_the_end = outcome.samples.iter().filter(|s| s.at <= window.to);
            RunResult {
                name: contender.label.clone(),
                throughput_bps: at_link.throughput_bps,
                utilisation: at_link.utilisation,
                queueing_delay_ms: at_link.queueing_delay_ms,
                loss: at_link.loss,
                packets: at_link.packets,
                dropped: at_link.dropped,
                marked: at_link.marked,
                retransmissions: by_the_end.map(|sample| sample.retransmissions).sum(),
                cpu_seconds: None,
                emulator_cpu_seconds: None,
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
    fn samples(&self, name: &str, outcome: &FlowOutcome, window: Window) -> Vec<TcpSample> {
        let mss = TcpConfig::default().mss;
        let interval_s = self.interval().as_secs_f64();
        let mut retransmissions = 0u64;
        let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let sample = |sample: &fairwater_sim::Sample| {
            retransmissions += sample.retransmissions;
            TcpSample {
                at: Time::ZERO + sample.at.since(window.from),
                congestion_control: name.to_owned(),
                cwnd_packets: small(sample.cwnd / u64::from(mss)),
                mss_bytes: mss,
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

/// What a congestion control is called in results.
fn name(governor: &Governor) -> String {
    match governor {
        Governor::Plane(name) => name.clone(),
        Governor::Native(Native::Reno) => "native:reno".to_owned(),
        Governor::Native(Native::Cubic) => "native:cubic".to_owned(),
        Governor::Native(Native::Constant(bytes)) => format!("native:constant:{bytes}B"),
    }
}

/// Records what becomes of packets, tells progress, and ends the run when asked to.
struct Watcher<'a> {
    cancel: &'a AtomicBool,
    progress: &'a mut dyn FnMut(&Progress),
    told: Progress,
    labels: Vec<String>,
    /// When progress was told last: the real time, and the virtual.
    last: (Instant, Time),
    log: LinkLog,
    /// By flow: bytes that passed the bottleneck since then.
    bytes: Vec<u64>,
}

impl<'a> Watcher<'a> {
    fn new(
        run: &Run<'a>,
        (number, runs): (usize, usize),
        progress: &'a mut dyn FnMut(&Progress),
    ) -> Self {
        let labels = run.contenders.iter().map(|one| one.label.clone());
        Watcher {
            cancel: run.cancel,
            progress,
            told: Progress {
                run: number,
                runs,
                attempt: 1,
                elapsed: Duration::ZERO,
                duration: run.experiment.duration,
                flows: Vec::new(),
            },
            labels: labels.collect(),
            last: (Instant::now(), Time::ZERO),
            log: LinkLog::default(),
            bytes: vec![0; run.contenders.len()],
        }
    }

    fn begin(&mut self) {
        self.log = LinkLog::default();
        self.bytes.fill(0);
        self.last = (Instant::now(), Time::ZERO);
        self.told.elapsed = Duration::ZERO;
        self.told.flows.clear();
        (self.progress)(&self.told);
    }

    fn tell(&mut self, now: Time) {
        let seconds = now.since(self.last.1).as_secs_f64();
        let flow = |(label, bytes): (&String, &mut u64)| FlowProgress {
            label: label.clone(),
            throughput_bps: std::mem::take(bytes) as f64 * 8.0 / seconds.max(1e-9),
            cwnd_bytes: None,
            srtt: None,
            retransmissions: None,
        };
        let flows = self.labels.iter().zip(&mut self.bytes);
        self.told.flows = flows.map(flow).collect();
        self.told.elapsed = now.since(Time::ZERO).min(self.told.duration);
        self.last = (Instant::now(), now);
        (self.progress)(&self.told);
    }
}

impl Observer for Watcher<'_> {
    fn progress(&mut self, now: Time) -> ControlFlow<()> {
        if self.cancel.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        if self.last.0.elapsed() >= TICK {
            self.tell(now);
        }
        ControlFlow::Continue(())
    }

    fn fate(&mut self, flow: usize, fate: &Fate) {
        // At most 64 flows share a link.
        let index = flow as u8;
        self.log.push(match *fate {
            Fate::Passed(ref passage) => {
                if let Some(bytes) = self.bytes.get_mut(flow) {
                    *bytes += u64::from(passage.size_bytes);
                }
                PacketRecord::delivered(index, passage)
            }
            Fate::Dropped {
                at,
                size_bytes,
                reason,
            } => PacketRecord::dropped(index, at, size_bytes, reason),
        });
    }
}
