//! Scenarios in the simulator, for `fairwater.simulate`.

use std::collections::HashMap;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use fairwater_algorithms::Choice;
use fairwater_experiment::Backend;
use fairwater_hosting::{FolderResolver, ResolveError, is_python_spec, plane_of};
use fairwater_lab::points::{schedule, simulated};
use fairwater_net::Time;

use fairwater_results::{PointResult, tables};
use fairwater_scenario::{self as scenario, Point, Resolver, Scenario};
use fairwater_sim::{Observer, SimulationError};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::tables::columns;
use crate::{algorithm, command, errors};

/// How often Python hears how far it is, and is asked whether Ctrl-C was pressed.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Tables by name, notices with the index of their point, and a sentence for each flow that ran
/// without its algorithm because that failed.
type SimulateReturn<'py> = (Bound<'py, PyDict>, Vec<(usize, String)>, Vec<String>);

/// A sentence for each flow that ran without its algorithm because that failed.
pub(crate) fn failures(results: &[PointResult]) -> Vec<String> {
    let flows = results.iter().flat_map(|result| &result.flows);
    flows
        .filter_map(|flow| {
            let fallback = flow.fallback.as_ref()?;
            fallback.is_failure().then(|| fallback.sentence(&flow.name))
        })
        .collect()
}

/// Simulates each point of a scenario's grid.
///
/// `algorithms` are classes by name; `settings` are `key=value`, as of the command's `--set`;
/// `progress` is called with what share is done.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "they are named in Python")]
pub(crate) fn simulate<'py>(
    py: Python<'py>,
    name: &str,
    source: String,
    folder: PathBuf,
    algorithms: HashMap<String, Py<PyAny>>,
    settings: Vec<String>,
    seed: Option<u64>,
    jobs: Option<usize>,
    progress: Option<Py<PyAny>>,
) -> PyResult<SimulateReturn<'py>> {
    let refuse = |message: String| PyValueError::new_err(message);
    let mut source = source;
    for setting in &settings {
        source = scenario::set(&source, setting).map_err(|error| refuse(error.to_string()))?;
    }
    if let Some(seed) = seed {
        source = scenario::set_seed(&source, seed).map_err(|error| refuse(error.to_string()))?;
    }
    let resolver = ScenarioResolver {
        files: FolderResolver::new(&folder),
        folder: &folder,
        classes: algorithms,
    };
    let scenario = Scenario::parse(name, &source, Backend::Sim, &resolver)
        .map_err(|refused| refuse(refused.render(false)))?;
    let mut choices = HashMap::new();
    let mut in_python = false;
    for text in scenario.algorithms() {
        in_python |= resolver.is_python(&text);
        let choice = resolver
            .resolve(&text)
            .map_err(|error| command::refusal(py, error))?;
        choices.insert(text, choice);
    }
    // Algorithms in Python take turns on one interpreter: more threads would only wait for it.
    let cores = match in_python {
        true => 1,
        false => thread::available_parallelism().map_or(1, NonZero::get),
    };
    let run = Run {
        scenario: &scenario,
        choices,
        progress,
        stop: AtomicBool::new(false),
    };
    let jobs = jobs.unwrap_or(cores).min(scenario.len());
    let results = py.detach(|| match jobs {
        0 | 1 => run.run_in_turn(),
        _ => run.run_in_parallel(jobs),
    })?;
    let variables = scenario.variables();
    let found = PyDict::new(py);
    for (file, table) in tables(&results, &variables) {
        let name = file.strip_suffix(".parquet").unwrap_or(file);
        found.set_item(name, columns(py, &table)?)?;
    }
    let notices = results.iter().flat_map(|result| {
        result
            .notices
            .iter()
            .map(|text| (result.point, text.clone()))
    });
    Ok((found, notices.collect(), failures(&results)))
}

/// What a scenario refers to: files beside it, classes that were given by name, and what else the
/// command knows.
struct ScenarioResolver<'a> {
    files: FolderResolver,
    folder: &'a Path,
    classes: HashMap<String, Py<PyAny>>,
}

impl ScenarioResolver<'_> {
    fn given(&self, text: &str) -> Option<(&Py<PyAny>, String)> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        Some((self.classes.get(name.trim())?, settings.to_owned()))
    }

    fn is_python(&self, text: &str) -> bool {
        self.given(text).is_some() || is_python_spec(text)
    }

    fn resolve(&self, text: &str) -> Result<Choice, ResolveError> {
        let Some((class, settings)) = self.given(text) else {
            return fairwater_hosting::resolve(text, self.folder).map(|found| found.choice);
        };
        Python::attach(|py| {
            let class = class.bind(py);
            let parameters = command::parameters(class, &settings)?;
            algorithm::choice(class, &parameters)
        })
    }
}

impl Resolver for ScenarioResolver<'_> {
    fn read(&self, name: &str) -> Result<String, String> {
        self.files.read(name)
    }

    fn check_algorithm(&self, text: &str) -> Result<(), Vec<String>> {
        self.resolve(text)
            .map(|_| ())
            .map_err(|error| error.messages)
    }
}

struct Run<'a> {
    scenario: &'a Scenario,
    choices: HashMap<String, Choice>,
    progress: Option<Py<PyAny>>,
    stop: AtomicBool,
}

impl Run<'_> {
    /// One point after another on this thread, where Ctrl-C can interrupt an algorithm.
    fn run_in_turn(&self) -> PyResult<Vec<PointResult>> {
        let mut results = Vec::new();
        let mut last = Instant::now();
        for index in 0..self.scenario.len() {
            let point = self.scenario.sampled_point(index);
            let mut observer = ProgressObserver {
                run: self,
                done: index as f64,
                duration: point.experiment.duration,
                last,
                failed: None,
            };
            let result = self.simulate_point(&point, &mut observer);
            // Points that end soon do not look by themselves.
            last = observer.last;
            if let Some(error) = observer.failed {
                return Err(error);
            }
            if errors::was_interrupted() {
                return Err(PyKeyboardInterrupt::new_err(()));
            }
            results.extend(result?);
            if last.elapsed() >= PROGRESS_INTERVAL {
                last = Instant::now();
                self.report_progress(results.len() as f64 / self.scenario.len() as f64)?;
            }
        }
        self.report_progress(1.0)?;
        Ok(results)
    }

    /// Several points at once on threads of their own; this one listens to Python.
    fn run_in_parallel(&self, jobs: usize) -> PyResult<Vec<PointResult>> {
        let total = self.scenario.len();
        let mut results: Vec<Option<PointResult>> = (0..total).map(|_| None).collect();
        let mut failed = None;
        let mut done = 0;
        let mut last = Instant::now();
        let simulate = |index| {
            if self.stop.load(Relaxed) {
                return None;
            }
            let point = self.scenario.sampled_point(index);
            self.simulate_point(&point, &mut StopObserver(&self.stop))
                .transpose()
        };
        schedule(0..total, jobs, PROGRESS_INTERVAL, simulate, |result| {
            match result {
                Some(Ok(result)) => {
                    done += 1;
                    let at = result.point;
                    results[at] = Some(result);
                }
                Some(Err(error)) => {
                    failed.get_or_insert(error);
                }
                None => {}
            }
            // However fast points come, Python has its turn.
            if last.elapsed() >= PROGRESS_INTERVAL {
                last = Instant::now();
                if let Err(error) = self.report_progress(f64::from(done) / total as f64) {
                    failed.get_or_insert(error);
                }
            }
            self.stop.fetch_or(failed.is_some(), Relaxed);
            failed.is_none()
        });
        match failed {
            Some(error) => Err(error),
            None => {
                self.report_progress(1.0)?;
                Ok(results.into_iter().flatten().collect())
            }
        }
    }

    /// Simulates a point; `None` when it was stopped.
    fn simulate_point(
        &self,
        point: &Point,
        observer: &mut dyn Observer,
    ) -> PyResult<Option<PointResult>> {
        let texts = point.algorithms();
        let named = texts.iter().map(String::as_str);
        let algorithms = named.filter_map(|text| Some((text, self.choices.get(text)?)));
        let plane =
            plane_of(algorithms).map_err(|error| PyValueError::new_err(error.to_string()))?;
        match fairwater_sim::run(&point.experiment, plane, observer) {
            Ok(outcome) => Ok(Some(simulated(point, &outcome))),
            Err(SimulationError::Stopped) => Ok(None),
            Err(SimulationError::Config(error)) => Err(PyValueError::new_err(error.to_string())),
        }
    }

    /// Lets Python know, and know of Ctrl-C.
    fn report_progress(&self, share: f64) -> PyResult<()> {
        Python::attach(|py| {
            py.check_signals()?;
            if let Some(progress) = &self.progress {
                progress.call1(py, PyTuple::new(py, [share.min(1.0)])?)?;
            }
            Ok(())
        })
    }
}

/// Ends a simulation when another point failed.
struct StopObserver<'a>(&'a AtomicBool);

impl Observer for StopObserver<'_> {
    fn progress(&mut self, _: Time) -> ControlFlow<()> {
        match self.0.load(Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Ends a simulation when Python says so.
struct ProgressObserver<'a> {
    run: &'a Run<'a>,
    /// Points done before.
    done: f64,
    duration: Duration,
    last: Instant,
    failed: Option<PyErr>,
}

impl Observer for ProgressObserver<'_> {
    fn progress(&mut self, now: Time) -> ControlFlow<()> {
        if errors::was_interrupted() {
            self.failed = Some(PyKeyboardInterrupt::new_err(()));
        } else if self.last.elapsed() >= PROGRESS_INTERVAL {
            self.last = Instant::now();
            let part = now.since(Time::ZERO).as_secs_f64() / self.duration.as_secs_f64();
            let share = (self.done + part) / self.run.scenario.len() as f64;
            self.failed = self.run.report_progress(share).err();
        }
        match self.failed {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    }
}
