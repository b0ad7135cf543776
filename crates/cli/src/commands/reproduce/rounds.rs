//! Rounds of a benchmark, by `fairwater-bench`: a program of its own, as it needs peers that this
//! command does not.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fairwater_results::{BenchmarkResult, Folder, write_whole};

use crate::failure::Failure;

/// Where rounds are kept.
const FILE: &str = "rounds.json";

/// The program of the benchmarks.
const PROGRAM: &str = "fairwater-bench";

/// The program: as given, or beside this one.
pub(super) fn program(given: Option<&Path>) -> Result<PathBuf, String> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    let beside = env::current_exe().map(|own| own.with_file_name(PROGRAM));
    match beside {
        Ok(path) if path.is_file() => Ok(path),
        _ => Err(format!(
            "{PROGRAM} is not beside this program: build it by `cargo build --release -p {PROGRAM}`, or name it \
             by --bench"
        )),
    }
}

/// What was kept of a benchmark; nothing of another, or of a damaged file.
pub(super) fn kept(folder: &Folder, benchmark: &str) -> BenchmarkResult {
    let bytes = fs::read(folder.file(FILE)).unwrap_or_default();
    let kept: Option<BenchmarkResult> = serde_json::from_slice(&bytes).ok();
    kept.filter(|kept| kept.benchmark == benchmark)
        .unwrap_or_else(|| BenchmarkResult::new(benchmark))
}

/// Keeps all rounds.
pub(super) fn keep(folder: &Folder, rounds: &BenchmarkResult) -> Result<(), Failure> {
    let path = folder.file(FILE);
    serde_json::to_vec(rounds)
        .map_err(io::Error::from)
        .and_then(|text| write_whole(&path, &text))
        .map_err(Failure::io(path.display().to_string()))
}

/// Runs so many rounds.
///
/// # Errors
/// Why there are none, as a clause.
pub(super) fn run(
    program: &Path,
    benchmark: &str,
    arguments: &[String],
    rounds: u64,
    quiet: bool,
) -> Result<BenchmarkResult, String> {
    let mut command = Command::new(program);
    command
        .arg(benchmark)
        .args(arguments)
        .args(["--rounds", &rounds.to_string(), "--json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    command.stderr(match quiet {
        true => Stdio::piped(),
        false => Stdio::inherit(),
    });
    let shown = program.display();
    let output = command
        .output()
        .map_err(|error| format!("{shown}: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().last().unwrap_or("see above");
        let status = output.status;
        return Err(format!("{shown} {benchmark} failed ({status}): {said}"));
    }
    let found: BenchmarkResult = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("{shown} {benchmark} printed no results: {error}"))?;
    match found.benchmark == benchmark && found.rounds() > 0 {
        true => Ok(found),
        false => Err(format!("{shown} {benchmark} printed results of no round")),
    }
}
