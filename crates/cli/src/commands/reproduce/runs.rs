//! Runs the points that an entry's claims need, and judges them.

use std::collections::BTreeMap;
use std::path::Path;

use fairwater_experiment::Backend;
use fairwater_hosting::{Stop, python_source};
use fairwater_reproduce::{Entry, Form, Judged, Resolver, Run, Verdict, judge};
use fairwater_results::{Folder, PointResult, write_whole};
use fairwater_scenario::Scenario;

use super::catalogue::Catalogue;
use crate::commands::run::grid::{Job, simulate_points};
use crate::failure::Failure;

/// How entries are run.
pub(super) struct Runner<'a> {
    pub(super) catalogue: &'a Catalogue,
    /// The folder of all results.
    pub(super) out: &'a Path,
    pub(super) quick: bool,
    /// So many seeds and no more.
    pub(super) seeds: Option<u64>,
    pub(super) jobs: Option<usize>,
    pub(super) fresh: bool,
    pub(super) quiet: bool,
    pub(super) stop: &'a Stop,
}

impl Runner<'_> {
    /// The verdicts on an entry's claims.
    pub(super) fn run(&self, entry: &Entry) -> Result<Vec<Judged>, Failure> {
        let Some(run) = &entry.run else {
            let reasons: Vec<_> = entry.not_run.iter().map(|n| n.reason.as_str()).collect();
            return Ok(entry.not_judged(&reasons.join("; ")));
        };
        let form = match self.quick {
            true => &run.quick,
            false => &run.full,
        };
        let scenario = self.scenario(run, form)?;
        let folder = self.folder(entry, run, &scenario)?;
        let first = self.seeds.unwrap_or(form.seeds);
        let most = self.seeds.unwrap_or(form.most_seeds);
        let mut seeds = first;
        loop {
            let judged = self.judged(entry, run, form, (&scenario, &folder), seeds)?;
            let is_open = |judged: &Judged| judged.verdict == Verdict::CannotBeTold;
            if seeds >= most || !judged.iter().any(is_open) || self.stop.is_asked() {
                return Ok(judged);
            }
            seeds = (seeds * 2).min(most);
        }
    }

    /// The scenario with as many seeds as there can be: so a point's number does not depend on how many
    /// of them run, and results of few seeds serve those of many.
    fn scenario(&self, run: &Run, form: &Form) -> Result<Scenario, Failure> {
        let mut settings = form.settings.clone();
        settings.push(format!("seeds={}", Entry::MAX_SEEDS));
        self.catalogue
            .scenario(&run.scenario, &settings)
            .map_err(|reason| Failure::BadInput(format!("{}: {reason}", run.scenario)))
    }

    fn folder(&self, entry: &Entry, run: &Run, scenario: &Scenario) -> Result<Folder, Failure> {
        let name = match self.quick {
            true => format!("{}-quick", entry.id),
            false => entry.id.clone(),
        };
        let path = self.out.join(&entry.paper).join(name);
        let mut files = scenario.files();
        let folder = self.catalogue.scenario_folder(&run.scenario);
        let algorithms = scenario.algorithms();
        files.extend(
            algorithms
                .iter()
                .filter_map(|text| python_source(text, &folder)),
        );
        let source = scenario.source();
        Ok(Folder::open(
            &path,
            Backend::Sim.name(),
            source,
            files,
            self.fresh,
        )?)
    }

    fn judged(
        &self,
        entry: &Entry,
        run: &Run,
        form: &Form,
        (scenario, folder): (&Scenario, &Folder),
        seeds: u64,
    ) -> Result<Vec<Judged>, Failure> {
        let all = scenario.seeds().len();
        let seeds = usize::try_from(seeds).unwrap_or(all).min(all);
        let points = form.plan.points();
        let indices: Vec<usize> = points
            .iter()
            .flat_map(|point| point * all..point * all + seeds)
            .collect();
        let job = Job {
            scenario,
            scenario_folder: &self.catalogue.scenario_folder(&run.scenario),
            folder,
            captures: &[],
            stop: self.stop,
            quiet: self.quiet,
        };
        let results = simulate_points(&job, &indices, self.jobs)?;
        if self.stop.is_asked() {
            return Ok(Vec::new());
        }
        let mut runs: BTreeMap<usize, Vec<PointResult>> = BTreeMap::new();
        for result in results {
            runs.entry(result.point / all).or_default().push(result);
        }
        let judged = judge(entry, &form.plan, &runs);
        let file = folder.file("verdicts.json");
        let text = serde_json::to_vec_pretty(&judged)
            .map_err(std::io::Error::from)
            .and_then(|text| write_whole(&file, &text));
        text.map_err(Failure::io(file.display().to_string()))?;
        Ok(judged)
    }
}
