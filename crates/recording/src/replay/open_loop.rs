//! Open loop: another program or algorithm over the recorded signals. What it would have done changes
//! no signal, so its window is not the window that it would have had.

use std::collections::HashMap;

use fairwater_lang::Program;
use fairwater_plane::{Command, Event, FlowId, FlowInfo, Plane, ProgramId, RawReport};
use thiserror::Error;

use super::algorithm::{Commands, name};
use super::backend::{Backend, Interpreter};
use crate::reader::Recording;
use crate::record::{Controls, Invoked, Stage, State, What};

/// What runs in place of what was recorded.
#[derive(Debug)]
pub enum OpenLoop {
    /// A program alone: nobody gets its reports or sets its variables.
    Program(Box<Program>),
    /// The first algorithm of a plane.
    Algorithm(Box<Plane>),
}

/// The plane has no algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the plane has no algorithm")]
pub struct OpenLoopError;

/// One invocation, as it was and as it would have been.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compared<'a> {
    /// Number of the invocation, from 1 over the recording.
    pub invocation: u64,
    /// Which of the recording's flows.
    pub flow: u32,
    /// The datapath's time, µs.
    pub time_us: u64,
    /// Window and rate that were recorded.
    pub recorded: Controls,
    /// Window and rate of what runs instead.
    pub instead: Controls,
    /// What it reported: names and values.
    pub report: Option<Vec<(&'a str, u64)>>,
    /// Why it was stopped, as bits of [`fairwater_exec::frame::Fault`]; 0 is none.
    pub fault: u32,
}

/// Runs something else over the signals of each flow, from the flow's first recorded state on, and
/// tells of each invocation.
///
/// # Errors
/// The plane has no algorithm.
pub fn open_loop(
    recording: &Recording,
    instead: OpenLoop,
    tell: &mut dyn FnMut(&Compared<'_>),
) -> Result<(), OpenLoopError> {
    let (mut plane, programs) = match instead {
        OpenLoop::Program(program) => (None, vec![*program]),
        OpenLoop::Algorithm(plane) => {
            let hosted = plane.algorithms().first().ok_or(OpenLoopError)?;
            let programs = hosted.programs().iter();
            let programs = programs.map(|loaded| loaded.program().clone()).collect();
            (Some(plane), programs)
        }
    };
    let programs: Vec<&Program> = programs.iter().collect();
    let mut lanes: HashMap<u32, Lane> = HashMap::new();
    let mut number = 0;
    let mut sink = Commands::default();
    for record in &recording.records {
        match &record.what {
            What::Began(began) => {
                let info = FlowInfo::from(&began.info);
                let lane = Lane::of(&info, plane.is_none());
                lanes.insert(record.flow, lane);
                if let Some(plane) = &mut plane {
                    let created = Event::Created {
                        flow: name(record.flow),
                        algorithm: 0,
                        info: &info,
                    };
                    plane.on_event(created, &mut sink);
                }
                carry_out(&mut sink, &mut lanes);
            }
            What::Invoked(invoked) => {
                number += 1;
                let Some(lane) = lanes.get_mut(&record.flow) else {
                    continue;
                };
                let Some(outcome) = lane.invoke(&programs, invoked) else {
                    continue;
                };
                let ran = lane.ran.and_then(|at| programs.get(at as usize));
                let report = outcome.report.as_ref().map(|fields| {
                    let names = ran.map_or(&[][..], |program| &program.variables);
                    let names = names.iter().map(|variable| variable.name.as_str());
                    names.zip(fields.iter().copied()).collect()
                });
                tell(&Compared {
                    invocation: number,
                    flow: record.flow,
                    time_us: record.time_us,
                    recorded: invoked.after,
                    instead: outcome.controls,
                    report,
                    fault: outcome.fault,
                });
                let ran = lane.ran;
                if let (Some(plane), Some(fields), Some(ran)) = (&mut plane, &outcome.report, ran) {
                    let report = RawReport {
                        program: ProgramId::new(0, ran),
                        time_us: record.time_us,
                        cwnd: outcome.controls.cwnd,
                        rate: outcome.controls.rate,
                        fields,
                    };
                    let flow = name(record.flow);
                    plane.on_event(Event::Reported { flow, report }, &mut sink);
                    carry_out(&mut sink, &mut lanes);
                }
            }
            What::Ended => {
                lanes.remove(&record.flow);
                if let Some(plane) = &mut plane {
                    let flow = name(record.flow);
                    plane.on_event(Event::Closed { flow }, &mut sink);
                    carry_out(&mut sink, &mut lanes);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Stages commands for the next invocations of their flows.
fn carry_out(sink: &mut Commands, lanes: &mut HashMap<u32, Lane>) {
    for (FlowId { slot, .. }, command) in sink.0.drain(..) {
        if let Some(lane) = lanes.get_mut(&slot) {
            lane.stage(command);
        }
    }
}

/// A flow under what runs instead.
#[derive(Debug)]
struct Lane {
    state: State,
    staged: Option<Stage>,
    /// The program of the last invocation.
    ran: Option<u32>,
    is_withdrawn: bool,
}

impl Lane {
    fn of(info: &FlowInfo, starts_program: bool) -> Self {
        Self {
            state: State {
                program: None,
                controls: Controls {
                    cwnd: info.cwnd,
                    rate: info.rate,
                },
                timer_zero_us: info.now_us,
                variables: Vec::new(),
            },
            staged: starts_program.then(|| Stage {
                switch: Some(0),
                ..Stage::default()
            }),
            ran: None,
            is_withdrawn: false,
        }
    }

    /// What is said later counts, and a switch drops the updates before it.
    fn stage(&mut self, command: Command) {
        if command.withdraw {
            self.is_withdrawn = true;
        }
        let staged = self.staged.get_or_insert_default();
        if let Some(switch) = command.switch {
            staged.switch = Some(switch.index());
            staged.updates.clear();
        }
        for (at, value) in command.updates {
            match staged.updates.iter_mut().find(|(known, _)| *known == at) {
                Some((_, known)) => *known = value,
                None => staged.updates.push((at, value)),
            }
        }
        staged.cwnd = command.cwnd.or(staged.cwnd);
        staged.rate = command.rate.or(staged.rate);
    }

    /// `None` once the flow is nobody's.
    fn invoke(
        &mut self,
        programs: &[&Program],
        recorded: &Invoked,
    ) -> Option<super::backend::Outcome> {
        if self.is_withdrawn {
            return None;
        }
        let invoked = Invoked {
            before: self.state.controls,
            stage: self.staged.take(),
            signals: recorded.signals,
            ..Invoked::default()
        };
        let switch = invoked.stage.as_ref().and_then(|stage| stage.switch);
        self.ran = switch.or(self.state.program);
        self.ran?;
        let outcome = Interpreter
            .invoke(programs, &mut self.state, &invoked)
            .ok()?;
        self.is_withdrawn = outcome.fault != 0;
        Some(outcome)
    }
}
