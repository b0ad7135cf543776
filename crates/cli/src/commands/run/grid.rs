//! The points of a grid in the simulator, several at once.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::Path;
use std::thread;

use fairwater_experiment::TICK;
use fairwater_hosting::{NamedAlgorithm, Stop, resolve};
use fairwater_lab::points::{schedule, simulated};
use fairwater_net::Time;
use fairwater_plane::Plane;
use fairwater_results::{Folder, PointResult};
use fairwater_scenario::{Point, Scenario};
use fairwater_sim::{Captured, NodeId, Observer, SimulationError};

use super::capture::{Capture, Recorder};
use super::watch::Watch;
use crate::failure::Failure;
use crate::hosting;

/// What is to be done.
pub(crate) struct Job<'a> {
    pub(crate) scenario: &'a Scenario,
    /// The scenario's own folder, which file names are relative to.
    pub(crate) scenario_folder: &'a Path,
    pub(crate) folder: &'a Folder,
    pub(crate) captures: &'a [Capture],
    pub(crate) stop: &'a Stop,
    pub(crate) quiet: bool,
}

impl Job<'_> {
    /// What was found of a point before; `None` if it is still to be run.
    pub(crate) fn kept_point(&self, index: usize) -> Option<PointResult> {
        let seeds = self.scenario.seeds();
        self.folder.read(index, seeds[index % seeds.len()])
    }

    /// A point of the grid.
    pub(super) fn point(&self, index: usize) -> Point {
        let mut point = self.scenario.sampled_point(index);
        point.experiment.measure.capture = self.captures.iter().map(|c| c.host).collect();
        point
    }
}

/// Runs what is missing, `jobs` at once or one for each core; all results in the order of the
/// grid, which does not depend on that.
pub(super) fn simulate(job: &Job<'_>, jobs: Option<usize>) -> Result<Vec<PointResult>, Failure> {
    let all: Vec<usize> = (0..job.scenario.len()).collect();
    simulate_points(job, &all, jobs)
}

/// The same for these points alone, in their order.
pub(crate) fn simulate_points(
    job: &Job<'_>,
    points: &[usize],
    jobs: Option<usize>,
) -> Result<Vec<PointResult>, Failure> {
    let mut results: Vec<_> = points.iter().map(|index| job.kept_point(*index)).collect();
    let places: BTreeMap<usize, usize> = points.iter().copied().zip(0..).collect();
    let is_missing = |(index, result): (&usize, &Option<_>)| result.is_none().then_some(*index);
    let missing: Vec<usize> = points.iter().zip(&results).filter_map(is_missing).collect();
    let mut watch = Watch::new(job.quiet, results.len(), results.len() - missing.len());
    let workers = jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, NonZero::get));
    let mut failed = None;
    schedule(
        missing,
        workers,
        TICK,
        |index| work(job, index),
        |done| {
            match done {
                Some(Ok(result)) => {
                    watch.done(&result);
                    if let Some(place) = places.get(&result.point) {
                        results[*place] = Some(result);
                    }
                }
                Some(Err(failure)) => {
                    failed.get_or_insert(failure);
                }
                None => {}
            }
            failed.is_none()
        },
    );
    match failed {
        Some(failure) => Err(failure),
        None => Ok(results.into_iter().flatten().collect()),
    }
}

/// Simulates a point and keeps the result; `None` when it was stopped.
fn work(job: &Job<'_>, index: usize) -> Option<Result<PointResult, Failure>> {
    if job.stop.is_asked() {
        return None;
    }
    let kept = one(job, &job.point(index)).and_then(|result| {
        if let Some(result) = &result {
            job.folder.keep(result)?;
        }
        Ok(result)
    });
    kept.transpose()
}

/// Simulates a point; `None` when it was stopped.
fn one(job: &Job<'_>, point: &Point) -> Result<Option<PointResult>, Failure> {
    let plane = plane(point, job.scenario_folder)?;
    let begin = |capture: &Capture| -> Result<_, Failure> {
        let recorder = capture.begin(&point.experiment.flows, &plane)?;
        Ok((capture.host, recorder))
    };
    let recorders = job.captures.iter().map(begin).collect::<Result<_, _>>()?;
    let mut observer = RunObserver {
        stop: job.stop,
        recorders,
    };
    let outcome = fairwater_sim::run(&point.experiment, plane, &mut observer);
    for (_, recorder) in observer.recorders {
        recorder.finish()?;
    }
    match outcome {
        Ok(outcome) => Ok(Some(simulated(point, &outcome))),
        Err(SimulationError::Stopped) => Ok(None),
        Err(SimulationError::Config(error)) => Err(Failure::BadInput(error.to_string())),
    }
}

/// A plane that hosts each algorithm of a point under the text that the scenario has for it.
pub(crate) fn plane(point: &Point, folder: &Path) -> Result<Plane, Failure> {
    hosting::plane(&algorithms(point, folder)?)
}

/// The algorithms of a point, each under the text that the scenario has for it.
pub(crate) fn algorithms(point: &Point, folder: &Path) -> Result<Vec<NamedAlgorithm>, Failure> {
    let named = point.algorithms().into_iter().map(|text| {
        let chosen = resolve(&text, folder)?;
        Ok((text, chosen))
    });
    named.collect()
}

/// Ends a simulation when asked to, and records packets.
struct RunObserver<'a> {
    stop: &'a Stop,
    recorders: Vec<(NodeId, Recorder)>,
}

impl Observer for RunObserver<'_> {
    fn progress(&mut self, _: Time) -> ControlFlow<()> {
        if self.stop.is_asked() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn packet(&mut self, packet: &Captured<'_>) {
        let host = |(host, _): &&mut (NodeId, Recorder)| *host == packet.node;
        if let Some((_, recorder)) = self.recorders.iter_mut().find(host) {
            recorder.record(packet);
        }
    }
}
