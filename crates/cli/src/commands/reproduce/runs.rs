//! Runs what an entry's claims need, in each of its worlds, and judges them.

use std::collections::BTreeMap;
use std::path::Path;

use fairwater_hosting::{Stop, python_source};
use fairwater_reproduce::atlas::{Machine, Measured, Part};
use fairwater_reproduce::{
    Entry, Form, Judged, Resolver, Run, Source, Verdict, World, judge, judge_benchmark,
};
use fairwater_results::{Folder, PointResult, write_whole};
use fairwater_scenario::Scenario;

use super::catalogue::{Catalogue, backend};
use super::{machine, rounds};
use crate::commands::run::emulate::run_points;
use crate::commands::run::grid::{Job, simulate_points};
use crate::failure::Failure;

/// How entries are run.
pub(super) struct Runner<'a> {
    pub(super) catalogue: &'a Catalogue,
    /// The folder of all results.
    pub(super) out: &'a Path,
    /// Only there.
    pub(super) world: Option<World>,
    /// Run nothing: judge what is there.
    pub(super) kept: bool,
    /// The program of the benchmarks, if not the one beside this one.
    pub(super) bench: Option<&'a Path>,
    pub(super) quick: bool,
    /// So many seeds and no more.
    pub(super) seeds: Option<u64>,
    pub(super) jobs: Option<usize>,
    pub(super) fresh: bool,
    pub(super) quiet: bool,
    pub(super) stop: &'a Stop,
}

/// The verdicts on an entry in one world, with what they come from.
pub(super) struct Judgement<'a> {
    world: World,
    run: Option<(&'a Run, &'a Form)>,
    pub(super) judged: Vec<Judged>,
    measured: Measured,
    machine: Option<Machine>,
}

impl Judgement<'_> {
    /// As its page shows it.
    pub(super) fn part(&self) -> Part<'_> {
        Part {
            world: self.world,
            run: self.run,
            judged: &self.judged,
            measured: &self.measured,
            machine: self.machine.as_ref(),
        }
    }
}

/// The worlds that an entry runs in; its own if it runs in none.
pub(super) fn worlds(entry: &Entry) -> Vec<World> {
    match entry.runs.is_empty() {
        true => vec![entry.world],
        false => entry.runs.iter().map(|run| run.world).collect(),
    }
}

/// What is measured for a run so far.
type Found = (Vec<Judged>, Measured);

impl Runner<'_> {
    /// The verdicts on an entry's claims, in each of its worlds.
    pub(super) fn run<'e>(&self, entry: &'e Entry) -> Result<Vec<Judgement<'e>>, Failure> {
        if entry.runs.is_empty() {
            let reasons: Vec<_> = entry.not_run.iter().map(|n| n.reason.as_str()).collect();
            return Ok(vec![Judgement {
                world: entry.world,
                run: None,
                judged: entry.not_judged(entry.world, &reasons.join("; ")),
                measured: Measured::Nothing,
                machine: None,
            }]);
        }
        let asked = |run: &&Run| self.world.is_none_or(|world| run.world == world);
        let runs = entry.runs.iter().filter(asked);
        runs.map(|run| self.in_world(entry, run)).collect()
    }

    fn in_world<'e>(&self, entry: &'e Entry, run: &'e Run) -> Result<Judgement<'e>, Failure> {
        let form = match self.quick {
            true => &run.quick,
            false => &run.full,
        };
        let is_root = rustix::process::geteuid().is_root();
        let (judged, measured, machine) = match run.world {
            World::Linux | World::Bench if !is_root && !self.kept => {
                let judged = entry.not_judged(run.world, "it needs root: run this by sudo");
                (judged, Measured::Nothing, None)
            }
            _ => {
                let (scenario, folder) = self.open(entry, run, form)?;
                let (judged, measured) = match &scenario {
                    Some(scenario) => self.points(entry, run, form, scenario, &folder)?,
                    None => self.rounds(entry, run, form, &folder)?,
                };
                let file = folder.file("verdicts.json");
                serde_json::to_vec_pretty(&judged)
                    .map_err(std::io::Error::from)
                    .and_then(|text| write_whole(&file, &text))
                    .map_err(Failure::io(file.display().to_string()))?;
                let machine = match run.world {
                    World::Sim => None,
                    World::Linux | World::Bench => machine::kept(&folder),
                };
                (judged, measured, machine)
            }
        };
        Ok(Judgement {
            world: run.world,
            run: Some((run, form)),
            judged,
            measured,
            machine,
        })
    }

    /// The scenario, if it is one, and the folder of the results.
    fn open(
        &self,
        entry: &Entry,
        run: &Run,
        form: &Form,
    ) -> Result<(Option<Scenario>, Folder), Failure> {
        let world = match run.world {
            World::Sim => "",
            World::Linux => "-linux",
            World::Bench => "-bench",
        };
        let quick = if self.quick { "-quick" } else { "" };
        let name = format!("{}{world}{quick}", entry.id);
        let path = self.out.join(&entry.paper).join(name);
        let file = match &run.source {
            Source::Scenario(file) => file,
            Source::Benchmark(benchmark) => {
                let source = format!("{benchmark} {}", form.settings.join(" "));
                let files = BTreeMap::new();
                let folder = Folder::open(&path, World::Bench.name(), &source, files, self.fresh)?;
                if self.fresh {
                    rounds::keep(&folder, &rounds::kept(&folder, ""))?;
                }
                return Ok((None, folder));
            }
        };
        // With as many seeds as there can be a point's number does not depend on how many of them run, and
        // results of few seeds serve those of many.
        let mut settings = form.settings.clone();
        settings.push(format!("seeds={}", Entry::MAX_SEEDS));
        let scenario = self
            .catalogue
            .scenario(file, &settings, run.world)
            .map_err(|reason| Failure::BadInput(format!("{file}: {reason}")))?;
        let mut files = scenario.files();
        let near = self.catalogue.scenario_folder(file);
        let algorithms = scenario.algorithms();
        files.extend(
            algorithms
                .iter()
                .filter_map(|text| python_source(text, &near)),
        );
        let backend = backend(run.world).name();
        let folder = Folder::open(&path, backend, scenario.source(), files, self.fresh)?;
        Ok((Some(scenario), folder))
    }

    /// So many seeds or rounds to begin with, and the most.
    fn counts(&self, form: &Form) -> (u64, u64) {
        let first = self.seeds.unwrap_or(form.seeds);
        (first, self.seeds.unwrap_or(form.most_seeds))
    }

    /// Runs points of a scenario with more and more seeds, until all claims can be told.
    fn points(
        &self,
        entry: &Entry,
        run: &Run,
        form: &Form,
        scenario: &Scenario,
        folder: &Folder,
    ) -> Result<Found, Failure> {
        let job = Job {
            scenario,
            scenario_folder: &self.catalogue.scenario_folder(run.source.name()),
            folder,
            captures: &[],
            stop: self.stop,
            quiet: self.quiet || self.kept,
        };
        let (first, most) = self.counts(form);
        let mut seeds = match self.kept {
            true => kept_seeds(&job, form, most),
            false => first,
        };
        if seeds < 2 {
            return Ok((
                entry.not_judged(run.world, "not run yet"),
                Measured::Nothing,
            ));
        }
        let mut is_first = true;
        loop {
            let runs = match self.measure(run, form, &job, seeds, is_first) {
                Ok(runs) => runs,
                Err(Failure::Interrupted) => return Err(Failure::Interrupted),
                // What this machine cannot run keeps no other result from being judged.
                Err(failure) if run.world == World::Linux => {
                    let judged = entry.not_judged(run.world, &failure.to_string());
                    return Ok((judged, Measured::Nothing));
                }
                Err(failure) => return Err(failure),
            };
            if self.stop.is_asked() {
                return Ok((Vec::new(), Measured::Nothing));
            }
            let judged = judge(entry, run, &form.plan, &runs);
            if self.kept || seeds >= most || !is_open(&judged) {
                return Ok((judged, Measured::Points(runs)));
            }
            seeds = (seeds * 2).min(most);
            is_first = false;
        }
    }

    /// The runs of the points that the claims need, with so many seeds.
    fn measure(
        &self,
        run: &Run,
        form: &Form,
        job: &Job<'_>,
        seeds: u64,
        is_first: bool,
    ) -> Result<BTreeMap<usize, Vec<PointResult>>, Failure> {
        let all = job.scenario.seeds().len();
        let indices = indices(form, all, seeds);
        let results = match run.world {
            World::Linux if !self.kept => {
                let missing = indices.iter().any(|index| job.kept_point(*index).is_none());
                if missing {
                    machine::keep(job.folder)?;
                }
                // Once in a command, runs that were disturbed are run again.
                run_points(job, &indices, |kept| is_first && kept.disturbed)?
            }
            World::Linux => indices.iter().filter_map(|i| job.kept_point(*i)).collect(),
            World::Sim | World::Bench => simulate_points(job, &indices, self.jobs)?,
        };
        let mut runs: BTreeMap<usize, Vec<PointResult>> = BTreeMap::new();
        for result in results {
            runs.entry(result.point / all).or_default().push(result);
        }
        Ok(runs)
    }

    /// Runs more and more rounds of a benchmark, until all claims can be told.
    fn rounds(
        &self,
        entry: &Entry,
        run: &Run,
        form: &Form,
        folder: &Folder,
    ) -> Result<Found, Failure> {
        let benchmark = run.source.name();
        let mut found = rounds::kept(folder, benchmark);
        let not_judged = |reason: &str| (entry.not_judged(run.world, reason), Measured::Nothing);
        if self.kept {
            return Ok(match found.rounds() {
                0 => not_judged("not run yet"),
                _ => (judge_benchmark(entry, run, &found), Measured::Rounds(found)),
            });
        }
        let program = match rounds::program(self.bench) {
            Ok(program) => program,
            Err(reason) => return Ok(not_judged(&reason)),
        };
        let (first, most) = self.counts(form);
        let (mut wanted, mut left) = (first, most);
        loop {
            let calm = found.calm_rounds().count() as u64;
            let missing = wanted.saturating_sub(calm).min(left);
            if missing > 0 {
                let ran = rounds::run(&program, benchmark, &form.settings, missing, self.quiet);
                if self.stop.is_asked() {
                    return Ok((Vec::new(), Measured::Nothing));
                }
                match ran {
                    Ok(more) => found.append(more),
                    Err(reason) => return Ok(not_judged(&reason)),
                }
                machine::keep(folder)?;
                rounds::keep(folder, &found)?;
            }
            left -= missing;
            let judged = judge_benchmark(entry, run, &found);
            if left == 0 || wanted >= most || !is_open(&judged) {
                return Ok((judged, Measured::Rounds(found)));
            }
            wanted = (wanted * 2).min(most);
        }
    }
}

fn is_open(judged: &[Judged]) -> bool {
    let mut all = judged.iter();
    all.any(|judged| judged.verdict == Verdict::CannotBeTold)
}

/// The points of the grid with these seeds, each of which has `all` places.
fn indices(form: &Form, all: usize, seeds: u64) -> Vec<usize> {
    let seeds = usize::try_from(seeds).unwrap_or(all).min(all);
    let points = form.plan.points();
    let of = |point: &usize| point * all..point * all + seeds;
    points.iter().flat_map(of).collect()
}

/// How many seeds, from the first on, are there of all points.
fn kept_seeds(job: &Job<'_>, form: &Form, most: u64) -> u64 {
    let all = job.scenario.seeds().len();
    let points = form.plan.points();
    let has = |seed: &u64| {
        let of = |point: &usize| point * all + *seed as usize;
        points
            .iter()
            .all(|point| job.kept_point(of(point)).is_some())
    };
    (0..most).take_while(has).count() as u64
}
