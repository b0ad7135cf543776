//! Searches the worst path of an algorithm, and makes it small.

use std::fs;
use std::path::Path as FilePath;

use fairwater_certify::{
    Budget, Fault, Finding, Found, Objective, Path, SearchError, WorstPath, minimise, search,
};
use fairwater_results::{PointResult, write_whole};

use super::runs::{Known, Runs};
use crate::commands::simulate::Run;
use crate::failure::Failure;

/// What searches.
pub(super) struct Search<'a> {
    /// The algorithm, as scenarios name it.
    pub(super) candidate: &'a str,
    /// The folder of the results.
    pub(super) out: &'a FilePath,
    pub(super) budget: Budget,
    pub(super) seed: u64,
    pub(super) runs: &'a Runs<'a>,
}

/// What a search gave.
pub(super) struct Worst {
    pub(super) path: WorstPath,
    pub(super) findings: Vec<Finding>,
    /// The run of the path that was found.
    pub(super) picture: Option<PointResult>,
}

/// The one run of a scenario that has no grid.
fn run_of(source: &str) -> Run {
    Run {
        source: source.to_owned(),
        index: 0,
        is_sampled: false,
    }
}

/// What runs of a batch of paths said, and why that ended early.
struct Batch<'a> {
    search: &'a Search<'a>,
    objective: Objective,
    paths: u64,
    failures: Vec<(String, Path)>,
    failure: Option<Failure>,
}

impl Search<'_> {
    /// The worst path for an objective; `None` when it was stopped.
    pub(super) fn run(&self, objective: Objective) -> Result<Option<Worst>, Failure> {
        let mut batch = Batch {
            search: self,
            objective,
            paths: 0,
            failures: Vec::new(),
            failure: None,
        };
        let space = objective.space();
        let found = search(objective, space, self.budget, self.seed, &mut |paths| {
            let what = format!("search for {}", objective.name());
            batch.faults(&what, paths)
        });
        let Batch { failure, .. } = &mut batch;
        if let Some(failure) = failure.take() {
            return Err(failure);
        }
        let found = match found {
            Ok(found) => found,
            Err(SearchError::Stopped) => return Ok(None),
            Err(error) => return Err(Failure::Other(error.to_string())),
        };
        let paths = batch.paths;
        let smallest = found.map(|found| self.smallest(&mut batch, objective, found));
        let findings = self.findings(&mut batch)?;
        if let Some(failure) = batch.failure {
            return Err(failure);
        }
        match smallest {
            Some(None) => Ok(None),
            Some(Some(found)) => self.kept(objective, paths, found, findings).map(Some),
            None => Ok(Some(Worst {
                path: WorstPath {
                    objective,
                    paths,
                    fault: None,
                    is_fault: false,
                    scenario: None,
                    source: None,
                },
                findings,
                picture: None,
            })),
        }
    }

    /// A smaller path that shows the fault; the path itself, if there is no fault. `None` when it was stopped.
    fn smallest(&self, batch: &mut Batch<'_>, objective: Objective, found: Found) -> Option<Found> {
        if !objective.is_shown(&found.fault) {
            return Some(found);
        }
        let mut is_stopped = false;
        let smallest = minimise(objective, found, &mut |path| {
            if is_stopped || !objective.applies(path) {
                return None;
            }
            let faults = batch.faults("", &[*path]);
            is_stopped = faults.is_none();
            let fault = faults?.into_iter().next()?;
            objective.is_shown(&fault).then_some(fault)
        });
        (!is_stopped).then_some(smallest)
    }

    /// Writes the scenario of the path that was found.
    fn kept(
        &self,
        objective: Objective,
        paths: u64,
        found: Found,
        findings: Vec<Finding>,
    ) -> Result<Worst, Failure> {
        let source = found.path.scenario(self.candidate);
        let scenario = self.write(objective.name(), &source)?;
        let sampled = Run {
            is_sampled: true,
            ..run_of(&source)
        };
        let picture = match self.runs.all("", &[sampled])?.as_deref() {
            Some([Known::Measured(run)]) => Some((**run).clone()),
            _ => None,
        };
        Ok(Worst {
            path: WorstPath {
                objective,
                paths,
                fault: Some(found.fault),
                is_fault: objective.is_shown(&found.fault),
                scenario: Some(scenario),
                source: Some(source),
            },
            findings,
            picture,
        })
    }

    fn write(&self, name: &str, source: &str) -> Result<String, Failure> {
        let file = format!("worst/{name}.toml");
        let path = self.out.join(&file);
        let written = fs::create_dir_all(self.out.join("worst"))
            .and_then(|()| write_whole(&path, source.as_bytes()));
        written.map_err(Failure::io(path.display().to_string()))?;
        Ok(file)
    }

    /// Failures of the algorithm on paths, each kind once, with the scenario of the first.
    fn findings(&self, batch: &mut Batch<'_>) -> Result<Vec<Finding>, Failure> {
        let mut findings: Vec<Finding> = Vec::new();
        for (what, path) in std::mem::take(&mut batch.failures) {
            if findings.iter().any(|finding| finding.what == what) {
                continue;
            }
            let name = format!("{}-failure-{}", batch.objective.name(), findings.len() + 1);
            findings.push(Finding {
                at: format!("search for {}", batch.objective.name()),
                what,
                scenario: self.write(&name, &path.scenario(self.candidate))?,
            });
        }
        Ok(findings)
    }
}

impl Batch<'_> {
    /// What paths show; `None` when it was stopped, or failed.
    fn faults(&mut self, what: &str, paths: &[Path]) -> Option<Vec<Fault>> {
        self.paths += paths.len() as u64;
        let candidate = self.search.candidate;
        let asked: Vec<_> = paths
            .iter()
            .map(|path| run_of(&path.scenario(candidate)))
            .collect();
        let runs = self.all(what, &asked)?;
        let mut compared = Vec::new();
        let mut others = Vec::new();
        for (index, (path, run)) in paths.iter().zip(&runs).enumerate() {
            let Known::Measured(run) = run else { continue };
            if let Some(source) = self.objective.reference(path, run, candidate) {
                compared.push(index);
                others.push(run_of(&source));
            }
        }
        let references = self.all("", &others)?;
        let mut faults = Vec::new();
        for (index, (path, run)) in paths.iter().zip(&runs).enumerate() {
            let at = compared.iter().position(|other| *other == index);
            let reference = match at.and_then(|at| references.get(at)) {
                Some(Known::Measured(run)) => Some(&**run),
                _ => None,
            };
            faults.push(match run {
                Known::Measured(run) => {
                    self.note_failures(run, path);
                    self.objective.fault(path, run, reference)
                }
                Known::Failed(text) => {
                    self.failures.push((text.clone(), *path));
                    Fault {
                        value: 0.0,
                        reference: None,
                    }
                }
            });
        }
        Some(faults)
    }

    fn note_failures(&mut self, run: &PointResult, path: &Path) {
        let fallbacks = run.flows.iter().filter_map(|flow| flow.fallback.as_ref());
        for fallback in fallbacks.filter(|fallback| fallback.is_failure()) {
            self.failures.push((fallback.reason.clone(), *path));
        }
    }

    fn all(&mut self, what: &str, asked: &[Run]) -> Option<Vec<Known>> {
        match self.search.runs.all(what, asked) {
            Ok(known) => known,
            Err(failure) => {
                self.failure.get_or_insert(failure);
                None
            }
        }
    }
}
