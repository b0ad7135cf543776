//! Small scenarios as data: what `fairwater run` prints of each file in `tests/scenarios` is the
//! snapshot beside it. A new case is a new TOML file; `INSTA_UPDATE=always` accepts what is printed.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios")
}

/// Names of the folder's files that end so.
fn names(extension: &str) -> BTreeSet<String> {
    fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == extension))
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect()
}

/// What is printed of a scenario, and its seeds.
fn run(name: &str, dir: &Path) -> Result<(String, Vec<u64>), String> {
    let output = Command::new(env!("CARGO_BIN_EXE_fairwater"))
        .arg("run")
        .arg(folder().join(format!("{name}.toml")))
        .args(["--quiet", "--out", name])
        .current_dir(dir)
        .output()
        .unwrap();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let lines = fs::read_to_string(dir.join(name).join("results.jsonl")).unwrap();
    let seed = |line| serde_json::from_str::<Value>(line).unwrap()["seed"].as_u64();
    let seeds: BTreeSet<u64> = lines.lines().map(|line| seed(line).unwrap()).collect();
    let table = String::from_utf8(output.stdout).unwrap();
    Ok((table, seeds.into_iter().collect()))
}

/// How to see again what a seed gives.
fn replay(name: &str, seeds: &[u64]) -> String {
    let file = format!("crates/cli/tests/scenarios/{name}.toml");
    let commands = seeds.iter().map(|seed| {
        format!("seed {seed}: cargo run --bin fairwater -- run {file} --replay {seed}")
    });
    commands.collect::<Vec<_>>().join("\n")
}

#[test]
fn each_scenario_gives_its_table() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path(folder());
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let mut wrong = Vec::new();
    for name in names("toml") {
        match run(&name, dir.path()) {
            Err(errors) => wrong.push(format!("{name} does not run:\n{errors}")),
            Ok((table, seeds)) => {
                let same = catch_unwind(AssertUnwindSafe(|| {
                    settings.bind(|| insta::assert_snapshot!(name.as_str(), table));
                }));
                if same.is_err() {
                    wrong.push(format!(
                        "{name} gives another table\n{}",
                        replay(&name, &seeds)
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn no_snapshot_is_left_without_its_scenario() {
    let (snapshots, scenarios) = (names("snap"), names("toml"));
    let orphans: Vec<_> = snapshots.difference(&scenarios).collect();
    assert!(orphans.is_empty(), "{orphans:?}");
}
