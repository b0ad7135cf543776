//! Runs a stream through the interpreter and the kernel and compares all that can be seen.

use crate::harness::{Flow, InvocationOutcome};
use fairwater_exec::interp::{Input, Machine, Stage};
use fairwater_lang::{Program, Signal};

/// What differs, if anything does. The first program runs first.
///
/// A program that is stopped is seen to do nothing in the next invocation, and then starts
/// afresh.
pub(crate) fn agree(programs: &[&Program], stream: &[Input<'_, '_>]) -> Result<(), String> {
    let mut flow = Flow::new(programs)?;
    let mut machine = Machine::new(programs[0], 0);
    let mut start = Some(programs[0]);
    let mut reports = 0;
    for (i, input) in stream.iter().enumerate() {
        let mut input = input.clone();
        let mut stage = input.stage.cloned();
        if let Some(program) = start.take() {
            let stage = stage.get_or_insert_with(Stage::default);
            stage.switch = stage.switch.or(Some(program));
        }
        let was_stopped = machine.fault().is_some();
        if let Some(stage) = &mut stage
            && was_stopped
        {
            stage.switch = None;
        }
        input.stage = stage.as_ref();
        let outcome = machine.invoke(&input);
        let report = outcome.report.map(|fields| {
            reports += 1;
            let now = input.signals[Signal::Now];
            (now, outcome.cwnd, outcome.rate, reports, fields)
        });
        let expected = InvocationOutcome {
            cwnd: outcome.cwnd,
            rate: outcome.rate,
            applied: (
                Some(outcome.cwnd).filter(|&c| c != input.cwnd),
                Some(outcome.rate).filter(|&r| r != input.rate),
            ),
            report,
            fault: outcome.fault.map_or(0, |f| f as u32),
            told: outcome.fault.filter(|_| !was_stopped).map(|f| f as u64),
            variables: machine.variables().to_vec(),
            timer_zero: machine.timer_zero(),
        };
        let seen = flow.invoke(&input)?;
        if seen != expected {
            return Err(format!(
                "invocation {i}, {input:?}:\nkernel   {seen:?}\nexpected {expected:?}"
            ));
        }
        if was_stopped {
            flow.revive();
            machine = Machine::new(machine.program(), 0);
            start = Some(machine.program());
        }
    }
    Ok(())
}
