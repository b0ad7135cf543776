//! `fairwater certify`, as a user meets it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn certify(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fairwater"))
        .arg("certify")
        .args(arguments)
        .arg("--quiet")
        .current_dir(folder)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_same_command_gives_the_same_report_from_kept_runs_and_anew() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["native:reno", "--quick", "--only", "bufferbloat"];
    let first = certify(folder.path(), &arguments);
    assert!(first.status.success(), "{}", text(&first.stderr));
    let shown = text(&first.stdout);
    assert!(
        shown.contains("falls short: The median queueing delay"),
        "{shown}"
    );
    assert!(shown.contains("passes: The link is used"), "{shown}");
    let results = folder.path().join("certify.results/native-reno");
    let files = [
        "certificate.json",
        "report.html",
        "scenarios/bufferbloat.toml",
    ];
    let read = || files.map(|file| fs::read(results.join(file)).unwrap());
    let (before, runs) = (read(), fs::read(results.join("runs.jsonl")).unwrap());
    // A kill cuts a line off.
    fs::write(results.join("runs.jsonl"), &runs[..runs.len() - 9]).unwrap();
    for more in [&[][..], &["--fresh", "--jobs", "1"]] {
        let again = certify(folder.path(), &[&arguments[..], more].concat());
        assert_eq!(text(&again.stdout), shown);
        assert!(read() == before, "the files differ after {more:?}");
    }
}

#[test]
fn the_scenario_of_a_section_can_be_run() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["native:reno", "--quick", "--only", "constrained"];
    assert!(certify(folder.path(), &arguments).status.success());
    let run = Command::new(env!("CARGO_BIN_EXE_fairwater"))
        .args([
            "run",
            "certify.results/native-reno/scenarios/constrained.toml",
        ])
        .args(["--set", "seeds=1", "--quiet"])
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", text(&run.stderr));
}

#[test]
fn bad_input_is_named_and_starts_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, said) in [
        (&["renoo"][..], "did you mean `reno`"),
        (&["native:vegas"], "`native:reno` and `native:cubic`"),
        (&["native:bbr"], "fairwater certify bbr"),
        (&["kernel:cubic"], "not certified yet"),
        (
            &["reno", "--only", "bufferbloatt"],
            "no section or objective",
        ),
        (&["reno:x=\"1"], "cannot stand in a scenario"),
        (&["reno", "--stall", "0"], "--stall"),
    ] {
        let refused = certify(folder.path(), arguments);
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}");
        let errors = text(&refused.stderr);
        assert!(errors.contains(said), "{arguments:?}: {errors}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
