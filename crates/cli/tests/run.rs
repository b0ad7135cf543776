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
    assert_eq!(
        files(&scenarios()),
        short.len(),
        "each example is in this test"
    );
    for (scenario, settings) in short {
        runs(dir.path(), scenario, settings);
    }
}

/// Boxes at hosts' edges: the figures of vCC and Mystique.
#[test]
fn each_example_of_an_edge_runs() {
    let dir = tempfile::tempdir().unwrap();
    let short = [
        ("vcc-01.toml", "duration=1s"),
        ("vcc-04.toml", "duration=100ms"),
        ("vcc-07.toml", "duration=100ms"),
        ("vcc-10.toml", "duration=1s"),
        ("vcc-11.toml", "duration=300ms"),
        ("vcc-11-linux.toml", "duration=300ms"),
        ("vcc-12.toml", "duration=4100ms"),
        ("vcc-17.toml", "duration=1s"),
        ("mystique-03.toml", "duration=1s"),
    ];
    assert_eq!(
        files(&scenarios().join("edge")),
        short.len(),
        "each example is in this test"
    );
    for (scenario, duration) in short {
        let mut settings = vec!["--set", duration, "--set", "seeds=1"];
        if scenario.starts_with("vcc") {
            settings.extend(["--set", "measure.from=0s"]);
        }
        runs(dir.path(), &format!("edge/{scenario}"), &settings);
    }
}

/// The figures of CCP.
#[test]
fn each_example_of_ccp_runs() {
    let dir = tempfile::tempdir().unwrap();
    let short = [
        ("03.toml", "duration=2s"),
        ("05.toml", "duration=1s"),
        ("06.2.toml", "duration=5s"),
        ("07.toml", "duration=41s"),
        ("08.toml", "duration=2s"),
        ("10.toml", "duration=2s"),
        ("11.toml", "duration=1s"),
    ];
    assert_eq!(
        files(&scenarios().join("ccp")),
        short.len(),
        "each example is in this test"
    );
    for (scenario, duration) in short {
        let settings = ["--set", duration, "--set", "seeds=1"];
        runs(dir.path(), &format!("ccp/{scenario}"), &settings);
    }
}

/// Bundles of traffic between two sites: the figures of Bundler.
#[test]
fn each_example_of_a_bundle_runs() {
    let dir = tempfile::tempdir().unwrap();
    // The phases of figure 10 last a minute each.
    let phases = [
        "duration=3s",
        "flow.0.stop=1s",
        "flow.1.start=1s",
        "flow.1.stop=2s",
        "flow.2.start=2s",
        "flow.2.stop=3s",
        "flow.3.start=1s",
        "flow.3.stop=2s",
        "flow.4.start=2s",
        "flow.5.start=2s",
    ];
    let short: [(&str, &[&str]); 12] = [
        ("bundler-02.toml", &["duration=11s"]),
        ("bundler-07.toml", &["duration=300ms"]),
        ("bundler-09.toml", &["duration=1s"]),
        ("bundler-10.toml", &phases),
        ("bundler-11.toml", &["duration=1s"]),
        ("bundler-12.toml", &["duration=21s"]),
        ("bundler-13-backlogged.toml", &["duration=31s"]),
        ("bundler-13.toml", &["duration=6s"]),
        ("bundler-14.toml", &["duration=1s"]),
        ("bundler-15.toml", &["duration=1s"]),
        ("bundler-16.toml", &["duration=16s"]),
        ("bundler-schedulers.toml", &["duration=6s"]),
    ];
    assert_eq!(
        files(&scenarios().join("bundle")),
        short.len(),
        "each example is in this test"
    );
    for (scenario, changes) in short {
        let mut settings = vec!["--set", "seeds=1"];
        settings.extend(changes.iter().flat_map(|change| ["--set", change]));
        runs(dir.path(), &format!("bundle/{scenario}"), &settings);
    }
}

/// Scenarios in a folder.
fn files(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "toml")
        })
        .count()
}

fn runs(dir: &Path, scenario: &str, settings: &[&str]) {
    let output = run(dir, scenario, settings);
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.lines().count() > 2, "{scenario}: {table}");
    let name = Path::new(scenario).with_extension("results");
    let folder = dir.join(name.file_name().unwrap());
    assert!(folder.join("report.html").exists());
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
fn several_hosts_are_captured_at_once_as_each_alone() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("small.toml"), SMALL).unwrap();
    let capture = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fairwater"));
        let run = ["run", "small.toml", "--quiet"];
        let command = command.args(run).args(arguments).current_dir(dir.path());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    let both = ["--pcap", "sender=s.pcap", "--pcap", "receiver=r.pcap"];
    capture(&both);
    capture(&["--pcap", "sender=s1.pcap"]);
    capture(&["--pcap", "receiver=r1.pcap"]);
    let read = |name: &str| fs::read(dir.path().join(name)).unwrap();
    assert!(read("s.pcap") == read("s1.pcap") && read("r.pcap") == read("r1.pcap"));
    assert!(read("s.pcap") != read("r.pcap"));
    let twice = [
        "small.toml",
        "--pcap",
        "sender=s.pcap",
        "--pcap",
        "sender=t.pcap",
    ];
    assert!(refused(dir.path(), &twice).contains("given twice"));
}

#[test]
fn requests_are_kept_one_by_one_and_by_the_sizes_that_were_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let requests = "traffic = { requests = { cdf = [[\"1kB\", 0.5], [\"20kB\", 1]], load = 0.5 } }";
    let text = SMALL.replace("\"native:reno\"", &format!("\"native:reno\", {requests}"));
    let text = text.replace("100ms", "2s") + "[measure]\nsize_classes = [\"2kB\"]\n";
    fs::write(dir.path().join("small.toml"), text).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_fairwater"))
        .args(["run", "small.toml"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(
        table.contains("to 2kB") && table.contains("over 2kB"),
        "{table}"
    );
    let folder = dir.path().join("small.results");
    assert!(folder.join("completions.parquet").exists());
    let page = fs::read_to_string(folder.join("report.html")).unwrap();
    assert!(page.contains("over 2kB") && page.contains("completion time"));
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

/// What `fairwater run` says of a scenario that it refuses.
fn refused(dir: &Path, arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_fairwater"))
        .arg("run")
        .args(arguments)
        .current_dir(dir)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    errors
}

const SMALL: &str = r#"
    duration = "100ms"
    dumbbell = { rate = "8mbit", rtt = "10ms" }
    flow = [{ algorithm = "native:reno" }]
"#;

#[test]
fn endless_files_are_refused_and_no_line_of_a_file_is_quoted() {
    let dir = tempfile::tempdir().unwrap();
    let errors = refused(dir.path(), &["/dev/zero"]);
    assert!(errors.contains("not a regular file"), "{errors}");

    fs::write(dir.path().join("secret"), "root:hash:1\n2\n").unwrap();
    for trace in ["/dev/zero", "secret"] {
        let text = SMALL.replace("rate = \"8mbit\"", &format!("trace = \"{trace}\""));
        fs::write(dir.path().join("trace.toml"), text).unwrap();
        let errors = refused(dir.path(), &["trace.toml"]);
        assert!(!errors.contains("hash"), "{errors}");
        let said = if trace == "secret" {
            "line 1"
        } else {
            "not a regular file"
        };
        assert!(errors.contains(said), "{errors}");
    }
    let requests = "traffic = { requests = { cdf = \"secret\", load = 0.5 } }";
    let text = SMALL.replace("\"native:reno\"", &format!("\"native:reno\", {requests}"));
    fs::write(dir.path().join("cdf.toml"), text).unwrap();
    let errors = refused(dir.path(), &["cdf.toml"]);
    assert!(
        !errors.contains("hash") && errors.contains("line 1"),
        "{errors}"
    );
}

/// Files below a folder, with their lengths.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files_below(&path)),
            false => found.push(path),
        }
    }
    found
}

#[test]
fn a_full_disk_leaves_no_part_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("small.toml"), SMALL).unwrap();
    let run = [
        "run",
        "small.toml",
        "--pcap",
        "sender=sender.pcap",
        "--out",
        "out",
    ];
    // Files can have so many blocks of 512 bytes, as on a disk that is full then; none is left
    // that a run without a limit would have made longer.
    let mut whole = Vec::new();
    for blocks in ["unlimited", "2", "64", "200"] {
        let _ = fs::remove_dir_all(dir.path().join("out"));
        let _ = fs::remove_file(dir.path().join("sender.pcap"));
        let limited = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        let output = Command::new("sh")
            .args(["-c", &limited, env!("CARGO_BIN_EXE_fairwater")])
            .args(run)
            .current_dir(dir.path())
            .output()
            .unwrap();
        let lengths: Vec<_> = files_below(dir.path())
            .into_iter()
            .map(|path| (fs::metadata(&path).unwrap().len(), path))
            .collect();
        if blocks == "unlimited" {
            assert!(output.status.success(), "{output:?}");
            whole = lengths;
            continue;
        }
        assert_eq!(output.status.code(), Some(1), "{blocks}: {output:?}");
        for file in lengths {
            assert!(whole.contains(&file), "{blocks}: {file:?}");
        }
    }
}

#[test]
fn two_processes_do_not_write_into_one_folder() {
    let dir = tempfile::tempdir().unwrap();
    let long = SMALL.replace("100ms", "3000s");
    fs::write(dir.path().join("small.toml"), long).unwrap();
    let mut first = Command::new(env!("CARGO_BIN_EXE_fairwater"))
        .args(["run", "small.toml", "--quiet"])
        .current_dir(dir.path())
        .spawn()
        .unwrap();
    let lock = dir.path().join("small.results/.lock");
    let pid = first.id().to_string();
    while fs::read_to_string(&lock).ok().as_ref() != Some(&pid) {
        assert!(
            first.try_wait().unwrap().is_none(),
            "it ended before it locked"
        );
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let errors = refused(dir.path(), &["small.toml", "--fresh"]);
    first.kill().unwrap();
    first.wait().unwrap();
    assert!(errors.contains(&format!("process {pid}")), "{errors}");
    // The lock ended with its process.
    let errors = refused(
        dir.path(),
        &["small.toml", "--set", "flow.0.algorithm=nosuch"],
    );
    assert!(!errors.contains("process"), "{errors}");
}

#[test]
fn a_report_in_place_of_a_folder_is_refused_before_results_are_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("small.toml"), SMALL).unwrap();
    let first = [
        "run",
        "small.toml",
        "--out",
        "out",
        "--report",
        "page.html",
        "--quiet",
    ];
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairwater"));
    assert!(
        command
            .args(first)
            .current_dir(dir.path())
            .status()
            .unwrap()
            .success()
    );
    let before = results(&dir.path().join("out"));
    fs::create_dir(dir.path().join("out/report.html")).unwrap();
    for bad in [
        &["small.toml", "--fresh", "--out", "out"][..],
        &["small.toml", "--fresh", "--out", "out", "--report", "out"],
        &[
            "small.toml",
            "--fresh",
            "--out",
            "out",
            "--report",
            "/proc/page.html",
        ],
    ] {
        let errors = refused(dir.path(), bad);
        assert!(
            errors.contains("a report cannot be written there"),
            "{errors}"
        );
        assert!(!before.is_empty() && results(&dir.path().join("out")) == before);
    }
}

#[test]
fn seeds_without_effect_are_named() {
    let dir = tempfile::tempdir().unwrap();
    for (random, said) in [("", true), ("loss = \"1%\", ", false)] {
        let text = SMALL.replace("rate =", &format!("{random}rate ="));
        fs::write(dir.path().join("small.toml"), format!("seeds = 3{text}")).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_fairwater"))
            .args(["run", "small.toml", "--fresh"])
            .current_dir(dir.path())
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            errors.contains("all 3 seeds gave equal results"),
            said,
            "{errors}"
        );
    }
}
