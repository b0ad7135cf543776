//! From invocation to invocation of a recording.

use std::collections::BTreeMap;

use fairwater_exec::interp;
use fairwater_exec::invocation::Registers;
use fairwater_lang::{ConstantValue, Program, Scope, Signal, compile_with};
use serde::Serialize;
use thiserror::Error;

use crate::condition::{Condition, ConditionError};
use crate::reader::Recording;
use crate::record::{Controls, Invoked, Record, Stage, State, What};
use crate::replay::{apply_stage, conclude};

/// Why there is no such step.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StepError {
    /// No flow of the recording was invoked.
    #[error("the recording has no invocations")]
    Empty,
    /// There is no such invocation.
    #[error("the recording has invocations 1 to {last}, and none of number {number}")]
    NoInvocation {
        /// What was asked for.
        number: u64,
        /// The last one.
        last: u64,
    },
    /// There is no such flow, or it was never invoked.
    #[error("the recording has no invocation of flow {0}")]
    NoFlow(u32),
    /// A condition is none.
    #[error(transparent)]
    Condition(#[from] ConditionError),
}

/// Where to go from an invocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To later ones.
    Forward,
    /// To earlier ones.
    Back,
}

/// What to stop at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The next invocation.
    Any,
    /// One whose program reported.
    Report,
    /// One that tells of losses, or of a timeout.
    Loss,
    /// One after which the condition holds, before volatile variables are reset.
    Condition(String),
}

/// What happened in an invocation: the gravest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// The program was stopped.
    Fault,
    /// A retransmission timeout.
    Timeout,
    /// Packets were lost.
    Loss,
    /// The program reported.
    Report,
    /// The fallback ran.
    Fallback,
    /// Nothing of these.
    Ack,
}

/// One invocation, as a person looks at it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Number of the invocation, from 1 over the recording.
    pub invocation: u64,
    /// Which of the recording's flows.
    pub flow: u32,
    /// The datapath's time, µs.
    pub time_us: u64,
    /// The program that ran; nothing under the fallback.
    pub program: Option<String>,
    /// The program's clauses that were reached, and whether their conditions held.
    pub clauses: Vec<Clause>,
    /// The signals, with those of the flow's invocation before.
    pub signals: Vec<NamedValue>,
    /// `Cwnd`, `Rate`, `Micros` and the variables, before and after; volatile ones before they are reset.
    pub variables: Vec<NamedValue>,
    /// What was staged, by names.
    pub staged: Vec<String>,
    /// Whether the program reported.
    pub reported: bool,
    /// Why the program was stopped.
    pub fault: Option<&'static str>,
    /// What came of it here, where it is not what was recorded.
    pub difference: Option<String>,
    /// What the plane did after the invocation, up to the flow's next.
    pub plane: Vec<String>,
}

/// A clause that was reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Clause {
    /// Which of the program's clauses, from 0.
    pub index: usize,
    /// Whether its condition held.
    pub held: bool,
    /// The first line of its source, from 1; nothing if the source is not known.
    pub line: Option<usize>,
    /// Its condition.
    pub condition: String,
}

/// A value, and what it was before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamedValue {
    /// Its name.
    pub name: String,
    /// Its value before; nothing if there was none.
    pub before: Option<u64>,
    /// Its value.
    pub value: u64,
}

impl NamedValue {
    /// Whether it changed.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        self.before.is_some_and(|before| before != self.value)
    }
}

/// Goes through a recording.
#[derive(Debug)]
pub struct Stepper<'r> {
    recording: &'r Recording,
    programs: Vec<&'r Program>,
    /// By program: the first and the last line of each clause.
    lines: Vec<Vec<(usize, usize)>>,
    /// Places of the invocations among the records.
    places: Vec<usize>,
    /// By flow, the numbers of its invocations.
    flows: BTreeMap<u32, Vec<u64>>,
}

/// An invocation that was run again.
struct Run {
    state_before: State,
    program: Option<usize>,
    registers: Registers,
    /// Before volatile variables are reset.
    variables: Vec<u64>,
    clauses: Vec<(usize, bool)>,
    difference: Option<String>,
}

impl<'r> Stepper<'r> {
    /// A stepper of a recording.
    ///
    /// # Errors
    /// No flow was invoked.
    pub fn new(recording: &'r Recording) -> Result<Self, StepError> {
        let records = recording.records.iter().enumerate();
        let places = records.filter(|(_, record)| matches!(record.what, What::Invoked(_)));
        let places: Vec<_> = places.map(|(place, _)| place).collect();
        let mut flows: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for (number, place) in (1..).zip(&places) {
            let flow = recording.records[*place].flow;
            flows.entry(flow).or_default().push(number);
        }
        if places.is_empty() {
            return Err(StepError::Empty);
        }
        Ok(Self {
            recording,
            programs: recording.programs.iter().map(|(_, p)| p).collect(),
            lines: recording.programs.iter().map(|(p, _)| lines(p)).collect(),
            places,
            flows,
        })
    }

    /// The recording.
    #[must_use]
    pub const fn recording(&self) -> &'r Recording {
        self.recording
    }

    /// The flows that were invoked, with how often.
    pub fn flows(&self) -> impl Iterator<Item = (u32, usize)> {
        self.flows.iter().map(|(flow, all)| (*flow, all.len()))
    }

    /// Number of the last invocation.
    #[must_use]
    pub fn last(&self) -> u64 {
        self.places.len() as u64
    }

    /// The first invocation of a flow that a program ran, or else its first.
    ///
    /// # Errors
    /// The flow was not invoked.
    pub fn first(&self, flow: u32) -> Result<u64, StepError> {
        let all = self.flows.get(&flow).ok_or(StepError::NoFlow(flow))?;
        let ran = |number: &&u64| self.invoked(**number).is_some_and(|i| i.program.is_some());
        let first = all.iter().find(ran).or(all.first());
        first.copied().ok_or(StepError::NoFlow(flow))
    }

    /// The numbers of a flow's invocations, in order.
    #[must_use]
    pub fn of_flow(&self, flow: u32) -> &[u64] {
        self.flows.get(&flow).map_or(&[], Vec::as_slice)
    }

    /// The record of an invocation.
    #[must_use]
    pub fn record(&self, number: u64) -> Option<&'r Record> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        self.recording.records.get(*self.places.get(index)?)
    }

    /// What was recorded of an invocation.
    #[must_use]
    pub fn invoked(&self, number: u64) -> Option<&'r Invoked> {
        match &self.record(number)?.what {
            What::Invoked(invoked) => Some(invoked),
            _ => None,
        }
    }

    /// What happened in an invocation, as a mark of a time line.
    #[must_use]
    pub fn mark(&self, number: u64) -> Mark {
        match self.invoked(number) {
            Some(invoked) if invoked.fault != 0 => Mark::Fault,
            Some(invoked) if invoked.signals[Signal::WasTimeout] != 0 => Mark::Timeout,
            Some(invoked) if is_loss(invoked) => Mark::Loss,
            Some(invoked) if invoked.report.is_some() => Mark::Report,
            Some(invoked) if invoked.program.is_none() => Mark::Fallback,
            _ => Mark::Ack,
        }
    }

    /// The source of the program that an invocation ran, with the first and the last line of each clause.
    #[must_use]
    pub fn source(&self, number: u64) -> Option<(String, &[(usize, usize)])> {
        let at = self.invoked(number)?.program? as usize;
        let (recorded, program) = self.recording.programs.get(at)?;
        let text = recorded.source.clone();
        Some((text.unwrap_or_else(|| program.to_string()), &self.lines[at]))
    }

    /// The invocation of this number.
    ///
    /// # Errors
    /// There is none.
    pub fn step(&self, number: u64) -> Result<Step, StepError> {
        let none = || StepError::NoInvocation {
            number,
            last: self.last(),
        };
        let (record, invoked) = (self.record(number).ok_or_else(none)?, self.invoked(number));
        let invoked = invoked.ok_or_else(none)?;
        let run = self.run(number).ok_or_else(none)?;
        let all = self.of_flow(record.flow);
        let place = all.partition_point(|each| *each < number);
        let former = place.checked_sub(1).and_then(|at| self.invoked(all[at]));
        let signals = invoked.signals.iter().map(|(signal, value)| NamedValue {
            name: signal.name().to_owned(),
            before: former.map(|former| former.signals[signal]),
            value,
        });
        let program = run.program.map(|at| &self.recording.programs[at]);
        Ok(Step {
            invocation: number,
            flow: record.flow,
            time_us: record.time_us,
            program: program.map(|(recorded, _)| recorded.name.clone()),
            clauses: self.clauses(&run),
            signals: signals.collect(),
            variables: self.variables(invoked, &run),
            staged: self.staged(invoked.stage.as_ref(), run.program),
            reported: invoked.report.is_some(),
            fault: (invoked.fault != 0)
                .then(|| fairwater_exec::frame::Fault::reason(invoked.fault.into())),
            difference: run.difference,
            plane: self.plane_after(number, record.flow),
        })
    }

    /// The next invocation of the same flow that is meant; `None` if there is none.
    ///
    /// # Errors
    /// There is no invocation of that number, or the condition is none of the program that it runs.
    pub fn find(
        &self,
        from: u64,
        direction: Direction,
        target: &Target,
    ) -> Result<Option<u64>, StepError> {
        let record = self.record(from).ok_or(StepError::NoInvocation {
            number: from,
            last: self.last(),
        })?;
        let all = self.of_flow(record.flow);
        let place = all.partition_point(|each| *each < from);
        let (before, after) = (&all[..place], all.get(place + 1..).unwrap_or(&[]));
        if let Target::Condition(text) = target {
            let from = self.invoked(from).and_then(|invoked| invoked.program);
            self.check(text, from)?;
        }
        let mut conditions = Conditions::default();
        let mut is_meant = |number: &u64| self.is_meant(*number, target, &mut conditions);
        Ok(match direction {
            Direction::Forward => after.iter().copied().find(|n| is_meant(n)),
            Direction::Back => before.iter().rev().copied().find(|n| is_meant(n)),
        })
    }

    /// Whether a text is a condition of a program, or of any of the recording's.
    fn check(&self, text: &str, program: Option<u32>) -> Result<(), StepError> {
        let parse = |at: usize| {
            let (recorded, program) = &self.recording.programs[at];
            Condition::parse(text, &recorded.name, program).map(|_| ())
        };
        let first = program.map_or(0, |at| at as usize);
        let mut rest = 0..self.programs.len();
        if self.programs.is_empty() {
            return Err(StepError::Empty);
        }
        match parse(first) {
            Err(_) if rest.any(|at| parse(at).is_ok()) => Ok(()),
            checked => Ok(checked?),
        }
    }

    fn is_meant(&self, number: u64, target: &Target, conditions: &mut Conditions) -> bool {
        let Some(invoked) = self.invoked(number) else {
            return false;
        };
        match target {
            Target::Any => true,
            Target::Report => invoked.report.is_some(),
            Target::Loss => is_loss(invoked),
            Target::Condition(text) => {
                let Some(at) = invoked.program.map(|at| at as usize) else {
                    return false;
                };
                let (recorded, program) = &self.recording.programs[at];
                let parsed = conditions
                    .0
                    .entry(at)
                    .or_insert_with(|| Condition::parse(text, &recorded.name, program).ok());
                let Some(condition) = parsed else {
                    return false;
                };
                let run = match conditions.1.take() {
                    // One after the other: the state is at hand.
                    Some((last, state)) if self.is_next(last, number) => {
                        self.run_from(number, state)
                    }
                    _ => self
                        .run(number)
                        .map(|run| (self.state_after(invoked, &run), run)),
                };
                let Some((state, run)) = run else {
                    return false;
                };
                conditions.1 = Some((number, state));
                condition.holds(&run.registers, &run.variables, &invoked.signals)
            }
        }
    }

    /// Whether the second invocation is the flow's next after the first, with no state between them.
    fn is_next(&self, first: u64, second: u64) -> bool {
        let (Some(a), Some(b)) = (self.record(first), self.record(second)) else {
            return false;
        };
        let all = self.of_flow(a.flow);
        let place = all.partition_point(|each| *each <= first);
        a.flow == b.flow && all.get(place) == Some(&second)
    }

    /// Runs an invocation again, from the last recorded state before it.
    fn run(&self, number: u64) -> Option<Run> {
        let record = self.record(number)?;
        let index = usize::try_from(number - 1).ok()?;
        let place = *self.places.get(index)?;
        let before = self.recording.records.get(..place)?;
        let is_state = |earlier: &Record| {
            earlier.flow == record.flow && matches!(earlier.what, What::State(_))
        };
        let start = before.iter().rposition(is_state);
        let mut state = match start.map(|at| &before[at].what) {
            Some(What::State(state)) => state.clone(),
            _ => State::default(),
        };
        let since = &before[start.unwrap_or(place)..];
        for earlier in since.iter().filter(|earlier| earlier.flow == record.flow) {
            if let What::Invoked(invoked) = &earlier.what {
                let run = self.run_once(invoked, state);
                state = self.state_after(invoked, &run);
            }
        }
        let invoked = self.invoked(number)?;
        Some(self.run_once(invoked, state))
    }

    fn run_from(&self, number: u64, state: State) -> Option<(State, Run)> {
        let invoked = self.invoked(number)?;
        let run = self.run_once(invoked, state);
        Some((self.state_after(invoked, &run), run))
    }

    /// The state that a run leaves.
    fn state_after(&self, invoked: &Invoked, run: &Run) -> State {
        let mut state = State {
            program: run.program.and_then(|at| u32::try_from(at).ok()),
            controls: invoked.after,
            timer_zero_us: run.registers.timer_zero,
            variables: run.variables.clone(),
        };
        if let Some(program) = run.program.map(|at| self.programs[at]) {
            let has_reported = invoked.report.is_some();
            conclude(
                program,
                &mut state,
                invoked.before,
                &run.registers,
                has_reported,
            );
        }
        state
    }

    fn run_once(&self, invoked: &Invoked, state: State) -> Run {
        let mut run = Run {
            state_before: state.clone(),
            program: None,
            registers: Registers {
                cwnd: invoked.after.cwnd,
                rate: invoked.after.rate,
                timer_zero: state.timer_zero_us,
            },
            variables: Vec::new(),
            clauses: Vec::new(),
            difference: None,
        };
        let mut state = state;
        if invoked.program.is_none() {
            return run;
        }
        let Some((at, mut registers)) = apply_stage(&self.programs, &mut state, invoked) else {
            run.difference = Some("the state before it is not known".to_owned());
            return run;
        };
        let has_reported = interp::trace(
            self.programs[at],
            &mut registers,
            &mut state.variables,
            &invoked.signals,
            &mut |event, held| run.clauses.push((event, held)),
        );
        run.program = Some(at);
        run.registers = registers;
        run.variables.clone_from(&state.variables);
        let program = self.programs[at];
        let outcome = conclude(
            program,
            &mut state,
            invoked.before,
            &registers,
            has_reported,
        );
        run.difference = crate::replay::difference_of(program, invoked, &outcome);
        run
    }

    fn clauses(&self, run: &Run) -> Vec<Clause> {
        let Some(at) = run.program else {
            return Vec::new();
        };
        let program = self.programs[at];
        let clause = |&(index, held): &(usize, bool)| Clause {
            index,
            held,
            line: self.lines[at].get(index).map(|(first, _)| *first),
            condition: program.condition_text(&program.events[index]),
        };
        run.clauses.iter().map(clause).collect()
    }

    fn variables(&self, invoked: &Invoked, run: &Run) -> Vec<NamedValue> {
        let now_us = invoked.now_us();
        let controls = |controls: Controls| [controls.cwnd, controls.rate];
        let (before, after) = (controls(invoked.before), controls(invoked.after));
        let mut values: Vec<NamedValue> = ["Cwnd", "Rate"]
            .into_iter()
            .zip(before.into_iter().zip(after))
            .map(|(name, (before, value))| NamedValue {
                name: name.to_owned(),
                before: Some(before),
                value,
            })
            .collect();
        let Some(at) = run.program else {
            return values;
        };
        values.push(NamedValue {
            name: "Micros".to_owned(),
            before: Some(now_us.wrapping_sub(run.state_before.timer_zero_us)),
            value: now_us.wrapping_sub(run.registers.timer_zero),
        });
        let is_same = run.state_before.program == u32::try_from(at).ok();
        for (index, variable) in self.programs[at].variables.iter().enumerate() {
            let prefix = match variable.scope {
                Scope::Report => "Report.",
                Scope::Control | Scope::Hidden => "",
            };
            let before = run.state_before.variables.get(index);
            values.push(NamedValue {
                name: format!("{prefix}{}", variable.name),
                before: before.copied().filter(|_| is_same),
                value: run.variables.get(index).copied().unwrap_or(0),
            });
        }
        values
    }

    fn staged(&self, stage: Option<&Stage>, program: Option<usize>) -> Vec<String> {
        let Some(stage) = stage else {
            return Vec::new();
        };
        let mut told = Vec::new();
        if let Some((recorded, _)) = stage
            .switch
            .and_then(|at| self.recording.programs.get(at as usize))
        {
            told.push(format!("switch to {}", recorded.name));
        }
        told.extend(stage.cwnd.map(|cwnd| format!("Cwnd := {cwnd}")));
        told.extend(stage.rate.map(|rate| format!("Rate := {rate}")));
        for (at, value) in &stage.updates {
            let variable = program
                .and_then(|program| self.programs[program].variables.get(usize::from(*at)))
                .map_or("?", |variable| variable.name.as_str());
            told.push(format!("{variable} := {value}"));
        }
        told
    }

    /// What the plane did with the flow after an invocation, up to its next.
    fn plane_after(&self, number: u64, flow: u32) -> Vec<String> {
        let Some(place) = usize::try_from(number - 1)
            .ok()
            .and_then(|index| self.places.get(index))
        else {
            return Vec::new();
        };
        let rest = self.recording.records[place + 1..].iter();
        let of_flow = rest.filter(|record| record.flow == flow);
        of_flow
            .take_while(|record| !matches!(record.what, What::Invoked(_)))
            .filter_map(|record| self.told(&record.what))
            .collect()
    }

    fn told(&self, what: &What) -> Option<String> {
        use crate::record::PlaneEvent as Event;

        let algorithm = |at: u32| {
            let found = self.recording.head.algorithms.get(at as usize);
            found.map_or("?", |algorithm| algorithm.name.as_str())
        };
        Some(match what {
            What::Event(Event::Created(arrival)) => {
                format!("created under {}", algorithm(arrival.algorithm))
            }
            What::Event(Event::Resumed(arrival)) => {
                format!("resumed under {}", algorithm(arrival.algorithm))
            }
            What::Event(Event::Reported(report)) => {
                let program = self.recording.programs.get(report.program as usize);
                let name = program.map_or("?", |(recorded, _)| recorded.name.as_str());
                format!("report of {name} reached the algorithm")
            }
            What::Event(Event::MssChanged(mss)) => format!("segments are of {mss} bytes now"),
            What::Event(Event::Faulted(reason)) => format!("stopped: {reason}"),
            What::Event(Event::Closed) => "closed".to_owned(),
            What::Command(command) => {
                let at = command.stage.switch.map(|at| at as usize);
                let mut told = self.staged(Some(&command.stage), at);
                if command.withdraw {
                    told.push("withdraw".to_owned());
                }
                if let Some(to) = command.hand_over {
                    told.push(format!("hand over to {}", algorithm(to)));
                }
                format!("command: {}", told.join(", "))
            }
            _ => return None,
        })
    }
}

/// Parsed conditions by program, and the state behind the invocation that was looked at last.
#[derive(Default)]
struct Conditions(BTreeMap<usize, Option<Condition>>, Option<(u64, State)>);

/// Whether an invocation tells of losses or a timeout.
pub(crate) fn is_loss(invoked: &Invoked) -> bool {
    invoked.signals[Signal::LostPkts] > 0 || invoked.signals[Signal::WasTimeout] != 0
}

/// The first and the last line of each clause, from 1.
fn lines(recorded: &crate::head::RecordedProgram) -> Vec<(usize, usize)> {
    let Some(source) = &recorded.source else {
        return Vec::new();
    };
    let constants: Vec<(&str, ConstantValue)> = recorded
        .constants
        .iter()
        .map(|(name, value)| (name.as_str(), (*value).into()))
        .collect();
    let Ok(compiled) = compile_with(&recorded.name, source, &constants) else {
        return Vec::new();
    };
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    let line = |at: usize| 1 + source[..at].matches('\n').count();
    let spans = compiled.event_spans.iter();
    spans
        .map(|span| (line(span.start), line(span.end)))
        .collect()
}
