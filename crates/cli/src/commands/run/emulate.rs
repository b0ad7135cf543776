//! The points of a grid on real TCP, one after another.

use std::collections::HashMap;
use std::path::Path;

use fairwater_experiment::Progress;
use fairwater_hosting::{HostedAlgorithms, NamedAlgorithm, resolve, sample_controllers};
use fairwater_lab::points::{check_real, run_real};
use fairwater_linux::{Options, probe};
use fairwater_results::{ControllerProbe, PointResult};
use fairwater_scenario::{Point, Sender};
use fairwater_testbed::KernelSender;

use super::grid::Job;
use super::watch::Watch;
use crate::failure::Failure;

/// Runs what is missing; all results in the order of the grid.
pub(super) fn run(job: &Job<'_>) -> Result<Vec<PointResult>, Failure> {
    let texts = job.scenario.algorithms();
    let mut results = job.kept();
    let done = results.iter().flatten().count();
    // Before anything is attached, whatever would keep a point from running is found.
    for (index, kept) in results.iter().enumerate() {
        if kept.is_none() {
            check_real(&job.point(index), stand_in)?;
        }
    }
    let mut hosting = match texts.is_empty() || done == results.len() {
        true => None,
        false => Some(host(&texts, job)?),
    };
    let names = hosting
        .as_ref()
        .map_or(&[][..], HostedAlgorithms::names)
        .to_vec();
    let algorithms = hosting.as_ref().map(HostedAlgorithms::algorithms);
    let algorithms = algorithms.unwrap_or_default();
    let at_both_ends = hosting.as_ref().map(HostedAlgorithms::at_both_ends);
    let at_both_ends = at_both_ends.unwrap_or_default();
    let kernel_sender = &|sender: &Sender| match sender {
        Sender::Plane(text) => {
            let at = texts.iter().position(|known| known == text);
            let name = at.and_then(|at| names.get(at)).cloned().unwrap_or_default();
            KernelSender {
                at_both_ends: at_both_ends.contains(&name),
                congestion_control: name,
            }
        }
        other => stand_in(other),
    };
    let mut watch = Watch::new(job.quiet, results.len(), done);
    let mut failed = None;
    for (index, slot) in results.iter_mut().enumerate() {
        if slot.is_some() || job.stop.is_asked() {
            continue;
        }
        let point = job.point(index);
        let mut during = |progress: &Progress| watch.during(progress.elapsed, progress.duration);
        let controllers = hosting
            .is_some()
            .then_some(sample_controllers as ControllerProbe);
        let run = run_real(
            &point,
            kernel_sender,
            controllers,
            job.stop.flag(),
            &mut during,
        );
        let notices = hosting
            .as_mut()
            .map(HostedAlgorithms::notices)
            .unwrap_or_default();
        for notice in &notices {
            eprintln!("{notice}");
        }
        let kept = run.map_err(Failure::from).and_then(|mut result| {
            explain(&mut result, &point, kernel_sender, &algorithms, &notices);
            job.folder.keep(&result)?;
            Ok(result)
        });
        match kept {
            Ok(result) => {
                watch.done(&result);
                *slot = Some(result);
            }
            Err(failure) => {
                failed = Some(failure);
                break;
            }
        }
    }
    drop(watch);
    for notice in hosting.map(HostedAlgorithms::finish).unwrap_or_default() {
        eprintln!("{notice}");
    }
    match failed {
        Some(failure) => Err(failure),
        None => Ok(results.into_iter().flatten().collect()),
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

/// Says why flows ran without their algorithm, as far as the plane said so.
fn explain(
    result: &mut PointResult,
    point: &Point,
    kernel_sender: impl Fn(&Sender) -> KernelSender,
    algorithms: &HashMap<String, String>,
    notices: &[String],
) {
    for flow in &mut result.flows {
        let name = kernel_sender(&point.groups[flow.group].sender).congestion_control;
        if let (Some(fallback), Some(algorithm)) = (&mut flow.fallback, algorithms.get(&name)) {
            fallback.explain(algorithm, &name, notices.iter().map(String::as_str));
        }
    }
    result.notices.extend_from_slice(notices);
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
