//! Runs a stream through the interpreter and the kernel and compares all that can be seen.

use crate::harness::{Flow, Seen};
use fairwater_exec::interp::{Input, Machine};
use fairwater_lang::{Program, Signal};

/// What differs, if anything does.
pub(crate) fn agree(programs: &[&Program], stream: &[Input<'_, '_>]) -> Result<(), String> {
    let mut flow = Flow::new(programs)?;
    let mut machine = Machine::new(programs[0], 0);
    let mut reports = 0;
    for (i, input) in stream.iter().enumerate() {
        let was_stopped = machine.fault().is_some();
        let outcome = machine.invoke(input);
        let report = outcome.report.map(|fields| {
            reports += 1;
            (
                input.signals[Signal::Now as usize],
                outcome.cwnd,
                outcome.rate,
                reports,
                fields,
            )
        });
        let expected = Seen {
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
        let seen = flow.invoke(input)?;
        if seen != expected {
            return Err(format!(
                "invocation {i}:\nkernel   {seen:?}\nexpected {expected:?}"
            ));
        }
    }
    Ok(())
}
