//! Algorithms on this machine's TCP, for `fairwater.attach`.

use std::process;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fairwater_hosting::{AttachError, AttachedPlane, plane_of};
use fairwater_linux::{LinuxError, Options};
use pyo3::exceptions::{PyOSError, PyPermissionError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::{algorithm, command};

/// Algorithms at work on this machine's TCP, in a thread of this process.
#[pyclass(frozen, module = "fairwater")]
pub(crate) struct Attachment {
    names: Vec<String>,
    attached: Mutex<Option<AttachedPlane>>,
    /// The process that attached. A fork of it has this object, but not the plane's thread.
    process: u32,
}

impl Attachment {
    fn take(&self) -> Option<AttachedPlane> {
        let attached = self
            .attached
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if self.process == process::id() {
            return attached;
        }
        // It would wait for a thread that is not there.
        std::mem::forget(attached);
        None
    }
}

#[pymethods]
impl Attachment {
    /// Attaches a class with its parameters.
    #[new]
    fn new(
        py: Python<'_>,
        class: &Bound<'_, PyAny>,
        parameters: &Bound<'_, PyDict>,
        silent_after_s: f64,
        max_flows: u32,
    ) -> PyResult<Self> {
        let choice =
            algorithm::choice(class, parameters).map_err(|error| command::refusal(py, error))?;
        let plane = plane_of([(choice.name(), &choice)])
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        let options = Options {
            silent_after: Duration::try_from_secs_f64(silent_after_s)
                .map_err(|error| PyValueError::new_err(format!("silent_after: {error}")))?,
            max_flows,
            ..Options::default()
        };
        let attached = py
            .detach(|| AttachedPlane::start(plane, options))
            .map_err(refusal)?;
        Ok(Self {
            names: attached.names().to_vec(),
            attached: Mutex::new(Some(attached)),
            process: process::id(),
        })
    }

    #[getter]
    fn name(&self) -> &str {
        self.names.first().map_or("", String::as_str)
    }

    fn notices(&self) -> Vec<String> {
        let attached = self.attached.lock();
        let attached = attached.unwrap_or_else(PoisonError::into_inner);
        attached
            .as_ref()
            .map(AttachedPlane::notices)
            .unwrap_or_default()
    }

    fn detach(&self, py: Python<'_>) -> Vec<String> {
        let attached = self.take();
        // The plane's thread may be waiting for the interpreter.
        py.detach(|| attached.map(AttachedPlane::finish).unwrap_or_default())
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let attached = self.take();
        Python::attach(|py| py.detach(|| drop(attached)));
    }
}

fn refusal(error: AttachError) -> PyErr {
    match error {
        AttachError::Linux(LinuxError::Missing(missing)) => {
            PyPermissionError::new_err(missing.to_string())
        }
        other => PyOSError::new_err(other.to_string()),
    }
}
