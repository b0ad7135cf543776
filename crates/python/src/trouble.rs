//! What an algorithm in Python did wrong, told with both tracebacks: Python's, and where in the
//! plane.

use std::cell::Cell;
use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::{PyKeyboardInterrupt, PyTypeError};
use pyo3::prelude::*;

/// What was told of one algorithm already: a traceback is shown once, not for each flow.
#[derive(Default)]
pub(crate) struct Told(Mutex<HashSet<String>>);

impl Told {
    /// Why a flow is given up when `call` raised, at that place in the plane.
    pub(crate) fn raised(&self, py: Python<'_>, call: &str, error: &PyErr, place: &str) -> String {
        if error.is_instance_of::<PyKeyboardInterrupt>(py) {
            INTERRUPTED.set(true);
        }
        let traceback = traceback(py, error);
        let what = traceback.lines().last().unwrap_or_default().to_owned();
        let frames = traceback.trim_end().trim_end_matches(&what).to_owned();
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if told.insert(format!("{call}\n{frames}")) {
            format!("{call} raised\n{traceback}\nin the plane: {place}")
        } else {
            format!("{call} raised as before: {what}; in the plane: {place}")
        }
    }
}

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
