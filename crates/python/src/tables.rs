//! Tables for Python: numbers as bytes, which NumPy takes as they are.

use fairwater_results::{Column, Table};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// The columns by name: a list of texts, or `("uint64", bytes)`, or `("float64", bytes)` in which
/// what was not measured is NaN.
pub(crate) fn columns<'py>(py: Python<'py>, table: &Table) -> PyResult<Bound<'py, PyDict>> {
    let columns = PyDict::new(py);
    for (name, column) in table.columns() {
        match column {
            Column::Text(values) => columns.set_item(name, values)?,
            Column::Whole(values) => {
                let bytes: Vec<u8> = values.iter().flat_map(|n| n.to_ne_bytes()).collect();
                columns.set_item(name, ("uint64", PyBytes::new(py, &bytes)))?;
            }
            Column::Number(values) => {
                let numbers = values.iter().map(|number| number.unwrap_or(f64::NAN));
                let bytes: Vec<u8> = numbers.flat_map(f64::to_ne_bytes).collect();
                columns.set_item(name, ("float64", PyBytes::new(py, &bytes)))?;
            }
        }
    }
    Ok(columns)
}
