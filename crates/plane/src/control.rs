//! What an algorithm does to a flow.

use fairwater_lang::{MAX_RATE, Type};

use crate::programs::LoadedProgram;
use crate::{Command, HostedAlgorithm, ProgramId, Reason, Var};

/// Collects what the algorithm wants of one flow; it takes effect together, at the datapath's
/// next invocation, when the author's function returns.
///
/// A mistake (cwnd 0, an absurd rate, a foreign handle) withdraws the flow to the datapath's
/// fallback, with its [`Reason`]; nothing else of the call takes effect.
#[derive(Debug)]
pub struct Control<'a> {
    pending: &'a mut PendingCommand,
    programs: &'a [LoadedProgram],
}

/// The command for one flow, until the author's function returns.
#[derive(Debug)]
pub(crate) struct PendingCommand {
    pub(crate) command: Command,
    /// The program that the flow runs once the command is carried out.
    pub(crate) running: ProgramId,
    /// The first mistake.
    pub(crate) reason: Option<Reason>,
    /// Name of the algorithm that the flow is to be handed over to.
    pub(crate) hand_over: Option<String>,
}

impl PendingCommand {
    pub(crate) fn new(running: ProgramId) -> Self {
        Self {
            command: Command::default(),
            running,
            reason: None,
            hand_over: None,
        }
    }

    /// Begins anew, for a flow that runs this program.
    pub(crate) fn reset(&mut self, running: ProgramId) {
        self.command.switch = None;
        self.command.cwnd = None;
        self.command.rate = None;
        self.command.updates.clear();
        self.command.withdraw = false;
        self.command.hand_over = None;
        self.hand_over = None;
        self.running = running;
        self.reason = None;
    }

    /// Turns the name of the algorithm that the flow is handed over to, if any, into its index; a name
    /// that the plane does not have is a mistake.
    pub(crate) fn resolve_hand_over(&mut self, algorithms: &[HostedAlgorithm]) {
        let Some(name) = self.hand_over.take() else {
            return;
        };
        match algorithms.iter().position(|a| a.name == name) {
            // There are no more algorithms than a `u32` counts.
            Some(to) => self.command.hand_over = u32::try_from(to).ok(),
            None => {
                self.reason.get_or_insert(Reason::UnknownAlgorithm(name));
            }
        }
    }
}

impl<'a> Control<'a> {
    pub(crate) fn new(pending: &'a mut PendingCommand, programs: &'a [LoadedProgram]) -> Self {
        Self { pending, programs }
    }

    /// Sets cwnd, bytes; at least 1. The datapath rounds down to whole segments, and up to one.
    pub fn set_cwnd(&mut self, bytes: u64) {
        if bytes == 0 {
            self.fail(Reason::CwndZero);
        } else {
            self.pending.command.cwnd = Some(bytes);
        }
    }

    /// Sets the pacing rate, bytes/s, at most [`MAX_RATE`]; 0 is no rate: cwnd alone limits the flow.
    pub fn set_rate(&mut self, bytes_per_s: u64) {
        if bytes_per_s > MAX_RATE {
            self.fail(Reason::RateAbsurd { rate: bytes_per_s });
        } else {
            self.pending.command.rate = Some(bytes_per_s);
        }
    }

    /// Sets a control variable of the program that the flow runs, or was switched to in this
    /// call, in the unit that the program gives it; a boolean takes a `bool`.
    pub fn update(&mut self, variable: Var, value: impl Into<u64>) {
        let value = value.into();
        if variable.program != self.pending.running {
            let reason = Reason::ForeignVariable {
                variable: self.variable_name(variable),
                of: self.program_name(variable.program),
                running: self.program_name(self.pending.running),
            };
            return self.fail(reason);
        }
        if variable.ty == Type::Bool && value > 1 {
            let reason = Reason::NotBoolean {
                variable: self.variable_name(variable),
                value,
            };
            return self.fail(reason);
        }
        match self
            .pending
            .command
            .updates
            .iter_mut()
            .find(|(index, _)| *index == variable.index)
        {
            Some(update) => update.1 = value,
            None => self.pending.command.updates.push((variable.index, value)),
        }
    }

    /// Switches the flow to a program: its variables take their initial values and its timer
    /// restarts, also when it is the program that runs. Updates made before are dropped, those
    /// made after apply to the new program.
    pub fn switch(&mut self, program: ProgramId) {
        if self.program(program).is_none() {
            return self.fail(Reason::ForeignProgram);
        }
        self.pending.running = program;
        self.pending.command.switch = Some(program);
        self.pending.command.updates.clear();
    }

    /// Gives the flow up: it goes under the datapath's fallback for good, and its
    /// [`Notice`](crate::Notice) says why.
    pub fn withdraw(&mut self, why: String) {
        self.fail(Reason::GivenUp(why));
    }

    /// Hands the flow over to another algorithm of the plane, by name: that algorithm starts from
    /// the flow's window, rate and SRTT. The present program runs until then. A name that the plane
    /// does not know is a mistake, and so is a hand-over in `new_flow`: algorithms that do that to each
    /// other would never end.
    pub fn hand_over(&mut self, algorithm: &str) {
        self.pending.hand_over = Some(algorithm.to_owned());
    }

    /// The program that the flow runs, after any [`Control::switch`] of this call.
    #[must_use]
    pub fn running(&self) -> ProgramId {
        self.pending.running
    }

    fn fail(&mut self, reason: Reason) {
        self.pending.reason.get_or_insert(reason);
    }

    fn program(&self, id: ProgramId) -> Option<&LoadedProgram> {
        (id.algorithm == self.pending.running.algorithm)
            .then(|| self.programs.get(id.index as usize))?
    }

    fn program_name(&self, id: ProgramId) -> String {
        self.program(id).map_or_else(
            || "of another algorithm".to_owned(),
            |p| p.name().to_owned(),
        )
    }

    fn variable_name(&self, variable: Var) -> String {
        self.program(variable.program)
            .and_then(|p| p.program().variables.get(usize::from(variable.index)))
            .map_or_else(|| "?".to_owned(), |v| v.name.clone())
    }
}
