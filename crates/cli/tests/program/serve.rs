//! `fairwater serve` with a datapath of the library at the other end.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fairwater_datapath::{Config, Connection};
use fairwater_lang::{Signal as Measured, Signals};
use fairwater_proto::FlowInfo;
use rustix::process::Signal;

use crate::support::{Running, fairwater};

fn serve(directory: &Path, args: &[&str]) -> (Running, BufReader<std::process::ChildStderr>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairwater"));
    command
        .arg("serve")
        .args(args)
        .arg("--listen")
        .arg(directory.join("plane"))
        .arg("--ccp")
        .arg(directory.join("ccp"))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut process = Running(command.spawn().unwrap());
    let said = BufReader::new(process.0.stderr.take().unwrap());
    (process, said)
}

#[test]
fn a_datapath_is_controlled_and_ctrl_c_removes_the_sockets() {
    let directory = tempfile::tempdir().unwrap();
    let (mut process, mut said) = serve(directory.path(), &["constant:cwnd=20", "--json"]);
    let mut text = String::new();
    while !text.contains("Ctrl-C stops") {
        assert!(said.read_line(&mut text).unwrap() > 0, "{text}");
    }

    let start = Instant::now();
    let mut connection = Connection::seqpacket(
        Config {
            name: "toy".to_owned(),
            ..Config::default()
        },
        directory.path().join("plane"),
        0,
    );
    let info = FlowInfo {
        local: "192.0.2.1:5000".parse().unwrap(),
        remote: "192.0.2.2:80".parse().unwrap(),
        mss: 1000,
        cwnd: 10_000,
        srtt_us: 0,
        now_us: 0,
        tag: 0,
        ..FlowInfo::default()
    };
    let flow = connection.start("constant", &info).unwrap();
    let mut cwnd = 0;
    while cwnd != 20_000 {
        assert!(start.elapsed() < Duration::from_secs(30), "cwnd is {cwnd}");
        let now_us = u64::try_from(start.elapsed().as_micros()).unwrap();
        let mut signals = Signals::default();
        signals[Measured::Now] = now_us;
        connection.service(now_us);
        if let Some(controls) = connection.invoke(flow, &signals).unwrap() {
            cwnd = controls.cwnd;
        }
        std::thread::sleep(Duration::from_millis(1));
    }

    process.signal(Signal::INT);
    let status = process.0.wait().unwrap();
    text += &std::io::read_to_string(said).unwrap();
    assert_eq!(status.code(), Some(130), "{text}");
    assert!(text.contains("datapath toy connected"), "{text}");
    for socket in ["plane", "plane.ring", "ccp"] {
        assert!(!directory.path().join(socket).exists(), "{socket} is left");
    }
    let counts: serde_json::Value =
        serde_json::from_reader(process.0.stdout.take().unwrap()).unwrap();
    assert_eq!(counts["algorithms"][0]["name"], "constant");
    assert_eq!(counts["flows"], 1, "{counts}");
    assert_eq!(counts["refused"], serde_json::json!({}), "{counts}");
}

#[test]
fn it_ends_by_itself_after_the_time_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let (mut process, _said) = serve(directory.path(), &["reno", "cubic", "--for", "50ms"]);
    assert_eq!(process.0.wait().unwrap().code(), Some(0));
    assert!(!directory.path().join("plane").exists());
}

#[test]
fn a_path_that_is_something_else_is_left_alone_and_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("precious");
    std::fs::write(&file, "kept").unwrap();
    let output = fairwater(&[
        "serve",
        "reno",
        "--listen",
        file.to_str().unwrap(),
        "--ccp",
        directory.path().join("ccp").to_str().unwrap(),
    ]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(file.to_str().unwrap()), "{said}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
}
