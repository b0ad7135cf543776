//! Algorithms compared on one link, together or one after another: what `fairwater try` runs, on
//! either back end.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fairwater_experiment::{
    Backend, Controller, Ecn, Edge, EdgeId, Experiment, FlowConfig, Measure, NodeId, Path,
    PlaneConfig, Progress, TcpConfig, Traffic,
};
use fairwater_net::{Capacity, DeliveryTrace, LinkSpec, Time};
use fairwater_results::{ControllerProbe, Results, TrafficProgram};
use fairwater_testbed::{KernelSender, QuicEnds, Run, UserPlane};

use crate::error::LabError;
use crate::input::{MAX_INPUT_BYTES, read_text};

/// An algorithm that is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate<C = String> {
    /// What to call it: `cubic`, `kernel:cubic`.
    pub label: String,
    /// On real TCP, the kernel's name of its congestion control, which must be there when the run
    /// starts: `cubic`, `fw_cubic`. In the simulator, a [`Controller`].
    pub congestion_control: C,
}

/// Algorithms on a link: on real TCP for [`crate::run`], or simulated for [`crate::simulate`].
#[derive(Debug, Clone)]
pub struct Comparison<C = String> {
    /// The link.
    pub link: LinkSpec,
    /// Duration of each run.
    pub duration: Duration,
    /// Who sends, one flow each.
    pub candidates: Vec<Candidate<C>>,
    /// The kernel's names of those congestion controls that receivers have too: one that needs
    /// ECN is asked for it at both ends, before they connect (RFC 8257 §3.2). What sends them is
    /// always [`TrafficProgram::Bulk`], as iperf3 asks afterwards.
    pub at_both_ends: Vec<String>,
    /// Whether they share the link, or have it alone in turn.
    pub together: bool,
    /// Whether they send over IPv6, which the simulator does not.
    pub ipv6: bool,
    /// What sends on real TCP.
    pub program: TrafficProgram,
    /// Maximum attempts for a run on real TCP that other load on the machine disturbs; at least 1.
    pub tries: u32,
    /// Samples who controls flows on real TCP; `None` where the kernel's own algorithms alone run.
    pub controllers: Option<ControllerProbe>,
    /// Where candidates whose congestion control begins with [`USER_TCP`](fairwater_testbed::USER_TCP) find their
    /// plane: a TCP in user space sends them, to the kernel's TCP.
    pub user_plane: Option<UserPlane>,
    /// The ends of candidates whose congestion control begins with [`QUIC`](fairwater_testbed::QUIC):
    /// [`crate::NoqEnds`].
    pub quic: Option<Arc<dyn QuicEnds>>,
}

/// The bottleneck, from the sender to the receiver.
pub(crate) const BOTTLENECK: EdgeId = EdgeId(0);
const SENDER: NodeId = NodeId(0);
const RECEIVER: NodeId = NodeId(1);

/// Receive windows grow to 64 MiB, as those of the test bed's hosts, so that the congestion window
/// is the limit.
const RECEIVE_WINDOW: u64 = 64 << 20;

impl<C> Comparison<C> {
    /// Runs of 30 s, alone, over IPv4 by iperf3, tried 3 times.
    pub fn new(link: LinkSpec, candidates: Vec<Candidate<C>>) -> Self {
        Comparison {
            link,
            duration: Duration::from_secs(30),
            candidates,
            at_both_ends: Vec::new(),
            together: false,
            ipv6: false,
            program: TrafficProgram::default(),
            tries: 3,
            controllers: None,
            user_plane: None,
            quic: None,
        }
    }

    /// Checks what does not depend on the machine, and reads the trace if the link has one.
    pub(crate) fn check_description(&self) -> Result<Capacity, LabError> {
        if !(Duration::from_secs(1)..=Duration::from_secs(86_400)).contains(&self.duration) {
            return Err(LabError::Duration {
                asked: self.duration,
            });
        }
        if self.candidates.is_empty() {
            return Err(LabError::NoCandidate);
        }
        if self.together && self.candidates.len() > MAX_TOGETHER {
            return Err(LabError::TooManyCandidates {
                asked: self.candidates.len(),
                most: MAX_TOGETHER,
            });
        }
        self.link.capacity.load(read_trace)
    }

    /// The candidates of each run: all of them, or one after another.
    pub(crate) fn groups(&self) -> Vec<&[Candidate<C>]> {
        if self.together {
            vec![&self.candidates]
        } else {
            self.candidates.chunks(1).collect()
        }
    }

    /// What one run is: `group` on the link.
    pub(crate) fn experiment(
        &self,
        capacity: &Capacity,
        group: &[Candidate<C>],
        controller: impl Fn(&C) -> Controller,
    ) -> Experiment {
        let link = &self.link;
        let bottleneck = link.forward_config(capacity);
        let edge = |name: &str, from, to, link| Edge {
            name: name.to_owned(),
            from,
            to,
            link,
        };
        let flow = |candidate: &Candidate<C>| FlowConfig {
            name: candidate.label.clone(),
            from: SENDER,
            to: RECEIVER,
            path: Path::Shortest,
            controller: controller(&candidate.congestion_control),
            traffic: Traffic::Bulk,
            start: Time::ZERO,
            start_jitter: Duration::ZERO,
            stop: None,
            priority: 0,
            tag: 0,
            bundle: None,
            edge: None,
            tcp: TcpConfig {
                receive_window: RECEIVE_WINDOW,
                ecn: if bottleneck.queue.marks() {
                    Ecn::Classic
                } else {
                    Ecn::Off
                },
                ..TcpConfig::default()
            },
        };
        Experiment {
            seed: link.seed,
            duration: self.duration,
            nodes: 2,
            edges: vec![
                edge("bottleneck", SENDER, RECEIVER, bottleneck.clone()),
                edge("back", RECEIVER, SENDER, link.reverse_config()),
            ],
            flows: group.iter().map(flow).collect(),
            bundles: Vec::new(),
            plane: PlaneConfig::default(),
            measure: Measure::default(),
        }
    }
}

/// The most flows that the results of one link tell apart.
const MAX_TOGETHER: usize = 64;

impl Comparison {
    /// Checks everything that can be checked before anything is started, and reads the trace if
    /// the link has one.
    ///
    /// # Errors
    /// What would keep it from running: a trace that is not there or malformed, an unknown
    /// congestion control, a machine that lacks something.
    pub fn check(&self) -> Result<(), LabError> {
        let capacity = self.check_description()?;
        for group in self.groups() {
            let experiment = self.real(&capacity, group);
            self.run_of(&experiment, group).check()?;
        }
        Ok(())
    }

    fn real(&self, capacity: &Capacity, group: &[Candidate]) -> Experiment {
        self.experiment(capacity, group, |name| Controller::Plane(name.clone()))
    }

    fn run_of<'a>(&self, experiment: &'a Experiment, group: &[Candidate]) -> Run<'a> {
        let sender = |candidate: &Candidate| KernelSender {
            congestion_control: candidate.congestion_control.clone(),
            at_both_ends: self.at_both_ends.contains(&candidate.congestion_control),
        };
        Run {
            experiment,
            senders: group.iter().map(sender).collect(),
            program: self.program,
            ipv6: self.ipv6,
            tries: self.tries,
            controllers: self.controllers,
            edge: None,
            user_plane: self.user_plane.clone(),
            quic: self.quic.clone(),
        }
    }
}

/// Runs a comparison on real TCP; `progress` hears ten times a second how far it is. Setting
/// `cancel` ends it soon. Whatever ends it, its processes, devices and namespaces end too: with
/// this thread, at the latest.
///
/// # Errors
/// What kept it from running, or that it was cancelled.
pub fn run(
    comparison: &Comparison,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(&Progress),
) -> Result<Results, LabError> {
    comparison.check()?;
    let capacity = comparison.check_description()?;
    let groups = comparison.groups();
    let mut runs = Vec::with_capacity(comparison.candidates.len());
    for (number, group) in groups.iter().enumerate() {
        let experiment = comparison.real(&capacity, group);
        let mut numbered = |of_one: &Progress| {
            progress(&Progress {
                run: number,
                runs: groups.len(),
                ..of_one.clone()
            });
        };
        let measured = comparison
            .run_of(&experiment, group)
            .run(cancel, &mut numbered)?;
        runs.extend(measured.flows);
    }
    Ok(Results {
        link: comparison.link.to_string(),
        on: Backend::Linux,
        duration_s: comparison.duration.as_secs_f64(),
        together: comparison.together,
        ipv6: comparison.ipv6,
        traffic: Some(comparison.program),
        kernel: Some(fairwater_testbed::kernel_release()),
        runs,
    })
}

fn read_trace(name: &str) -> Result<DeliveryTrace, LabError> {
    let text = read_text(name.as_ref(), MAX_INPUT_BYTES).map_err(|source| LabError::TraceFile {
        name: name.to_owned(),
        source,
    })?;
    DeliveryTrace::parse(&text).map_err(|source| LabError::Trace {
        name: name.to_owned(),
        source,
    })
}
