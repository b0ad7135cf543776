//! `fairwater record` and `fairwater replay`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use fairwater_algorithms::Choice;
use fairwater_datapath::InvocationObserver;
use fairwater_experiment::Backend;
use fairwater_hosting::plane_of;
use fairwater_plane::{Algorithm, Control, Flow, FlowInfo, Report};
use fairwater_recording::{
    Direction, Head, RecordedAlgorithm, RecordedProgram, Recorder, Recording, Stepper, Target,
    Writer,
};
use fairwater_scenario::{Resolver, Scenario};
use fairwater_sim::Observer;

use crate::support::{Running, fairwater};

const SCENARIO: &str = "duration = \"4s\"

[dumbbell]
rate = \"24mbit\"
rtt = \"40ms\"
buffer = \"1bdp\"
loss = \"1%\"

[[flow]]
algorithm = \"copa\"

[[flow]]
algorithm = \"cubic\"
";

/// A folder with the scenario in it.
fn folder(scenario: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("s.toml"), scenario).unwrap();
    folder
}

fn record(folder: &Path, more: &[&str]) -> Output {
    let (out, scenario) = (folder.join("r"), folder.join("s.toml"));
    let mut args = vec![
        "record",
        out.to_str().unwrap(),
        "--run",
        scenario.to_str().unwrap(),
    ];
    args.extend(more);
    fairwater(&args)
}

fn replay(recording: &Path, more: &[&str]) -> Output {
    let mut args = vec!["replay", recording.to_str().unwrap()];
    args.extend(more);
    fairwater(&args)
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The files of a recording with entries, in order.
fn tables(recording: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(recording).unwrap();
    let files = files.map(|file| file.unwrap().path());
    let mut tables: Vec<_> = files
        .filter(|file| file.extension().is_some_and(|e| e == "parquet"))
        .collect();
    tables.sort();
    tables
}

#[test]
fn a_replay_finds_no_difference_and_the_same_run_is_recorded_in_the_same_bytes() {
    let (first, second) = (folder(SCENARIO), folder(SCENARIO));
    for folder in [&first, &second] {
        let output = record(folder.path(), &[]);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        assert!(said(&output).contains("of 2 flows"), "{}", said(&output));
    }
    let (a, b) = (first.path().join("r"), second.path().join("r"));
    let tables = tables(&a);
    assert!(tables.len() > 3, "{tables:?}");
    for table in &tables {
        // The name has a hash of the bytes.
        assert!(b.join(table.file_name().unwrap()).exists(), "{table:?}");
    }
    let output = replay(&a, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", out(&output));
    let text = out(&output);
    for by in ["interpreter", "machine code", "algorithm"] {
        let line = text.lines().find(|line| line.starts_with(by)).unwrap();
        assert!(line.ends_with("no difference"), "{text}");
    }
    let in_kernel = text.lines().find(|line| line.starts_with("eBPF"));
    assert!(
        in_kernel.is_none_or(|line| line.ends_with("no difference")),
        "{text}"
    );
    let again = record(first.path(), &[]);
    assert_eq!(again.status.code(), Some(2), "{}", said(&again));
    let one = record(
        folder(SCENARIO).path(),
        &["--flow", "algorithm=cubic", "--set", "duration=1s"],
    );
    assert!(said(&one).contains("of 1 flow "), "{}", said(&one));
}

#[test]
fn what_is_damaged_is_named_and_the_rest_is_replayed() {
    let folder = folder(SCENARIO);
    record(folder.path(), &[]);
    let recording = folder.path().join("r");
    let tables = tables(&recording);
    let bytes = fs::read(&tables[1]).unwrap();
    fs::write(&tables[1], &bytes[..bytes.len() / 2]).unwrap();
    fs::remove_file(&tables[2]).unwrap();
    let output = replay(&recording, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let name = tables[1].file_name().unwrap().to_str().unwrap();
    assert!(said(&output).contains(&format!("{name} is cut or changed")));
    assert!(said(&output).contains("file 000003 is missing"));
    assert!(
        out(&output).contains("behind the first gap"),
        "{}",
        out(&output)
    );
    let head = recording.join("recording.json");
    let text = fs::read_to_string(&head).unwrap();
    fs::write(&head, text.replace("\"version\": 1", "\"version\": 9")).unwrap();
    let output = replay(&recording, &[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said(&output).contains("is of version 9"),
        "{}",
        said(&output)
    );
}

#[test]
fn a_killed_recorder_leaves_what_it_wrote() {
    let folder = folder(&SCENARIO.replace("4s", "3000s"));
    let (recording, scenario) = (folder.path().join("r"), folder.path().join("s.toml"));
    let recorder = Command::new(env!("CARGO_BIN_EXE_fairwater"))
        .arg("record")
        .arg(&recording)
        .arg("--run")
        .arg(&scenario)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let recorder = Running(recorder);
    let began = Instant::now();
    while !recording.is_dir() || tables(&recording).len() < 3 {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "nothing is recorded"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    recorder.signal(rustix::process::Signal::KILL);
    drop(recorder);
    let output = replay(&recording, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    assert!(
        said(&output).contains("the recorder did not end"),
        "{}",
        said(&output)
    );
    assert!(!said(&output).contains("missing\n") || said(&output).contains("last second"));
}

#[test]
fn a_step_tells_what_the_program_did() {
    let folder = folder(SCENARIO);
    record(folder.path(), &["--flow", "algorithm=copa"]);
    let recording = folder.path().join("r");
    let output = replay(&recording, &["--step", "--at", "100", "--json"]);
    let step: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(step["invocation"], 100);
    assert_eq!(step["program"], "copa");
    assert_eq!(step["difference"], serde_json::Value::Null);
    assert!(
        step["clauses"]
            .as_array()
            .unwrap()
            .iter()
            .any(|c| c["held"] == true)
    );
    let output = replay(
        &recording,
        &["--step", "--until", "Report.lost > 0", "--json"],
    );
    let step: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let variables = step["variables"].as_array().unwrap();
    let lost = variables
        .iter()
        .find(|v| v["name"] == "Report.lost")
        .unwrap();
    assert!(lost["value"].as_u64() > Some(0), "{lost}");
    let output = replay(&recording, &["--step", "--until", "Report.losd > 0"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("losd"), "{}", said(&output));
    let output = replay(&recording, &["--step", "--at", "0"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn something_else_runs_open_loop_and_every_line_says_so() {
    let folder = folder(SCENARIO);
    record(folder.path(), &["--set", "duration=2s"]);
    let recording = folder.path().join("r");
    let program = folder.path().join("p.ccp");
    fs::write(
        &program,
        "(def (Report (volatile acked 0)))
         (when true
           (:= Report.acked (+ Report.acked Ack.bytes_acked))
           (when (> Micros 100000) (report) (reset)))",
    )
    .unwrap();
    for more in [
        ["--algorithm", "reno"],
        ["--program", program.to_str().unwrap()],
    ] {
        let output = replay(&recording, &more);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let text = out(&output);
        assert!(text.lines().count() > 5, "{text}");
        assert!(
            text.lines().all(|line| line.starts_with("open loop: ")),
            "{text}"
        );
    }
}

#[test]
fn what_why_wrote_is_given_to_the_algorithm_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("incident.json");
    let report = |time_us: u64, acked: u64, congested: u64| {
        serde_json::json!({
            "time_us": time_us, "algorithm": "cubic", "program": "cubic", "cwnd_bytes": 28960,
            "rate_bytes_per_s": 0, "fields": {
                "acked": acked, "congested": congested, "timeout": 0, "undone": 0, "mode": 0,
                "before": 28960, "ssthresh": u64::MAX, "rtt_us": 40000, "min_rtt_us": 40000,
            },
        })
    };
    let incident = |reports: Vec<serde_json::Value>| {
        serde_json::json!([{
            "id": 3, "unix_us": 1, "cause": "it was withdrawn", "number": 17, "generation": 1,
            "flow": null, "version": "0.1.0", "reports": reports,
        }])
    };
    let reports = vec![report(1_000, 1448, 0), report(41_000, 14_480, 0)];
    fs::write(&file, incident(reports).to_string()).unwrap();
    let output = replay(&file, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let text = out(&output);
    assert!(
        text.contains("2 reports through a new flow of cubic"),
        "{text}"
    );
    assert!(text.contains("41000 µs"), "{text}");
    let stepped = replay(&file, &["--step"]);
    assert_eq!(stepped.status.code(), Some(2), "{}", said(&stepped));
    // Another algorithm has not these fields.
    let other = replay(&file, &["--algorithm", "copa"]);
    assert_eq!(other.status.code(), Some(2), "{}", said(&other));
    fs::write(&file, "{").unwrap();
    assert_eq!(replay(&file, &[]).status.code(), Some(2));
}

/// Any algorithm, and no files.
struct Anything;

impl Resolver for Anything {
    fn read(&self, name: &str) -> Result<String, String> {
        Err(format!("no file {name}"))
    }

    fn check_algorithm(&self, _: &str) -> Result<(), Vec<String>> {
        Ok(())
    }
}

/// An algorithm whose program does everything.
struct ProgramOnly(String);

impl Algorithm for ProgramOnly {
    fn name(&self) -> &str {
        &self.0
    }

    fn new_flow(&self, _: &FlowInfo, _: &mut Control<'_>) -> Box<dyn Flow> {
        Box::new(Nothing)
    }
}

struct Nothing;

impl Flow for Nothing {
    fn on_report(&mut self, _: &Report<'_>, _: &mut Control<'_>) {}
}

struct Datapaths(Recorder);

impl Observer for Datapaths {
    fn invocations(&mut self, datapath: &str) -> Option<Box<dyn InvocationObserver>> {
        Some(self.0.of_datapath(datapath))
    }
}

/// docs/replay.md finds the fault of `examples/python/stuck.py` so; here without Python.
#[test]
fn the_fault_of_the_guide_is_where_the_guide_finds_it() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/python");
    let python = fs::read_to_string(examples.join("stuck.py")).unwrap();
    let program = python.split("programs = \"\"\"").nth(1).unwrap();
    let program = program.split("\"\"\"").next().unwrap().to_owned();
    let scenario = fs::read_to_string(examples.join("stuck.toml")).unwrap();
    let scenario = Scenario::parse("stuck.toml", &scenario, Backend::Sim, &Anything).unwrap();
    let name = scenario.algorithms()[0].clone();
    let choice = Choice::new(&name, move |programs| {
        programs.add("Stuck", &program)?;
        Ok(Box::new(ProgramOnly("stuck".to_owned())))
    });
    let mut plane = plane_of([(name.as_str(), &choice)]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let programs = RecordedProgram::of_algorithms(plane.algorithms());
    let recorded = RecordedAlgorithm {
        name: name.clone(),
        spec: name.clone(),
    };
    let head = Head::new("stuck.toml".to_owned(), String::new(), vec![recorded]);
    let writer = Writer::create(folder.path(), &head, &programs).unwrap();
    let recorder = Recorder::new(writer, programs, Box::new(|_| true));
    plane.set_observer(Some(recorder.of_plane()));
    let experiment = scenario.point(0).experiment;
    let observed = fairwater_sim::run(&experiment, plane, &mut Datapaths(recorder.clone()));
    recorder.finish().unwrap();
    let alone = plane_of([(name.as_str(), &choice)]).unwrap();
    let unobserved = fairwater_sim::run(&experiment, alone, &mut ());
    assert_eq!(
        observed.unwrap(),
        unobserved.unwrap(),
        "recording changes nothing"
    );

    let recording = Recording::open(folder.path()).unwrap();
    let stepper = Stepper::new(&recording).unwrap();
    let first = stepper.first(0).unwrap();
    let timeout = Target::Condition("Flow.was_timeout".to_owned());
    let at = stepper
        .find(first, Direction::Forward, &timeout)
        .unwrap()
        .unwrap();
    let value = |at: u64, name: &str| {
        let step = stepper.step(at).unwrap();
        let found = step
            .variables
            .iter()
            .chain(&step.signals)
            .find(|v| v.name == name);
        found.unwrap().value
    };
    assert_eq!(value(at, "resting"), 1);
    assert_eq!(value(at, "Cwnd"), 2 * 1448);
    // Nothing grows any more.
    let grown = Target::Condition("Cwnd > 2896".to_owned());
    assert_eq!(stepper.find(at, Direction::Forward, &grown).unwrap(), None);
    // The report resets the timer before the clause that ends the rest is reached.
    let report = stepper.find(at, Direction::Forward, &Target::Report);
    let step = stepper.step(report.unwrap().unwrap()).unwrap();
    let held: Vec<_> = step.clauses.iter().map(|clause| clause.held).collect();
    assert_eq!(held[4..], [true, false], "{:?}", step.clauses);
    assert_eq!(value(step.invocation, "resting"), 1);
}
