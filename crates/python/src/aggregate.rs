//! Flows that one instance of a Python class controls together (CCP §6.3).

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fairwater_plane::{self as plane, Group, Key, Member};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString, PyTuple};

use crate::algorithm::Author;
use crate::control::Control;
use crate::trouble;

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

/// What the controls of an aggregate's members have in common.
#[derive(Default)]
pub(crate) struct Together {
    /// Whether the author's function is being called.
    called: AtomicBool,
    /// By member, its control.
    seats: Mutex<Vec<Option<Py<Control>>>>,
    /// Members of which something was asked for in this call.
    touched: Mutex<Vec<usize>>,
}

impl Together {
    pub(crate) fn is_called(&self) -> bool {
        self.called.load(Relaxed)
    }

    pub(crate) fn touch(&self, index: usize) {
        locked(&self.touched).push(index);
    }

    /// The controls of the members, by index.
    pub(crate) fn members(&self, py: Python<'_>) -> Vec<Py<Control>> {
        let seats = locked(&self.seats);
        seats.iter().flatten().map(|c| c.clone_ref(py)).collect()
    }

    fn member(&self, py: Python<'_>, index: usize) -> Option<Py<Control>> {
        let seats = locked(&self.seats);
        seats.get(index)?.as_ref().map(|c| c.clone_ref(py))
    }

    fn seat(&self, index: usize, control: Option<Py<Control>>) -> Option<Py<Control>> {
        let mut seats = locked(&self.seats);
        if seats.len() <= index {
            seats.resize_with(index + 1, || None);
        }
        std::mem::replace(&mut seats[index], control)
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The flows of a key.
pub(crate) struct Governing {
    /// Or why there is none.
    author: Result<Author, String>,
    together: Arc<Together>,
}

impl Governing {
    pub(crate) fn new(author: Result<Author, String>) -> Self {
        Self {
            author,
            together: Arc::default(),
        }
    }

    /// Calls the author; what was asked for of members is carried out when that returns, and
    /// nothing is when it raises.
    fn call(
        &self,
        py: Python<'_>,
        group: &mut Group<'_>,
        work: impl FnOnce() -> PyResult<()>,
    ) -> PyResult<()> {
        self.together.called.store(true, Relaxed);
        let done = work();
        self.together.called.store(false, Relaxed);
        let touched = std::mem::take(&mut *locked(&self.together.touched));
        for index in touched {
            let Some(wishes) = self.together.member(py, index) else {
                continue;
            };
            let member = group.member(index).and_then(|m| group.control(m));
            match (&done, member) {
                (Ok(()), Some(mut control)) => wishes.get().carry_out(&mut control),
                _ => wishes.get().forget(),
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

impl plane::Aggregate for Governing {
    fn create_subflow(&mut self, member: Member, info: &plane::FlowInfo, group: &mut Group<'_>) {
        let author = match &self.author {
            Ok(author) => author,
            Err(why) => return Self::withdraw(group, member, why.clone()),
        };
        Python::attach(|py| {
            let begun = author.control_of(member.index(), &self.together);
            let begun = Bound::new(py, begun).and_then(|control| {
                let seated = control.clone().unbind();
                self.together.seat(member.index(), Some(seated));
                self.call(py, group, || author.new_flow(py, info, &control))
            });
            if let Err(error) = begun {
                let place = format!("a new flow, at {} µs", info.now_us);
                Self::withdraw(group, member, author.raised(py, "new_flow", &error, &place));
            }
        });
    }

    fn on_report(&mut self, member: Member, report: &plane::Report<'_>, group: &mut Group<'_>) {
        let Ok(author) = &self.author else {
            return;
        };
        Python::attach(|py| {
            let Some(control) = self.together.member(py, member.index()) else {
                return;
            };
            let Some((_, read)) = author.read(report) else {
                return;
            };
            control.get().open(report.program());
            let called = self.call(py, group, || {
                let called = author.on_report(py).call1((read, &control))?;
                trouble::require_nothing("on_report", &called)
            });
            if let Err(error) = called {
                Self::withdraw(
                    group,
                    member,
                    author.refused(py, &error, report, read.get()),
                );
            }
            read.get().close();
        });
    }

    fn on_close(&mut self, member: Member, group: &mut Group<'_>) {
        let Ok(author) = &self.author else {
            return;
        };
        Python::attach(|py| {
            if let Some(left) = self.together.seat(member.index(), None) {
                left.get().abandon();
            }
            let others = self.together.members(py);
            let told = self.call(py, group, || author.on_leave(py, member.index(), others));
            if let Err(error) = told {
                author.unraisable(py, "on_leave", error);
            }
            if group.is_empty() {
                author.on_close(py);
            }
        });
    }
}

impl Drop for Governing {
    fn drop(&mut self) {
        // Controls have what they have in common, which has them.
        locked(&self.together.seats).clear();
    }
}
