//! The points of a grid in the simulator, several at once.

use std::collections::VecDeque;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;

use fairwater_lab::findings::{Finding, Folder};
use fairwater_lab::scenario::{self, Point, Scenario};
use fairwater_net::Time;
use fairwater_plane::{Plane, SignalSet};
use fairwater_sim::{Captured, Observer, SimulationError};

use super::capture::{Capture, Recorder};
use super::watch::Watch;
use crate::algorithm;
use crate::failure::Failure;
use crate::hosting;
use crate::stop::Stop;

/// What is to be done.
pub(super) struct Job<'a> {
    pub(super) scenario: &'a Scenario,
    /// The scenario's own folder, beside which its files are.
    pub(super) beside: &'a Path,
    pub(super) folder: &'a Folder,
    pub(super) capture: Option<&'a Capture>,
    pub(super) stop: &'a Stop,
    pub(super) quiet: bool,
}

impl Job<'_> {
    /// What was found before, in the order of the grid; `None` where it is still to be run.
    pub(super) fn kept(&self) -> Vec<Option<Finding>> {
        let seeds = self.scenario.seeds();
        (0..self.scenario.len())
            .map(|index| self.folder.read(index, seeds[index % seeds.len()]))
            .collect()
    }

    /// A point of the grid.
    pub(super) fn point(&self, index: usize) -> Point {
        let mut point = self.scenario.sampled_point(index);
        if let Some(capture) = self.capture {
            point.config.measure.capture = Some(capture.host);
        }
        point
    }
}

/// Runs what is missing, `jobs` at once or one for each core; all findings in the order of the
/// grid, which does not depend on that.
pub(super) fn simulate(job: &Job<'_>, jobs: Option<usize>) -> Result<Vec<Finding>, Failure> {
    let mut findings = job.kept();
    let missing = (0..findings.len()).filter(|index| findings[*index].is_none());
    let queue = Mutex::new(missing.collect::<VecDeque<_>>());
    let left = queue.lock().unwrap_or_else(PoisonError::into_inner).len();
    let mut watch = Watch::new(job.quiet, findings.len(), findings.len() - left);
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let workers = jobs.unwrap_or(cores).min(left);
    let (tell, told) = mpsc::channel();
    let mut failed = None;
    thread::scope(|scope| {
        for _ in 0..workers {
            let (queue, tell) = (&queue, tell.clone());
            scope.spawn(move || work(job, queue, &tell));
        }
        drop(tell);
        for done in told {
            match done {
                Ok(finding) => {
                    watch.done(&finding);
                    let at = finding.point;
                    findings[at] = Some(finding);
                }
                Err(failure) => {
                    // The others end with the points that they have begun.
                    queue.lock().unwrap_or_else(PoisonError::into_inner).clear();
                    failed.get_or_insert(failure);
                }
            }
        }
    });
    match failed {
        Some(failure) => Err(failure),
        None => Ok(findings.into_iter().flatten().collect()),
    }
}

fn work(job: &Job<'_>, queue: &Mutex<VecDeque<usize>>, tell: &Sender<Result<Finding, Failure>>) {
    while !job.stop.is_asked() {
        let next = queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        let Some(index) = next else { return };
        let found = match one(job, &job.point(index)) {
            Ok(Some(finding)) => job
                .folder
                .keep(&finding)
                .map(|()| finding)
                .map_err(Failure::from),
            Ok(None) => return,
            Err(failure) => Err(failure),
        };
        // Nobody listens any more only when the whole process is ending.
        let _ = tell.send(found);
    }
}

/// Simulates a point; `None` when it was stopped.
fn one(job: &Job<'_>, point: &Point) -> Result<Option<Finding>, Failure> {
    let plane = plane(point, job.beside)?;
    let mut watcher = Watcher {
        stop: job.stop,
        recorder: match job.capture {
            Some(capture) => Some(capture.begin(&point.config.flows, &plane)?),
            None => None,
        },
    };
    let outcome = fairwater_sim::run(&point.config, plane, &mut watcher);
    if let Some(recorder) = watcher.recorder {
        recorder.finish()?;
    }
    match outcome {
        Ok(outcome) => Ok(Some(Finding::of_simulation(point, &outcome))),
        Err(SimulationError::Stopped) => Ok(None),
        Err(SimulationError::Config(error)) => Err(Failure::BadInput(error.to_string())),
    }
}

/// A plane that hosts each algorithm of a point under the text that the scenario has for it.
fn plane(point: &Point, folder: &Path) -> Result<Plane, Failure> {
    let mut algorithms = Vec::new();
    for group in &point.groups {
        if let scenario::Sender::Plane(text) = &group.sender
            && algorithms.iter().all(|(name, _)| name != text)
        {
            let chosen = algorithm::beside(text, folder)
                .map_err(|unknown| Failure::BadInput(unknown.to_string()))?;
            algorithms.push((text.clone(), chosen));
        }
    }
    hosting::plane("sim", SignalSet::ALL, &algorithms)
}

/// Ends a simulation when asked to, and records packets.
struct Watcher<'a> {
    stop: &'a Stop,
    recorder: Option<Recorder>,
}

impl Observer for Watcher<'_> {
    fn progress(&mut self, _: Time) -> ControlFlow<()> {
        if self.stop.is_asked() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn packet(&mut self, packet: &Captured<'_>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.record(packet);
        }
    }
}
