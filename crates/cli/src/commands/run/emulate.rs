//! The points of a grid on real TCP, one after another.

use std::path::Path;

use fairwater_lab::findings::Finding;
use fairwater_lab::run as run_lab;
use fairwater_lab::scenario::Sender;
use fairwater_linux::{Options, probe};

use super::grid::Job;
use super::watch::Watch;
use crate::algorithm::{self, Chosen};
use crate::failure::Failure;
use crate::hosting::Hosting;

/// Runs what is missing; all findings in the order of the grid.
pub(super) fn run(job: &Job<'_>) -> Result<Vec<Finding>, Failure> {
    let texts = job.scenario.algorithms();
    let mut findings = job.kept();
    let done = findings.iter().flatten().count();
    // Before anything is attached, whatever would keep a point from running is found.
    for (index, kept) in findings.iter().enumerate() {
        if kept.is_none() {
            job.point(index).experiment(stand_in).check()?;
        }
    }
    let hosting = if texts.is_empty() || done == findings.len() {
        None
    } else {
        probe::probe().require()?;
        let algorithms = algorithms(&texts, job.beside)?;
        Some(Hosting::start(&algorithms, Options::default())?)
    };
    let names = hosting.as_ref().map_or(&[][..], Hosting::names);
    let kernel_name = |sender: &Sender| match sender {
        Sender::Plane(text) => {
            let at = texts.iter().position(|known| known == text);
            at.and_then(|at| names.get(at)).cloned().unwrap_or_default()
        }
        other => stand_in(other),
    };
    let mut watch = Watch::new(job.quiet, findings.len(), done);
    let mut failed = None;
    for (index, slot) in findings.iter_mut().enumerate() {
        if slot.is_some() || job.stop.is_asked() {
            continue;
        }
        let point = job.point(index);
        let mut experiment = point.experiment(kernel_name);
        experiment.at_both_ends = hosting
            .as_ref()
            .map(Hosting::at_both_ends)
            .unwrap_or_default();
        let results = run_lab(&experiment, job.stop.flag(), &mut |progress| {
            watch.during(progress.elapsed, progress.duration);
        });
        let kept = results.map_err(Failure::from).and_then(|results| {
            let finding = Finding::of_experiment(&point, &results);
            job.folder.keep(&finding)?;
            Ok(finding)
        });
        match kept {
            Ok(finding) => {
                watch.done(&finding);
                *slot = Some(finding);
            }
            Err(failure) => {
                failed = Some(failure);
                break;
            }
        }
    }
    drop(watch);
    for notice in hosting.map(Hosting::finish).unwrap_or_default() {
        eprintln!("{notice}");
    }
    match failed {
        Some(failure) => Err(failure),
        None => Ok(findings.into_iter().flatten().collect()),
    }
}

/// The kernel's name of a sender. Algorithms of this project have none yet: the kernel's Reno,
/// which is always there, stands for them while the rest is checked.
fn stand_in(sender: &Sender) -> String {
    match sender {
        Sender::Kernel(text) => text.trim_start_matches("kernel:").to_owned(),
        Sender::Plane(_) | Sender::Native(_) => "reno".to_owned(),
    }
}

/// Each algorithm under a name that the kernel takes: what comes a second time with
/// other parameters is `cubic_2`.
fn algorithms(texts: &[String], folder: &Path) -> Result<Vec<(String, Chosen)>, Failure> {
    let mut algorithms: Vec<(String, Chosen)> = Vec::new();
    for text in texts {
        let chosen = algorithm::beside(text, folder)
            .map_err(|unknown| Failure::BadInput(unknown.to_string()))?;
        let own = chosen.choice.name();
        let same = |(_, other): &&(_, Chosen)| other.choice.name() == own;
        let name = match algorithms.iter().filter(same).count() {
            0 => own.to_owned(),
            n => format!("{own}_{}", n + 1),
        };
        algorithms.push((name, chosen));
    }
    Ok(algorithms)
}
