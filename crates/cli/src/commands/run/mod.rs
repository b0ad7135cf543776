//! `fairwater run`.

mod capture;
mod emulate;
mod grid;
mod table;
mod watch;

use std::fs;
use std::path::{Path, PathBuf};

use fairwater_lab::findings::{Finding, Folder, FolderError};
use fairwater_lab::report;
use fairwater_lab::scenario::{self, Scenario};

use crate::algorithm;
use crate::failure::Failure;
use crate::output;
use crate::report_page;
use crate::stop::Stop;
use crate::surroundings::{self, Beside};
use crate::units;
use crate::world::On;
use capture::Capture;

const EXAMPLES: &str = "\
Examples:
  fairwater run scenarios/dumbbell.toml
  fairwater run scenarios/incast.toml --jobs 8
  fairwater run scenarios/dumbbell.toml --set dumbbell.rate=12mbit --seed 7 --json
  fairwater run scenarios/dumbbell.toml --pcap sender=sender.pcap
  sudo fairwater run scenarios/dumbbell.toml --on linux

A file is described in docs/scenarios.md. Results are kept as they come: what Ctrl-C stopped, the
same command goes on with. The same seed gives the same results, whatever --jobs.";

/// Run a scenario: a network and its traffic, simulated or on real TCP
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The scenario
    file: PathBuf,
    /// Where it runs
    #[arg(long, value_name = "WORLD", default_value = "sim")]
    on: On,
    /// How many points run at once in the simulator [default: one for each core]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// Run with this seed alone
    #[arg(long, visible_alias = "replay", value_parser = clap::value_parser!(u64).range(..=MAX_SEED))]
    seed: Option<u64>,
    /// Change a variable of the sweep, or a value by its path: `duration=5s`, `flow.0.count=2`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// The folder of the results [default: the file's name with `.results`]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Forget the results that are in the folder
    #[arg(long)]
    fresh: bool,
    /// Print each point's results on standard output as a line of JSON
    #[arg(long)]
    json: bool,
    /// Where the report page goes [default: report.html in the folder]
    #[arg(long, value_name = "PATH")]
    report: Option<PathBuf>,
    /// Write the packets at a host, of a scenario with one point, as a capture
    #[arg(long, value_name = "HOST=FILE")]
    pcap: Option<String>,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

/// The greatest seed: a whole number of TOML has 63 bits.
const MAX_SEED: u64 = i64::MAX as u64;

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let scenario = read(args)?;
    let capture = match &args.pcap {
        Some(text) => Some(Capture::parse(text, &scenario, args.on.world())?),
        None => None,
    };
    let path = folder_path(args);
    if let Some(report) = &args.report {
        // Before anything in the folder is removed. The folder itself will be there.
        report_page::check_beside(report, &path)?;
    }
    let folder = open_folder(args, &path, &scenario)?;
    let report = args
        .report
        .clone()
        .unwrap_or_else(|| folder.file("report.html"));
    report_page::check(&report)?;
    let stop = Stop::on_signals()?;
    let job = grid::Job {
        scenario: &scenario,
        beside: surroundings::folder(&args.file),
        folder: &folder,
        capture: capture.as_ref(),
        stop: &stop,
        quiet: args.quiet,
    };
    let ended = match args.on {
        On::Sim => grid::simulate(&job, args.jobs.map(usize::from)),
        On::Linux => emulate::run(&job),
    };
    if stop.is_asked() {
        say_how_to_go_on(&scenario, &folder);
        return Err(Failure::Interrupted);
    }
    finish(args, &scenario, &folder, &ended?, &report)
}

/// Reads the file, with what the command line changes in it.
fn read(args: &Args) -> Result<Scenario, Failure> {
    let name = args.file.display().to_string();
    let mut source = fs::read_to_string(&args.file)
        .map_err(|error| Failure::BadInput(format!("{name}: {error}")))?;
    for setting in &args.settings {
        source = scenario::set(&source, setting)
            .map_err(|error| Failure::BadInput(format!("--set: {error}")))?;
    }
    if let Some(seed) = args.seed {
        source = scenario::set_seed(&source, seed)
            .map_err(|error| Failure::BadInput(format!("{name}: {error}")))?;
    }
    let surroundings = Beside::folder(surroundings::folder(&args.file));
    Scenario::parse(&name, &source, args.on.world(), &surroundings).map_err(|refused| {
        anstream::eprint!("{}", refused.render(true));
        Failure::Said(2)
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
    let fresh = args.fresh || (scenario.len() == 1 && Folder::points(path) <= 1);
    let source = scenario.source();
    let mut files = scenario.files();
    let beside = surroundings::folder(&args.file);
    let texts = scenario.algorithms();
    files.extend(
        texts
            .iter()
            .filter_map(|text| algorithm::python_source(text, beside)),
    );
    Ok(Folder::open(
        path,
        args.on.world().name(),
        source,
        files,
        fresh,
    )?)
}

fn say_how_to_go_on(scenario: &Scenario, folder: &Folder) {
    let total = scenario.len();
    let done = Folder::points(&folder.file(""));
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
    findings: &[Finding],
    report: &Path,
) -> Result<(), Failure> {
    let variables = scenario.variables();
    folder.finish(findings, &variables)?;
    if args.json {
        let lines = folder.file("results.jsonl");
        let shown = lines.display().to_string();
        output::print(fs::read(&lines).map_err(Failure::io(shown))?)?;
    } else {
        output::print(table::table(findings, &variables))?;
    }
    let title = scenario.title().map_or_else(
        || {
            let stem = args.file.file_stem().unwrap_or_default();
            stem.to_string_lossy().into_owned()
        },
        str::to_owned,
    );
    let page = report::findings(&title, findings, &variables, scenario.picture());
    eprintln!("Results: {}", folder.file("").display());
    report_page::write(report, &page)
}

impl From<FolderError> for Failure {
    fn from(error: FolderError) -> Self {
        match error {
            FolderError::Another { .. } | FolderError::Foreign { .. } => {
                Self::BadInput(error.to_string())
            }
            FolderError::Io { .. } | FolderError::Table { .. } => Self::Other(error.to_string()),
        }
    }
}
