//! `fairwater._fairwater`: what the Python package `fairwater` has of Rust.
//!
//! `python/fairwater` beside this is what people import; it names what is here, and documents it
//! in `_fairwater.pyi`. What needs no speed is written there, in Python.

mod aggregate;
mod algorithm;
mod attach;
mod command;
mod control;
mod errors;
mod flow_info;
mod gym;
mod report;
mod simulate;
mod speed;
mod sweep;
mod tables;

use pyo3::prelude::*;

/// The extension module.
#[pymodule]
fn _fairwater(module: &Bound<'_, PyModule>) -> PyResult<()> {
    command::embed(module.py())?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<attach::Attachment>()?;
    module.add_class::<control::Control>()?;
    module.add_class::<flow_info::FlowInfo>()?;
    module.add_class::<report::Report>()?;
    module.add_class::<sweep::Grid>()?;
    module.add_class::<sweep::ResultsFolder>()?;
    module.add_function(wrap_pyfunction!(command::command, module)?)?;
    module.add_function(wrap_pyfunction!(simulate::simulate, module)?)?;
    module.add_function(wrap_pyfunction!(speed::time_reports, module)?)?;
    module.add_function(wrap_pyfunction!(command::on_fork_in_child, module)?)?;
    gym::add(module)?;
    Ok(())
}
