//! `fairwater run`, as a user meets it: the examples run, and the same seed gives the same files.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use etherparse::{NetSlice, SlicedPacket, TcpOptionElement, TransportSlice};

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

fn run(dir: &Path, scenario: &str, arguments: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_fairwater"))
        .arg("run")
        .arg(scenarios().join(scenario))
        .args(arguments)
        .arg("--quiet")
        .current_dir(dir)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{scenario}: {errors}");
    output
}

/// All results but the report, by name.
fn results(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|e| e == "jsonl" || e == "parquet")
        })
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, fs::read(&path).unwrap())
        })
        .collect();
    files.sort();
    files
}

#[test]
fn each_example_runs() {
    let dir = tempfile::tempdir().unwrap();
    let short: [(&str, &[&str]); 9] = [
        ("aggregate.toml", &["--set", "duration=12s"]),
        ("dumbbell.toml", &["--set", "duration=1s"]),
        ("drop.toml", &["--set", "duration=1s", "--set", "seeds=1"]),
        (
            "incast.toml",
            &[
                "--set",
                "seeds=1",
                "--set",
                "duration=20ms",
                "--set",
                "size=10pkt",
            ],
        ),
        (
            "aqm.toml",
            &["--set", "duration=1s", "--set", "measure.from=0s"],
        ),
        (
            "parking-lot.toml",
            &["--set", "duration=1s", "--set", "measure.from=0s"],
        ),
        (
            "requests.toml",
            &["--set", "duration=1s", "--set", "measure.from=0s"],
        ),
        (
            "fidelity.toml",
            &["--set", "duration=1s", "--set", "rate=12mbit"],
        ),
        (
            "mystique.toml",
            &[
                "--set",
                "duration=1s",
                "--set",
                "seeds=1",
                "--set",
                "loss=1%",
            ],
        ),
    ];
    let found = fs::read_dir(scenarios()).unwrap().count();
    assert_eq!(found, short.len(), "each example is in this test");
    for (scenario, settings) in short {
        let output = run(dir.path(), scenario, settings);
        let table = String::from_utf8(output.stdout).unwrap();
        assert!(table.lines().count() > 2, "{scenario}: {table}");
        let folder = dir.path().join(scenario.replace(".toml", ".results"));
        assert!(folder.join("report.html").exists());
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_whatever_the_jobs() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [
        "--set",
        "duration=2s",
        "--set",
        "measure.from=0s",
        "--set",
        "measure.interval=100ms",
    ];
    for (out, jobs) in [("one", "1"), ("two", "2"), ("again", "2")] {
        let arguments = [&settings[..], &["--jobs", jobs, "--out", out]].concat();
        run(dir.path(), "requests.toml", &arguments);
    }
    let one = results(&dir.path().join("one"));
    assert_eq!(one.len(), 7);
    assert!(one == results(&dir.path().join("two")));
    assert!(one == results(&dir.path().join("again")));
}

#[test]
fn a_grid_goes_on_with_what_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = [
        "--set",
        "duration=1s",
        "--set",
        "measure.from=0s",
        "--out",
        "grid",
    ];
    run(dir.path(), "parking-lot.toml", &arguments);
    let folder = dir.path().join("grid");
    let before = results(&folder);
    let points = folder.join("points");
    fs::remove_file(points.join("0000002-1.json")).unwrap();
    fs::write(points.join("0000001-1.json"), "{\"point\":1").unwrap();
    let kept = fs::metadata(points.join("0000003-1.json"))
        .unwrap()
        .modified()
        .unwrap();
    run(dir.path(), "parking-lot.toml", &arguments);
    assert!(before == results(&folder));
    let after = fs::metadata(points.join("0000003-1.json"))
        .unwrap()
        .modified()
        .unwrap();
    assert_eq!(kept, after);

    let changed = [
        "--set",
        "duration=2s",
        "--set",
        "measure.from=0s",
        "--out",
        "grid",
    ];
    let refused = Command::new(env!("CARGO_BIN_EXE_fairwater"))
        .arg("run")
        .arg(scenarios().join("parking-lot.toml"))
        .args(changed)
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let errors = String::from_utf8(refused.stderr).unwrap();
    assert!(errors.contains("differs from line 3"), "{errors}");
    assert!(before == results(&folder));
}

#[test]
fn a_bad_scenario_is_refused_at_its_lines() {
    let dir = tempfile::tempdir().unwrap();
    let refused = Command::new(env!("CARGO_BIN_EXE_fairwater"))
        .arg("run")
        .arg(scenarios().join("dumbbell.toml"))
        .args([
            "--set",
            "duration=5",
            "--set",
            "dumbbell.rtt=ten",
            "--set",
            "flow.0.algorithm=cubik",
        ])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(2));
    let errors = String::from_utf8(refused.stderr).unwrap();
    for said in ["has no unit", "`rtt`", "did you mean `cubic`?"] {
        assert!(errors.contains(said), "{said}: {errors}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_capture_has_every_packet_with_right_checksums() {
    let dir = tempfile::tempdir().unwrap();
    run(
        dir.path(),
        "dumbbell.toml",
        &[
            "--set",
            "duration=1s",
            "--set",
            "tcp.ecn=classic",
            "--pcap",
            "sender=sender.pcap",
        ],
    );
    let bytes = fs::read(dir.path().join("sender.pcap")).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    // Nanoseconds, raw IP.
    assert_eq!((word(0), word(20)), (0xa1b2_3c4d, 101));
    let (mut at, mut before, mut data, mut acks, mut syns) = (24, (0, 0), 0, 0, 0);
    while at < bytes.len() {
        let when = (word(at), word(at + 4));
        assert!(when >= before && when.1 < 1_000_000_000);
        before = when;
        let kept = word(at + 8) as usize;
        let packet = &bytes[at + 16..at + 16 + kept];
        at += 16 + kept;
        let sliced = SlicedPacket::from_ip(packet).unwrap();
        let (Some(NetSlice::Ipv4(ip)), Some(TransportSlice::Tcp(tcp))) =
            (&sliced.net, &sliced.transport)
        else {
            panic!("no TCP over IPv4");
        };
        let header = ip.header().to_header();
        assert_eq!(header.header_checksum, header.calc_header_checksum());
        let sum = tcp.to_header().calc_checksum_ipv4(&header, tcp.payload());
        assert_eq!(sum.unwrap(), tcp.checksum());
        if tcp.syn() {
            let options: Vec<_> = tcp.options_iterator().map(Result::unwrap).collect();
            // Timestamps take 12 of the 1460 bytes from each segment; 16.8 MB are 65535 times 2⁹.
            for said in [
                TcpOptionElement::MaximumSegmentSize(1460),
                TcpOptionElement::WindowScale(9),
                TcpOptionElement::SelectiveAcknowledgementPermitted,
            ] {
                assert!(options.contains(&said), "{said:?}: {options:?}");
            }
            assert_eq!((tcp.ece(), tcp.cwr()), (true, !tcp.ack()));
            syns += 1;
        }
        if tcp.payload().is_empty() {
            acks += 1;
        } else {
            data += 1;
        }
    }
    assert_eq!(syns, 4);
    assert!(
        data > 1000 && acks > 500,
        "{data} packets, {acks} acknowledgements"
    );
}

#[test]
fn a_report_that_cannot_be_written_costs_no_results() {
    let dir = tempfile::tempdir().unwrap();
    let short = ["--set", "duration=1s", "--out", "new"];
    let with = |more: &[&'static str]| [&short[..], more].concat();
    // The folder of the results is made first, and the report may be in it.
    run(
        dir.path(),
        "dumbbell.toml",
        &with(&["--report", "new/x.html"]),
    );
    assert!(dir.path().join("new/x.html").exists());
    let before = results(&dir.path().join("new"));
    assert!(!before.is_empty());
    let output = Command::new(env!("CARGO_BIN_EXE_fairwater"))
        .arg("run")
        .arg(scenarios().join("dumbbell.toml"))
        .args(with(&["--fresh", "--report", "nowhere/x.html"]))
        .current_dir(dir.path())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.contains("nowhere/x.html"), "{errors}");
    assert_eq!(results(&dir.path().join("new")), before);
}
