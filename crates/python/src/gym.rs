//! Environments for learning, in Rust: `python/fairwater/gym.py` makes them gymnasium's.
//!
//! A call steps its environments without the interpreter's lock, and writes into NumPy arrays that
//! it is given.

use std::sync::{Mutex, MutexGuard, PoisonError};

use fairwater_gym::{
    Environment, FEATURES, FIELDS, Fleet, FleetError, OBSERVATION, PROGRAM, Path, PolicyAdapter,
    Range, Reported, Settings, StepMetrics, Steps,
};
use numpy::{PyArray1, PyReadonlyArray1, PyReadwriteArray1, PyReadwriteArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Adds what is here to the module.
pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let features: Vec<_> = FEATURES
        .iter()
        .map(|f| (f.name, f.low, f.high, f.meaning))
        .collect();
    module.add("GYM_PROGRAM", PROGRAM)?;
    module.add("GYM_FEATURES", features)?;
    module.add_class::<GymEnvironment>()?;
    module.add_class::<GymFleet>()?;
    module.add_class::<GymPolicyAdapter>()
}

/// Settings as Python has them; what is not there is the default.
fn settings(given: Option<&Bound<'_, PyDict>>) -> PyResult<Settings> {
    let mut settings = Settings::default();
    for (key, value) in given.into_iter().flatten() {
        let key: String = key.extract()?;
        let (paths, reward) = (&mut settings.paths, &mut settings.reward);
        match key.as_str() {
            "rate_mbit" => paths.rate_mbit = range(&value)?,
            "rtt_ms" => paths.rtt_ms = range(&value)?,
            "buffer_bdp" => paths.buffer_bdp = range(&value)?,
            "loss" => paths.loss = range(&value)?,
            "throughput_weight" => reward.throughput = value.extract()?,
            "delay_weight" => reward.delay = value.extract()?,
            "loss_weight" => reward.loss = value.extract()?,
            "steps" => settings.steps = value.extract()?,
            "plane_delay_us" => settings.plane_delay_us = value.extract()?,
            _ => {
                let unknown = format!("an environment has no setting `{key}`");
                return Err(PyValueError::new_err(unknown));
            }
        }
    }
    Ok(settings)
}

/// A pair, or one number for what is always the same.
fn range(value: &Bound<'_, PyAny>) -> PyResult<Range> {
    let (least, most): (f64, f64) = match value.extract::<f64>() {
        Ok(fixed) => (fixed, fixed),
        Err(_) => value.extract()?,
    };
    Ok(Range::new(least, most))
}

/// One environment.
#[pyclass(frozen, module = "fairwater._fairwater")]
struct GymEnvironment(Mutex<Environment>);

impl GymEnvironment {
    fn environment(&self) -> MutexGuard<'_, Environment> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl GymEnvironment {
    #[new]
    #[pyo3(signature = (seed, **given))]
    fn new(seed: u64, given: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let environment = Environment::new(settings(given)?, seed).map_err(refused)?;
        Ok(Self(Mutex::new(environment)))
    }

    fn reset<'py>(&self, py: Python<'py>, seed: Option<u64>) -> Bound<'py, PyArray1<f32>> {
        let observation = py.detach(|| self.environment().reset(seed));
        PyArray1::from_slice(py, &observation)
    }

    fn step<'py>(
        &self,
        py: Python<'py>,
        action: f32,
    ) -> PyResult<(Bound<'py, PyArray1<f32>>, f64, bool, bool)> {
        let step = py
            .detach(|| self.environment().step(action))
            .map_err(refused)?;
        let observation = PyArray1::from_slice(py, &step.observation);
        Ok((observation, step.reward, step.terminated, step.truncated))
    }

    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let values = {
            let environment = self.environment();
            numbers(environment.path(), environment.metrics())
        };
        // The lock is free again: what Python allocates may let another thread run.
        let info = PyDict::new(py);
        for (name, value) in INFO.into_iter().zip(values) {
            info.set_item(name, value)?;
        }
        Ok(info)
    }
}

/// What is known of an episode and its last step, in units.
const INFO: [&str; 9] = [
    "path_rate_bps",
    "path_rtt_us",
    "path_buffer_bytes",
    "path_loss",
    "time_us",
    "throughput_bps",
    "rtt_us",
    "loss",
    "cwnd",
];

#[expect(clippy::cast_precision_loss, reason = "readings are rough")]
fn numbers(path: Option<Path>, reading: StepMetrics) -> [f64; INFO.len()] {
    let path = path.unwrap_or(Path {
        rate_bps: 0,
        rtt_us: 0,
        buffer_bytes: 0,
        loss: 0.0,
    });
    [
        path.rate_bps as f64,
        path.rtt_us as f64,
        path.buffer_bytes as f64,
        path.loss,
        reading.time_us as f64,
        reading.throughput_bps,
        reading.rtt_us,
        reading.loss,
        reading.cwnd as f64,
    ]
}

/// Several environments.
#[pyclass(frozen, module = "fairwater._fairwater")]
struct GymFleet(Mutex<Fleet>);

impl GymFleet {
    fn fleet(&self) -> MutexGuard<'_, Fleet> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl GymFleet {
    #[classattr]
    const INFO: [&'static str; INFO.len()] = INFO;

    #[new]
    #[pyo3(signature = (count, seed, **given))]
    fn new(count: usize, seed: u64, given: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let fleet = Fleet::new(settings(given)?, count, seed).map_err(refused)?;
        Ok(Self(Mutex::new(fleet)))
    }

    fn reset(
        &self,
        py: Python<'_>,
        seeds: Vec<Option<u64>>,
        mut observations: PyReadwriteArray2<'_, f32>,
    ) -> PyResult<()> {
        let observations = observations.as_slice_mut()?;
        py.detach(|| self.fleet().reset(&seeds, observations))
            .map_err(refused)
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "an array for each thing that is filled"
    )]
    fn step(
        &self,
        py: Python<'_>,
        actions: PyReadonlyArray1<'_, f32>,
        mut observations: PyReadwriteArray2<'_, f32>,
        mut rewards: PyReadwriteArray1<'_, f64>,
        mut terminated: PyReadwriteArray1<'_, bool>,
        mut truncated: PyReadwriteArray1<'_, bool>,
        mut last_observations: PyReadwriteArray2<'_, f32>,
    ) -> PyResult<()> {
        let actions = actions.as_slice()?;
        let steps = Steps {
            observations: observations.as_slice_mut()?,
            rewards: rewards.as_slice_mut()?,
            terminated: terminated.as_slice_mut()?,
            truncated: truncated.as_slice_mut()?,
            last_observations: last_observations.as_slice_mut()?,
        };
        py.detach(|| self.fleet().step(actions, steps))
            .map_err(refused)
    }

    /// Rows of `INFO`'s numbers, by environment.
    fn info(&self, mut rows: PyReadwriteArray2<'_, f64>) -> PyResult<()> {
        let rows = rows.as_slice_mut()?;
        let fleet = self.fleet();
        let expected = fleet.len() * INFO.len();
        if rows.len() != expected {
            return Err(refused(FleetError::Length {
                what: "info",
                found: rows.len(),
                expected,
            }));
        }
        let found = fleet.paths().zip(fleet.metrics());
        for ((path, reading), row) in found.zip(rows.chunks_exact_mut(INFO.len())) {
            row.copy_from_slice(&numbers(path, reading));
        }
        Ok(())
    }
}

/// A flow as a policy sees it and steers it.
#[pyclass(frozen, name = "PolicyAdapter", module = "fairwater.gym")]
struct GymPolicyAdapter(Mutex<PolicyAdapter>);

impl GymPolicyAdapter {
    fn adapter(&self) -> MutexGuard<'_, PolicyAdapter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl GymPolicyAdapter {
    #[new]
    fn new(mss: u32) -> Self {
        Self(Mutex::new(PolicyAdapter::new(mss)))
    }

    fn observe<'py>(&self, report: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyArray1<f32>>> {
        let mut fields = [0; FIELDS.len()];
        for (field, name) in fields.iter_mut().zip(FIELDS) {
            *field = report.getattr(name)?.extract()?;
        }
        let time_us = report.getattr("time_us")?.extract()?;
        let cwnd = report.getattr("cwnd")?.extract()?;
        let report_of = Reported::new(time_us, cwnd, fields);
        let observation: [f32; OBSERVATION] = self.adapter().observe(&report_of);
        Ok(PyArray1::from_slice(report.py(), &observation))
    }

    fn apply(&self, action: f32) -> u64 {
        self.adapter().apply(action)
    }
}

fn refused(error: impl std::error::Error) -> PyErr {
    PyValueError::new_err(error.to_string())
}
