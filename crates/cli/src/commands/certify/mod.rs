//! `fairwater certify`.

mod runs;
mod sections;
mod show;
mod workers;
mod worst;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fairwater_certify::{Budget, Certificate, Objective, sections as all_sections};
use fairwater_experiment::Backend;
use fairwater_hosting::{Stop, is_python_spec, python_source, resolve_argument};
use fairwater_results::{Folder, write_whole};

use crate::failure::Failure;
use crate::output;
use crate::report_page;
use runs::Runs;
use sections::Sections;
use workers::Workers;
use worst::Search;

const EXAMPLES: &str = "\
Examples:
  fairwater certify cubic --quick
  fairwater certify copa:delta=0.1
  fairwater certify my_alg.py:MyAlg --quick --json
  fairwater certify native:cubic --only bufferbloat --no-search
  fairwater certify bbr --only starvation

The sections of RFC 9743 are run in the simulator. A search then looks for the path on which the
algorithm starves a flow, carries little, or keeps a standing queue, alone or in company only.
docs/certify.md explains both. The exit code is 0 whatever the verdicts are, and 4 if the algorithm
failed. Runs are kept: after Ctrl-C, the same command runs the remaining ones. The same seed gives the
same report.";

/// Find out whether an algorithm is fit to be let out
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The algorithm: one of `fairwater algorithms`, a class in a Python file, or `native:cubic`
    algorithm: String,
    /// Run the quick form: fewer seeds, and a shorter search
    #[arg(long)]
    quick: bool,
    /// Only this section or objective; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Search for no worst path
    #[arg(long)]
    no_search: bool,
    /// Seed of the search
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of simulations that run at once [default: one for each core]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..))]
    jobs: Option<u16>,
    /// CPU time without progress after which an algorithm counts as blocked, s
    #[arg(long, value_name = "SECONDS", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=3600))]
    stall: u64,
    /// The folder of the results [default: certify.results/ALGORITHM]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Delete earlier results in the folder first
    #[arg(long)]
    fresh: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Show no progress
    #[arg(long, short)]
    quiet: bool,
}

/// Runs, each a line of JSON, in the folder of the results.
const RUNS: &str = "runs.jsonl";

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let candidate = candidate(&args.algorithm)?;
    let base = args.algorithm.split(':').next().unwrap_or_default();
    let sections: Vec<_> = all_sections(base)
        .filter(|section| args.only.is_empty() || args.only.iter().any(|only| only == section.id))
        .collect();
    let is_searched = |objective: &Objective| {
        let named = args.only.iter().any(|only| only == objective.name());
        !args.no_search && (args.only.is_empty() || named)
    };
    let objectives: Vec<_> = Objective::ALL.into_iter().filter(is_searched).collect();
    check_names(args, base)?;
    let out = args
        .out
        .clone()
        .unwrap_or_else(|| default_out(&args.algorithm));
    let folder = open(args, &candidate, &out)?;
    let stop = Stop::on_signals().map_err(Failure::io("handling signals"))?;
    let workers = Workers::new(Duration::from_secs(args.stall), &stop);
    let here = Path::new("");
    let jobs = args.jobs.map(usize::from);
    let runs = Runs::open(&folder.file(RUNS), here, &workers, jobs, args.quiet)?;
    let found = certify(args, &candidate, &out, &runs, &sections, &objectives);
    if stop.is_asked() {
        let kept = out.display();
        eprintln!("what is done is kept in {kept}; the same command goes on with the rest");
        return Err(Failure::Interrupted);
    }
    let Some((certificate, pictures)) = found? else {
        return Err(Failure::Interrupted);
    };
    let file = out.join("certificate.json");
    let shown = file.display().to_string();
    let json = serde_json::to_vec_pretty(&certificate).map_err(std::io::Error::from);
    json.and_then(|json| write_whole(&file, &json))
        .map_err(Failure::io(shown))?;
    report_page::write(
        &out.join("report.html"),
        &show::page(&certificate, &pictures),
    )?;
    match args.json {
        true => output::json(&certificate)?,
        false => output::print(show::text(&certificate))?,
    }
    match certificate.findings.is_empty() {
        true => Ok(()),
        false => Err(Failure::AlgorithmFailed),
    }
}

type Found = (Certificate, Vec<(String, fairwater_results::PointResult)>);

/// Runs the sections, then the searches; `None` when it was stopped.
fn certify(
    args: &Args,
    candidate: &str,
    out: &Path,
    runs: &Runs<'_>,
    sections: &[&'static fairwater_certify::Section],
    objectives: &[Objective],
) -> Result<Option<Found>, Failure> {
    let sections_run = Sections {
        candidate,
        folder: Path::new(""),
        out,
        quick: args.quick,
        runs,
    };
    let Some(mut ran) = sections_run.run(sections)? else {
        return Ok(None);
    };
    let search = Search {
        candidate,
        out,
        budget: if args.quick {
            Budget::QUICK
        } else {
            Budget::FULL
        },
        seed: args.seed,
        runs,
    };
    let mut worst = Vec::new();
    for objective in objectives {
        let Some(found) = search.run(*objective)? else {
            return Ok(None);
        };
        ran.findings.extend(found.findings);
        if let Some(run) = found.picture {
            ran.pictures
                .push((format!("Worst path: {}", objective.name()), run));
        }
        worst.push(found.path);
    }
    let certificate = Certificate {
        algorithm: args.algorithm.clone(),
        version: env!("CARGO_PKG_VERSION"),
        quick: args.quick,
        seed: args.seed,
        sections: ran.reports,
        findings: ran.findings,
        worst,
    };
    Ok(Some((certificate, ran.pictures)))
}

/// The algorithm as scenarios anywhere name it: of a Python file, the whole path.
fn candidate(text: &str) -> Result<String, Failure> {
    if text
        .chars()
        .any(|c| c.is_control() || c == '"' || c == '\\' || c == '$')
    {
        let message = format!(
            "`{text}` cannot stand in a scenario: it has a quote, `\\`, `$` or a control character"
        );
        return Err(Failure::BadInput(message));
    }
    if let Some(name) = text.strip_prefix("native:") {
        return match name {
            "reno" | "cubic" => Ok(text.to_owned()),
            // The simulator has no other that is an algorithm; BBR is one of the plane's.
            "bbr" => Err(Failure::BadInput(
                "the simulator has no native BBR: `fairwater certify bbr` runs the plane's"
                    .to_owned(),
            )),
            _ => Err(Failure::BadInput(format!(
                "there is no `{text}`; the simulator has `native:reno` and `native:cubic`"
            ))),
        };
    }
    if text.starts_with("kernel:") {
        return Err(Failure::BadInput(format!(
            "`{text}`: algorithms of the kernel are not certified yet; `native:cubic` and `native:reno` are the simulator's own"
        )));
    }
    resolve_argument(text).map_err(|error| Failure::BadInput(error.to_string()))?;
    if !is_python_spec(text) {
        return Ok(text.to_owned());
    }
    let (file, class) = text.split_once(':').unwrap_or((text, ""));
    let whole = fs::canonicalize(file).map_err(Failure::io(file.to_owned()))?;
    Ok(format!("{}:{class}", whole.display()))
}

/// Refuses names that no section and no objective has.
fn check_names(args: &Args, base: &str) -> Result<(), Failure> {
    let known: Vec<_> = all_sections(base)
        .map(|section| section.id)
        .chain(Objective::ALL.map(Objective::name))
        .collect();
    match args
        .only
        .iter()
        .find(|only| !known.contains(&only.as_str()))
    {
        None => Ok(()),
        Some(wrong) => Err(Failure::BadInput(format!(
            "there is no section or objective `{wrong}`; there are {}",
            known.join(", ")
        ))),
    }
}

fn default_out(algorithm: &str) -> PathBuf {
    let name = algorithm.rsplit('/').next().unwrap_or(algorithm);
    let plain = |c: char| {
        if c.is_alphanumeric() || ".-_=".contains(c) {
            c
        } else {
            '-'
        }
    };
    Path::new("certify.results").join(name.chars().map(plain).collect::<String>())
}

/// The folder of the results, held against others that write there.
fn open(args: &Args, candidate: &str, out: &Path) -> Result<Folder, Failure> {
    let files: BTreeMap<_, _> = python_source(&args.algorithm, Path::new(""))
        .into_iter()
        .collect();
    let what = format!("certification of {candidate}");
    let folder = Folder::open(out, Backend::Sim.name(), &what, files, args.fresh)?;
    if args.fresh {
        match fs::remove_file(folder.file(RUNS)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Failure::io(RUNS)(error));
            }
            _ => {}
        }
    }
    Ok(folder)
}
