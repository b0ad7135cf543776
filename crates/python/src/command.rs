//! The `fairwater` command in a Python interpreter, where algorithms may be in Python.

use std::ffi::OsString;
use std::path::Path;

use fairwater_algorithms::Choice;
use fairwater_hosting::{PythonRuntime, ResolveError, embed_python, exit_forked_plane};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::algorithm;
use crate::errors;

/// Lets the command, and scenarios, find algorithms in Python files.
pub(crate) fn embed(py: Python<'_>) -> PyResult<()> {
    // `None`, or nothing, where an interpreter is part of another program.
    let interpreter: Option<String> = py.import("sys")?.getattr("executable")?.extract()?;
    let interpreter = interpreter.filter(|path| !path.is_empty());
    embed_python(PythonRuntime {
        load,
        command: vec![
            interpreter.unwrap_or_else(|| "python3".to_owned()),
            "-m".to_owned(),
            "fairwater".to_owned(),
        ],
    });
    Ok(())
}

/// Runs the command with these arguments, the program's name first; returns the exit code.
#[pyfunction]
pub(crate) fn command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| fairwater_cli::main(arguments.into_iter()))
}

/// To be called in a forked child, on the thread that forked; returns whether the parent hosts
/// algorithms.
#[pyfunction]
pub(crate) fn on_fork_in_child() -> bool {
    fairwater_hosting::on_fork_in_child()
}

/// Runs what an algorithm does when the plane calls it. A forked child of a process that hosts the
/// plane ends when the algorithm returns: it is not the plane.
pub(crate) fn call_algorithm<R>(work: impl FnOnce(Python<'_>) -> R) -> R {
    let result = Python::attach(work);
    exit_forked_plane();
    result
}

/// What `Class:key=value` behind a file's name stands for.
fn load(file: &Path, text: &str) -> Result<Choice, ResolveError> {
    Python::attach(|py| {
        let found = py
            .import("fairwater._files")
            .and_then(|files| files.call_method1("find", (file, text)))
            .and_then(|found| found.extract::<(Bound<'_, PyAny>, Bound<'_, PyDict>)>());
        match found {
            Ok((class, parameters)) => algorithm::choice(&class, &parameters),
            Err(error) => Err(resolve_error(py, &error)),
        }
    })
}

/// The parameters of a class that `key=value,key=value` stands for.
pub(crate) fn parameters<'py>(
    class: &Bound<'py, PyAny>,
    text: &str,
) -> Result<Bound<'py, PyDict>, ResolveError> {
    let py = class.py();
    py.import("fairwater._parameters")
        .and_then(|module| module.call_method1("from_text", (class, text)))
        .and_then(|values| Ok(values.cast_into::<PyDict>()?))
        .map_err(|error| resolve_error(py, &error))
}

/// The faults that an exception carries, else its traceback.
fn resolve_error(py: Python<'_>, error: &PyErr) -> ResolveError {
    let faults = error
        .value(py)
        .getattr("faults")
        .and_then(|faults| faults.extract::<Vec<String>>());
    ResolveError {
        messages: faults.unwrap_or_else(|_| vec![errors::traceback(py, error)]),
    }
}

/// What is wrong with an algorithm, as Python's `AlgorithmError`.
pub(crate) fn refusal(py: Python<'_>, error: ResolveError) -> PyErr {
    let raised = py
        .import("fairwater._parameters")
        .and_then(|module| module.call_method1("AlgorithmError", (error.messages,)));
    match raised {
        Ok(error) => PyErr::from_value(error),
        Err(error) => error,
    }
}
