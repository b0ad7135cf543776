//! Flows that one instance of a Python class controls controls (CCP §6.3).

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fairwater_plane::{self as plane, Group, Key, Member};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString, PyTuple};

use crate::algorithm::AlgorithmInstance;
use crate::command::call_algorithm;
use crate::control::Control;
use crate::errors;

/// The key that a Python value is.
pub(crate) fn key(value: &Bound<'_, PyAny>) -> PyResult<Option<Key>> {
    if value.is_none() {
        return Ok(None);
    }
    if !is_key(value) {
        return Err(PyTypeError::new_err(format!(
            "aggregate_by returned a value of type {}: a key is a str, an int, bytes, a tuple of \
             such, or None",
            value.get_type().name()?
        )));
    }
    // It tells "1" from 1.
    Ok(Some(Key::Named(value.repr()?.to_string())))
}

fn is_key(value: &Bound<'_, PyAny>) -> bool {
    let whole = value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyInt>()
        || value.is_instance_of::<PyBytes>();
    let items = || value.cast::<PyTuple>().ok();
    whole || items().is_some_and(|items| items.iter().all(|item| is_key(&item)))
}

/// The controls of an aggregate's members.
#[derive(Default)]
pub(crate) struct GroupControls {
    /// Whether the instance's function is being called.
    called: AtomicBool,
    /// Control of each member, by index.
    by_member: Mutex<Vec<Option<Py<Control>>>>,
    /// Members of which something was asked for in this call.
    touched: Mutex<Vec<usize>>,
}

impl GroupControls {
    pub(crate) fn is_called(&self) -> bool {
        self.called.load(Relaxed)
    }

    pub(crate) fn touch(&self, index: usize) {
        locked(&self.touched).push(index);
    }

    /// The controls of the members, by index.
    pub(crate) fn members(&self, py: Python<'_>) -> Vec<Py<Control>> {
        let controls = locked(&self.by_member);
        controls.iter().flatten().map(|c| c.clone_ref(py)).collect()
    }

    fn member(&self, py: Python<'_>, index: usize) -> Option<Py<Control>> {
        let controls = locked(&self.by_member);
        controls.get(index)?.as_ref().map(|c| c.clone_ref(py))
    }

    fn replace(&self, index: usize, control: Option<Py<Control>>) -> Option<Py<Control>> {
        let mut controls = locked(&self.by_member);
        if controls.len() <= index {
            controls.resize_with(index + 1, || None);
        }
        std::mem::replace(&mut controls[index], control)
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The flows of one key, controlled by one instance of the class.
pub(crate) struct PythonAggregate {
    /// `Err` has the reason why there is none.
    instance: Result<AlgorithmInstance, String>,
    controls: Arc<GroupControls>,
}

impl PythonAggregate {
    pub(crate) fn new(instance: Result<AlgorithmInstance, String>) -> Self {
        Self {
            instance,
            controls: Arc::default(),
        }
    }

    /// Calls the instance; what was asked for of members is carried out when that returns, and
    /// nothing is when it raises.
    fn call(
        &self,
        py: Python<'_>,
        group: &mut Group<'_>,
        work: impl FnOnce() -> PyResult<()>,
    ) -> PyResult<()> {
        self.controls.called.store(true, Relaxed);
        let done = work();
        self.controls.called.store(false, Relaxed);
        let touched = std::mem::take(&mut *locked(&self.controls.touched));
        for index in touched {
            let Some(py_control) = self.controls.member(py, index) else {
                continue;
            };
            let member = group.member(index).and_then(|m| group.control(m));
            match (&done, member) {
                (Ok(()), Some(mut control)) => py_control.get().carry_out(&mut control),
                _ => py_control.get().forget(),
            }
        }
        done
    }

    fn withdraw(group: &mut Group<'_>, member: Member, why: String) {
        if let Some(mut control) = group.control(member) {
            control.withdraw(why);
        }
    }
}

impl plane::Aggregate for PythonAggregate {
    fn create_subflow(&mut self, member: Member, info: &plane::FlowInfo, group: &mut Group<'_>) {
        let instance = match &self.instance {
            Ok(instance) => instance,
            Err(why) => return Self::withdraw(group, member, why.clone()),
        };
        call_algorithm(|py| {
            let begun = instance.control_of(member.index(), &self.controls);
            let begun = Bound::new(py, begun).and_then(|control| {
                let kept = control.clone().unbind();
                self.controls.replace(member.index(), Some(kept));
                self.call(py, group, || instance.new_flow(py, info, &control))
            });
            if let Err(error) = begun {
                let place = format!("a new flow, at {} µs", info.now_us);
                Self::withdraw(
                    group,
                    member,
                    instance.raised(py, "new_flow", &error, &place),
                );
            }
        });
    }

    fn on_report(&mut self, member: Member, report: &plane::Report<'_>, group: &mut Group<'_>) {
        let Ok(instance) = &self.instance else {
            return;
        };
        call_algorithm(|py| {
            let Some(control) = self.controls.member(py, member.index()) else {
                return;
            };
            let Some((_, read)) = instance.read(report) else {
                return;
            };
            control.get().open(report.program());
            let called = self.call(py, group, || {
                let called = instance.on_report(py).call1((read, &control))?;
                errors::require_nothing("on_report", &called)
            });
            if let Err(error) = called {
                Self::withdraw(
                    group,
                    member,
                    instance.refused(py, &error, report, read.get()),
                );
            }
            read.get().close();
        });
    }

    fn on_mss(&mut self, member: Member, mss: u32, group: &mut Group<'_>) {
        let Ok(instance) = &self.instance else {
            return;
        };
        call_algorithm(|py| {
            let Some(control) = self.controls.member(py, member.index()) else {
                return;
            };
            let control = control.bind(py);
            let called = self.call(py, group, || instance.on_mss(py, mss, control));
            if let Err(error) = called {
                let place = format!("segments of {mss} bytes");
                Self::withdraw(group, member, instance.raised(py, "on_mss", &error, &place));
            }
        });
    }

    fn on_close(&mut self, member: Member, group: &mut Group<'_>) {
        let Ok(instance) = &self.instance else {
            return;
        };
        call_algorithm(|py| {
            if let Some(left) = self.controls.replace(member.index(), None) {
                left.get().abandon();
            }
            let others = self.controls.members(py);
            let result = self.call(py, group, || instance.on_leave(py, member.index(), others));
            if let Err(error) = result {
                instance.unraisable(py, "on_leave", error);
            }
            if group.is_empty() {
                instance.on_close(py);
            }
        });
    }
}

impl Drop for PythonAggregate {
    fn drop(&mut self) {
        // Controls have what they have in common, which has them.
        locked(&self.controls.by_member).clear();
    }
}
