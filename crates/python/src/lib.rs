//! `fairwater._fairwater`: what the Python package `fairwater` has of Rust.
//!
//! `python/fairwater` beside this is what people import; it names what is here, and documents it
//! in `_fairwater.pyi`. What needs no speed is written there, in Python.

mod command;

use pyo3::prelude::*;

/// The extension module.
#[pymodule]
fn _fairwater(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_function(wrap_pyfunction!(command::command, module)?)?;
    Ok(())
}
