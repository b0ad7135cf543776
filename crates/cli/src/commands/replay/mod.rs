//! `fairwater replay`.

mod incident;
mod open_loop;
mod screen;
mod step;

use std::path::PathBuf;

use fairwater_hosting::{NamedAlgorithm, resolve_argument};
use fairwater_lang::Program;
use fairwater_plane::Plane;
use fairwater_recording::replay::{
    self, AlgorithmReplay, Backend, BackendReplay, Difference, Interpreter, KernelCode, MachineCode,
};
use fairwater_recording::{ReadError, RecordedProgram, Recording, What};
use serde::Serialize;

use crate::failure::Failure;
use crate::hosting;
use crate::output;

const EXAMPLES: &str = "\
Examples:
  fairwater replay cubic.recording
  fairwater replay cubic.recording --algorithm copa | head
  fairwater replay cubic.recording --program mine.ccp
  fairwater replay --step cubic.recording
  fairwater replay --step cubic.recording --until 'Report.lost > 0' --json
  sudo fairwater why 17 --json > incident.json; fairwater replay incident.json

A replay gives the recorded signals to each back end, and the recorded reports to the algorithm, and
compares window, rate, report and command of each invocation with what was recorded. It names the
first difference. Another program or algorithm runs open loop: what it does changes no signal, and
its window is not the window that it would have had.

With --step the keys are: → ← forward and back, r R next and last report, x X next and last loss,
b a condition to stop at, c C go to where it holds next and held last, f next flow, q quit.

Exit codes: 1 if something differs.";

/// Replay a recording through every back end and the algorithm, or step through it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The folder of the recording, or the JSON of `fairwater why`
    recording: PathBuf,
    /// Run this program over the recorded signals, open loop
    #[arg(long, value_name = "FILE", conflicts_with_all = ["algorithm", "step"])]
    program: Option<PathBuf>,
    /// Run this algorithm over the recorded signals, open loop; of an incident: in place of its own
    #[arg(long, value_name = "NAME", conflicts_with = "step")]
    algorithm: Option<String>,
    /// Go from invocation to invocation
    #[arg(long)]
    step: bool,
    /// Show this flow of the recording [default: the first]
    #[arg(long, value_name = "N", requires = "step")]
    flow: Option<u32>,
    /// Show this invocation, counted from 1 over the recording
    #[arg(long, value_name = "N", requires = "step", conflicts_with = "flow")]
    at: Option<u64>,
    /// Go on to the next invocation after which this holds: `Report.lost > 0`
    #[arg(long, value_name = "CONDITION", requires = "step")]
    until: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    if args.recording.is_file() {
        return incident::run(args);
    }
    let recording = Recording::open(&args.recording)?;
    for damage in &recording.damage {
        eprintln!("fairwater: {damage}");
    }
    if recording.end.is_none() {
        eprintln!(
            "fairwater: the recorder did not end the recording: its last second may be missing"
        );
    }
    if args.step {
        return step::run(args, &recording);
    }
    if args.program.is_some() || args.algorithm.is_some() {
        return open_loop::run(args, &recording);
    }
    let replayed = replay_all(&recording)?;
    if args.json {
        output::json(&replayed)?;
    } else {
        output::print(replayed.text())?;
    }
    match replayed.has_difference() {
        true => Err(Failure::AlreadyReported(1)),
        false => Ok(()),
    }
}

/// What a replay found.
#[derive(Debug, Serialize)]
struct Replayed {
    /// What was recorded.
    of: String,
    flows: usize,
    invocations: usize,
    /// What of the recording cannot be read.
    damage: Vec<String>,
    back_ends: Vec<BackendReplay>,
    /// Back ends that did not run, and why.
    not_run: Vec<String>,
    algorithm: Option<AlgorithmReplay>,
    /// What makes the comparison with the algorithm uncertain.
    notes: Vec<String>,
}

fn replay_all(recording: &Recording) -> Result<Replayed, Failure> {
    let flows = recording
        .records
        .iter()
        .filter(|record| matches!(record.what, What::Began(_)));
    let mut replayed = Replayed {
        of: recording.head.of.clone(),
        flows: flows.count(),
        invocations: recording.invocations().count(),
        damage: recording.damage.iter().map(ToString::to_string).collect(),
        back_ends: Vec::new(),
        not_run: Vec::new(),
        algorithm: None,
        notes: Vec::new(),
    };
    let programs: Vec<&Program> = recording.programs.iter().map(|(_, p)| p).collect();
    replayed.run(recording, Ok(Interpreter));
    replayed.run(recording, MachineCode::compile(&programs));
    replayed.run(recording, KernelCode::load(&recording.programs));
    match plane(recording) {
        Ok(plane) => {
            replayed.notes = notes(recording, &plane);
            replayed.algorithm = Some(replay::algorithm(recording, plane));
        }
        Err(failure) => replayed.not_run.push(format!("the algorithm: {failure}")),
    }
    Ok(replayed)
}

/// A plane with the recording's algorithms.
fn plane(recording: &Recording) -> Result<Plane, Failure> {
    let named = recording.head.algorithms.iter().map(|recorded| {
        let chosen = resolve_argument(&recorded.spec)?;
        Ok((recorded.name.clone(), chosen))
    });
    let named: Vec<NamedAlgorithm> = named.collect::<Result<_, Failure>>()?;
    hosting::plane(&named)
}

/// What makes the comparison of commands uncertain.
fn notes(recording: &Recording, plane: &Plane) -> Vec<String> {
    let now = RecordedProgram::of_algorithms(plane.algorithms());
    let recorded = recording.programs.iter().map(|(program, _)| program);
    let of_plane = recorded.filter(|program| program.algorithm.is_some());
    let changed = of_plane.filter(|was| {
        let mut same = now
            .iter()
            .filter(|is| (is.algorithm, is.index) == (was.algorithm, was.index));
        same.all(|is| is.hash != was.hash)
    });
    let mut notes: Vec<_> = changed
        .map(|program| {
            format!(
                "program `{}` of the algorithm is another now than it was recorded",
                program.name
            )
        })
        .collect();
    if !recording.head.filter.is_empty() {
        notes.push(
            "only some flows were recorded: an algorithm that controls flows together may answer \
             otherwise"
                .to_owned(),
        );
    }
    notes
}

impl Replayed {
    fn run<B: Backend>(
        &mut self,
        recording: &Recording,
        back_end: Result<B, replay::BackendError>,
    ) {
        let run = back_end.and_then(|mut back_end| replay::programs(recording, &mut back_end));
        match run {
            Ok(run) => self.back_ends.push(run),
            Err(error) => self.not_run.push(error.to_string()),
        }
    }

    fn has_difference(&self) -> bool {
        let algorithm = self.algorithm.iter().map(|replay| &replay.difference);
        let back_ends = self.back_ends.iter().map(|replay| &replay.difference);
        back_ends.chain(algorithm).any(Option::is_some)
    }

    fn text(&self) -> String {
        let mut text = format!(
            "{}: {} flows, {} invocations\n",
            self.of, self.flows, self.invocations
        );
        let found = |difference: &Option<Difference>| match difference {
            Some(difference) => format!("first difference:\n  {difference}"),
            None => "no difference".to_owned(),
        };
        for run in &self.back_ends {
            text += &format!(
                "{:13} {} invocations, {} reports: {}\n",
                run.back_end,
                run.invocations,
                run.reports,
                found(&run.difference)
            );
        }
        if let Some(run) = &self.algorithm {
            text += &format!(
                "{:13} {} events, {} reports, {} commands: {}\n",
                "algorithm",
                run.events,
                run.reports,
                run.commands,
                found(&run.difference)
            );
            if run.skipped > 0 {
                text += &format!(
                    "  {} events behind the first gap were not given to it: its state is not known\n",
                    run.skipped
                );
            }
        }
        let skipped = self.back_ends.iter().map(|run| run.skipped).max();
        if let Some(skipped @ 1..) = skipped {
            text += &format!("{skipped} invocations ran no program, or their state is not known\n");
        }
        for line in self.not_run.iter().chain(&self.notes) {
            text += &format!("note: {line}\n");
        }
        text
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        Self::BadInput(error.to_string())
    }
}
