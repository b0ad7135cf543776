//! `fairwater check -`: sources that come through a pipe.

use std::io::Write;
use std::process::{Command, Output, Stdio};

fn check(source: &[u8]) -> Output {
    check_with(&[], source)
}

fn check_with(options: &[&str], source: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_fairwater"))
        .args(["check", "-"])
        .args(options)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // It may end before it has read all.
        scope.spawn(move || input.write_all(source));
        child.wait_with_output().unwrap()
    })
}

#[test]
fn a_sound_program_goes_to_standard_output_alone() {
    let output = check(b"(def (Report (acked 0))) (when (> Micros 1000) (report) (reset))");
    assert_eq!(output.status.code(), Some(0));
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(
        shown.contains("Report.acked") && shown.contains("ebpf\n"),
        "{shown}"
    );
}

#[test]
fn errors_go_to_standard_error_alone() {
    let output = check(b"(def) (when true (:= Cwn 1))");
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(output.stdout, b"");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("`Cwnd`"), "{said}");
}

#[test]
fn garbage_is_refused_whatever_its_size() {
    for source in [&b"\xff\xfe"[..], &[0; 100], &b"(".repeat(10_000_000)] {
        let output = check(source);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(output.stdout, b"");
    }
}

#[test]
fn a_program_above_the_budget_is_refused_at_its_costliest_clause() {
    let source = b"(when (> Cwnd 5) (fallthrough))\n(when true (:= Cwnd (/ Rate (+ 1 Cwnd))))";
    let output = check_with(&["--max-instructions", "20", "--json"], source);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(
        said.contains("error[over-budget]") && said.contains("--> -:2:1"),
        "{said}"
    );
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("\"over-budget\""), "{shown}");
    let output = check_with(&["--json"], source);
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("\"machine_code\": "), "{shown}");
}
