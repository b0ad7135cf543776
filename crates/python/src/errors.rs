//! Errors that an algorithm in Python raised, with both tracebacks: Python's, and the place in the
//! plane.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::{PyBaseException, PyKeyboardInterrupt, PyTypeError};
use pyo3::prelude::*;

/// Errors of one algorithm that were reported: a traceback is shown once, not for each flow.
#[derive(Default)]
pub(crate) struct ReportedErrors(Mutex<HashSet<Vec<String>>>);

impl ReportedErrors {
    /// Why a flow is given up when `call` raised, at that place in the plane.
    pub(crate) fn raised(&self, py: Python<'_>, call: &str, error: &PyErr, place: &str) -> String {
        is_interrupt(py, error);
        let mut raised = vec![call.to_owned()];
        places(py, error, &mut raised);
        // No lock is held where Python may run.
        let traceback = traceback(py, error);
        let mut reported = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.insert(raised) {
            format!("{call} raised\n{traceback}\nin the plane: {place}")
        } else {
            let what = error.to_string();
            let what = what.lines().next().unwrap_or_default();
            format!("{call} raised as before: {what}; in the plane: {place}")
        }
    }

    /// Shows what was raised where no flow is given up for it, once, as Python does with what it
    /// cannot raise. Ctrl-C is left to [`was_interrupted`].
    pub(crate) fn unraisable(
        &self,
        py: Python<'_>,
        call: &str,
        error: PyErr,
        raiser: &Bound<'_, PyAny>,
    ) {
        if is_interrupt(py, &error) {
            return;
        }
        let mut raised = vec![call.to_owned()];
        places(py, &error, &mut raised);
        let new = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(raised);
        if new {
            error.write_unraisable(py, Some(raiser));
        }
    }
}

/// Whether it is a Ctrl-C, which [`was_interrupted`] then returns.
pub(crate) fn is_interrupt(py: Python<'_>, error: &PyErr) -> bool {
    let interrupt = error.is_instance_of::<PyKeyboardInterrupt>(py);
    if interrupt {
        INTERRUPTED.set(true);
    }
    interrupt
}

/// Of an exception and those behind it, the type and the frames, but not the message: that may have
/// other numbers for each flow.
fn places(py: Python<'_>, error: &PyErr, found: &mut Vec<String>) {
    let mut next = Some(error.value(py).clone());
    while let Some(exception) = next {
        found.push(exception.get_type().to_string());
        let frames = py.import("traceback").and_then(|module| {
            let traceback = exception.getattr("__traceback__")?;
            module.call_method1("format_tb", (traceback,))?.extract()
        });
        found.extend(frames.unwrap_or_else(|_| Vec::<String>::new()));
        if found.len() > MOST_PLACES {
            return;
        }
        let behind = |name| {
            let exception = exception.getattr(name).ok()?;
            exception.cast_into::<PyBaseException>().ok()
        };
        next = behind("__cause__").or_else(|| behind("__context__"));
    }
}

/// A chain of exceptions can be a circle.
const MOST_PLACES: usize = 1000;

thread_local! {
    static INTERRUPTED: Cell<bool> = const { Cell::new(false) };
}

/// Whether Ctrl-C ended a call to an algorithm on this thread since this was last asked.
pub(crate) fn was_interrupted() -> bool {
    INTERRUPTED.take()
}

/// An exception as Python shows it, with those that caused it.
pub(crate) fn traceback(py: Python<'_>, error: &PyErr) -> String {
    let lines = py
        .import("traceback")
        .and_then(|module| {
            let parts = (error.get_type(py), error.value(py), error.traceback(py));
            module.call_method1("format_exception", parts)
        })
        .and_then(|lines| lines.extract::<Vec<String>>());
    match lines {
        Ok(lines) => lines.concat().trim_end().to_owned(),
        Err(_) => error.to_string(),
    }
}

/// Raises when a method returned something that would be lost.
pub(crate) fn require_nothing(method: &str, returned: &Bound<'_, PyAny>) -> PyResult<()> {
    if returned.is_none() {
        return Ok(());
    }
    let kind = returned.get_type();
    Err(PyTypeError::new_err(format!(
        "{method} returned a value of type {}: what it wants, it says by control.set_cwnd and such",
        kind.name()?
    )))
}
