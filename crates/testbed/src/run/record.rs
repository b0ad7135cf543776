//! One try of a run: builds the path, sends over it, and takes it down.

use std::any::Any;
use std::os::fd::{AsFd, OwnedFd};
use std::slice::from_ref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fairwater_experiment::{Ecn, FlowConfig, Progress, TICK};
use fairwater_net::{LinkConfig, Time};
use fairwater_netlink::Namespace;
use fairwater_results::{FallbackCount, TrafficProgram};

use super::Run;
use super::live::Live;
use crate::check::uses_ecn;
use crate::clock::{Clock, process_cpu};
use crate::emulator::{Emulator, EmulatorLog};
use crate::error::TestbedError;
use crate::guests::Guests;
use crate::packet::FIRST_PORT;
use crate::path::Path;
use crate::sampler::{Sampler, Samples};
use crate::steal::MachineTime;
use crate::traffic::{Finished, Flow, FlowSpec, QuicFlows, UserFlows, UserTcp, user_device};

/// How long traffic may take beyond its time, to set up and to end; and as many RTTs.
const GRACE: Duration = Duration::from_secs(20);
const GRACE_RTTS: u32 = 20;

/// How often a socket's state is sampled.
const SAMPLE_PERIOD: Duration = Duration::from_millis(10);

/// One try of one run.
pub(super) struct Try<'a> {
    pub(super) run: &'a Run<'a>,
    pub(super) flows: &'a [FlowConfig],
    pub(super) forward: &'a LinkConfig,
    pub(super) reverse: &'a LinkConfig,
    pub(super) cancel: &'a AtomicBool,
}

/// What was recorded of a try.
pub(super) struct Recorded {
    pub(super) emulator: EmulatorLog,
    pub(super) samples: Samples,
    pub(super) finished: Vec<Finished>,
    /// By flow.
    pub(super) fallbacks: Vec<FallbackCount>,
    /// CPU time of this process without the lab's own threads.
    pub(super) process_cpu: Duration,
    pub(super) steal: f64,
}

impl Try<'_> {
    /// Builds the path, sends over it, and takes it down. What is declared last is dropped first:
    /// traffic ends before the emulator, and the hosts after all.
    pub(super) fn record(
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
        let mut user = match self.start_user_tcp(&path, user_device.as_ref(), clock)? {
            Some(tcp) => Some(UserFlows::Tcp(tcp)),
            None => self.start_quic(&path, clock)?.map(UserFlows::Quic),
        };
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
        let made = match self.run.is_over_user_tcp() {
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

    /// Starts the QUIC connections, if those send.
    fn start_quic(&self, path: &Path, clock: Clock) -> Result<Option<QuicFlows>, TestbedError> {
        let Some(ends) = self.run.quic.as_ref().filter(|_| self.run.is_over_quic()) else {
            return Ok(None);
        };
        let specs: Vec<_> = self.specs().collect();
        QuicFlows::start(path, ends, &specs, clock).map(Some)
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
}
