//! `fairwater try` in the simulator: asked for, or since real TCP cannot run here.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::support::fairwater;

/// `nobody` of most systems.
const NOBODY: u32 = 65_534;

/// Runs the program in the directory without any privilege, whoever runs this.
fn unprivileged(directory: &Path, args: &[&str]) -> Output {
    let program = directory.join("fairwater");
    if !program.exists() {
        fs::set_permissions(directory, Permissions::from_mode(0o777)).unwrap();
        // Where it was built, others may not be allowed to look.
        fs::copy(env!("CARGO_BIN_EXE_fairwater"), &program).unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new(program);
    command.args(args).current_dir(directory);
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.output().unwrap()
}

fn said(output: &Output) -> (Option<i32>, String) {
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    (output.status.code(), said)
}

#[test]
fn the_same_command_gives_the_same_json() {
    let run = |seed: &str| {
        let output = fairwater(&[
            "try",
            "reno",
            "--against",
            "kernel:reno",
            "--on",
            "sim",
            "--together",
            "--link",
            "24mbit 20ms 1bdp",
            "--for",
            "5s",
            "--seed",
            seed,
            "--json",
            "--report",
            "/dev/null",
        ]);
        let (code, said) = said(&output);
        assert_eq!(code, Some(0), "{said}");
        assert!(!said.contains("simulating"), "it was asked for: {said}");
        output.stdout
    };
    let first = run("1");
    assert_eq!(first, run("1"));
    assert_ne!(first, run("2"));
    let results: serde_json::Value = serde_json::from_slice(&first).unwrap();
    let rates: Vec<f64> = results["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["throughput_bps"].as_f64().unwrap())
        .collect();
    assert!(rates.iter().all(|rate| *rate > 4e6), "{rates:?}");
    assert!((0.8 * 24e6..24.1e6).contains(&rates.iter().sum::<f64>()));
}

#[test]
fn without_privileges_it_simulates_and_says_why_in_one_line() {
    let directory = tempfile::tempdir().unwrap();
    let output = unprivileged(
        directory.path(),
        &["try", "cubic", "kernel:cubic", "--for", "2s", "--quiet"],
    );
    let (code, said) = said(&output);
    assert_eq!(code, Some(0), "{said}");
    let lines: Vec<_> = said.lines().collect();
    assert_eq!(lines.len(), 2, "{said}");
    assert!(
        lines[0].starts_with("simulating, as real TCP cannot run here: "),
        "{said}"
    );
    assert_eq!(lines[1], "Report with plots: fairwater-report.html");
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(
        table.starts_with("48mbit 20ms 1bdp, 2 s each alone, simulated\n"),
        "{table}"
    );
    let page = fs::read_to_string(directory.path().join("fairwater-report.html")).unwrap();
    assert!(page.contains("Nothing here was measured on real TCP"));
}

#[test]
fn real_tcp_that_is_insisted_on_or_needed_fails_without_privileges() {
    let directory = tempfile::tempdir().unwrap();
    let fails = |args: &[&str]| {
        let output = unprivileged(directory.path(), args);
        let (code, said) = said(&output);
        assert_eq!(code, Some(3), "{args:?}: {said}");
        assert!(output.stdout.is_empty());
        assert!(!directory.path().join("fairwater-report.html").exists());
        said
    };
    fails(&["try", "reno", "--on", "linux", "--for", "2s"]);
    fails(&["try", "kernel:reno", "--on", "linux", "--for", "2s"]);
    let bbr = fails(&["try", "reno", "kernel:bbr", "--for", "2s"]);
    assert!(
        bbr.contains("the simulator has no `kernel:bbr`") && bbr.contains("real TCP cannot run"),
        "{bbr}"
    );
    let ipv6 = fails(&["try", "reno", "--ipv6", "--for", "2s"]);
    assert!(
        ipv6.contains("IPv6") && ipv6.contains("real TCP cannot run"),
        "{ipv6}"
    );
}

/// Rounds in alternating order give each candidate its own results, in the order asked for; the
/// baseline has the kernel's algorithm in every place.
#[test]
fn rounds_are_summarised_with_a_baseline() {
    let folder = tempfile::tempdir().unwrap();
    let report = folder.path().join("report.html");
    let output = fairwater(&[
        "try",
        "constant:cwnd=10",
        "--against",
        "kernel:reno",
        "--on",
        "sim",
        "--link",
        "12mbit 20ms 1bdp",
        "--for",
        "4s",
        "--together",
        "--baseline",
        "--rounds",
        "3",
        "--json",
        "--quiet",
        "--report",
        report.to_str().unwrap(),
    ]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let names = |runs: &serde_json::Value| -> Vec<String> {
        let runs = runs.as_array().unwrap().iter();
        runs.map(|run| run["name"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(names(&results["runs"]), ["constant:cwnd=10", "kernel:reno"]);
    let in_place = "kernel:reno in place of constant:cwnd=10";
    let baseline = &results["baseline"];
    assert_eq!(names(&baseline["runs"]), [in_place, "kernel:reno"]);
    let rounds = results["rounds"].as_array().unwrap();
    assert_eq!(rounds.len(), 3);
    for round in rounds {
        assert_eq!(names(&round["runs"]), ["constant:cwnd=10", "kernel:reno"]);
    }
    let of = |name: &str| results["runs"][0]["throughput_bps"][name].as_f64().unwrap();
    assert!(of("min") <= of("median") && of("median") <= of("max"));
    for jain in [&results["jain"], &baseline["jain"]] {
        assert!((0.5..=1.0).contains(&jain["median"].as_f64().unwrap()));
    }
    let page = std::fs::read_to_string(&report).unwrap();
    assert!(page.contains("3 rounds in alternating order") && page.contains(in_place));
}

#[test]
fn a_baseline_needs_a_kernels_algorithm_that_shares_the_link() {
    let common = ["try", "reno", "--on", "sim", "--baseline"];
    for (more, expected) in [
        (&["--against", "kernel:reno"][..], "--together"),
        (&["--together"][..], "kernel:cubic"),
    ] {
        let output = fairwater(&[&common[..], more].concat());
        assert_eq!(output.status.code(), Some(2));
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains(expected), "{said}");
    }
}
