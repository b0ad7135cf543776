//! The plane: events in, commands out.

mod aggregated;

use std::collections::VecDeque;

use fairwater_lang::SignalSet;
use thiserror::Error;

use crate::careful_resume::{self, Resuming};
use crate::contain::{close, contain, discard};
use crate::control::PendingCommand;
use crate::hosted::{HostedFlow, Role};
use crate::observer::{Observed, PlaneObserver};
use crate::{
    AggregateSnapshot, Algorithm, AlgorithmError, AlgorithmStatistics, Capabilities,
    CarefulResumeConfig, CarefulResumeStatus, Command, CommandSink, Control, Controller, Event,
    Flow, FlowId, FlowInfo, FlowSnapshot, HostedAlgorithm, InvalidCarefulResume, LoadedProgram,
    Notice, ProgramId, Programs, RawReport, Reason, Report, Requirements,
};
use aggregated::Aggregates;

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
    /// The configuration of Careful Resume makes no sense.
    #[error("Careful Resume: {0}")]
    CarefulResume(#[from] InvalidCarefulResume),
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

/// Hosts algorithms, sans I/O.
///
/// Everything happens in [`Plane::on_event`], on the caller's thread. Author code that fails
/// harms its own flow alone, or those of its aggregate: they are withdrawn to the datapath's
/// fallback and a [`Notice`] tells why. (With `panic = "abort"` a panic cannot be contained.) A report costs no
/// allocation of the plane's.
#[derive(Debug)]
pub struct Plane {
    algorithms: Vec<HostedAlgorithm>,
    flows: Vec<Option<HostedFlow>>,
    aggregates: Aggregates,
    pending: PendingCommand,
    notices: VecDeque<Notice>,
    statistics: PlaneStatistics,
    /// What flows of the same path share, if the plane resumes carefully.
    resume: Option<careful_resume::Shared>,
    observer: Option<Box<dyn PlaneObserver>>,
}

impl Default for Plane {
    fn default() -> Self {
        Self::new()
    }
}

impl Plane {
    /// A plane without algorithms.
    #[must_use]
    pub fn new() -> Self {
        Self {
            algorithms: Vec::new(),
            flows: Vec::new(),
            aggregates: Aggregates::default(),
            pending: PendingCommand::new(program_id(0, 0)),
            notices: VecDeque::new(),
            statistics: PlaneStatistics::default(),
            resume: None,
            observer: None,
        }
    }

    /// Lets new flows begin with part of the capacity that earlier flows observed on the same path
    /// (Careful Resume, RFC 9959): flows of the algorithms that are added from now on.
    ///
    /// # Errors
    /// [`InvalidCarefulResume`] for a configuration that makes no sense. The plane is then as before.
    pub fn resume_carefully(
        &mut self,
        config: CarefulResumeConfig,
    ) -> Result<(), InvalidCarefulResume> {
        config.check()?;
        self.resume = Some(careful_resume::Shared::new(config));
        Ok(())
    }

    /// What Careful Resume has done; `None` without [`Plane::resume_carefully`].
    #[must_use]
    pub fn careful_resume(&self) -> Option<CarefulResumeStatus> {
        Some(self.resume.as_ref()?.lock().status())
    }

    /// The plane's own time, µs, which only ever grows: what is remembered of paths has a lifetime, and
    /// datapaths have clocks of their own.
    pub fn set_time(&mut self, now_us: u64) {
        if let Some(resume) = &self.resume {
            resume.lock().set_time(now_us);
        }
    }

    /// What the datapath of the flows that start from now on is capable of: flows resume carefully where
    /// it has the signals, and paces (RFC 9959 §3.3 demands that).
    pub fn set_datapath(&mut self, capabilities: &Capabilities) {
        if let Some(resume) = &self.resume {
            resume.lock().may_resume = careful_resume::fits(capabilities);
        }
    }

    /// Builds an algorithm, compiles its programs and takes it in. Returns its index.
    ///
    /// # Errors
    /// What `build` returns; a plane refuses an algorithm without programs. The plane is then as
    /// before.
    pub fn add<A, F>(&mut self, build: F) -> Result<usize, PlaneError>
    where
        A: Algorithm + 'static,
        F: FnOnce(&mut Programs) -> Result<A, AlgorithmError>,
    {
        let index = self.algorithms.len();
        let number = u32::try_from(index).unwrap_or(u32::MAX);
        let mut programs = match self.resume {
            Some(_) => Programs::counting(number),
            None => Programs::new(number),
        };
        let algorithm = build(&mut programs)?;
        let name = algorithm.name().to_owned();
        if programs.loaded().is_empty() {
            return Err(PlaneError::NoProgram { algorithm: name });
        }
        let read = programs.loaded().iter().map(LoadedProgram::signals);
        let requirements = Requirements {
            signals: read.fold(SignalSet::EMPTY, SignalSet::union),
            rate: algorithm.needs_rate(),
            ecn: algorithm.ecn(),
            idle_restart: algorithm.idle_restart(),
        };
        let algorithm: Box<dyn Algorithm> = match &self.resume {
            Some(resume) if algorithm.resumes_carefully() => {
                Box::new(Resuming::new(algorithm, &mut programs, resume.clone())?)
            }
            _ => Box::new(algorithm),
        };
        self.algorithms.push(HostedAlgorithm {
            requirements,
            algorithm,
            name,
            programs: programs.into_loaded(),
            statistics: AlgorithmStatistics::default(),
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
    pub fn flow(&self, flow: FlowId) -> Option<FlowSnapshot<'_>> {
        let hosted_flow = self.flows.get(flow.slot as usize)?.as_ref()?;
        (hosted_flow.generation == flow.generation).then(|| FlowSnapshot {
            algorithm: hosted_flow.algorithm as usize,
            program: hosted_flow.program,
            controller: match hosted_flow.role {
                Role::Withdrawn => Controller::Fallback,
                Role::Alone(_) | Role::Member { .. } => Controller::Algorithm,
            },
            aggregate: match hosted_flow.role {
                Role::Member { aggregate, .. } => self.aggregates.view(aggregate),
                Role::Alone(_) | Role::Withdrawn => None,
            },
        })
    }

    /// The aggregates that there are, those of all algorithms.
    pub fn aggregates(&self) -> impl Iterator<Item = AggregateSnapshot<'_>> {
        self.aggregates.views()
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

    /// Carries out one event of the datapath. At most one command goes to `sink` for a flow alone;
    /// in an aggregate any number for each member, in their order.
    pub fn on_event(&mut self, event: Event<'_>, sink: &mut dyn CommandSink) {
        if self.observer.is_some() {
            return self.on_observed_event(event, sink);
        }
        self.carry_out(event, sink);
    }

    /// Lets an observer see all events and commands from now on, in place of the former observer.
    pub fn set_observer(&mut self, observer: Option<Box<dyn PlaneObserver>>) {
        self.observer = observer;
    }

    #[cold]
    fn on_observed_event(&mut self, event: Event<'_>, sink: &mut dyn CommandSink) {
        let Some(mut observer) = self.observer.take() else {
            return;
        };
        observer.event(&event);
        let mut observed = Observed {
            observer: observer.as_mut(),
            sink,
        };
        self.carry_out(event, &mut observed);
        self.observer = Some(observer);
    }

    #[inline]
    fn carry_out(&mut self, event: Event<'_>, sink: &mut dyn CommandSink) {
        match event {
            Event::Created {
                flow,
                algorithm,
                info,
            } => self.created(flow, algorithm, info, sink),
            Event::Reported { flow, report } => self.reported(flow, report, sink),
            Event::Resumed {
                flow,
                algorithm,
                info,
            } => self.resumed(flow, algorithm, info, sink),
            Event::MssChanged { flow, mss } => self.mss_changed(flow, mss, sink),
            Event::Faulted { flow, reason } => self.faulted(flow, reason, sink),
            Event::Closed { flow } => self.closed(flow, sink),
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
            self.leave(former, sink);
        }
        self.flows[slot] = Some(HostedFlow {
            generation: flow.generation,
            // Each algorithm was built with its index as a `u32`.
            algorithm: u32::try_from(algorithm).unwrap_or(u32::MAX),
            program: 0,
            role: Role::Withdrawn,
        });
        self.start(flow, algorithm, info, sink);
    }

    fn resumed(&mut self, flow: FlowId, to: usize, info: &FlowInfo, sink: &mut dyn CommandSink) {
        let known = to < self.algorithms.len();
        let Some(hosted_flow) = find_flow(&mut self.flows, flow).filter(|_| known) else {
            self.statistics.stray += 1;
            return;
        };
        let algorithm = hosted_flow.algorithm as usize;
        // A withdrawn flow stays withdrawn.
        match std::mem::replace(&mut hosted_flow.role, Role::Withdrawn) {
            Role::Withdrawn => return,
            former => {
                // There are no more algorithms than a `u32` counts.
                hosted_flow.algorithm = u32::try_from(to).unwrap_or(u32::MAX);
                hosted_flow.program = 0;
                self.algorithms[algorithm].statistics.flows -= 1;
                self.end(former, sink);
            }
        }
        self.start(flow, to, info, sink);
    }

    /// The flow in a slot comes under its algorithm, in an aggregate or alone.
    fn start(
        &mut self,
        flow: FlowId,
        algorithm: usize,
        info: &FlowInfo,
        sink: &mut dyn CommandSink,
    ) {
        let hosted = &mut self.algorithms[algorithm];
        hosted.statistics.started += 1;
        match contain(|| hosted.algorithm.aggregate_by(info)) {
            Ok(None) => {}
            Ok(Some(key)) => {
                if self.join(flow, algorithm, key, info, sink) {
                    return;
                }
            }
            Err(reason) => {
                let name = hosted.name.clone();
                let reason = match reason {
                    Reason::Panicked(message) => Reason::KeyPanicked(message),
                    other => other,
                };
                self.notice(flow, name, reason);
            }
        }
        self.start_alone(flow, algorithm, info, sink);
    }

    /// Gives the flow in the slot its `Flow`.
    fn start_alone(
        &mut self,
        flow: FlowId,
        algorithm: usize,
        info: &FlowInfo,
        sink: &mut dyn CommandSink,
    ) {
        let hosted = &mut self.algorithms[algorithm];
        let first = program_id(algorithm, 0);
        let pending = &mut self.pending;
        pending.reset(first);
        pending.command.switch = Some(first);
        let mut control = Control::new(pending, &hosted.programs);
        let made = contain(|| hosted.algorithm.new_flow(info, &mut control));
        if pending.hand_over.is_some() {
            pending.reason.get_or_insert(Reason::HandedOverAtStart);
        }
        match (made, pending.reason.take()) {
            (Ok(new), None) => {
                hosted.statistics.flows += 1;
                if let Some(hosted_flow) = find_flow(&mut self.flows, flow) {
                    hosted_flow.program = pending.running.index;
                    hosted_flow.role = Role::Alone(new);
                }
                sink.command(flow, &pending.command);
            }
            (made, failure) => {
                let reason = match (made, failure) {
                    (Ok(new), Some(reason)) => {
                        close(new);
                        reason
                    }
                    (Err(_), Some(reason)) | (Err(reason), None) => reason,
                    (Ok(_), None) => return,
                };
                self.not_started(flow, algorithm, reason, sink);
            }
        }
    }

    /// A flow that came to its algorithm cannot be under it.
    fn not_started(
        &mut self,
        flow: FlowId,
        algorithm: usize,
        reason: Reason,
        sink: &mut dyn CommandSink,
    ) {
        let hosted = &mut self.algorithms[algorithm];
        hosted.statistics.withdrawn += 1;
        let name = hosted.name.clone();
        sink.command(flow, &withdrawal());
        self.notice(flow, name, reason);
    }

    fn reported(&mut self, flow: FlowId, raw: RawReport<'_>, sink: &mut dyn CommandSink) {
        let Some(hosted_flow) = find_flow(&mut self.flows, flow) else {
            self.statistics.stray += 1;
            return;
        };
        let algorithm = hosted_flow.algorithm as usize;
        let hosted = &mut self.algorithms[algorithm];
        // A report of the algorithm that the flow had before was under way.
        if raw.program != program_id(algorithm, hosted_flow.program) {
            return self.superseded(algorithm, &raw);
        }
        let expected = hosted
            .programs
            .get(raw.program.index as usize)
            .map(LoadedProgram::report_len);
        if expected != Some(raw.fields.len()) {
            self.statistics.malformed += 1;
            return;
        }
        let running = program_id(algorithm, hosted_flow.program);
        let report = Report::new(running, raw);
        match hosted_flow.role {
            Role::Alone(_) => hosted.statistics.reports += 1,
            Role::Withdrawn => {
                hosted.statistics.superseded += 1;
                return;
            }
            Role::Member { aggregate, member } => {
                hosted.statistics.reports += 1;
                return self.member_reported((aggregate, member), &report, sink);
            }
        }
        let work = |author: &mut dyn Flow, control: &mut Control<'_>| {
            author.on_report(&report, control);
        };
        self.consult_alone(flow, Some(&report), work, sink);
    }

    /// Runs the code of a flow that is alone, and carries out what it asks for.
    #[inline]
    fn consult_alone(
        &mut self,
        flow: FlowId,
        report: Option<&Report<'_>>,
        work: impl FnOnce(&mut dyn Flow, &mut Control<'_>),
        sink: &mut dyn CommandSink,
    ) {
        let Some(hosted_flow) = find_flow(&mut self.flows, flow) else {
            return;
        };
        let algorithm = hosted_flow.algorithm as usize;
        let running = program_id(algorithm, hosted_flow.program);
        let Role::Alone(author) = &mut hosted_flow.role else {
            return;
        };
        let hosted = &self.algorithms[algorithm];
        let pending = &mut self.pending;
        pending.reset(running);
        let mut control = Control::new(pending, &hosted.programs);
        let outcome = contain(|| work(author.as_mut(), &mut control));
        let foreign = report.and_then(Report::foreign);
        if pending.hand_over.is_some() {
            pending.resolve_hand_over(&self.algorithms);
        }
        // Nearly every call; a reason is large, so it is not to be moved here.
        if outcome.is_ok() && foreign.is_none() && pending.reason.is_none() {
            hosted_flow.program = pending.running.index;
            if pending.command != Command::default() {
                sink.command(flow, &pending.command);
            }
            return;
        }
        let panicked = outcome.err();
        let misuse = match foreign {
            Some(field) => Some(foreign_field(&self.algorithms, field, running)),
            None => pending.reason.take(),
        };
        if let Role::Alone(left) = std::mem::replace(&mut hosted_flow.role, Role::Withdrawn) {
            match panicked {
                None => close(left),
                Some(_) => discard(left),
            }
        }
        sink.command(flow, &withdrawal());
        if let Some(reason) = misuse.or(panicked) {
            self.withdrawn(flow, algorithm, reason);
        }
    }

    /// A flow's segments have another size now.
    fn mss_changed(&mut self, flow: FlowId, mss: u32, sink: &mut dyn CommandSink) {
        let Some(hosted_flow) = find_flow(&mut self.flows, flow) else {
            self.statistics.stray += 1;
            return;
        };
        match hosted_flow.role {
            Role::Withdrawn => {}
            Role::Alone(_) => {
                let work = |author: &mut dyn Flow, control: &mut Control<'_>| {
                    author.on_mss(mss, control);
                };
                self.consult_alone(flow, None, work, sink);
            }
            Role::Member { aggregate, member } => {
                self.ask(aggregate, sink, |author, group| {
                    author.on_mss(member, mss, group);
                });
            }
        }
    }

    /// A report that the flow's present program did not send.
    #[cold]
    fn superseded(&mut self, algorithm: usize, raw: &RawReport<'_>) {
        let reporter = self.algorithms.get(raw.program.algorithm as usize);
        let program = reporter.and_then(|a| a.programs.get(raw.program.index as usize));
        if program.map(LoadedProgram::report_len) == Some(raw.fields.len()) {
            self.algorithms[algorithm].statistics.superseded += 1;
        } else {
            self.statistics.malformed += 1;
        }
    }

    fn faulted(&mut self, flow: FlowId, reason: &str, sink: &mut dyn CommandSink) {
        let Some(hosted_flow) = find_flow(&mut self.flows, flow) else {
            self.statistics.stray += 1;
            return;
        };
        let algorithm = hosted_flow.algorithm as usize;
        let former = std::mem::replace(&mut hosted_flow.role, Role::Withdrawn);
        if matches!(former, Role::Withdrawn) {
            return;
        }
        self.withdrawn(flow, algorithm, Reason::Datapath(reason.to_owned()));
        self.end(former, sink);
    }

    fn closed(&mut self, flow: FlowId, sink: &mut dyn CommandSink) {
        if find_flow(&mut self.flows, flow).is_none() {
            self.statistics.stray += 1;
            return;
        }
        if let Some(former) = self.flows[flow.slot as usize].take() {
            self.leave(former, sink);
        }
    }

    /// Ends the flow that left its slot.
    fn leave(&mut self, former: HostedFlow, sink: &mut dyn CommandSink) {
        if !matches!(former.role, Role::Withdrawn) {
            self.algorithms[former.algorithm as usize].statistics.flows -= 1;
            self.end(former.role, sink);
        }
    }

    /// A flow is no longer its author's.
    fn end(&mut self, former: Role, sink: &mut dyn CommandSink) {
        match former {
            Role::Withdrawn => {}
            Role::Alone(author) => close(author),
            Role::Member { aggregate, member } => self.part(aggregate, member, sink),
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

fn find_flow(flows: &mut [Option<HostedFlow>], flow: FlowId) -> Option<&mut HostedFlow> {
    let hosted_flow = flows.get_mut(flow.slot as usize)?.as_mut()?;
    (hosted_flow.generation == flow.generation).then_some(hosted_flow)
}

fn withdrawal() -> Command {
    Command {
        withdraw: true,
        ..Command::default()
    }
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
