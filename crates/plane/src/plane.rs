//! The plane: events in, commands out.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use fairwater_lang::{MissingSignals, SignalSet};
use thiserror::Error;

use crate::hosted::Tenant;
use crate::{
    Algorithm, AlgorithmError, Command, CommandSink, Control, Event, Flow, FlowId, FlowInfo,
    FlowState, FlowView, HostedAlgorithm, LoadedProgram, Notice, ProgramId, Programs, RawReport,
    Reason, Report, Statistics,
};

/// The most flows that a plane keeps: slots are below this.
pub const MAX_FLOWS: u32 = 1 << 20;

/// Notices kept until they are drained; the oldest go first.
const MAX_NOTICES: usize = 1024;

/// Why an algorithm was not taken into a plane.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlaneError {
    /// The algorithm could not be built.
    #[error(transparent)]
    Algorithm(#[from] AlgorithmError),
    /// The algorithm brought no program.
    #[error("algorithm `{algorithm}` has no program")]
    NoProgram {
        /// The algorithm's name.
        algorithm: String,
    },
    /// A program reads signals that the datapath lacks (CCP §5.3).
    #[error("algorithm `{algorithm}`, program `{program}`: {missing}")]
    MissingSignals {
        /// The algorithm's name.
        algorithm: String,
        /// The program's name.
        program: String,
        /// The signals, and the datapath.
        missing: MissingSignals,
    },
}

/// Counts of a plane that belong to no algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PlaneStatistics {
    /// Events for a flow that the plane does not know, or no longer: ignored.
    pub stray: u64,
    /// Reports of a program that does not exist or with a wrong number of fields: ignored.
    pub malformed: u64,
    /// Notices that were not drained in time.
    pub notices_lost: u64,
}

/// Hosts algorithms for one datapath, sans I/O.
///
/// Everything happens in [`Plane::on_event`], on the caller's thread. Author code that fails
/// harms its own flow alone: the flow is withdrawn to the datapath's fallback and a [`Notice`]
/// tells why. (With `panic = "abort"` a panic cannot be contained.) A report costs no
/// allocation of the plane's.
#[derive(Debug)]
pub struct Plane {
    datapath: String,
    signals: SignalSet,
    algorithms: Vec<HostedAlgorithm>,
    flows: Vec<Option<Tenant>>,
    command: Command,
    notices: VecDeque<Notice>,
    statistics: PlaneStatistics,
}

impl Plane {
    /// A plane for a datapath of that name that has these signals.
    #[must_use]
    pub fn new(datapath: &str, signals: SignalSet) -> Self {
        Self {
            datapath: datapath.to_owned(),
            signals,
            algorithms: Vec::new(),
            flows: Vec::new(),
            command: Command::default(),
            notices: VecDeque::new(),
            statistics: PlaneStatistics::default(),
        }
    }

    /// Builds an algorithm, compiles its programs and takes it in. Returns its index.
    ///
    /// # Errors
    /// What `build` returns; a plane refuses an algorithm without programs, or with one that
    /// reads a signal that the datapath lacks. The plane is then as before.
    pub fn add<A, F>(&mut self, build: F) -> Result<usize, PlaneError>
    where
        A: Algorithm + 'static,
        F: FnOnce(&mut Programs) -> Result<A, AlgorithmError>,
    {
        let index = self.algorithms.len();
        let mut programs = Programs::new(u32::try_from(index).unwrap_or(u32::MAX));
        let algorithm = build(&mut programs)?;
        let name = algorithm.name().to_owned();
        let programs = programs.into_loaded();
        if programs.is_empty() {
            return Err(PlaneError::NoProgram { algorithm: name });
        }
        for p in &programs {
            if let Err(missing) = p.program().require(self.signals, &self.datapath) {
                return Err(PlaneError::MissingSignals {
                    algorithm: name,
                    program: p.name().to_owned(),
                    missing,
                });
            }
        }
        self.algorithms.push(HostedAlgorithm {
            idle_restart: algorithm.idle_restart(),
            ecn: algorithm.ecn(),
            algorithm: Box::new(algorithm),
            name,
            programs,
            statistics: Statistics::default(),
        });
        Ok(index)
    }

    /// The algorithms, by index.
    #[must_use]
    pub fn algorithms(&self) -> &[HostedAlgorithm] {
        &self.algorithms
    }

    /// What the plane knows of a flow, if it knows it.
    #[must_use]
    pub fn flow(&self, flow: FlowId) -> Option<FlowView> {
        let tenant = self.flows.get(flow.slot as usize)?.as_ref()?;
        (tenant.generation == flow.generation).then_some(FlowView {
            algorithm: tenant.algorithm,
            program: tenant.program,
            state: if tenant.flow.is_some() {
                FlowState::Running
            } else {
                FlowState::Withdrawn
            },
        })
    }

    /// Counts that belong to no algorithm.
    #[must_use]
    pub fn statistics(&self) -> PlaneStatistics {
        self.statistics
    }

    /// Takes the notices since the last call, oldest first.
    pub fn drain_notices(&mut self) -> impl Iterator<Item = Notice> + '_ {
        self.notices.drain(..)
    }

    /// Carries out one event of the datapath. At most one command goes to `sink`, for the
    /// event's flow.
    pub fn on_event(&mut self, event: Event<'_>, sink: &mut dyn CommandSink) {
        match event {
            Event::Created {
                flow,
                algorithm,
                info,
            } => self.created(flow, algorithm, info, sink),
            Event::Reported { flow, report } => self.reported(flow, report, sink),
            Event::Resumed { flow, info } => self.resumed(flow, info, sink),
            Event::Faulted { flow, reason } => self.faulted(flow, reason),
            Event::Closed { flow } => self.closed(flow),
        }
    }

    /// A slot that is not closed yet is given out again when the datapath says so.
    fn created(
        &mut self,
        flow: FlowId,
        algorithm: usize,
        info: &FlowInfo,
        sink: &mut dyn CommandSink,
    ) {
        let Some(hosted) = self.algorithms.get(algorithm) else {
            self.statistics.stray += 1;
            return;
        };
        if flow.slot >= MAX_FLOWS {
            let name = hosted.name.clone();
            self.notice(flow, name, Reason::TooManyFlows(flow.slot));
            sink.command(flow, &withdrawal());
            return;
        }
        let slot = flow.slot as usize;
        if slot >= self.flows.len() {
            self.flows.resize_with(slot + 1, || None);
        }
        if let Some(former) = self.flows[slot].take() {
            self.leave(former);
        }
        self.flows[slot] = Some(Tenant {
            generation: flow.generation,
            algorithm,
            program: 0,
            flow: None,
        });
        self.start(flow, algorithm, info, sink);
    }

    fn resumed(&mut self, flow: FlowId, info: &FlowInfo, sink: &mut dyn CommandSink) {
        let Some(tenant) = tenant(&mut self.flows, flow) else {
            self.statistics.stray += 1;
            return;
        };
        let algorithm = tenant.algorithm;
        // A withdrawn flow stays withdrawn.
        let Some(former) = tenant.flow.take() else {
            return;
        };
        self.algorithms[algorithm].statistics.flows -= 1;
        close(former);
        self.start(flow, algorithm, info, sink);
    }

    /// Gives the tenant of the slot its `Flow`.
    fn start(
        &mut self,
        flow: FlowId,
        algorithm: usize,
        info: &FlowInfo,
        sink: &mut dyn CommandSink,
    ) {
        let hosted = &mut self.algorithms[algorithm];
        hosted.statistics.started += 1;
        let first = program_id(algorithm, 0);
        reset(&mut self.command);
        self.command.switch = Some(first.index);
        let mut control = Control::new(&mut self.command, &hosted.programs, first);
        let made = contain(|| hosted.algorithm.new_flow(info, &mut control));
        let program = control.running().index;
        let failure = control.into_reason();
        let tenant = tenant(&mut self.flows, flow);
        match (made, failure) {
            (Ok(new), None) => {
                if let Some(tenant) = tenant {
                    hosted.statistics.flows += 1;
                    tenant.program = program;
                    tenant.flow = Some(new);
                }
                sink.command(flow, &self.command);
            }
            (made, failure) => {
                hosted.statistics.withdrawn += 1;
                let reason = match (made, failure) {
                    (Ok(new), reason) => {
                        close(new);
                        reason
                    }
                    (Err(panic), reason) => reason.or(Some(panic)),
                };
                let name = hosted.name.clone();
                sink.command(flow, &withdrawal());
                if let Some(reason) = reason {
                    self.notice(flow, name, reason);
                }
            }
        }
    }

    fn reported(&mut self, flow: FlowId, raw: RawReport<'_>, sink: &mut dyn CommandSink) {
        let Some(tenant) = tenant(&mut self.flows, flow) else {
            self.statistics.stray += 1;
            return;
        };
        let hosted = &mut self.algorithms[tenant.algorithm];
        let expected = hosted
            .programs
            .get(raw.program as usize)
            .map(LoadedProgram::report_len);
        if expected != Some(raw.fields.len()) {
            self.statistics.malformed += 1;
            return;
        }
        let Some(author) = tenant
            .flow
            .as_mut()
            .filter(|_| raw.program == tenant.program)
        else {
            hosted.statistics.superseded += 1;
            return;
        };
        hosted.statistics.reports += 1;

        let running = program_id(tenant.algorithm, tenant.program);
        let report = Report::new(running, raw);
        reset(&mut self.command);
        let mut control = Control::new(&mut self.command, &hosted.programs, running);
        let outcome = contain(|| author.on_report(&report, &mut control));
        let program = control.running().index;
        let failure = control.into_reason();
        let misuse = match report.foreign() {
            Some(field) => Some(foreign_field(&self.algorithms, field, running)),
            None => failure,
        };
        match (misuse, outcome) {
            (None, Ok(())) => {
                tenant.program = program;
                if self.command != Command::default() {
                    sink.command(flow, &self.command);
                }
            }
            (misuse, outcome) => {
                let panicked = outcome.err();
                let left = tenant.flow.take();
                let algorithm = tenant.algorithm;
                match (left, &panicked) {
                    (Some(left), None) => close(left),
                    (Some(left), Some(_)) => discard(left),
                    (None, _) => {}
                }
                sink.command(flow, &withdrawal());
                if let Some(reason) = misuse.or(panicked) {
                    self.withdrawn(flow, algorithm, reason);
                }
            }
        }
    }

    fn faulted(&mut self, flow: FlowId, reason: &str) {
        let Some(tenant) = tenant(&mut self.flows, flow) else {
            self.statistics.stray += 1;
            return;
        };
        let algorithm = tenant.algorithm;
        let Some(author) = tenant.flow.take() else {
            return;
        };
        close(author);
        self.withdrawn(flow, algorithm, Reason::Datapath(reason.to_owned()));
    }

    fn closed(&mut self, flow: FlowId) {
        if tenant(&mut self.flows, flow).is_none() {
            self.statistics.stray += 1;
            return;
        }
        if let Some(former) = self.flows[flow.slot as usize].take() {
            self.leave(former);
        }
    }

    /// A tenant's slot is free.
    fn leave(&mut self, former: Tenant) {
        if let Some(author) = former.flow {
            self.algorithms[former.algorithm].statistics.flows -= 1;
            close(author);
        }
    }

    /// A running flow's algorithm lost it.
    fn withdrawn(&mut self, flow: FlowId, algorithm: usize, reason: Reason) {
        let hosted = &mut self.algorithms[algorithm];
        hosted.statistics.flows -= 1;
        hosted.statistics.withdrawn += 1;
        let name = hosted.name.clone();
        self.notice(flow, name, reason);
    }

    fn notice(&mut self, flow: FlowId, algorithm: String, reason: Reason) {
        if self.notices.len() == MAX_NOTICES {
            self.notices.pop_front();
            self.statistics.notices_lost += 1;
        }
        self.notices.push_back(Notice {
            flow,
            algorithm,
            reason,
        });
    }
}

fn program_id(algorithm: usize, index: u32) -> ProgramId {
    ProgramId {
        algorithm: u32::try_from(algorithm).unwrap_or(u32::MAX),
        index,
    }
}

fn tenant(flows: &mut [Option<Tenant>], flow: FlowId) -> Option<&mut Tenant> {
    let tenant = flows.get_mut(flow.slot as usize)?.as_mut()?;
    (tenant.generation == flow.generation).then_some(tenant)
}

fn reset(command: &mut Command) {
    command.switch = None;
    command.cwnd = None;
    command.rate = None;
    command.updates.clear();
    command.withdraw = false;
}

fn withdrawal() -> Command {
    Command {
        withdraw: true,
        ..Command::default()
    }
}

/// Runs author code; a panic becomes a reason.
fn contain<T>(author: impl FnOnce() -> T) -> Result<T, Reason> {
    catch_unwind(AssertUnwindSafe(author)).map_err(|payload| {
        let reason = Reason::Panicked(message(payload.as_ref()));
        // The payload's destructor is author code too.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(payload)));
        reason
    })
}

fn message(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "with no message".to_owned())
}

/// Says goodbye to a flow; a panic in it has nobody left to harm.
fn close(mut author: Box<dyn Flow>) {
    let _ = contain(|| author.on_close());
    discard(author);
}

fn discard(author: Box<dyn Flow>) {
    let _ = contain(|| drop(author));
}

fn foreign_field(
    algorithms: &[HostedAlgorithm],
    field: crate::Field,
    reporter: ProgramId,
) -> Reason {
    let program = |id: ProgramId| {
        algorithms
            .get(id.algorithm as usize)?
            .programs
            .get(id.index as usize)
    };
    let name = |id| program(id).map_or_else(|| "?".to_owned(), |p| p.name().to_owned());
    Reason::ForeignField {
        field: program(field.program)
            .and_then(|p| p.program().variables.get(usize::from(field.index)))
            .map_or_else(|| "?".to_owned(), |v| v.name.clone()),
        of: name(field.program),
        reporter: name(reporter),
    }
}
