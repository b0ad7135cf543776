//! Running an experiment.

use std::any::Any;
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::slice::from_ref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fairwater_experiment::{Ecn, Experiment, FlowConfig, FlowProgress, Progress, TICK};
use fairwater_net::{LinkConfig, Time};
use fairwater_netlink::Namespace;
use fairwater_results::{
    AtBottleneck, ControllerProbe, FallbackCount, Lateness, RunResult, Series, SocketSample,
    TrafficProgram, Window,
};

use crate::check::{links, uses_ecn};
use crate::clock::{Clock, process_cpu};
use crate::emulator::lateness;
use crate::emulator::{Emulator, EmulatorLog};
use crate::error::TestbedError;
use crate::guests::{EdgeAttacher, Guests};
use crate::packet::FIRST_PORT;
use crate::path::Path;
use crate::sampler::{Sampler, Samples};
use crate::steal::MachineTime;
use crate::traffic::{Finished, Flow, FlowSpec, UserPlane, UserTcp, user_device};

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

/// A run on real TCP.
#[derive(Debug, Clone)]
pub struct Run<'a> {
    /// Two hosts joined by one link in each direction, and bulk flows from the one to the other.
    pub experiment: &'a Experiment,
    /// By flow: the sender's congestion control.
    pub senders: Vec<KernelSender>,
    /// The program that sends; to a congestion control at both ends always
    /// [`TrafficProgram::Bulk`], since iperf3 sets it only once connected.
    pub program: TrafficProgram,
    /// Whether flows go over IPv6.
    pub ipv6: bool,
    /// Maximum attempts for a run disturbed by other load on the machine; at least 1.
    pub tries: u32,
    /// Samples who controls flows; `None` where the kernel's own algorithms alone run.
    pub controllers: Option<ControllerProbe>,
    /// Puts boxes at the ports of guests, for flows that are behind one.
    pub edge: Option<&'a dyn EdgeAttacher>,
    /// Where flows of a TCP in user space find their plane; `None` without such flows.
    pub user_plane: Option<UserPlane>,
}

/// The congestion control of one flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelSender {
    /// The kernel's name of it: `cubic`, `fw_cubic`. With [`USER_TCP`](crate::USER_TCP) before it, the name of an algorithm of
    /// [`Run::user_plane`], whose flow a TCP in user space sends.
    pub congestion_control: String,
    /// Whether the receiver has it too: one that needs ECN is asked for it at both ends, before
    /// they connect (RFC 8257 §3.2).
    pub at_both_ends: bool,
}

/// What a run measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// By flow.
    pub flows: Vec<RunResult>,
    /// All flows together at the bottleneck.
    pub bottleneck: AtBottleneck,
}

impl Run<'_> {
    /// Runs; `progress` hears ten times a second how far the run is. Setting `cancel` ends it soon.
    /// Whatever ends it, its processes, devices and namespaces end too: with this thread, at the
    /// latest.
    ///
    /// # Errors
    /// What kept it from running, or [`TestbedError::Cancelled`].
    pub fn run(
        &self,
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Measured, TestbedError> {
        self.check()?;
        let [forward, reverse] = links(self.experiment)?;
        let best = least_disturbed(self.tries, |attempt| {
            let mut now = Progress {
                run: 0,
                runs: 1,
                attempt,
                elapsed: Duration::ZERO,
                duration: self.experiment.duration,
                flows: Vec::new(),
            };
            Try {
                run: self,
                flows: &self.experiment.flows,
                forward,
                reverse,
                cancel,
            }
            .run(&mut now, progress)
        })?;
        Ok(best.into_measured())
    }
}

/// The release of the running kernel.
#[must_use]
pub fn kernel_release() -> String {
    let name = rustix::system::uname();
    name.release().to_string_lossy().into_owned()
}

/// Tries until one is not disturbed, `tries` times at most and once at least; the least disturbed.
fn least_disturbed(
    tries: u32,
    mut attempt: impl FnMut(u32) -> Result<Attempt, TestbedError>,
) -> Result<Attempt, TestbedError> {
    let mut best = attempt(1)?;
    for number in 2..=tries {
        if best.disturbance.is_none() {
            break;
        }
        let tried = match attempt(number) {
            Ok(tried) => tried,
            Err(cancelled @ TestbedError::Cancelled) => return Err(cancelled),
            // What ended with an earlier try, the process of an algorithm for instance, keeps the run
            // from being repeated: the earlier try stands, and says that it was disturbed.
            Err(_) => break,
        };
        if tried.severity < best.severity {
            best = tried;
        }
        best.tries = number;
    }
    Ok(best)
}

/// One try of one run.
struct Try<'a> {
    run: &'a Run<'a>,
    flows: &'a [FlowConfig],
    forward: &'a LinkConfig,
    reverse: &'a LinkConfig,
    cancel: &'a AtomicBool,
}

/// What a try gave.
struct Attempt {
    measured: Measured,
    disturbance: Option<String>,
    /// How disturbed it was: at most 1 counts as not.
    severity: f64,
    tries: u32,
}

impl Attempt {
    fn into_measured(self) -> Measured {
        let mut measured = self.measured;
        for flow in &mut measured.flows {
            flow.disturbed = self.disturbance.is_some();
            flow.disturbance.clone_from(&self.disturbance);
            flow.tries = self.tries;
        }
        measured
    }
}

/// What was recorded of a try.
struct Recorded {
    emulator: EmulatorLog,
    samples: Samples,
    finished: Vec<Finished>,
    /// By flow.
    fallbacks: Vec<FallbackCount>,
    /// CPU time of this process without the lab's own threads.
    process_cpu: Duration,
    steal: f64,
}

impl Try<'_> {
    fn run(
        &self,
        now: &mut Progress,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Attempt, TestbedError> {
        let recorded = self.record(now, progress)?;
        let lateness = lateness(&recorded.emulator.lateness_ns);
        let measured = self.measure(&recorded, lateness)?;
        Ok(Attempt {
            measured,
            disturbance: disturbance(recorded.steal, lateness),
            severity: (recorded.steal / MOST_STEAL).max(lateness.p99 / MOST_LATENESS_MS),
            tries: 1,
        })
    }

    /// Builds the path, sends over it, and takes it down. What is declared last is dropped first:
    /// traffic ends before the emulator, and the hosts after all.
    fn record(
        &self,
        now: &mut Progress,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Recorded, TestbedError> {
        let count = self.flows.len();
        let path = Path::new(self.run.ipv6, uses_ecn(self.run.experiment))
            .map_err(TestbedError::system("make the lab's hosts"))?;
        let steal_before = MachineTime::now().map_err(TestbedError::system("read /proc/stat"))?;
        let cpu_before = process_cpu();
        let clock = Clock::start();
        let (user_device, sender_device) = self.sender_devices(&path)?;
        let devices = [&sender_device, &path.receiver_device];
        let emulator = Emulator::between(devices, clock, [self.forward, self.reverse], count)
            .map_err(TestbedError::system("start the emulator"))?;
        let guests = self.make_guests(&path)?;
        let senders = guests
            .as_ref()
            .map_or(from_ref(&path.sender), Guests::namespaces);
        let _edge = self.attach_edge(&path, guests.as_ref())?;
        let sampler = Sampler::start(senders, clock, count, self.run.ipv6, SAMPLE_PERIOD)
            .map_err(TestbedError::system("start the sampler"))?;
        let mut user = self.start_user_tcp(&path, user_device.as_ref(), clock)?;
        let mut flows = match user {
            Some(_) => Vec::new(),
            None => self.start_flows(&path, senders)?,
        };
        let grace = GRACE + (self.forward.delay + self.reverse.delay) * GRACE_RTTS;
        let mut finished: Vec<Option<Finished>> = vec![None; count];
        let mut live = Live::new(clock, count);
        let mut user_samples: Samples = Vec::new();
        let mut fallbacks = vec![FallbackCount::default(); count];
        while finished.iter().any(Option::is_none) {
            thread::sleep(TICK);
            if self.cancel.load(Ordering::Relaxed) {
                return Err(TestbedError::Cancelled);
            }
            if emulator.has_failed() {
                let reason = emulator.finish().err().map(|error| error.to_string());
                return Err(TestbedError::Part {
                    part: "emulator",
                    reason: reason.unwrap_or_default(),
                });
            }
            for ((flow, config), done) in flows.iter_mut().zip(self.flows).zip(&mut finished) {
                if done.is_none() {
                    *done = flow.finished(&config.name)?;
                }
            }
            if let Some(user) = &mut user
                && let Some(log) = user.finished().map_err(|reason| self.user_failed(reason))?
            {
                let ended = log.retransmissions.iter().map(|count| Finished {
                    cpu: Duration::ZERO,
                    retransmissions: Some(*count),
                });
                finished = ended.map(Some).collect();
                user_samples = log.samples;
            }
            live.update(self, &emulator, &sampler, now);
            self.sample_controllers(&finished, &mut fallbacks);
            progress(now);
            let running = finished.iter().position(Option::is_none);
            if let Some(slow) = running
                && clock.now().since(Time::ZERO) > self.run.experiment.duration + grace
            {
                return Err(TestbedError::Traffic {
                    label: self.flows[slow].name.clone(),
                    reason: format!("it had not ended {grace:?} after its time"),
                });
            }
        }
        drop((flows, user));
        let (of_sockets, sampler_cpu) = sampler
            .finish()
            .map_err(TestbedError::system("sample the sender's sockets"))?;
        let emulator = emulator
            .finish()
            .map_err(TestbedError::system("emulate the link"))?;
        let steal_after = MachineTime::now().map_err(TestbedError::system("read /proc/stat"))?;
        Ok(Recorded {
            samples: match user_samples.is_empty() {
                true => of_sockets,
                false => user_samples,
            },
            finished: finished.into_iter().flatten().collect(),
            fallbacks,
            process_cpu: process_cpu()
                .saturating_sub(cpu_before)
                .saturating_sub(sampler_cpu)
                .saturating_sub(emulator.cpu),
            steal: steal_after.steal_since(steal_before),
            emulator,
        })
    }

    /// A guest for each flow, where [`Run::has_guests`] says so.
    fn make_guests(&self, path: &Path) -> Result<Option<Guests>, TestbedError> {
        let made = self
            .run
            .has_guests()
            .then(|| Guests::new(&path.sender, self.flows));
        made.transpose()
            .map_err(TestbedError::system("make the lab's guests"))
    }

    /// Puts the box at the guests' ports; it goes with what is returned.
    fn attach_edge(
        &self,
        path: &Path,
        guests: Option<&Guests>,
    ) -> Result<Option<Box<dyn Any>>, TestbedError> {
        let Some(guests) = guests.filter(|_| self.run.has_edge()) else {
            return Ok(None);
        };
        let edge = self.run.edge.ok_or(TestbedError::NoEdge)?;
        let attached = edge.attach(path.sender.as_fd(), guests.ports());
        attached.map(Some).map_err(TestbedError::Edge)
    }

    /// The device of the TCP in user space, if that sends, and the network's end of the sender's device.
    fn sender_devices(&self, path: &Path) -> Result<(Option<OwnedFd>, OwnedFd), TestbedError> {
        let made = match self.run.is_in_user_space() {
            true => user_device().map(|(own, network)| (Some(own), network)),
            false => path.sender_device.try_clone().map(|device| (None, device)),
        };
        made.map_err(TestbedError::system("make the sender's device"))
    }

    /// Starts the TCP in user space, if that sends.
    fn start_user_tcp(
        &self,
        path: &Path,
        device: Option<&OwnedFd>,
        clock: Clock,
    ) -> Result<Option<UserTcp>, TestbedError> {
        let (Some(device), Some(plane)) = (device, &self.run.user_plane) else {
            return Ok(None);
        };
        // The emulator's end must not be hung up before the emulator has ended.
        let device = device.try_clone();
        let device = device.map_err(TestbedError::system("share the sender's device"))?;
        let ecn = match uses_ecn(self.run.experiment) {
            true => Ecn::Classic,
            false => Ecn::Off,
        };
        let specs: Vec<_> = self.specs().collect();
        UserTcp::start(path, device, plane, &specs, ecn, clock).map(Some)
    }

    fn user_failed(&self, reason: String) -> TestbedError {
        TestbedError::Traffic {
            label: self.flows.first().map_or("", |flow| &flow.name).to_owned(),
            reason,
        }
    }

    fn specs(&self) -> impl Iterator<Item = FlowSpec<'_>> {
        let flows = self.flows.iter().zip(&self.run.senders).enumerate();
        flows.map(|(index, (flow, sender))| FlowSpec {
            index: index as u16,
            label: &flow.name,
            congestion_control: &sender.congestion_control,
            at_both_ends: sender.at_both_ends,
            duration: self.run.experiment.duration,
            start: flow.start.since(Time::ZERO),
            stop: flow.stop.map(|stop| stop.since(Time::ZERO)),
            tag: flow.tag,
        })
    }

    /// Starts the flows in the senders' namespaces: one for each flow, or one for all.
    fn start_flows(&self, path: &Path, senders: &[Namespace]) -> Result<Vec<Flow>, TestbedError> {
        self.specs()
            .enumerate()
            .map(|(index, spec)| {
                let program = match spec.at_both_ends {
                    true => TrafficProgram::Bulk,
                    false => self.run.program,
                };
                let sender = senders.get(index).unwrap_or(&path.sender);
                Flow::start(program, path, sender, &spec)
            })
            .collect()
    }

    /// Counts for each flow that runs whether its algorithm controls it.
    fn sample_controllers(&self, finished: &[Option<Finished>], counts: &mut [FallbackCount]) {
        let Some(probe) = self.run.controllers else {
            return;
        };
        let samples = probe();
        let flows = self.run.senders.iter().zip(finished).zip(counts);
        for (port, ((sender, _), count)) in (FIRST_PORT..)
            .zip(flows)
            .filter(|(_, ((_, finished), _))| finished.is_none())
        {
            let of_flow = samples.iter().filter(|sample| {
                sample.local_port == port && sample.congestion_control == sender.congestion_control
            });
            if let Some(fallback) = of_flow.map(|sample| sample.fallback).max() {
                count.add(fallback);
            }
        }
    }

    fn measure(&self, recorded: &Recorded, lateness: Lateness) -> Result<Measured, TestbedError> {
        let log = &recorded.emulator.packets;
        let experiment = self.run.experiment;
        let begin = log.first_data(self.flows.len());
        let window = Window {
            from: begin + experiment.measure.from.since(Time::ZERO),
            to: begin + experiment.duration,
        };
        let capacity = &self.forward.capacity;
        let mut flows = Vec::with_capacity(self.flows.len());
        for (index, (flow, sender)) in self.flows.iter().zip(&self.run.senders).enumerate() {
            let samples = recorded.samples.get(index).map_or(&[][..], Vec::as_slice);
            let ran_under = samples
                .last()
                .map(|sample| sample.congestion_control.as_str());
            if let Some(other) = ran_under.filter(|name| *name != sender.congestion_control) {
                return Err(TestbedError::Traffic {
                    label: flow.name.clone(),
                    reason: format!(
                        "it ran under `{other}` instead of `{}`",
                        sender.congestion_control
                    ),
                });
            }
            let finished = recorded.finished.get(index);
            let at_link = AtBottleneck::of_flow(log, index as u8, window, capacity);
            let counted = retransmissions(samples, window);
            let own_cpu = finished.map_or(Duration::ZERO, |finished| finished.cpu);
            let shared_cpu = recorded.process_cpu.as_secs_f64() / self.flows.len() as f64;
            flows.push(RunResult {
                name: flow.name.clone(),
                congestion_control: sender.congestion_control.clone(),
                throughput_bps: at_link.throughput_bps,
                utilisation: at_link.utilisation,
                queueing_delay_ms: at_link.queueing_delay_ms(),
                loss: at_link.loss,
                packets: at_link.packets,
                dropped: at_link.dropped + at_link.lost,
                marked: at_link.marked,
                retransmissions: finished
                    .and_then(|finished| finished.retransmissions)
                    .filter(|_| window.from == begin)
                    .unwrap_or(counted),
                cpu_seconds: Some(own_cpu.as_secs_f64() + shared_cpu),
                emulator_cpu_seconds: Some(recorded.emulator.cpu.as_secs_f64()),
                fallback: recorded.fallbacks[index].fallback(),
                disturbed: false,
                disturbance: None,
                tries: 1,
                steal: Some(recorded.steal),
                lateness_ms: Some(lateness),
                real_time: Some(recorded.emulator.real_time),
                series: Series {
                    tcp: samples
                        .iter()
                        .filter(|sample| begin <= sample.at && sample.at < window.to)
                        .cloned()
                        .map(|mut sample| {
                            sample.at = Time::ZERO + sample.at.since(begin);
                            sample
                        })
                        .collect(),
                    link: at_link.intervals,
                },
            });
        }
        Ok(Measured {
            flows,
            bottleneck: AtBottleneck::of_all(log, self.flows.len(), window, capacity),
        })
    }
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

/// Segments that a sender sent again within the window; the samples count from the connection on.
fn retransmissions(samples: &[SocketSample], window: Window) -> u64 {
    let count = |sample: Option<&SocketSample>| sample.map_or(0, |s| s.retransmissions.into());
    let before: u64 = count(samples.iter().rfind(|sample| sample.at < window.from));
    count(samples.last()).saturating_sub(before)
}

/// Live rates.
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

    fn update(
        &mut self,
        run: &Try<'_>,
        emulator: &Emulator,
        sampler: &Sampler,
        progress: &mut Progress,
    ) {
        let now = self.clock.now();
        progress.flows.clear();
        for (index, (flow, history)) in run.flows.iter().zip(&mut self.bytes).enumerate() {
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
            progress.flows.push(FlowProgress {
                label: flow.name.clone(),
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
        progress.elapsed = self
            .started
            .map_or(Duration::ZERO, |started| now.since(started))
            .min(progress.duration);
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
                measured: Measured {
                    flows: Vec::new(),
                    bottleneck: AtBottleneck::default(),
                },
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
    fn a_run_that_cannot_be_repeated_stands() {
        let kept = least_disturbed(3, |number| match number {
            1 => Ok(Attempt {
                measured: Measured {
                    flows: Vec::new(),
                    bottleneck: AtBottleneck::default(),
                },
                disturbance: Some("something".to_owned()),
                severity: 4.0,
                tries: 1,
            }),
            _ => Err(TestbedError::Timing),
        });
        assert!(kept.is_ok_and(|kept| kept.tries == 1 && kept.disturbance.is_some()));
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
