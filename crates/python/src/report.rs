//! A report as Python reads it: a class for each program, with its fields as attributes.
//!
//! A flow keeps one object for each program and fills it anew for each report, so a report
//! allocates nothing but the numbers that the algorithm reads.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use fairwater_lang::{Program, Type, did_you_mean};
use fairwater_plane as plane;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyAttributeError, PyKeyError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};

/// The fields of one program's reports, in their order.
#[pyclass(frozen, module = "fairwater")]
pub(crate) struct Layout {
    program: String,
    fields: Vec<(String, Type)>,
}

impl Layout {
    pub(crate) fn of(name: &str, program: &Program) -> Self {
        let fields = program.variables[..program.report_len()].iter();
        Self {
            program: name.to_owned(),
            fields: fields.map(|v| (v.name.clone(), v.ty)).collect(),
        }
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.fields.iter().position(|(field, _)| field == name)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| name.as_str())
    }
}

/// What a program reported, with the datapath's own time. Read it in the `on_report` that it was
/// given to: the next report comes in the same object.
#[pyclass(frozen, subclass, module = "fairwater")]
pub(crate) struct Report {
    layout: Py<Layout>,
    live: AtomicBool,
    time_us: AtomicU64,
    cwnd: AtomicU64,
    rate: AtomicU64,
    values: Box<[AtomicU64]>,
}

impl Report {
    /// Takes the values of a report; what [`Report::close`] ends.
    pub(crate) fn open(&self, report: &plane::Report<'_>, fields: &[plane::Field]) {
        self.time_us.store(report.time_us(), Relaxed);
        self.cwnd.store(report.cwnd(), Relaxed);
        self.rate.store(report.rate(), Relaxed);
        for (value, field) in self.values.iter().zip(fields) {
            value.store(report.get(*field).unwrap_or(0), Relaxed);
        }
        self.live.store(true, Relaxed);
    }

    /// From now on reading raises.
    pub(crate) fn close(&self) {
        self.live.store(false, Relaxed);
    }

    /// What was reported, for a message.
    pub(crate) fn summary(&self) -> String {
        let mut text = format!("cwnd {} bytes", self.cwnd.load(Relaxed));
        let layout = self.layout.get();
        for ((name, _), value) in layout.fields.iter().zip(&self.values) {
            text += &format!(", {name} {}", value.load(Relaxed));
        }
        text
    }

    fn read(&self, value: &AtomicU64) -> PyResult<u64> {
        if self.live.load(Relaxed) {
            Ok(value.load(Relaxed))
        } else {
            Err(PyRuntimeError::new_err(
                "a report can only be read in the on_report that it was given to",
            ))
        }
    }

    fn field(&self, py: Python<'_>, index: usize, ty: Type) -> PyResult<Py<PyAny>> {
        let Some(value) = self.values.get(index) else {
            // The attribute was taken from the class of another program.
            return Err(PyAttributeError::new_err("the program has no such field"));
        };
        let value = self.read(value)?;
        match ty {
            Type::Num => value.into_py_any(py),
            Type::Bool => (value != 0).into_py_any(py),
        }
    }
}

#[pymethods]
impl Report {
    #[new]
    fn new(layout: Py<Layout>) -> Self {
        let fields = layout.get().fields.len();
        Self {
            layout,
            live: AtomicBool::new(false),
            time_us: AtomicU64::new(0),
            cwnd: AtomicU64::new(0),
            rate: AtomicU64::new(0),
            values: std::iter::repeat_with(AtomicU64::default)
                .take(fields)
                .collect(),
        }
    }

    #[getter]
    fn time_us(&self) -> PyResult<u64> {
        self.read(&self.time_us)
    }

    #[getter]
    fn cwnd(&self) -> PyResult<u64> {
        self.read(&self.cwnd)
    }

    #[getter]
    fn rate(&self) -> PyResult<u64> {
        self.read(&self.rate)
    }

    #[getter]
    pub(crate) fn program(&self) -> &str {
        &self.layout.get().program
    }

    fn __getitem__(&self, py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
        let layout = self.layout.get();
        match layout.index(name) {
            Some(index) => self.field(py, index, layout.fields[index].1),
            None => Err(PyKeyError::new_err(no_field(layout, name))),
        }
    }

    fn __getattr__(&self, name: &str) -> PyResult<Py<PyAny>> {
        Err(PyAttributeError::new_err(no_field(self.layout.get(), name)))
    }

    fn __repr__(&self) -> String {
        if self.live.load(Relaxed) {
            let at = self.time_us.load(Relaxed);
            format!(
                "<report of {} at {at} µs: {}>",
                self.program(),
                self.summary()
            )
        } else {
            format!("<a former report of {}>", self.program())
        }
    }
}

fn no_field(layout: &Layout, name: &str) -> String {
    let hint = did_you_mean(name, layout.names().chain(["time_us", "cwnd", "rate"]));
    format!(
        "program `{}` has no report field `{name}`{hint}",
        layout.program
    )
}

/// An attribute of a report class: one field.
#[pyclass(frozen, module = "fairwater")]
struct FieldAttribute {
    name: String,
    index: usize,
    ty: Type,
}

#[pymethods]
impl FieldAttribute {
    fn __get__(
        slf: &Bound<'_, Self>,
        report: Option<&Bound<'_, Report>>,
        _owner: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let field = slf.get();
        match report {
            Some(report) => report.get().field(slf.py(), field.index, field.ty),
            None => Ok(slf.clone().into_any().unbind()),
        }
    }

    fn __set__(&self, _report: &Bound<'_, PyAny>, _value: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(PyAttributeError::new_err(format!(
            "`{}` is what the datapath reported, and cannot be set",
            self.name
        )))
    }
}

/// The class of one program's reports: a subclass of [`Report`] with an attribute for each field.
pub(crate) fn class<'py>(py: Python<'py>, layout: &Layout) -> PyResult<Bound<'py, PyType>> {
    let attributes = PyDict::new(py);
    attributes.set_item("__slots__", PyTuple::empty(py))?;
    attributes.set_item("__module__", "fairwater")?;
    for (index, (name, ty)) in layout.fields.iter().enumerate() {
        let attribute = FieldAttribute {
            name: name.clone(),
            index,
            ty: *ty,
        };
        attributes.set_item(name, Bound::new(py, attribute)?)?;
    }
    let name = format!("Report_{}", layout.program);
    let bases = (py.get_type::<Report>(),);
    let class = py.get_type::<PyType>().call1((name, bases, attributes))?;
    Ok(class.cast_into()?)
}
