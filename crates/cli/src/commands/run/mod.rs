//! `fairwater run`.

pub(crate) mod capture;
pub(crate) mod emulate;
pub(crate) mod grid;
mod table;
pub(crate) mod watch;

use std::fs;
use std::path::{Path, PathBuf};

use fairwater_experiment::Backend;
use fairwater_hosting::{FolderResolver, Stop, python_source};
use fairwater_lab::input::read_text;
use fairwater_results::grid as grid_of_results;
use fairwater_results::report;
use fairwater_results::{Folder, FolderError, PointResult};
use fairwater_scenario::{self as scenario, Scenario};

use crate::backend::BackendArgument;
use crate::failure::Failure;
use crate::output;
use crate::report_page;
use crate::units;
use capture::Capture;

const EXAMPLES: &str = "\
Examples:
  fairwater run scenarios/dumbbell.toml
  fairwater run scenarios/incast.toml --jobs 8
  fairwater run scenarios/dumbbell.toml --set dumbbell.rate=12mbit --seed 7 --json
  fairwater run scenarios/dumbbell.toml --pcap sender=sender.pcap
  sudo fairwater run scenarios/dumbbell.toml --on linux

docs/scenarios.md describes the file. Each point's results are kept at once: after Ctrl-C, the same
command runs the remaining points. The same seed gives the same results for every --jobs.";

/// Run a scenario: a network and its traffic, simulated or on real TCP
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The scenario
    file: PathBuf,
    /// Back end
    #[arg(long, value_name = "BACKEND", default_value = "sim")]
    on: BackendArgument,
    /// Number of points that run at once in the simulator [default: one for each core]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Run with this seed only
    #[arg(long, visible_alias = "replay", value_parser = clap::value_parser!(u64).range(..=MAX_SEED))]
    seed: Option<u64>,
    /// Change a variable of the sweep, or a value by its path: `duration=5s`, `flow.0.count=2`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// The folder of the results [default: the file's name with `.results`]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Delete the results in the folder first
    #[arg(long)]
    fresh: bool,
    /// Print each point's results on standard output as a line of JSON
    #[arg(long)]
    json: bool,
    /// Path of the report page [default: report.html in the folder]
    #[arg(long, value_name = "PATH")]
    report: Option<PathBuf>,
    /// Write the packets at a host as a capture, for a scenario with one point; may be given several
    /// times
    #[arg(long, value_name = "HOST=FILE")]
    pcap: Vec<String>,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

/// The greatest seed: a whole number of TOML has 63 bits.
pub(crate) const MAX_SEED: u64 = i64::MAX as u64;

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let scenario = read(args)?;
    let captures = Capture::parse_all(&args.pcap, &scenario, args.on.backend())?;
    let path = folder_path(args);
    let in_folder = || path.join("report.html");
    let report = args.report.clone().unwrap_or_else(in_folder);
    // Before anything in the folder is removed. The folder itself will be there.
    report_page::check_beside(&report, &path)?;
    let folder = open_folder(args, &path, &scenario)?;
    let stop = Stop::on_signals().map_err(Failure::io("handling signals"))?;
    if args.on == BackendArgument::Sim {
        stop.exit_if_stuck(|| ())
            .map_err(Failure::io("handling signals"))?;
    }
    let job = grid::Job {
        scenario: &scenario,
        scenario_folder: folder_of(&args.file),
        folder: &folder,
        captures: &captures,
        stop: &stop,
        quiet: args.quiet,
    };
    let ended = match args.on {
        BackendArgument::Sim => grid::simulate(&job, args.jobs.map(usize::from)),
        BackendArgument::Linux => emulate::run(&job),
    };
    if stop.is_asked() {
        say_how_to_go_on(&scenario, &folder);
        return Err(Failure::Interrupted);
    }
    finish(args, &scenario, &folder, &ended?, &report)
}

/// The folder of a scenario.
pub(crate) fn folder_of(scenario: &Path) -> &Path {
    scenario.parent().unwrap_or(Path::new(""))
}

/// Reads the file, with what the command line changes in it.
fn read(args: &Args) -> Result<Scenario, Failure> {
    read_scenario(&args.file, &args.settings, args.seed, args.on.backend())
}

/// Reads a scenario, with these settings and this seed in place of its own.
pub(crate) fn read_scenario(
    file: &Path,
    settings: &[String],
    seed: Option<u64>,
    backend: Backend,
) -> Result<Scenario, Failure> {
    let name = file.display().to_string();
    let mut source = read_text(file, scenario::MAX_SOURCE_BYTES)
        .map_err(|error| Failure::BadInput(format!("{name}: {error}")))?;
    for setting in settings {
        source = scenario::set(&source, setting)
            .map_err(|error| Failure::BadInput(format!("--set: {error}")))?;
    }
    if let Some(seed) = seed {
        source = scenario::set_seed(&source, seed)
            .map_err(|error| Failure::BadInput(format!("{name}: {error}")))?;
    }
    let resolver = FolderResolver::new(folder_of(file));
    Scenario::parse(&name, &source, backend, &resolver).map_err(|refused| {
        anstream::eprint!("{}", refused.render(true));
        Failure::AlreadyReported(2)
    })
}

fn folder_path(args: &Args) -> PathBuf {
    args.out.clone().unwrap_or_else(|| {
        let mut name = args.file.file_stem().unwrap_or_default().to_owned();
        if let Some(seed) = args.seed {
            name.push(format!("-seed{seed}"));
        }
        name.push(".results");
        PathBuf::from(name)
    })
}

fn open_folder(args: &Args, path: &Path, scenario: &Scenario) -> Result<Folder, Failure> {
    // What is one run is soon run again, and the file was changed to see what happens.
    let fresh = args.fresh || (scenario.len() == 1 && Folder::count(path) <= 1);
    let source = scenario.source();
    let mut files = scenario.files();
    let folder = folder_of(&args.file);
    let texts = scenario.algorithms();
    files.extend(texts.iter().filter_map(|text| python_source(text, folder)));
    Ok(Folder::open(
        path,
        args.on.backend().name(),
        source,
        files,
        fresh,
    )?)
}

fn say_how_to_go_on(scenario: &Scenario, folder: &Folder) {
    let total = scenario.len();
    let done = Folder::count(&folder.file(""));
    eprintln!(
        "{done} of {} are done and kept in {}; the same command goes on with the others",
        units::count(total, "point"),
        folder.file("").display()
    );
}

fn finish(
    args: &Args,
    scenario: &Scenario,
    folder: &Folder,
    results: &[PointResult],
    report: &Path,
) -> Result<(), Failure> {
    let variables = scenario.variables();
    folder.finish(results, &variables)?;
    if args.json {
        let lines = folder.file("results.jsonl");
        let shown = lines.display().to_string();
        output::print(fs::read(&lines).map_err(Failure::io(shown))?)?;
    } else {
        output::print(table::table(
            results,
            &variables,
            &scenario.layout().metrics,
        ))?;
    }
    if let Some(notice) = grid_of_results::equal_seeds(results) {
        eprintln!("{notice}");
    }
    let title = scenario.title().map_or_else(
        || {
            let stem = args.file.file_stem().unwrap_or_default();
            stem.to_string_lossy().into_owned()
        },
        str::to_owned,
    );
    let page = report::points(&title, results, &variables, scenario.layout());
    eprintln!("Results: {}", folder.file("").display());
    report_page::write(report, &page)?;
    let flows = results.iter().flat_map(|result| &result.flows);
    Failure::if_fallen_back(flows.map(|flow| &flow.fallback))
}

impl From<FolderError> for Failure {
    fn from(error: FolderError) -> Self {
        match error {
            FolderError::Another { .. }
            | FolderError::Foreign { .. }
            | FolderError::Busy { .. } => Self::BadInput(error.to_string()),
            FolderError::Io { .. } | FolderError::Table { .. } => Self::Other(error.to_string()),
        }
    }
}
