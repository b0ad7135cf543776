//! Scenarios in the simulator, for `fairwater.simulate`.

use std::collections::{HashMap, VecDeque};
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use fairwater_algorithms::Choice;
use fairwater_cli::{Beside, Unknown, plane_of};
use fairwater_lab::findings::{Finding, tables};
use fairwater_lab::scenario::{self, Point, Scenario, Surroundings, World};
use fairwater_net::Time;
use fairwater_plane::SignalSet;
use fairwater_sim::{Observer, SimulationError};
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};

use crate::tables::columns;
use crate::{algorithm, command, trouble};

/// How often Python hears how far it is, and is asked whether Ctrl-C was pressed.
const TELL_EVERY: Duration = Duration::from_millis(100);

/// Tables by name, and notices with the index of their point.
type Found<'py> = (Bound<'py, PyDict>, Vec<(usize, String)>);

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
) -> PyResult<Found<'py>> {
    let refuse = |message: String| PyValueError::new_err(message);
    let mut source = source;
    for setting in &settings {
        source = scenario::set(&source, setting).map_err(|error| refuse(error.to_string()))?;
    }
    if let Some(seed) = seed {
        source = scenario::set_seed(&source, seed).map_err(|error| refuse(error.to_string()))?;
    }
    let around = Around {
        files: Beside::folder(&folder),
        folder: &folder,
        classes: algorithms,
    };
    let scenario = Scenario::parse(name, &source, World::Sim, &around)
        .map_err(|refused| refuse(refused.render(false)))?;
    let mut choices = HashMap::new();
    let mut in_python = false;
    for text in scenario.algorithms() {
        in_python |= around.is_python(&text);
        let choice = around
            .resolve(&text)
            .map_err(|unknown| command::refusal(py, unknown))?;
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
    let findings = py.detach(|| match jobs {
        0 | 1 => run.here(),
        _ => run.apart(jobs),
    })?;
    let variables = scenario.variables();
    let found = PyDict::new(py);
    for (file, table) in tables(&findings, &variables) {
        let name = file.strip_suffix(".parquet").unwrap_or(file);
        found.set_item(name, columns(py, &table)?)?;
    }
    let notices = findings.iter().flat_map(|finding| {
        finding
            .notices
            .iter()
            .map(|text| (finding.point, text.clone()))
    });
    Ok((found, notices.collect()))
}

/// What a scenario refers to: files beside it, classes that were given by name, and what else the
/// command knows.
struct Around<'a> {
    files: Beside,
    folder: &'a Path,
    classes: HashMap<String, Py<PyAny>>,
}

impl Around<'_> {
    fn given(&self, text: &str) -> Option<(&Py<PyAny>, String)> {
        let (name, settings) = text.split_once(':').unwrap_or((text, ""));
        Some((self.classes.get(name.trim())?, settings.to_owned()))
    }

    fn is_python(&self, text: &str) -> bool {
        let file = text.split(':').next().unwrap_or_default();
        self.given(text).is_some() || file.ends_with(".py")
    }

    fn resolve(&self, text: &str) -> Result<Choice, Unknown> {
        let Some((class, settings)) = self.given(text) else {
            return fairwater_cli::resolve(text, self.folder);
        };
        Python::attach(|py| {
            let class = class.bind(py);
            let parameters = command::parameters(class, &settings)?;
            algorithm::choice(class, &parameters)
        })
    }
}

impl Surroundings for Around<'_> {
    fn read(&self, name: &str) -> Result<String, String> {
        self.files.read(name)
    }

    fn check_algorithm(&self, text: &str) -> Result<(), Vec<String>> {
        self.resolve(text)
            .map(|_| ())
            .map_err(|unknown| unknown.faults)
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
    fn here(&self) -> PyResult<Vec<Finding>> {
        let mut findings = Vec::new();
        let mut last = Instant::now();
        for index in 0..self.scenario.len() {
            let point = self.scenario.sampled_point(index);
            let mut watcher = Watcher {
                run: self,
                done: index as f64,
                duration: point.config.duration,
                last,
                failed: None,
            };
            let found = self.one(&point, &mut watcher);
            // Points that end soon do not look by themselves.
            last = watcher.last;
            if let Some(error) = watcher.failed {
                return Err(error);
            }
            if trouble::was_interrupted() {
                return Err(PyKeyboardInterrupt::new_err(()));
            }
            findings.extend(found?);
            if last.elapsed() >= TELL_EVERY {
                last = Instant::now();
                self.tell(findings.len() as f64 / self.scenario.len() as f64)?;
            }
        }
        self.tell(1.0)?;
        Ok(findings)
    }

    /// Several points at once on threads of their own; this one listens to Python.
    fn apart(&self, jobs: usize) -> PyResult<Vec<Finding>> {
        let total = self.scenario.len();
        let mut findings: Vec<Option<Finding>> = (0..total).map(|_| None).collect();
        let queue: Mutex<VecDeque<usize>> = Mutex::new((0..total).collect());
        let (tell, told) = mpsc::channel();
        let mut failed = None;
        thread::scope(|scope| {
            for _ in 0..jobs {
                let (queue, tell) = (&queue, tell.clone());
                scope.spawn(move || self.work(queue, &tell));
            }
            drop(tell);
            let mut done = 0;
            let mut last = Instant::now();
            loop {
                // However fast points come, Python has its turn.
                if last.elapsed() >= TELL_EVERY {
                    last = Instant::now();
                    if let Err(error) = self.tell(f64::from(done) / total as f64) {
                        failed.get_or_insert(error);
                        self.stop.store(true, Relaxed);
                    }
                }
                match told.recv_timeout(TELL_EVERY.saturating_sub(last.elapsed())) {
                    Ok(Ok(finding)) => {
                        done += 1;
                        let at = finding.point;
                        findings[at] = Some(finding);
                    }
                    Ok(Err(error)) => {
                        failed.get_or_insert(error);
                        self.stop.store(true, Relaxed);
                    }
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
        });
        match failed {
            Some(error) => Err(error),
            None => {
                self.tell(1.0)?;
                Ok(findings.into_iter().flatten().collect())
            }
        }
    }

    fn work(&self, queue: &Mutex<VecDeque<usize>>, tell: &Sender<PyResult<Finding>>) {
        while !self.stop.load(Relaxed) {
            let next = queue
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop_front();
            let Some(index) = next else { return };
            match self.one(
                &self.scenario.sampled_point(index),
                &mut Stoppable(&self.stop),
            ) {
                // Nobody listens any more only when all is ending.
                Ok(Some(finding)) => drop(tell.send(Ok(finding))),
                Ok(None) => return,
                Err(error) => drop(tell.send(Err(error))),
            }
        }
    }

    /// Simulates a point; `None` when it was stopped.
    fn one(&self, point: &Point, observer: &mut dyn Observer) -> PyResult<Option<Finding>> {
        let mut algorithms: Vec<(&str, &Choice)> = Vec::new();
        for group in &point.groups {
            if let scenario::Sender::Plane(text) = &group.sender
                && algorithms.iter().all(|(name, _)| name != text)
                && let Some(choice) = self.choices.get(text)
            {
                algorithms.push((text, choice));
            }
        }
        let plane = plane_of("sim", SignalSet::ALL, algorithms)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        match fairwater_sim::run(&point.config, plane, observer) {
            Ok(outcome) => Ok(Some(Finding::of_simulation(point, &outcome))),
            Err(SimulationError::Stopped) => Ok(None),
            Err(SimulationError::Config(error)) => Err(PyValueError::new_err(error.to_string())),
        }
    }

    /// Lets Python know, and know of Ctrl-C.
    fn tell(&self, share: f64) -> PyResult<()> {
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
struct Stoppable<'a>(&'a AtomicBool);

impl Observer for Stoppable<'_> {
    fn progress(&mut self, _: Time) -> ControlFlow<()> {
        match self.0.load(Relaxed) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Ends a simulation when Python says so.
struct Watcher<'a> {
    run: &'a Run<'a>,
    /// Points done before.
    done: f64,
    duration: Duration,
    last: Instant,
    failed: Option<PyErr>,
}

impl Observer for Watcher<'_> {
    fn progress(&mut self, now: Time) -> ControlFlow<()> {
        if trouble::was_interrupted() {
            self.failed = Some(PyKeyboardInterrupt::new_err(()));
        } else if self.last.elapsed() >= TELL_EVERY {
            self.last = Instant::now();
            let part = now.since(Time::ZERO).as_secs_f64() / self.duration.as_secs_f64();
            let share = (self.done + part) / self.run.scenario.len() as f64;
            self.failed = self.run.tell(share).err();
        }
        match self.failed {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    }
}
