//! `fairwater check -`: sources that come through a pipe.

use std::io::Write;
use std::process::{Command, Output, Stdio};

fn check(source: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_fairwater"))
        .args(["check", "-"])
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
