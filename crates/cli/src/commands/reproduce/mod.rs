//! `fairwater reproduce`.

mod catalogue;
mod runs;
pub(crate) mod show;

use std::path::PathBuf;

use fairwater_hosting::Stop;
use fairwater_lang::nearest;
use fairwater_reproduce::{Entry, World};

use crate::failure::Failure;
use crate::output;
use catalogue::{Catalogue, Name};
use runs::Runner;
use show::Report;

const EXAMPLES: &str = "\
Examples:
  fairwater reproduce --list
  fairwater reproduce vcc:11
  fairwater reproduce ccp:14 --quick --json
  fairwater reproduce --paper vcc --quick

Each claim of a paper is compared with runs of the same set-up, by a 95 % interval over seeds: it holds,
does not hold, or cannot be told. The exit code is 0 whatever the verdicts are. docs/reproduce.md explains
the catalogue. Runs are kept: after Ctrl-C, the same command runs the remaining ones.";

/// Reproduce results of papers, and tell which of their claims hold
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Results, as PAPER:ID, or all of a paper [default: all]
    #[arg(value_name = "PAPER[:ID]")]
    results: Vec<String>,
    /// List the results, and run nothing
    #[arg(long)]
    list: bool,
    /// Only results of this paper
    #[arg(long)]
    paper: Option<String>,
    /// Only results that are reproduced in this world
    #[arg(long)]
    world: Option<WorldArgument>,
    /// Run the quick form of each: fewer seeds, shorter runs
    #[arg(long)]
    quick: bool,
    /// Run so many seeds of each point, and no more
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(2..=Entry::MAX_SEEDS))]
    seeds: Option<u64>,
    /// Number of points that run at once [default: one for each core]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// The folder of the catalogue
    #[arg(long, value_name = "DIR", default_value = "reproduce")]
    catalogue: PathBuf,
    /// The folder of the results
    #[arg(long, value_name = "DIR", default_value = "reproduce.results")]
    out: PathBuf,
    /// Delete earlier results of what is run first
    #[arg(long)]
    fresh: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

/// A world, as typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum WorldArgument {
    /// The simulator
    Sim,
    /// Real TCP on emulated links
    Linux,
    /// A benchmark of this machine
    Bench,
}

impl WorldArgument {
    fn world(self) -> World {
        match self {
            Self::Sim => World::Sim,
            Self::Linux => World::Linux,
            Self::Bench => World::Bench,
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let catalogue = Catalogue::open(&args.catalogue)?;
    let names = chosen(args, catalogue.names()?)?;
    let mut entries = Vec::new();
    let mut refused = None;
    // All that is wrong is said before anything runs.
    for name in &names {
        match catalogue.read(name) {
            Ok(entry) => entries.push(entry),
            Err(failure) => refused = Some(failure),
        }
    }
    if let Some(failure) = refused {
        return Err(failure);
    }
    entries.retain(|entry| args.world.is_none_or(|world| entry.world == world.world()));
    if args.list {
        return match args.json {
            true => output::json(&entries.iter().map(show::listed).collect::<Vec<_>>()),
            false => output::print(show::list(&entries)),
        };
    }
    reproduce(args, &catalogue, &entries)
}

/// Runs entries one after another, and prints each as it is done.
fn reproduce(args: &Args, catalogue: &Catalogue, entries: &[Entry]) -> Result<(), Failure> {
    let stop = Stop::on_signals().map_err(Failure::io("handling signals"))?;
    stop.exit_if_stuck(|| ())
        .map_err(Failure::io("handling signals"))?;
    let runner = Runner {
        catalogue,
        out: &args.out,
        quick: args.quick,
        seeds: args.seeds,
        jobs: args.jobs.map(usize::from),
        fresh: args.fresh,
        quiet: args.quiet,
        stop: &stop,
    };
    let mut reports: Vec<Report> = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        if !args.quiet && entry.run.is_some() {
            let (at, of) = (index + 1, entries.len());
            eprintln!("{}: {} ({at} of {of})", entry.name(), entry.title);
        }
        let judged = runner.run(entry);
        if stop.is_asked() {
            let kept = args.out.display();
            eprintln!("what is done is kept in {kept}; the same command goes on with the rest");
            return Err(Failure::Interrupted);
        }
        let report = show::report(entry, args.quick, judged?);
        if !args.json {
            output::print(show::text(&report))?;
        }
        reports.push(report);
    }
    if args.json {
        return output::json(&reports);
    }
    match entries.len() {
        0 | 1 => Ok(()),
        _ => output::print(show::summary(&reports)),
    }
}

/// The entries that were asked for, each once, in the catalogue's order.
fn chosen(args: &Args, mut names: Vec<Name>) -> Result<Vec<Name>, Failure> {
    let wanted = args.results.iter().chain(&args.paper);
    for text in wanted {
        let fits = |name: &Name| name.paper == *text || name.shown() == *text;
        if !names.iter().any(fits) {
            let mut known: Vec<_> = names.iter().map(Name::shown).collect();
            known.extend(names.iter().map(|name| name.paper.clone()));
            let help = match nearest(text, known.iter().map(String::as_str)) {
                Some(near) => format!("did you mean `{near}`?"),
                None => "`fairwater reproduce --list` shows all".to_owned(),
            };
            return Err(Failure::BadInput(format!(
                "there is no result `{text}`; {help}"
            )));
        }
    }
    names.retain(|name| {
        let is_named = |text: &String| name.paper == *text || name.shown() == *text;
        let is_of_paper = args.paper.as_ref().is_none_or(|paper| name.paper == *paper);
        is_of_paper && (args.results.is_empty() || args.results.iter().any(is_named))
    });
    Ok(names)
}
