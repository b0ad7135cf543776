//! `fairwater try` on real TCP over the emulated link.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use rustix::process::Signal;

use crate::support::{Running, alone, fairwater, privileged};

const LINK: &str = "12mbit 10ms 1bdp";

#[test]
fn json_has_the_runs_in_the_order_asked_for_and_nothing_else() {
    if !privileged() {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("page.html");
    let output = fairwater(&[
        "try",
        "constant:cwnd=20",
        "--against",
        "kernel:reno",
        "--against",
        "constant:cwnd=4",
        "--link",
        LINK,
        "--for",
        "2s",
        "--tries",
        "1",
        "--json",
        "--report",
        page.to_str().unwrap(),
    ]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("run 3 of 3"), "{said}");
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs = results["runs"].as_array().unwrap();
    let names: Vec<_> = runs
        .iter()
        .map(|run| run["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        ["constant:cwnd=20", "kernel:reno", "constant:cwnd=4"]
    );
    let controls: Vec<_> = runs
        .iter()
        .map(|run| run["congestion_control"].as_str().unwrap())
        .collect();
    // Names of this run alone.
    assert!(controls[0].starts_with("fw_constant_"), "{controls:?}");
    assert!(controls[2].starts_with("fw_constant_"), "{controls:?}");
    assert_eq!(controls[1], "reno");
    assert_ne!(controls[0], controls[2]);
    // 4 segments each 10 ms are 4.8 Mbit/s at most: a window that the kernel did not choose.
    let rates: Vec<_> = runs
        .iter()
        .map(|run| run["throughput_bps"].as_f64().unwrap())
        .collect();
    assert!(rates[2] < 4.9e6 && rates[0] > rates[2], "{rates:?}");
    for key in [
        "utilisation",
        "queueing_delay_ms",
        "loss",
        "retransmissions",
        "cpu_seconds",
    ] {
        assert!(!runs[0][key].is_null(), "{key} in {results}");
    }
    assert!(
        fs::read_to_string(&page)
            .unwrap()
            .contains("constant:cwnd=20")
    );
}

#[test]
fn ctrl_c_ends_it_with_nothing_left() {
    if !privileged() {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairwater"));
    command
        .args(["try", "constant", "--link", LINK, "--for", "60s"])
        .current_dir(&directory);
    let mut process = Running(
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut said = BufReader::new(process.0.stderr.take().unwrap());
    let mut text = String::new();
    while !text.contains("run 1 of 1, 5 of 60 s") {
        assert!(said.read_line(&mut text).unwrap() > 0, "{text}");
    }
    process.signal(Signal::INT);
    assert_eq!(process.0.wait().unwrap().code(), Some(130), "{text}");
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    let available =
        fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap();
    assert!(!available.contains("fw_constant"), "{available}");
}

#[test]
fn two_can_try_the_same_algorithm_at_once() {
    if !privileged() {
        return;
    }
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let start = |page: &str| {
        Command::new(env!("CARGO_BIN_EXE_fairwater"))
            .args([
                "try",
                "constant:cwnd=8",
                "--link",
                LINK,
                "--for",
                "2s",
                "--tries",
                "1",
            ])
            .args(["--quiet", "--bulk", "--report"])
            .arg(directory.path().join(page))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let both = [start("first.html"), start("second.html")];
    for process in both {
        let output = process.wait_with_output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{said}");
    }
}
