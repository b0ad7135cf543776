//! Records the flows of a plane as they run.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fairwater_datapath::{AppliedStage, Invocation, InvocationObserver};
use fairwater_lang::{Program, Signal};
use fairwater_plane::{Command, Event, FlowId, FlowInfo, PlaneObserver, ProgramId};

use crate::head::RecordedProgram;
use crate::record::{
    Arrival, Began, Controls, FlowCommand, Invoked, PlaneEvent, Record, Report, Stage, State, What,
};
use crate::writer::{End, WriteError, Writer};

/// Span of time in one file, µs: what is lost when the recorder is killed.
const FILE_US: u64 = 1_000_000;

/// Records of a file, at most.
const FILE_RECORDS: usize = 1 << 16;

/// A flow that may be recorded.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    /// Name of the flow's datapath.
    pub datapath: &'a str,
    /// The algorithm that the flow asks for.
    pub algorithm: &'a str,
    /// What is known of the flow.
    pub info: &'a FlowInfo,
}

/// Which flows are recorded.
pub type Filter = Box<dyn Fn(&Candidate<'_>) -> bool + Send>;

/// Records flows of one plane and its datapaths. Copies are of the same recording.
#[derive(Debug, Clone)]
pub struct Recorder(Arc<Mutex<Recorded>>);

impl Recorder {
    /// A recorder that writes there; `programs` are those that `writer` was made with.
    #[must_use]
    pub fn new(writer: Writer, programs: Vec<RecordedProgram>, filter: Filter) -> Self {
        let known = programs.iter().map(RecordedProgram::decode).collect();
        Self(Arc::new(Mutex::new(Recorded {
            writer: Some(writer),
            failure: None,
            filter,
            programs,
            known,
            records: Vec::new(),
            file_began_us: None,
            flows: Vec::new(),
            at_datapaths: HashMap::new(),
            at_plane: HashMap::new(),
            datapaths: 0,
            invocations: 0,
            is_explained: false,
        })))
    }

    /// An observer for the datapath of that name.
    #[must_use]
    pub fn of_datapath(&self, name: &str) -> Box<dyn InvocationObserver> {
        let mut recorded = self.recorded();
        recorded.datapaths += 1;
        Box::new(AtDatapath {
            recorder: self.clone(),
            name: name.to_owned(),
            number: recorded.datapaths,
        })
    }

    /// An observer for the plane.
    #[must_use]
    pub fn of_plane(&self) -> Box<dyn PlaneObserver> {
        Box::new(AtPlane(self.clone()))
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// The first that befell a file: the files before are sound.
    pub fn finish(&self) -> Result<End, WriteError> {
        let mut recorded = self.recorded();
        recorded.finish_file();
        if let Some(failure) = recorded.failure.take() {
            return Err(failure);
        }
        let (flows, invocations) = (recorded.flows.len() as u64, recorded.invocations);
        match recorded.writer.take() {
            Some(writer) => writer.finish(flows, invocations, 0),
            None => Ok(End::default()),
        }
    }

    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is recorded so far, and not yet written.
struct Recorded {
    /// `None` once the recording has ended or failed.
    writer: Option<Writer>,
    failure: Option<WriteError>,
    filter: Filter,
    programs: Vec<RecordedProgram>,
    /// The programs as datapaths have them.
    known: Vec<Option<Program>>,
    /// Records of the next file.
    records: Vec<Record>,
    file_began_us: Option<u64>,
    flows: Vec<Flow>,
    /// Flows by their name at a datapath, with the number of the datapath.
    at_datapaths: HashMap<(u32, FlowId), u32>,
    /// Flows by the plane's name.
    at_plane: HashMap<FlowId, u32>,
    datapaths: u32,
    invocations: u64,
    /// The event that the plane is about to carry out is recorded.
    is_explained: bool,
}

impl fmt::Debug for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorded")
            .field("flows", &self.flows.len())
            .field("records", &self.records.len())
            .finish_non_exhaustive()
    }
}

/// A flow that is recorded.
#[derive(Debug)]
struct Flow {
    ends: (SocketAddr, SocketAddr),
    /// Whether the plane knows the flow.
    is_announced: bool,
    has_ended: bool,
    /// The number of the program that runs, as its datapath has it.
    number: u32,
    state: State,
    /// The present file has the state before the flow's next invocation.
    has_state: bool,
    last_us: u64,
}

impl Recorded {
    /// An index of the recording's programs.
    fn program(&mut self, program: &Program) -> u32 {
        let is_same = |known: &Option<Program>| known.as_ref() == Some(program);
        let found = self.known.iter().position(is_same);
        let index = found.unwrap_or_else(|| {
            let name = format!("program {}", self.programs.len() + 1);
            self.programs
                .push(RecordedProgram::of_program(&name, program));
            self.known.push(Some(program.clone()));
            if let Some(Err(error)) = self.writer.as_ref().map(|w| w.programs(&self.programs)) {
                self.fail(error);
            }
            self.known.len() - 1
        });
        u32::try_from(index).unwrap_or(u32::MAX)
    }

    /// An index of the recording's programs of a program of the plane.
    fn program_of(&self, id: ProgramId) -> Option<u32> {
        let found = self.programs.iter().position(|program| {
            (program.algorithm, program.index) == (Some(id.algorithm()), id.index())
        });
        u32::try_from(found?).ok()
    }

    fn push(&mut self, flow: u32, time_us: u64, what: What) {
        let began_us = *self.file_began_us.get_or_insert(time_us);
        if time_us.saturating_sub(began_us) >= FILE_US || self.records.len() >= FILE_RECORDS {
            self.finish_file();
            self.file_began_us = Some(time_us);
        }
        if let Some(flow) = self.flows.get_mut(flow as usize) {
            flow.last_us = flow.last_us.max(time_us);
        }
        if self.writer.is_some() {
            self.records.push(Record {
                flow,
                time_us,
                what,
            });
        }
    }

    fn finish_file(&mut self) {
        let written = self.writer.as_mut().map(|w| w.records(&self.records));
        self.records.clear();
        for flow in &mut self.flows {
            flow.has_state = false;
        }
        if let Some(Err(error)) = written {
            self.fail(error);
        }
    }

    fn fail(&mut self, error: WriteError) {
        self.failure.get_or_insert(error);
        self.writer = None;
        self.records.clear();
    }

    fn begin(&mut self, candidate: &Candidate<'_>) -> Option<u32> {
        if self.writer.is_none() || !(self.filter)(candidate) {
            return None;
        }
        let number = u32::try_from(self.flows.len()).ok()?;
        let info = candidate.info;
        self.flows.push(Flow {
            ends: (info.local, info.remote),
            is_announced: false,
            has_ended: false,
            number: 0,
            state: State {
                controls: Controls {
                    cwnd: info.cwnd,
                    rate: info.rate,
                },
                timer_zero_us: info.now_us,
                ..State::default()
            },
            has_state: false,
            last_us: info.now_us,
        });
        let began = Began {
            datapath: candidate.datapath.to_owned(),
            algorithm: candidate.algorithm.to_owned(),
            info: info.into(),
        };
        self.push(number, info.now_us, What::Began(began));
        Some(number)
    }

    fn invoked(&mut self, number: u32, invocation: &Invocation<'_>) {
        let now_us = invocation.signals[Signal::Now];
        let known = &self.flows[number as usize];
        // Only a stage brings a flow another program.
        let switched = invocation.stage.is_some_and(|stage| stage.switch.is_some());
        let program = match invocation.program {
            None => None,
            Some(ran) => match known.state.program {
                Some(program) if !switched && known.number == ran.number => Some(program),
                _ => Some(self.program(ran.program)),
            },
        };
        let stage = invocation.stage.map(|stage| stage_of(stage, program));
        self.invocations += 1;
        let state = self.flows[number as usize].state.clone();
        // A file is finished before the state is written that the next one begins with.
        let began_us = *self.file_began_us.get_or_insert(now_us);
        if now_us.saturating_sub(began_us) >= FILE_US {
            self.finish_file();
            self.file_began_us = Some(now_us);
        }
        if !std::mem::replace(&mut self.flows[number as usize].has_state, true) {
            self.push(number, now_us, What::State(state));
            self.flows[number as usize].has_state = true;
        }
        let invoked = Invoked {
            program,
            signals: *invocation.signals,
            before: controls(invocation.before),
            stage,
            after: controls(invocation.after),
            report: invocation.report.map(<[u64]>::to_vec),
            fault: invocation.fault.map_or(0, |fault| fault as u32),
        };
        self.push(number, now_us, What::Invoked(Box::new(invoked)));
        let flow = &mut self.flows[number as usize];
        flow.number = invocation.program.map_or(0, |ran| ran.number);
        let state = &mut flow.state;
        // The program of a fault is gone with its variables.
        state.program = program.filter(|_| invocation.fault.is_none());
        state.controls = controls(invocation.after);
        state.timer_zero_us = invocation.timer_zero_us;
        state.variables.clear();
        if state.program.is_some() {
            state.variables.extend_from_slice(invocation.variables);
        }
    }

    fn ended(&mut self, number: u32) {
        let flow = &mut self.flows[number as usize];
        flow.has_ended = true;
        let last_us = flow.last_us;
        self.push(number, last_us, What::Ended);
    }

    /// The flow that the plane names so, if it is recorded.
    fn flow_of_plane(&mut self, event: &Event<'_>) -> Option<u32> {
        let name = event.flow();
        let Event::Created { info, .. } = event else {
            return self.at_plane.get(&name).copied();
        };
        let flows = (0u32..).zip(&self.flows);
        let is_it =
            |(_, flow): &(u32, &Flow)| !flow.is_announced && flow.ends == (info.local, info.remote);
        let found = flows.filter(is_it).last().map(|(number, _)| number);
        match found {
            Some(number) => {
                self.flows[number as usize].is_announced = true;
                self.at_plane.insert(name, number);
            }
            None => drop(self.at_plane.remove(&name)),
        }
        found
    }

    fn event(&mut self, event: &Event<'_>) {
        let number = self.flow_of_plane(event);
        self.is_explained = number.is_some();
        let Some(number) = number else {
            return;
        };
        let mut time_us = self.flows[number as usize].last_us;
        let arrival = |algorithm: usize, info: &FlowInfo| Arrival {
            algorithm: u32::try_from(algorithm).unwrap_or(u32::MAX),
            info: info.into(),
        };
        let told = match event {
            Event::Created {
                algorithm, info, ..
            } => PlaneEvent::Created(arrival(*algorithm, info)),
            Event::Resumed {
                algorithm, info, ..
            } => PlaneEvent::Resumed(arrival(*algorithm, info)),
            Event::Reported { report, .. } => {
                let Some(program) = self.program_of(report.program) else {
                    return;
                };
                time_us = report.time_us;
                PlaneEvent::Reported(Report {
                    program,
                    controls: Controls {
                        cwnd: report.cwnd,
                        rate: report.rate,
                    },
                    fields: report.fields.to_vec(),
                })
            }
            Event::MssChanged { mss, .. } => PlaneEvent::MssChanged(*mss),
            Event::Faulted { reason, .. } => PlaneEvent::Faulted((*reason).to_owned()),
            Event::Closed { flow } => {
                self.at_plane.remove(flow);
                PlaneEvent::Closed
            }
        };
        self.push(number, time_us, What::Event(told));
    }

    fn command(&mut self, flow: FlowId, command: &Command) {
        let Some(&number) = self.at_plane.get(&flow) else {
            return;
        };
        let told = FlowCommand {
            stage: Stage {
                switch: command.switch.and_then(|id| self.program_of(id)),
                cwnd: command.cwnd,
                rate: command.rate,
                updates: command.updates.clone(),
            },
            withdraw: command.withdraw,
            hand_over: command.hand_over,
            is_unexplained: !self.is_explained,
        };
        let time_us = self.flows[number as usize].last_us;
        self.push(number, time_us, What::Command(told));
    }
}

const fn controls(controls: fairwater_datapath::Controls) -> Controls {
    Controls {
        cwnd: controls.cwnd,
        rate: controls.rate,
    }
}

/// A stage whose switch, if there is one, is to `program`: the program that the invocation ran.
fn stage_of(stage: &AppliedStage, program: Option<u32>) -> Stage {
    Stage {
        switch: stage.switch.and(program),
        cwnd: stage.cwnd,
        rate: stage.rate,
        updates: stage.updates.iter().map(|(id, v)| (id.0, *v)).collect(),
    }
}

/// Observes one datapath.
#[derive(Debug)]
struct AtDatapath {
    recorder: Recorder,
    name: String,
    number: u32,
}

impl InvocationObserver for AtDatapath {
    fn begins(&mut self, flow: FlowId, algorithm: &str, info: &FlowInfo) -> bool {
        let mut recorded = self.recorder.recorded();
        let candidate = Candidate {
            datapath: &self.name,
            algorithm,
            info,
        };
        let number = recorded.begin(&candidate);
        if let Some(number) = number {
            recorded.at_datapaths.insert((self.number, flow), number);
        }
        number.is_some()
    }

    fn invoked(&mut self, invocation: &Invocation<'_>) {
        let mut recorded = self.recorder.recorded();
        let name = (self.number, invocation.flow);
        if let Some(&number) = recorded.at_datapaths.get(&name) {
            recorded.invoked(number, invocation);
        }
    }

    fn ended(&mut self, flow: FlowId) {
        let mut recorded = self.recorder.recorded();
        if let Some(number) = recorded.at_datapaths.remove(&(self.number, flow)) {
            recorded.ended(number);
        }
    }
}

/// Observes the plane.
struct AtPlane(Recorder);

impl PlaneObserver for AtPlane {
    fn event(&mut self, event: &Event<'_>) {
        self.0.recorded().event(event);
    }

    fn command(&mut self, flow: FlowId, command: &Command) {
        self.0.recorded().command(flow, command);
    }
}
