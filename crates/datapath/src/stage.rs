//! Commands that wait for a flow's next invocation.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use fairwater_exec::invocation::Registers;
use fairwater_lang::VarId;

use crate::observe::AppliedStage;
use crate::program::Compiled;

/// An installed program and its number.
#[derive(Debug, Clone)]
pub(crate) struct Numbered {
    pub(crate) number: u32,
    pub(crate) program: Arc<Compiled>,
}

/// What the next invocation applies first: the switch, then the updates, then cwnd and rate.
///
/// Several commands before an invocation become one stage: what is said later counts, and a
/// switch drops the updates before it, for they were another program's (libccp drops them at
/// CHANGE_PROG too).
#[derive(Debug, Default)]
pub(crate) struct Stage {
    pub(crate) switch: Option<Numbered>,
    cwnd: Option<u64>,
    rate: Option<u64>,
    /// At most one for each variable.
    updates: Vec<(VarId, u64)>,
}

impl Stage {
    pub(crate) fn switch(&mut self, to: Numbered) {
        self.switch = Some(to);
        self.updates.clear();
    }

    pub(crate) fn update(&mut self, variable: VarId, value: u64) {
        match self.updates.iter_mut().find(|(v, _)| *v == variable) {
            Some((_, staged)) => *staged = value,
            None => self.updates.push((variable, value)),
        }
    }

    pub(crate) fn set_controls(&mut self, cwnd: Option<u64>, rate: Option<u64>) {
        self.cwnd = cwnd.or(self.cwnd);
        self.rate = rate.or(self.rate);
    }

    /// Copies it for an observer, with the number of the program that is switched to.
    pub(crate) fn copy_to(&self, switch: Option<u32>, applied: &mut AppliedStage) {
        applied.switch = switch;
        applied.cwnd = self.cwnd;
        applied.rate = self.rate;
        applied.updates.clone_from(&self.updates);
    }

    /// Applies all but the switch.
    pub(crate) fn apply(&self, registers: &mut Registers, variables: &mut [u64]) {
        for &(VarId(at), value) in &self.updates {
            if let Some(variable) = variables.get_mut(usize::from(at)) {
                *variable = value;
            }
        }
        registers.cwnd = self.cwnd.unwrap_or(registers.cwnd);
        registers.rate = self.rate.unwrap_or(registers.rate);
    }
}

/// Stages that are not in use, kept for the next commands.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    #[expect(clippy::vec_box, reason = "flows hold a stage by one pointer")]
    spare: Vec<Box<Stage>>,
}

impl Pool {
    /// Enough for the commands of one drain of a link; beyond it the allocator serves.
    const SPARE: usize = 64;

    pub(crate) fn get(&mut self) -> Box<Stage> {
        self.spare.pop().unwrap_or_default()
    }

    pub(crate) fn put(&mut self, mut stage: Box<Stage>) {
        if self.spare.len() < Self::SPARE {
            stage.switch = None;
            stage.cwnd = None;
            stage.rate = None;
            stage.updates.clear();
            self.spare.push(stage);
        }
    }
}
