//! Replays through the algorithm: the plane's events again, and its commands compared.

use fairwater_plane::{Command, CommandSink, Event, FlowId, FlowInfo, Plane, ProgramId, RawReport};
use serde::Serialize;

use super::difference::{Difference, Field};
use crate::reader::Recording;
use crate::record::{FlowCommand, PlaneEvent, Record, Stage, What};

/// What a replay through the algorithms found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AlgorithmReplay {
    /// Events that the plane took in again.
    pub events: u64,
    /// Reports among them.
    pub reports: u64,
    /// Commands that were compared.
    pub commands: u64,
    /// Events behind the first gap, which nobody can replay: the algorithm's state is not known.
    pub skipped: u64,
    /// The first difference, at which the replay ended.
    pub difference: Option<Difference>,
}

/// Gives a plane the events of a recording, and compares its commands with those recorded. `plane` has
/// the recording's algorithms, in their order and under their names.
#[must_use]
pub fn algorithm(recording: &Recording, mut plane: Plane) -> AlgorithmReplay {
    let mut replay = AlgorithmReplay {
        events: 0,
        reports: 0,
        commands: 0,
        skipped: 0,
        difference: None,
    };
    let mut invocation = 0;
    let mut is_known = true;
    let mut records = recording.records.iter().peekable();
    while let Some(record) = records.next() {
        match &record.what {
            What::Invoked(_) => invocation += 1,
            What::Gap => is_known = false,
            What::Event(_) if !is_known => replay.skipped += 1,
            What::Event(event) => {
                let mut sink = Commands::default();
                replay.events += 1;
                replay.reports += u64::from(matches!(event, PlaneEvent::Reported(_)));
                give(recording, &mut plane, record, event, &mut sink);
                let mut recorded = Vec::new();
                while let Some(next) = records.peek() {
                    let What::Command(command) = &next.what else {
                        break;
                    };
                    if !command.is_unexplained {
                        recorded.push((next.flow, command.clone()));
                    }
                    records.next();
                }
                replay.commands += recorded.len() as u64;
                let replayed = sink.commands(recording);
                if let Some((field, recorded, replayed)) = compare(&recorded, &replayed) {
                    replay.difference = Some(Difference {
                        by: "algorithm".to_owned(),
                        invocation,
                        flow: record.flow,
                        time_us: record.time_us,
                        field,
                        recorded,
                        replayed,
                    });
                    break;
                }
            }
            _ => {}
        }
    }
    replay
}

/// The plane's name of a flow of the recording.
pub(crate) const fn name(flow: u32) -> FlowId {
    FlowId {
        slot: flow,
        generation: 1,
    }
}

/// The commands that an event leads to, as JSON.
pub(crate) fn commands_of(plane: &mut Plane, event: Event<'_>) -> Vec<String> {
    let mut sink = Commands::default();
    plane.on_event(event, &mut sink);
    let each = sink.0.into_iter();
    each.map(|(_, command)| show(&as_recorded(command, ProgramId::index)))
        .collect()
}

/// The plane takes in an event again.
fn give(
    recording: &Recording,
    plane: &mut Plane,
    record: &Record,
    event: &PlaneEvent,
    sink: &mut Commands,
) {
    let flow = name(record.flow);
    let info;
    let event = match event {
        PlaneEvent::Created(arrival) => {
            info = FlowInfo::from(&arrival.info);
            Event::Created {
                flow,
                algorithm: arrival.algorithm as usize,
                info: &info,
            }
        }
        PlaneEvent::Resumed(arrival) => {
            info = FlowInfo::from(&arrival.info);
            Event::Resumed {
                flow,
                algorithm: arrival.algorithm as usize,
                info: &info,
            }
        }
        PlaneEvent::Reported(report) => {
            let Some((program, _)) = recording.programs.get(report.program as usize) else {
                return;
            };
            let Some(algorithm) = program.algorithm else {
                return;
            };
            Event::Reported {
                flow,
                report: RawReport {
                    program: ProgramId::new(algorithm, program.index),
                    time_us: record.time_us,
                    cwnd: report.controls.cwnd,
                    rate: report.controls.rate,
                    fields: &report.fields,
                },
            }
        }
        PlaneEvent::MssChanged(mss) => Event::MssChanged { flow, mss: *mss },
        PlaneEvent::Faulted(reason) => Event::Faulted { flow, reason },
        PlaneEvent::Closed => Event::Closed { flow },
    };
    plane.on_event(event, sink);
}

/// The commands of one event.
#[derive(Debug, Default)]
pub(crate) struct Commands(pub(crate) Vec<(FlowId, Command)>);

impl CommandSink for Commands {
    fn command(&mut self, flow: FlowId, command: &Command) {
        self.0.push((flow, command.clone()));
    }
}

impl Commands {
    fn commands(self, recording: &Recording) -> Vec<(u32, FlowCommand)> {
        let index = |id: ProgramId| {
            let of = (Some(id.algorithm()), id.index());
            let mut programs = recording.programs.iter();
            let found = programs.position(|(p, _)| (p.algorithm, p.index) == of);
            // A program that the recording does not have differs from each that it has.
            found.map_or(u32::MAX, |at| u32::try_from(at).unwrap_or(u32::MAX))
        };
        let each = self.0.into_iter();
        each.map(|(flow, command)| (flow.slot, as_recorded(command, index)))
            .collect()
    }
}

/// A command of the plane, with its program as `index` has it.
fn as_recorded(command: Command, index: impl Fn(ProgramId) -> u32) -> FlowCommand {
    FlowCommand {
        stage: Stage {
            switch: command.switch.map(index),
            cwnd: command.cwnd,
            rate: command.rate,
            updates: command.updates,
        },
        withdraw: command.withdraw,
        hand_over: command.hand_over,
        is_unexplained: false,
    }
}

/// What the commands differ in first.
fn compare(recorded: &[(u32, FlowCommand)], replayed: &[(u32, FlowCommand)]) -> Option<Field> {
    let of = |(flow, command): &(u32, FlowCommand)| (*flow, show(command));
    for at in 0..recorded.len().max(replayed.len()) {
        let (was, is) = (recorded.get(at), replayed.get(at));
        if was == is {
            continue;
        }
        let shown = |command: Option<&(u32, FlowCommand)>| match command.map(of) {
            Some((flow, text)) => format!("{text} (flow {flow})"),
            None => "no command".to_owned(),
        };
        return Some(("the command".to_owned(), shown(was), shown(is)));
    }
    None
}

fn show(command: &FlowCommand) -> String {
    // A command has numbers alone, which JSON can say.
    serde_json::to_string(command).unwrap_or_default()
}
