//! Running an experiment.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fairwater_net::{Capacity, Time};

use crate::clock::{Clock, process_cpu};
use crate::emulator::{Emulator, EmulatorLog};
use crate::error::LabError;
use crate::experiment::{Contender, Experiment};
use crate::link_log::LinkLog;
use crate::path::Path;
use crate::results::{FlowAtLink, Lateness, Results, RunResult, Series, Window};
use crate::sampler::{Sampler, Samples};
use crate::scenario::World;
use crate::steal::MachineTime;
use crate::traffic::{Finished, Flow, FlowSpec, Traffic};

/// How far an experiment is, for whoever watches.
#[derive(Debug, Clone)]
pub struct Progress {
    /// The run at work, from 0.
    pub run: usize,
    /// How many runs there are.
    pub runs: usize,
    /// Which try of this run it is, from 1.
    pub attempt: u32,
    /// Time since the first packet; virtual in the simulator.
    pub elapsed: Duration,
    /// How long the run lasts.
    pub duration: Duration,
    /// The flows that run, in the order of the contenders.
    pub flows: Vec<FlowProgress>,
}

/// How a flow is doing.
#[derive(Debug, Clone)]
pub struct FlowProgress {
    /// The contender's label.
    pub label: String,
    /// What left the bottleneck over the last half second, or since the last time, bits/s.
    pub throughput_bps: f64,
    /// Congestion window, bytes; `None` until there is a connection and in the simulator, as the
    /// others.
    pub cwnd_bytes: Option<u64>,
    /// Smoothed RTT.
    pub srtt: Option<Duration>,
    /// Segments retransmitted so far.
    pub retransmissions: Option<u32>,
}

/// How often progress is told.
pub(crate) const TICK: Duration = Duration::from_millis(100);

/// Ticks a live rate is taken over.
const RATE_TICKS: usize = 5;

/// How long traffic may take beyond its time, to set up and to end; and as many RTTs.
const GRACE: Duration = Duration::from_secs(20);
const GRACE_RTTS: u32 = 20;

/// How often a socket's state is sampled.
const SAMPLE_PERIOD: Duration = Duration::from_millis(10);

/// Above this, a run counts as disturbed: the share of CPU time stolen.
const MOST_STEAL: f64 = 0.02;

/// Above this, a run counts as disturbed: the lateness of the 99th of 100 packets, ms.
const MOST_LATENESS_MS: f64 = 1.0;

/// Runs an experiment; `progress` is told ten times a second how it goes. Setting `cancel` ends it
/// soon. Whatever ends it, its processes, devices and namespaces end too: with this thread, at the
/// latest.
///
/// # Errors
/// What kept it from running, or [`LabError::Cancelled`].
pub fn run(
    experiment: &Experiment,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Results, LabError> {
    let capacity = experiment.check()?;
    let groups = experiment.groups();
    let mut runs = Vec::with_capacity(experiment.contenders.len());
    for (number, group) in groups.iter().enumerate() {
        let best = least_disturbed(experiment.tries, |attempt| {
            let mut told = Progress {
                run: number,
                runs: groups.len(),
                attempt,
                elapsed: Duration::ZERO,
                duration: experiment.duration,
                flows: Vec::new(),
            };
            Try {
                experiment,
                capacity: &capacity,
                contenders: group,
                cancel,
            }
            .run(&mut told, progress)
        })?;
        runs.extend(best.into_results());
    }
    Ok(Results {
        link: experiment.link.to_string(),
        on: World::Linux,
        duration_s: experiment.duration.as_secs_f64(),
        together: experiment.together,
        ipv6: experiment.ipv6,
        traffic: Some(experiment.traffic),
        kernel: Some(
            rustix::system::uname()
                .release()
                .to_string_lossy()
                .into_owned(),
        ),
        runs,
    })
}

/// Tries until one is not disturbed, `tries` times at most and once at least; the least disturbed.
fn least_disturbed(
    tries: u32,
    mut attempt: impl FnMut(u32) -> Result<Attempt, LabError>,
) -> Result<Attempt, LabError> {
    let mut best = attempt(1)?;
    for number in 2..=tries {
        if best.disturbance.is_none() {
            break;
        }
        let tried = attempt(number)?;
        if tried.severity < best.severity {
            best = tried;
        }
        best.tries = number;
    }
    Ok(best)
}

/// One try of one run.
struct Try<'a> {
    experiment: &'a Experiment,
    capacity: &'a Capacity,
    contenders: &'a [Contender],
    cancel: &'a AtomicBool,
}

/// What a try gave.
struct Attempt {
    flows: Vec<RunResult>,
    disturbance: Option<String>,
    /// How disturbed it was: at most 1 counts as not.
    severity: f64,
    tries: u32,
}

impl Attempt {
    fn into_results(self) -> impl Iterator<Item = RunResult> {
        let Attempt {
            flows,
            disturbance,
            tries,
            ..
        } = self;
        flows.into_iter().map(move |flow| RunResult {
            disturbed: disturbance.is_some(),
            disturbance: disturbance.clone(),
            tries,
            ..flow
        })
    }
}

/// What was recorded of a try.
struct Recorded {
    emulator: EmulatorLog,
    samples: Samples,
    finished: Vec<Finished>,
    /// CPU time of this process without the lab's own threads.
    process_cpu: Duration,
    steal: f64,
}

impl Try<'_> {
    fn run(
        &self,
        told: &mut Progress,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Attempt, LabError> {
        let recorded = self.record(told, progress)?;
        let lateness = Lateness::of(&recorded.emulator.lateness_ns);
        let flows = self.measure(&recorded, lateness)?;
        Ok(Attempt {
            flows,
            disturbance: disturbance(recorded.steal, lateness),
            severity: (recorded.steal / MOST_STEAL).max(lateness.p99 / MOST_LATENESS_MS),
            tries: 1,
        })
    }

    /// Builds the path, sends over it, and takes it down. What is declared last is dropped first:
    /// traffic ends before the emulator, and the hosts after all.
    fn record(
        &self,
        told: &mut Progress,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Recorded, LabError> {
        let count = self.contenders.len();
        let marks = self.experiment.link.mark.is_some();
        let path = Path::new(self.experiment.ipv6, marks)
            .map_err(LabError::system("make the lab's hosts"))?;
        let steal_before = MachineTime::now().map_err(LabError::system("read /proc/stat"))?;
        let cpu_before = process_cpu();
        let clock = Clock::start();
        let emulator = Emulator::start(&path, clock, &self.experiment.link, self.capacity, count)
            .map_err(LabError::system("start the emulator"))?;
        let sampler = Sampler::start(
            &path.sender,
            clock,
            count,
            self.experiment.ipv6,
            SAMPLE_PERIOD,
        )
        .map_err(LabError::system("start the sampler"))?;
        let mut flows = Vec::with_capacity(count);
        for (index, contender) in self.contenders.iter().enumerate() {
            let spec = FlowSpec {
                index: index as u16,
                label: &contender.label,
                congestion_control: &contender.congestion_control,
                at_both_ends: self
                    .experiment
                    .at_both_ends
                    .contains(&contender.congestion_control),
                duration: self.experiment.duration,
                sending: self
                    .experiment
                    .sending
                    .get(index)
                    .copied()
                    .unwrap_or_default(),
            };
            let traffic = if spec.at_both_ends {
                Traffic::Bulk
            } else {
                self.experiment.traffic
            };
            flows.push(Flow::start(traffic, &path, &spec)?);
        }

        let grace = GRACE + self.experiment.link.rtt * GRACE_RTTS;
        let mut finished: Vec<Option<Finished>> = vec![None; count];
        let mut live = Live::new(clock, count);
        while finished.iter().any(Option::is_none) {
            thread::sleep(TICK);
            if self.cancel.load(Ordering::Relaxed) {
                return Err(LabError::Cancelled);
            }
            if emulator.has_failed() {
                let reason = emulator.finish().err().map(|error| error.to_string());
                return Err(LabError::Part {
                    part: "emulator",
                    reason: reason.unwrap_or_default(),
                });
            }
            for ((flow, contender), done) in
                flows.iter_mut().zip(self.contenders).zip(&mut finished)
            {
                if done.is_none() {
                    *done = flow.finished(&contender.label)?;
                }
            }
            live.tell(self, &emulator, &sampler, told, progress);
            let running = finished.iter().position(Option::is_none);
            if let Some(slow) = running
                && clock.now().since(Time::ZERO) > self.experiment.duration + grace
            {
                return Err(LabError::Traffic {
                    label: self.contenders[slow].label.clone(),
                    reason: format!("it had not ended {grace:?} after its time"),
                });
            }
        }
        drop(flows);
        let (samples, sampler_cpu) = sampler
            .finish()
            .map_err(LabError::system("sample the sender's sockets"))?;
        let emulator = emulator
            .finish()
            .map_err(LabError::system("emulate the link"))?;
        let steal_after = MachineTime::now().map_err(LabError::system("read /proc/stat"))?;
        Ok(Recorded {
            samples,
            finished: finished.into_iter().flatten().collect(),
            process_cpu: process_cpu()
                .saturating_sub(cpu_before)
                .saturating_sub(sampler_cpu)
                .saturating_sub(emulator.cpu),
            steal: steal_after.steal_since(steal_before),
            emulator,
        })
    }

    fn measure(&self, recorded: &Recorded, lateness: Lateness) -> Result<Vec<RunResult>, LabError> {
        let log = &recorded.emulator.packets;
        let from = first_arrival(log, self.contenders.len());
        let window = Window {
            from,
            to: from + self.experiment.duration,
        };
        let mut results = Vec::with_capacity(self.contenders.len());
        for (index, contender) in self.contenders.iter().enumerate() {
            let samples = recorded.samples.get(index).map_or(&[][..], Vec::as_slice);
            let ran_under = samples
                .last()
                .map(|sample| sample.congestion_control.as_str());
            if let Some(other) = ran_under.filter(|name| *name != contender.congestion_control) {
                return Err(LabError::Traffic {
                    label: contender.label.clone(),
                    reason: format!(
                        "it ran under `{other}` instead of `{}`",
                        contender.congestion_control
                    ),
                });
            }
            let finished = recorded.finished.get(index);
            let at_link = FlowAtLink::measure(log, index as u8, window, self.capacity);
            let counted = samples
                .last()
                .map_or(0, |sample| sample.retransmissions.into());
            let own_cpu = finished.map_or(Duration::ZERO, |finished| finished.cpu);
            let shared_cpu = recorded.process_cpu.as_secs_f64() / self.contenders.len() as f64;
            results.push(RunResult {
                name: contender.label.clone(),
                congestion_control: contender.congestion_control.clone(),
                throughput_bps: at_link.throughput_bps,
                utilisation: at_link.utilisation,
                queueing_delay_ms: at_link.queueing_delay_ms,
                loss: at_link.loss,
                packets: at_link.packets,
                dropped: at_link.dropped,
                marked: at_link.marked,
                retransmissions: finished
                    .and_then(|finished| finished.retransmissions)
                    .unwrap_or(counted),
                cpu_seconds: Some(own_cpu.as_secs_f64() + shared_cpu),
                emulator_cpu_seconds: Some(recorded.emulator.cpu.as_secs_f64()),
                disturbed: false,
                disturbance: None,
                tries: 1,
                steal: Some(recorded.steal),
                lateness_ms: Some(lateness),
                real_time: Some(recorded.emulator.real_time),
                series: Series {
                    tcp: samples
                        .iter()
                        .filter(|sample| from <= sample.at && sample.at < window.to)
                        .cloned()
                        .map(|mut sample| {
                            sample.at = Time::ZERO + sample.at.since(from);
                            sample
                        })
                        .collect(),
                    link: at_link.intervals,
                },
            });
        }
        Ok(results)
    }
}

/// A packet of this size carries data; one that sets up a connection is smaller, and so is the
/// name that iperf3 gives its test.
const DATA_BYTES: u32 = 500;

/// When the first data of a measured flow arrived at the bottleneck.
pub(crate) fn first_arrival(log: &LinkLog, flows: usize) -> Time {
    log.iter()
        .filter(|record| usize::from(record.flow) < flows && record.size_bytes >= DATA_BYTES)
        .map(|record| record.enqueued)
        .min()
        .unwrap_or(Time::ZERO)
}

fn disturbance(steal: f64, lateness: Lateness) -> Option<String> {
    let mut causes = Vec::new();
    if steal > MOST_STEAL {
        causes.push(format!("{:.1} % of CPU time was stolen", steal * 100.0));
    }
    if lateness.p99 > MOST_LATENESS_MS {
        causes.push(format!(
            "1 packet in 100 was over {:.1} ms late",
            lateness.p99
        ));
    }
    (!causes.is_empty()).then(|| causes.join(" and "))
}

/// What is needed to tell live rates.
struct Live {
    clock: Clock,
    started: Option<Time>,
    bytes: Vec<VecDeque<(Time, u64)>>,
}

impl Live {
    fn new(clock: Clock, flows: usize) -> Self {
        Live {
            clock,
            started: None,
            bytes: vec![VecDeque::with_capacity(RATE_TICKS + 1); flows],
        }
    }

    fn tell(
        &mut self,
        run: &Try<'_>,
        emulator: &Emulator,
        sampler: &Sampler,
        told: &mut Progress,
        progress: &mut dyn FnMut(&Progress),
    ) {
        let now = self.clock.now();
        told.flows.clear();
        for (index, (contender, history)) in run.contenders.iter().zip(&mut self.bytes).enumerate()
        {
            let bytes = emulator.live.of(index);
            if bytes > 0 && self.started.is_none() {
                self.started = Some(now);
            }
            history.push_back((now, bytes));
            if history.len() > RATE_TICKS + 1 {
                history.pop_front();
            }
            let (since, before) = history.front().copied().unwrap_or((now, bytes));
            let seconds = now.since(since).as_secs_f64();
            let sample = sampler.latest(index);
            told.flows.push(FlowProgress {
                label: contender.label.clone(),
                throughput_bps: if seconds > 0.0 {
                    (bytes - before) as f64 * 8.0 / seconds
                } else {
                    0.0
                },
                cwnd_bytes: sample.as_ref().map(|sample| sample.cwnd_bytes()),
                srtt: sample
                    .as_ref()
                    .map(|sample| Duration::from_micros(sample.srtt_us.into())),
                retransmissions: sample.map(|sample| sample.retransmissions),
            });
        }
        told.elapsed = self
            .started
            .map_or(Duration::ZERO, |started| now.since(started))
            .min(told.duration);
        progress(told);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The severity and tries of what is kept when tries are this severe.
    fn kept(tries: u32, severities: &[f64]) -> (f64, u32) {
        let mut made = severities.iter();
        let kept = least_disturbed(tries, |_| {
            let severity = *made.next().unwrap_or(&f64::NAN);
            Ok(Attempt {
                flows: Vec::new(),
                disturbance: (severity > 1.0).then(|| "something".to_owned()),
                severity,
                tries: 1,
            })
        });
        kept.map_or((f64::NAN, 0), |kept| (kept.severity, kept.tries))
    }

    #[test]
    fn a_disturbed_run_is_repeated_and_the_least_disturbed_kept() {
        assert_eq!(kept(3, &[0.5, 0.1]), (0.5, 1));
        assert_eq!(kept(3, &[4.0, 0.9, 0.1]), (0.9, 2));
        assert_eq!(kept(3, &[4.0, 2.0, 3.0, 0.1]), (2.0, 3));
        assert_eq!(kept(1, &[4.0, 0.1]), (4.0, 1));
        assert_eq!(kept(0, &[4.0, 0.1]), (4.0, 1));
    }

    #[test]
    fn steal_and_lateness_beyond_their_bounds_disturb() {
        let late = |p99| Lateness {
            p50: 0.01,
            p99,
            max: 30.0,
        };
        assert_eq!(disturbance(0.02, late(1.0)), None);
        let stolen = disturbance(0.031, late(0.2));
        assert_eq!(stolen.as_deref(), Some("3.1 % of CPU time was stolen"));
        let both = disturbance(0.5, late(4.0)).expect("disturbed");
        assert!(
            both.contains("50.0 %") && both.contains("over 4.0 ms late"),
            "{both}"
        );
    }
}
