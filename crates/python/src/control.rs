//! What an algorithm in Python does to a flow.
//!
//! Calls are checked at once, so that a mistake raises on the line that makes it, and kept until
//! the instance's function returns; then the plane carries them out together.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fairwater_lang::{MAX_RATE, Type, did_you_mean};
use fairwater_plane::{self as plane, ProgramId, Var};
use pyo3::exceptions::{PyAttributeError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat};

use crate::aggregate::GroupControls;

/// A program as control knows it.
pub(crate) struct Target {
    pub(crate) name: String,
    pub(crate) id: ProgramId,
    pub(crate) variables: Vec<(String, Var, Type)>,
}

enum PendingCommand {
    Cwnd(u64),
    Rate(u64),
    Switch(ProgramId),
    Update(Var, u64),
    Withdraw(String),
}

/// What the algorithm wants of its flow. It takes effect together, when the function returns; use
/// it in the call that it was given to.
#[pyclass(frozen, module = "fairwater")]
pub(crate) struct Control {
    targets: Arc<[Target]>,
    state: Mutex<State>,
    /// The aggregate that the flow is in, and which of its members it is.
    membership: Option<(usize, Arc<GroupControls>)>,
}

struct State {
    /// Within a call; for a member of an aggregate, until it leaves.
    live: bool,
    /// Index of the program that the flow runs.
    running: usize,
    /// The same, or what it was switched to in this call.
    switched: usize,
    pending: Vec<PendingCommand>,
}

impl Control {
    pub(crate) fn new(targets: Arc<[Target]>) -> Self {
        Self {
            targets,
            state: Mutex::new(State {
                live: false,
                running: 0,
                switched: 0,
                pending: Vec::new(),
            }),
            membership: None,
        }
    }

    /// The control of a member of an aggregate, which begins with the first program.
    pub(crate) fn of_member(
        targets: Arc<[Target]>,
        index: usize,
        group: Arc<GroupControls>,
    ) -> Self {
        let mut control = Self::new(targets);
        control.membership = Some((index, group));
        control.state().live = true;
        control
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a call for a flow that runs this program.
    pub(crate) fn open(&self, running: ProgramId) {
        let at = self.targets.iter().position(|t| t.id == running);
        let mut state = self.state();
        state.live = true;
        state.running = at.unwrap_or(0);
        state.switched = state.running;
        state.pending.clear();
    }

    /// Ends the call, and carries out what was asked for in it.
    pub(crate) fn close(&self, control: &mut plane::Control<'_>) {
        self.carry_out(control);
        self.state().live = false;
    }

    /// Carries out what was asked for.
    pub(crate) fn carry_out(&self, control: &mut plane::Control<'_>) {
        let mut state = self.state();
        state.running = state.switched;
        for command in state.pending.drain(..) {
            match command {
                PendingCommand::Cwnd(bytes) => control.set_cwnd(bytes),
                PendingCommand::Rate(bytes_per_s) => control.set_rate(bytes_per_s),
                PendingCommand::Switch(program) => control.switch(program),
                PendingCommand::Update(variable, value) => control.update(variable, value),
                PendingCommand::Withdraw(reason) => control.withdraw(reason),
            }
        }
    }

    /// Ends the call; nothing of it takes effect.
    pub(crate) fn abandon(&self) {
        self.forget();
        self.state().live = false;
    }

    /// Nothing of what was asked for takes effect.
    pub(crate) fn forget(&self) {
        let mut state = self.state();
        state.switched = state.running;
        state.pending.clear();
    }

    fn live(&self) -> PyResult<MutexGuard<'_, State>> {
        let state = self.state();
        let called = self
            .membership
            .as_ref()
            .is_none_or(|(_, group)| group.is_called());
        if state.live && called {
            Ok(state)
        } else {
            Err(PyRuntimeError::new_err(
                "a control can only be used in the call that it was given to",
            ))
        }
    }

    fn push(&self, command: PendingCommand) -> PyResult<()> {
        let mut state = self.live()?;
        if let (Some((index, group)), true) = (&self.membership, state.pending.is_empty()) {
            group.touch(*index);
        }
        state.pending.push(command);
        Ok(())
    }

    fn set(&self, updates: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        for (name, value) in updates.into_iter().flatten() {
            let name: String = name.extract()?;
            // No lock is held where Python may run.
            let running = self.live()?.switched;
            let target = &self.targets[running];
            let Some((_, variable, ty)) = target.variables.iter().find(|v| v.0 == name) else {
                let names = target.variables.iter().map(|v| v.0.as_str());
                let hint = did_you_mean(&name, names);
                return Err(PyAttributeError::new_err(format!(
                    "program `{}` has no control variable `{name}`{hint}",
                    target.name
                )));
            };
            let value = match ty {
                Type::Num => whole(&name, &value, 0, u64::MAX)?,
                Type::Bool => match value.cast::<PyBool>() {
                    Ok(value) => value.is_true().into(),
                    Err(_) => {
                        return Err(PyTypeError::new_err(format!(
                            "`{name}` is {}: it must be True or False",
                            shown(&value)
                        )));
                    }
                },
            };
            self.push(PendingCommand::Update(*variable, value))?;
        }
        Ok(())
    }
}

#[pymethods]
impl Control {
    fn set_cwnd(&self, bytes: &Bound<'_, PyAny>) -> PyResult<()> {
        self.push(PendingCommand::Cwnd(whole("cwnd", bytes, 1, u64::MAX)?))
    }

    fn set_rate(&self, bytes_per_s: &Bound<'_, PyAny>) -> PyResult<()> {
        self.push(PendingCommand::Rate(whole(
            "rate",
            bytes_per_s,
            0,
            MAX_RATE,
        )?))
    }

    #[pyo3(signature = (**values))]
    fn update(&self, values: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        drop(self.live()?);
        self.set(values)
    }

    #[pyo3(signature = (program, /, **values))]
    fn switch(&self, program: &str, values: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
        let Some(at) = self.targets.iter().position(|t| t.name == program) else {
            let names = self.targets.iter().map(|t| t.name.as_str());
            let hint = did_you_mean(program, names);
            return Err(PyValueError::new_err(format!(
                "there is no program `{program}`{hint}"
            )));
        };
        self.push(PendingCommand::Switch(self.targets[at].id))?;
        self.state().switched = at;
        self.set(values)
    }

    fn withdraw(&self, reason: String) -> PyResult<()> {
        self.push(PendingCommand::Withdraw(reason))
    }

    #[getter]
    fn program(&self) -> PyResult<&str> {
        let running = self.live()?.switched;
        Ok(&self.targets[running].name)
    }

    #[getter]
    fn member(&self) -> usize {
        self.membership.as_ref().map_or(0, |(index, _)| *index)
    }

    #[getter]
    fn group(slf: &Bound<'_, Self>) -> PyResult<Vec<Py<Self>>> {
        drop(slf.get().live()?);
        Ok(match &slf.get().membership {
            Some((_, group)) => group.members(slf.py()),
            None => vec![slf.clone().unbind()],
        })
    }
}

/// A whole number from Python: an `int`, or a `float`, rounded down, for `cwnd / 2` is one.
fn whole(what: &str, value: &Bound<'_, PyAny>, least: u64, most: u64) -> PyResult<u64> {
    let refused = || {
        let upper = match most {
            u64::MAX => "2**64 - 1".to_owned(),
            most => most.to_string(),
        };
        PyValueError::new_err(format!(
            "{what} is {}: it must be from {least} to {upper}",
            shown(value)
        ))
    };
    let number = if let Ok(number) = value.extract::<u64>() {
        number
    } else if value.is_instance_of::<PyFloat>() || value.hasattr("__float__")? {
        let number: f64 = value.extract()?;
        // 2^64 is the least number that does not fit.
        if !(0.0..18_446_744_073_709_551_616.0).contains(&number) {
            return Err(refused());
        }
        number as u64
    } else {
        return Err(PyTypeError::new_err(format!(
            "{what} is {}: it must be a number",
            shown(value)
        )));
    };
    if (least..=most).contains(&number) {
        Ok(number)
    } else {
        Err(refused())
    }
}

fn shown(value: &Bound<'_, PyAny>) -> String {
    let text = value.repr().map(|text| text.to_string());
    let mut text = text.unwrap_or_else(|_| "?".to_owned());
    if let Some((at, _)) = text.char_indices().nth(60) {
        text.truncate(at);
        text.push('…');
    }
    text
}
