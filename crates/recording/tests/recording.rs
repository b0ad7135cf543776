//! Recordings are read as they were written, whatever became of their files in between; and a replay
//! names the first value that is another.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};

use fairwater_exec::interp::{Input, Machine};
use fairwater_lang::{Program, Signal, Signals, compile};
use fairwater_recording::replay::{self, Interpreter, MachineCode};
use fairwater_recording::{
    Began, Controls, Damage, Direction, FlowCommand, Head, Info, Invoked, PlaneEvent, ReadError,
    Record, RecordedAlgorithm, RecordedProgram, Recording, Report, Stage, State, Stepper, Target,
    What, Writer,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

const SOURCE: &str = "(def (Report (volatile acked 0) (lost 0)) (grow 1))
(when true
  (:= Report.acked (+ Report.acked Ack.bytes_acked))
  (:= Report.lost (+ Report.lost Ack.lost_pkts_sample))
  (:= Cwnd (+ Cwnd (* grow Ack.bytes_acked)))
  (fallthrough))
(when (> Micros 10000)
  (report)
  (reset))";

fn program() -> Program {
    compile("grow.ccp", SOURCE).unwrap().program
}

fn recorded() -> Vec<RecordedProgram> {
    let mut recorded = RecordedProgram::of_program("grow", &program());
    recorded.source = Some(SOURCE.to_owned());
    vec![recorded]
}

fn head() -> Head {
    let algorithm = RecordedAlgorithm {
        name: "reno".to_owned(),
        spec: "reno".to_owned(),
    };
    Head::new("a test".to_owned(), String::new(), vec![algorithm])
}

fn write(path: &Path, files: &[Vec<Record>]) {
    let mut writer = Writer::create(path, &head(), &recorded()).unwrap();
    for records in files {
        writer.records(records).unwrap();
    }
    writer.finish(1, 0, 0).unwrap();
}

/// A flow of so many ACKs under the program, in files of 50 records.
fn flow(acks: u64) -> Vec<Vec<Record>> {
    let program = program();
    let mut machine = Machine::new(&program, 0);
    let mut cwnd = 14_480;
    let mut files = Vec::new();
    let mut records = Vec::new();
    for ack in 0..acks {
        let mut signals = Signals::default();
        signals[Signal::Now] = 1_000 + 700 * ack;
        signals[Signal::BytesAcked] = 1448 * (1 + ack % 3);
        signals[Signal::LostPkts] = u64::from(ack % 40 == 39);
        if ack % 50 == 0 {
            records.push(Record {
                flow: 0,
                time_us: signals[Signal::Now],
                what: What::State(State {
                    program: Some(0),
                    controls: Controls { cwnd, rate: 0 },
                    timer_zero_us: machine.timer_zero(),
                    variables: machine.variables().to_vec(),
                }),
            });
        }
        let outcome = machine.invoke(&Input {
            signals,
            cwnd,
            rate: 0,
            stage: None,
        });
        records.push(Record {
            flow: 0,
            time_us: signals[Signal::Now],
            what: What::Invoked(Box::new(Invoked {
                program: Some(0),
                signals,
                before: Controls { cwnd, rate: 0 },
                after: Controls {
                    cwnd: outcome.cwnd,
                    rate: 0,
                },
                report: outcome.report,
                ..Invoked::default()
            })),
        });
        cwnd = outcome.cwnd;
        if ack % 50 == 49 {
            files.push(std::mem::take(&mut records));
        }
    }
    files.push(records);
    files
}

/// The files of a folder, by name.
fn files(path: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> = fs::read_dir(path)
        .unwrap()
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    files
}

fn no_difference(recording: &Recording) {
    let interpreted = replay::programs(recording, &mut Interpreter).unwrap();
    assert_eq!(interpreted.difference, None);
    let programs: Vec<_> = recording.programs.iter().map(|(_, p)| p).collect();
    let mut code = MachineCode::compile(&programs).unwrap();
    let compiled = replay::programs(recording, &mut code).unwrap();
    assert_eq!(compiled.difference, None);
    assert_eq!(interpreted.invocations, compiled.invocations);
}

#[test]
fn of_writers_that_begin_at_once_one_goes_on() {
    for _ in 0..50 {
        let folder = tempfile::tempdir().unwrap();
        let create = || Writer::create(folder.path(), &head(), &recorded()).is_ok();
        let begun = std::thread::scope(|scope| {
            let both = [scope.spawn(create), scope.spawn(create)];
            both.map(|one| usize::from(one.join().unwrap()))
        });
        assert_eq!(begun[0] + begun[1], 1);
    }
}

#[test]
fn a_replay_does_again_what_was_recorded() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &flow(230));
    let recording = Recording::open(folder.path()).unwrap();
    assert_eq!(recording.damage, []);
    assert_eq!(recording.invocations().count(), 230);
    no_difference(&recording);
    let again = Writer::create(folder.path(), &head(), &recorded());
    assert!(again.is_err(), "a recording is not written over");
}

#[test]
fn without_a_file_a_replay_goes_on_behind_it_and_the_gap_is_named() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &flow(230));
    let gone = &files(folder.path())[1];
    fs::remove_file(gone).unwrap();
    let recording = Recording::open(folder.path()).unwrap();
    assert_eq!(recording.damage, [Damage::Missing(2)]);
    assert_eq!(recording.invocations().count(), 180);
    no_difference(&recording);
    fs::remove_file(
        files(folder.path())
            .iter()
            .rfind(|f| f.extension().unwrap() == "parquet")
            .unwrap(),
    )
    .unwrap();
    let recording = Recording::open(folder.path()).unwrap();
    assert_eq!(recording.damage, [Damage::Missing(2), Damage::Missing(5)]);
}

#[test]
fn what_is_no_recording_of_this_version_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let refused = Recording::open(folder.path());
    assert!(matches!(refused, Err(ReadError::NoRecording(_))));
    write(folder.path(), &flow(10));
    let path = folder.path().join("recording.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("\"version\": 1", "\"version\": 2")).unwrap();
    let refused = Recording::open(folder.path());
    assert!(matches!(refused, Err(ReadError::Version { found: 2, .. })));
    fs::write(&path, text).unwrap();
    let path = folder.path().join("programs.json");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replacen("\"code\": \"0", "\"code\": \"1", 1)).unwrap();
    let refused = Recording::open(folder.path());
    assert!(
        matches!(refused, Err(ReadError::Damaged { .. })),
        "{refused:?}"
    );
    fs::remove_file(path).unwrap();
    assert!(matches!(
        Recording::open(folder.path()),
        Err(ReadError::Io { .. })
    ));
}

#[test]
fn steps_show_the_clauses_that_fired_and_stop_where_a_condition_holds() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &flow(230));
    let recording = Recording::open(folder.path()).unwrap();
    let stepper = Stepper::new(&recording).unwrap();
    assert_eq!(stepper.last(), 230);
    let loss = stepper.find(1, Direction::Forward, &Target::Loss).unwrap();
    assert_eq!(loss, Some(40));
    let condition = Target::Condition("Report.lost > 1".to_owned());
    let second = stepper.find(1, Direction::Forward, &condition).unwrap();
    assert_eq!(second, Some(80));
    let back = stepper.find(
        79,
        Direction::Back,
        &Target::Condition("Report.lost < 1".to_owned()),
    );
    assert_eq!(back, Ok(Some(39)));
    let report = stepper
        .find(1, Direction::Forward, &Target::Report)
        .unwrap();
    let step = stepper.step(report.unwrap()).unwrap();
    assert!(step.reported);
    assert_eq!(step.difference, None);
    let held: Vec<_> = step.clauses.iter().map(|c| (c.line, c.held)).collect();
    assert_eq!(held, [(Some(2), true), (Some(7), true)]);
    let acked = step
        .variables
        .iter()
        .find(|v| v.name == "Report.acked")
        .unwrap();
    assert_eq!(acked.value, step_acked(report.unwrap()));
    assert!(stepper.step(231).is_err());
    assert!(stepper.step(0).is_err());
    let wrong = Target::Condition("Report.losd > 0".to_owned());
    let error = stepper.find(1, Direction::Forward, &wrong).unwrap_err();
    assert!(error.to_string().contains("losd"), "{error}");
}

/// Bytes acknowledged by the first so many ACKs, none of which was reported before.
fn step_acked(acks: u64) -> u64 {
    (0..acks).map(|ack| 1448 * (1 + ack % 3)).sum()
}

fn controls() -> impl Strategy<Value = Controls> {
    (any::<u64>(), 0_u64..1 << 40).prop_map(|(cwnd, rate)| Controls { cwnd, rate })
}

fn info() -> impl Strategy<Value = Info> {
    (any::<u32>(), any::<u64>(), option::of(any::<u64>())).prop_map(|(mss, cwnd, ssthresh)| Info {
        local: "[2001:db8::1]:443".parse().unwrap(),
        remote: "192.0.2.1:5".parse().unwrap(),
        mss,
        cwnd,
        rate: 7,
        ssthresh,
        srtt_us: 3,
        now_us: 4,
        tag: 5,
    })
}

fn stage() -> impl Strategy<Value = Stage> {
    let value = || option::of(any::<u64>());
    let updates = vec((any::<u16>(), any::<u64>()), 0..3);
    (option::of(Just(0)), value(), value(), updates).prop_map(|(switch, cwnd, rate, updates)| {
        Stage {
            switch,
            cwnd,
            rate,
            updates,
        }
    })
}

fn invoked() -> impl Strategy<Value = What> {
    let signals = vec((0..Signal::COUNT, any::<u64>()), 0..5);
    let report = option::of(vec(any::<u64>(), 0..4));
    let program = option::of(Just(0));
    (
        program,
        signals,
        controls(),
        option::of(stage()),
        controls(),
        report,
        0_u32..8,
    )
        .prop_map(|(program, values, before, stage, after, report, fault)| {
            let mut signals = Signals::default();
            for (at, value) in values {
                signals[Signal::ALL[at]] = value;
            }
            What::Invoked(Box::new(Invoked {
                program,
                signals,
                before,
                stage,
                after,
                report,
                fault,
            }))
        })
}

fn what() -> impl Strategy<Value = What> {
    let event = |event: PlaneEvent| What::Event(event);
    let report = (controls(), vec(any::<u64>(), 0..4)).prop_map(|(controls, fields)| Report {
        program: 0,
        controls,
        fields,
    });
    let arrival = || info().prop_map(|info| fairwater_recording::Arrival { algorithm: 0, info });
    let command = (stage(), any::<bool>(), any::<bool>());
    prop_oneof![
        8 => invoked(),
        2 => report.prop_map(move |report| event(PlaneEvent::Reported(report))),
        1 => (controls(), any::<u64>()).prop_map(|(controls, timer_zero_us)| What::State(State {
            program: Some(0),
            controls,
            timer_zero_us,
            variables: vec![1, timer_zero_us, 3],
        })),
        1 => info().prop_map(|info| What::Began(Began {
            datapath: "d".to_owned(),
            algorithm: "a:b=\"ü\"".to_owned(),
            info,
        })),
        1 => arrival().prop_map(move |arrival| event(PlaneEvent::Created(arrival))),
        1 => arrival().prop_map(move |arrival| event(PlaneEvent::Resumed(arrival))),
        1 => command.prop_map(|(stage, withdraw, is_unexplained)| What::Command(FlowCommand {
            stage,
            withdraw,
            hand_over: withdraw.then_some(0),
            is_unexplained,
        })),
        1 => any::<u32>().prop_map(move |mss| event(PlaneEvent::MssChanged(mss))),
        1 => ".*".prop_map(move |why| event(PlaneEvent::Faulted(why))),
        1 => Just(event(PlaneEvent::Closed)),
        1 => Just(What::Ended),
    ]
}

fn record() -> impl Strategy<Value = Record> {
    (0_u32..3, 0_u64..50, what()).prop_map(|(flow, time_us, mut what)| {
        if let What::Invoked(invoked) = &mut what {
            invoked.signals[Signal::Now] = time_us;
        }
        Record {
            flow,
            time_us,
            what,
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever happened is read as it was written.
    #[test]
    fn what_was_written_is_read(files in vec(vec(record(), 1..60), 0..4)) {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &files);
        let recording = Recording::open(folder.path()).unwrap();
        prop_assert_eq!(&recording.damage, &[]);
        let records: Vec<_> = files.into_iter().flatten().collect();
        prop_assert_eq!(&recording.records, &records);
        // Whatever the records are, nothing that looks at them panics.
        let _ = replay::programs(&recording, &mut Interpreter);
        if let Ok(stepper) = Stepper::new(&recording) {
            for number in 1..=stepper.last() {
                stepper.step(number).unwrap();
            }
        }
    }

    /// A file that is cut or has a bit flipped is named; nothing panics, and the rest can be read.
    #[test]
    fn a_damaged_file_is_named(
        which: prop::sample::Index,
        place: prop::sample::Index,
        bit in option::of(0_u8..8),
    ) {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &flow(130));
        let files = files(folder.path());
        let file = which.get(&files);
        let mut bytes = fs::read(file).unwrap();
        let at = place.index(bytes.len());
        match bit {
            Some(bit) => bytes[at] ^= 1 << bit,
            None => bytes.truncate(at),
        }
        fs::write(file, &bytes).unwrap();
        let name = file.file_name().unwrap().to_str().unwrap();
        match Recording::open(folder.path()) {
            Ok(recording) if name.ends_with(".parquet") => {
                prop_assert_eq!(&recording.damage, &[Damage::Changed(name.to_owned())]);
                prop_assert!(recording.invocations().count() >= 80);
                no_difference(&recording);
            }
            // A number or a text of the head that is another one still makes sense.
            Ok(_) => {}
            Err(error) => {
                prop_assert!(!name.ends_with(".parquet"));
                let told = error.to_string();
                prop_assert!(told.contains(name) || told.contains("no recording"), "{}", told);
            }
        }
    }

    /// A bit of a recorded signal that is another is the first difference that a replay names.
    #[test]
    fn a_flipped_bit_of_a_signal_is_named(which in 0_usize..200, bit in 0_u32..30) {
        let folder = tempfile::tempdir().unwrap();
        let mut files = flow(200);
        let mut invocations = files.iter_mut().flatten().filter_map(|record| match &mut record.what {
            What::Invoked(invoked) => Some(invoked),
            _ => None,
        });
        let invoked = invocations.nth(which).unwrap();
        invoked.signals[Signal::BytesAcked] ^= 1 << bit;
        write(folder.path(), &files);
        let recording = Recording::open(folder.path()).unwrap();
        let replay = replay::programs(&recording, &mut Interpreter).unwrap();
        let difference = replay.difference.unwrap();
        prop_assert_eq!(difference.invocation, which as u64 + 1);
        prop_assert_eq!(difference.field, "Cwnd");
    }
}
