//! The points of a grid on real TCP, one after another.

use std::collections::HashMap;
use std::path::Path;

use fairwater_experiment::Progress;
use fairwater_hosting::{HostedAlgorithms, LabEdge, NamedAlgorithm, resolve, sample_controllers};
use fairwater_lab::points::{check_real, run_real};
use fairwater_linux::{Options, probe};
use fairwater_results::{ControllerProbe, PointResult};
use fairwater_scenario::{Point, Sender};
use fairwater_testbed::{KernelSender, OtherLoad};

use super::grid::Job;
use super::watch::Watch;
use crate::failure::Failure;

/// Runs what is missing; all results in the order of the grid.
pub(super) fn run(job: &Job<'_>) -> Result<Vec<PointResult>, Failure> {
    let all: Vec<usize> = (0..job.scenario.len()).collect();
    run_points(job, &all, |_| false)
}

/// The same for these points alone, in their order. Points of which the result is to be had `again` are
/// run though there is one.
pub(crate) fn run_points(
    job: &Job<'_>,
    points: &[usize],
    again: impl Fn(&PointResult) -> bool,
) -> Result<Vec<PointResult>, Failure> {
    let texts = job.scenario.sender_algorithms();
    let edge = LabEdge {
        folder: job.scenario_folder.to_owned(),
    };
    let kept = |index: &usize| job.kept_point(*index).filter(|result| !again(result));
    let mut results: Vec<Option<PointResult>> = points.iter().map(kept).collect();
    let done = results.iter().flatten().count();
    // Before anything is attached, whatever would keep a point from running is found.
    for (index, kept) in points.iter().zip(&results) {
        if kept.is_none() {
            check_real(&job.point(*index), stand_in, Some(&edge))?;
        }
    }
    let mut hosting = match texts.is_empty() || done == results.len() {
        true => None,
        false => Some(host(&texts, job)?),
    };
    let attached = Attached::new(&texts, hosting.as_ref());
    let mut watch = Watch::new(job.quiet, results.len(), done);
    let mut outcome = Ok(());
    for (index, slot) in points.iter().zip(&mut results) {
        if slot.is_some() || job.stop.is_asked() {
            continue;
        }
        match run_point(job, *index, &attached, &edge, &mut hosting, &mut watch) {
            Ok(result) => {
                watch.done(&result);
                *slot = Some(result);
            }
            Err(failure) => {
                outcome = Err(failure);
                break;
            }
        }
    }
    drop(watch);
    for notice in hosting.map(HostedAlgorithms::finish).unwrap_or_default() {
        eprintln!("{notice}");
    }
    outcome.map(|()| results.into_iter().flatten().collect())
}

/// Runs one point and keeps its result; prints what the plane said meanwhile.
fn run_point(
    job: &Job<'_>,
    index: usize,
    attached: &Attached,
    edge: &LabEdge,
    hosting: &mut Option<HostedAlgorithms>,
    watch: &mut Watch,
) -> Result<PointResult, Failure> {
    let point = &job.point(index);
    let controllers = hosting
        .is_some()
        .then_some(sample_controllers as ControllerProbe);
    let before = OtherLoad::now().map_err(Failure::io("reading /proc"))?;
    let run = run_real(
        point,
        |sender: &Sender| attached.kernel_sender(sender),
        controllers,
        Some(edge),
        job.stop.flag(),
        &mut |progress: &Progress| watch.during(progress.elapsed, progress.duration),
    );
    let notices = hosting
        .as_mut()
        .map(HostedAlgorithms::notices)
        .unwrap_or_default();
    for notice in &notices {
        eprintln!("{notice}");
    }
    let mut result = run?;
    attached.explain(&mut result, point, &notices);
    // Packets may be in time while senders and receivers wait for the CPU: the emulator has real-time
    // priority.
    let after = OtherLoad::now().map_err(Failure::io("reading /proc"))?;
    if let Some(disturbance) = after.disturbance_since(&before) {
        result.disturbed = true;
        result
            .notices
            .push(format!("disturbed by the machine: {disturbance}"));
    }
    job.folder.keep(&result)?;
    Ok(result)
}

/// The algorithms of a scenario as the kernel knows them.
#[derive(Default)]
struct Attached {
    /// What the scenario calls each, with its name in the kernel.
    names: Vec<(String, String)>,
    /// The algorithm behind each name in the kernel.
    algorithms: HashMap<String, String>,
    /// Names in the kernel of algorithms that need the receiver to run them as well.
    at_both_ends: Vec<String>,
}

impl Attached {
    fn new(texts: &[String], hosting: Option<&HostedAlgorithms>) -> Self {
        let Some(hosting) = hosting else {
            return Self::default();
        };
        Self {
            names: texts
                .iter()
                .cloned()
                .zip(hosting.names().to_vec())
                .collect(),
            algorithms: hosting.algorithms(),
            at_both_ends: hosting.at_both_ends(),
        }
    }

    /// The congestion control that the kernel runs for a sender.
    fn kernel_sender(&self, sender: &Sender) -> KernelSender {
        let Sender::Plane(text) = sender else {
            return stand_in(sender);
        };
        let entry = self.names.iter().find(|(known, _)| known == text);
        let name = entry.map(|(_, name)| name.clone()).unwrap_or_default();
        KernelSender {
            at_both_ends: self.at_both_ends.contains(&name),
            congestion_control: name,
        }
    }

    /// Says why flows ran without their algorithm, as far as the plane said so.
    fn explain(&self, result: &mut PointResult, point: &Point, notices: &[String]) {
        for flow in &mut result.flows {
            let sender = &point.groups[flow.group].sender;
            let name = self.kernel_sender(sender).congestion_control;
            if let (Some(fallback), Some(algorithm)) =
                (&mut flow.fallback, self.algorithms.get(&name))
            {
                fallback.explain(algorithm, &name, notices.iter().map(String::as_str));
            }
        }
        result.notices.extend_from_slice(notices);
    }
}

/// Attaches the algorithms to the kernel.
fn host(texts: &[String], job: &Job<'_>) -> Result<HostedAlgorithms, Failure> {
    probe::probe().require()?;
    let algorithms = algorithms(texts, job.scenario_folder)?;
    let options = Options {
        unique_names: true,
        ..Options::default()
    };
    Ok(HostedAlgorithms::start(&algorithms, options)?)
}

/// The kernel's name of a sender. Algorithms of this project have none yet: the kernel's Reno,
/// which is always there, stands for them while the rest is checked.
fn stand_in(sender: &Sender) -> KernelSender {
    KernelSender {
        congestion_control: match sender {
            Sender::Kernel(text) => text.trim_start_matches("kernel:").to_owned(),
            Sender::Plane(_) | Sender::Native(_) => "reno".to_owned(),
        },
        at_both_ends: false,
    }
}

/// Each algorithm under a name that the kernel takes: what comes a second time with
/// other parameters is `cubic_2`.
fn algorithms(texts: &[String], folder: &Path) -> Result<Vec<NamedAlgorithm>, Failure> {
    let mut algorithms: Vec<NamedAlgorithm> = Vec::new();
    for text in texts {
        let chosen = resolve(text, folder)?;
        let own = chosen.choice.name();
        let same = |(_, other): &&NamedAlgorithm| other.choice.name() == own;
        let name = match algorithms.iter().filter(same).count() {
            0 => own.to_owned(),
            n => format!("{own}_{}", n + 1),
        };
        algorithms.push((name, chosen));
    }
    Ok(algorithms)
}
