//! Runs a stream through the interpreter and compiled code and compares all that can be seen.

use fairwater_exec::frame::Fault;
use fairwater_exec::interp::{Input, Machine, Outcome};
use fairwater_exec::invocation::{Registers, control_fault, initial, reset_volatile, staged_value};
use fairwater_exec::native::{Code, Target, machine_code};
use fairwater_lang::{Program, Signal, VarId};

/// A flow whose programs are compiled.
struct Flow<'p> {
    programs: Vec<(&'p Program, Code)>,
    running: usize,
    variables: Vec<u64>,
    timer_zero: u64,
    fault: Option<Fault>,
}

impl<'p> Flow<'p> {
    fn new(programs: &[&'p Program]) -> Result<Self, String> {
        let compiled = programs.iter().map(|program| {
            // Cranelift's verifier checks what is generated for the other machines too.
            for target in [Target::X86_64, Target::Aarch64] {
                let code = machine_code(program, target).map_err(|e| format!("{target:?}: {e}"))?;
                assert!(!code.is_empty());
            }
            let code = Code::compile(program).map_err(|e| e.to_string())?;
            Ok::<_, String>((*program, code))
        });
        Ok(Self {
            programs: compiled.collect::<Result<_, _>>()?,
            running: 0,
            variables: initial(programs[0]),
            timer_zero: 0,
            fault: None,
        })
    }

    fn start(&mut self, program: usize, now_us: u64) {
        self.running = program;
        self.variables = initial(self.programs[program].0);
        self.timer_zero = now_us;
        self.fault = None;
    }

    fn invoke(&mut self, input: &Input<'_, '_>) -> Outcome {
        let unchanged = |fault| Outcome {
            cwnd: input.cwnd,
            rate: input.rate,
            report: None,
            fault,
        };
        if self.fault.is_some() {
            return unchanged(self.fault);
        }
        let mut controls = (input.cwnd, input.rate);
        if let Some(stage) = input.stage {
            if let Some(program) = stage.switch {
                let at = self
                    .programs
                    .iter()
                    .position(|(p, _)| std::ptr::eq(*p, program));
                self.start(at.unwrap_or_default(), input.signals[Signal::Now]);
            }
            for &(VarId(at), value) in &stage.updates {
                if let Some(value) = staged_value(self.programs[self.running].0, VarId(at), value) {
                    self.variables[usize::from(at)] = value;
                }
            }
            controls = (
                stage.cwnd.unwrap_or(controls.0),
                stage.rate.unwrap_or(controls.1),
            );
        }
        let mut registers = Registers {
            cwnd: controls.0,
            rate: controls.1,
            timer_zero: self.timer_zero,
        };
        let (program, code) = &self.programs[self.running];
        let reported = code.run(&mut registers, &mut self.variables, &input.signals);
        self.timer_zero = registers.timer_zero;
        self.fault = control_fault((input.cwnd, input.rate), &registers);
        if self.fault.is_some() {
            return unchanged(self.fault);
        }
        let report = reported.then(|| {
            let fields = self.variables[..program.report_len()].to_vec();
            reset_volatile(program, &mut self.variables);
            fields
        });
        Outcome {
            cwnd: registers.cwnd,
            rate: registers.rate,
            report,
            fault: None,
        }
    }
}

/// What differs, if anything does. A program that is stopped is seen to do nothing in the next
/// invocation, and then starts afresh.
pub(crate) fn agree(programs: &[&Program], stream: &[Input<'_, '_>]) -> Result<(), String> {
    let mut flow = Flow::new(programs)?;
    let mut machine = Machine::new(programs[0], 0);
    for (i, input) in stream.iter().enumerate() {
        let was_stopped = machine.fault().is_some();
        let expected = machine.invoke(input);
        let got = flow.invoke(input);
        let expected = (&expected, machine.variables(), machine.timer_zero());
        if (&got, &flow.variables[..], flow.timer_zero) != expected {
            return Err(format!(
                "invocation {i}, {input:?}:\nnative   {:?}\nexpected {expected:?}",
                (&got, &flow.variables, flow.timer_zero)
            ));
        }
        if was_stopped {
            let now_us = input.signals[Signal::Now];
            machine = Machine::new(machine.program(), now_us);
            flow.start(flow.running, now_us);
        }
    }
    Ok(())
}
