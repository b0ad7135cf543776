//! The `fairwater` command in a Python interpreter, where algorithms may be in Python.

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the command with these arguments, the program's name first; returns the exit code.
#[pyfunction]
pub(crate) fn command(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| fairwater_cli::main(arguments.into_iter()))
}
