//! Runs the sections, and judges their checks.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use fairwater_certify::{Finding, Judgement, Opinion, Section, SectionReport};
use fairwater_hosting::FolderResolver;
use fairwater_reproduce::{Entry, judge};
use fairwater_results::{PointResult, write_whole};
use fairwater_scenario::set;

use super::runs::{Known, Runs};
use crate::commands::simulate::Run;
use crate::failure::Failure;

/// What certifies an algorithm.
pub(super) struct Sections<'a> {
    /// The algorithm, as scenarios name it.
    pub(super) candidate: &'a str,
    /// The folder that the files of the algorithm are relative to.
    pub(super) folder: &'a Path,
    /// The folder of the results.
    pub(super) out: &'a Path,
    pub(super) quick: bool,
    pub(super) runs: &'a Runs<'a>,
}

/// A section, checked and ready.
struct Ready {
    section: &'static Section,
    entry: Entry,
    /// The scenario with all seeds that there can be, so that a point's number does not depend on how many run.
    source: String,
    /// The scenario for people, relative to the folder of the results.
    file: Option<String>,
    /// Points of the plan.
    points: Vec<usize>,
    seeds: u64,
}

/// What the sections gave.
pub(super) struct Ran {
    pub(super) reports: Vec<SectionReport>,
    pub(super) findings: Vec<Finding>,
    /// The first run of each section, for pictures.
    pub(super) pictures: Vec<(String, PointResult)>,
}

const MAX_SEEDS: usize = Entry::MAX_SEEDS as usize;

impl Sections<'_> {
    /// The verdicts on all sections; `None` when it was stopped.
    pub(super) fn run(&self, sections: &[&'static Section]) -> Result<Option<Ran>, Failure> {
        let mut ready = Vec::new();
        for section in sections {
            ready.push(self.ready(section)?);
        }
        let mut ran = Ran {
            reports: Vec::new(),
            findings: Vec::new(),
            pictures: Vec::new(),
        };
        // All at once, so that no core waits for the last run of a section.
        let asked: Vec<_> = ready
            .iter()
            .flat_map(|one| one.runs(0..one.seeds))
            .collect();
        if self.runs.all("sections", &asked)?.is_none() {
            return Ok(None);
        }
        for one in &mut ready {
            let Some(report) = self.judged(one, &mut ran)? else {
                return Ok(None);
            };
            ran.reports.push(report);
        }
        Ok(Some(ran))
    }

    fn ready(&self, section: &'static Section) -> Result<Ready, Failure> {
        let resolver = FolderResolver::new(self.folder);
        let entry = section
            .entry(self.candidate, &resolver)
            .map_err(|error| Failure::BadInput(error.to_string()))?;
        let Some(run) = entry.runs.first() else {
            return Ok(Ready {
                section,
                entry,
                source: String::new(),
                file: None,
                points: Vec::new(),
                seeds: 0,
            });
        };
        let form = if self.quick { &run.quick } else { &run.full };
        let (seeds, points) = (form.seeds, form.plan.points());
        let source = section.source(self.candidate, &form.settings);
        let source = source.map_err(Failure::BadInput)?.unwrap_or_default();
        let with = |seeds: u64| {
            set(&source, &format!("seeds={seeds}"))
                .map_err(|error| Failure::BadInput(error.to_string()))
        };
        let file = format!("scenarios/{}.toml", section.id);
        let path = self.out.join(&file);
        let written = fs::create_dir_all(self.out.join("scenarios"))
            .and_then(|()| write_whole(&path, with(seeds).unwrap_or_default().as_bytes()));
        written.map_err(Failure::io(path.display().to_string()))?;
        let source = with(Entry::MAX_SEEDS)?;
        Ok(Ready {
            section,
            entry,
            source,
            file: Some(file),
            points,
            seeds,
        })
    }

    /// The verdicts on a section; seeds are added while one cannot be told.
    fn judged(&self, one: &mut Ready, ran: &mut Ran) -> Result<Option<SectionReport>, Failure> {
        let Some(run) = one.entry.runs.first().cloned() else {
            let reasons: Vec<_> = one
                .entry
                .not_run
                .iter()
                .map(|n| n.reason.as_str())
                .collect();
            let judged = one.entry.not_judged(one.entry.world, &reasons.join("; "));
            return Ok(Some(
                one.report(judged.into_iter().map(Judgement::from).collect()),
            ));
        };
        let form = if self.quick { &run.quick } else { &run.full };
        loop {
            let asked = one.runs(0..one.seeds);
            let Some(known) = self
                .runs
                .all(&format!("more seeds of {}", one.section.id), &asked)?
            else {
                return Ok(None);
            };
            let mut measured: BTreeMap<usize, Vec<PointResult>> = BTreeMap::new();
            let mut failure = None;
            for (run, known) in asked.iter().zip(known) {
                match known {
                    Known::Measured(result) => {
                        measured
                            .entry(run.index / MAX_SEEDS)
                            .or_default()
                            .push(*result);
                    }
                    Known::Failed(text) => failure = failure.or(Some(text)),
                }
            }
            let judged = judge(&one.entry, &run, &form.plan, &measured);
            let mut checks: Vec<_> = judged.into_iter().map(Judgement::from).collect();
            if let Some(text) = &failure {
                // Of runs that are not there, nothing can be told.
                for check in &mut checks {
                    check.opinion = Opinion::CannotBeTold;
                    check.reason = Some(text.clone());
                }
            }
            let is_open = checks
                .iter()
                .any(|check| check.opinion == Opinion::CannotBeTold && check.measured.is_some());
            if is_open && failure.is_none() && one.seeds < form.most_seeds {
                one.seeds = (one.seeds * 2).min(form.most_seeds);
                continue;
            }
            ran.findings.extend(one.findings(&measured, failure));
            let first = measured
                .into_values()
                .next()
                .and_then(|runs| runs.into_iter().next());
            if let Some(first) = first {
                ran.pictures.push((one.entry.title.clone(), first));
            }
            return Ok(Some(one.report(checks)));
        }
    }
}

impl Ready {
    /// The runs of each point with these seeds, by their places.
    fn runs(&self, seeds: std::ops::Range<u64>) -> Vec<Run> {
        let of = |point: &usize| {
            let first = point * MAX_SEEDS;
            seeds.clone().map(move |seed| Run {
                source: self.source.clone(),
                index: first + seed as usize,
                is_sampled: false,
            })
        };
        self.points.iter().flat_map(of).collect()
    }

    fn report(&self, checks: Vec<Judgement>) -> SectionReport {
        SectionReport {
            id: self.section.id.to_owned(),
            title: self.entry.title.clone(),
            cites: format!("{} {}", self.section.suite, self.entry.section),
            scenario: self.file.clone(),
            note: self.entry.note.clone(),
            checks,
        }
    }

    /// Failures of the algorithm, each kind once.
    fn findings(
        &self,
        measured: &BTreeMap<usize, Vec<PointResult>>,
        failure: Option<String>,
    ) -> Vec<Finding> {
        let flows = measured.values().flatten().flat_map(|run| &run.flows);
        let fallbacks = flows.filter_map(|flow| flow.fallback.as_ref());
        let failed = fallbacks.filter(|fallback| fallback.is_failure());
        let mut what: Vec<String> = failed.map(|fallback| fallback.reason.clone()).collect();
        what.extend(failure);
        what.sort();
        what.dedup();
        let finding = |what| Finding {
            at: self.section.id.to_owned(),
            what,
            scenario: self.file.clone().unwrap_or_default(),
        };
        what.into_iter().map(finding).collect()
    }
}
