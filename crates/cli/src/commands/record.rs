//! `fairwater record`.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use fairwater_datapath::InvocationObserver;
use fairwater_experiment::Backend;
use fairwater_hosting::Stop;
use fairwater_net::Time;
use fairwater_plane::Plane;
use fairwater_recording::{
    Candidate, End, Filter, Head, RecordedAlgorithm, RecordedProgram, Recorder, WriteError, Writer,
};
use fairwater_service::PolicyKey;
use fairwater_sim::{Observer, SimulationError};

use super::run::grid::algorithms;
use super::run::{MAX_SEED, folder_of, read_scenario};
use crate::failure::Failure;
use crate::filter::FlowFilter;
use crate::hosting;
use crate::units::count;

const EXAMPLES: &str = "\
Examples:
  fairwater record cubic.recording --run scenarios/dumbbell.toml --set dumbbell.rate=12mbit
  fairwater record one.recording --run scenarios/dumbbell.toml --flow algorithm=cubic
  fairwater replay cubic.recording
  fairwater replay --step cubic.recording

The recording has, for each invocation of a flow's program: all signals, window and rate before and
after, what the plane had staged, and the report; and the plane's events and commands, all in order.
It is a folder with a file of Apache Parquet for each second: whoever kills the recorder loses the
last second. docs/replay.md finds a fault with it.

FILTER is one or more KEY=VALUE, separated by commas: algorithm, port and remote-port (443, or
1000-2000), prefix (of the remote address), mark, datapath.";

/// Record what the programs of flows read and did, for `fairwater replay`
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The folder of the recording: a new one, or an empty one
    out: PathBuf,
    /// Run this scenario, of one point, in the simulator, and record its flows
    #[arg(long = "run", value_name = "SCENARIO")]
    scenario: PathBuf,
    /// Record these flows only [default: all under an algorithm of the plane]
    #[arg(long, value_name = "FILTER", value_parser = FlowFilter::parse)]
    flow: Option<FlowFilter>,
    /// Run with this seed
    #[arg(long, value_parser = clap::value_parser!(u64).range(..=MAX_SEED))]
    seed: Option<u64>,
    /// Change a variable of the sweep, or a value by its path: `duration=5s`, `flow.0.count=2`
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let scenario = read_scenario(&args.scenario, &args.settings, args.seed, Backend::Sim)?;
    if scenario.len() > 1 {
        return Err(Failure::BadInput(format!(
            "the scenario has {} points, and one can be recorded: choose by --set and --seed",
            scenario.len()
        )));
    }
    let point = scenario.point(0);
    let algorithms = algorithms(&point, folder_of(&args.scenario))?;
    if algorithms.is_empty() {
        return Err(Failure::BadInput(
            "no flow of the scenario is under an algorithm of the plane: there is nothing to record"
                .to_owned(),
        ));
    }
    let mut plane = hosting::plane(&algorithms)?;
    let recorded = algorithms.iter().map(|(name, chosen)| RecordedAlgorithm {
        name: name.clone(),
        spec: chosen.spec.clone(),
    });
    let recorder = begin(args, &plane, recorded.collect())?;
    plane.set_observer(Some(recorder.of_plane()));
    let stop = Stop::on_signals().map_err(Failure::io("handling signals"))?;
    stop.exit_if_stuck(|| ())
        .map_err(Failure::io("handling signals"))?;
    let mut observer = RecordObserver {
        stop: &stop,
        recorder: &recorder,
    };
    let outcome = fairwater_sim::run(&point.experiment, plane, &mut observer);
    let end = recorder.finish()?;
    eprintln!("{}", summary(&args.out, &end));
    match outcome {
        Ok(_) => Ok(()),
        Err(SimulationError::Stopped) => Err(Failure::Interrupted),
        Err(SimulationError::Config(error)) => Err(Failure::BadInput(error.to_string())),
    }
}

fn begin(
    args: &Args,
    plane: &Plane,
    algorithms: Vec<RecordedAlgorithm>,
) -> Result<Recorder, Failure> {
    let scenario = args.scenario.display().to_string();
    let filter = args.flow.clone().unwrap_or_default();
    let shown = args
        .flow
        .as_ref()
        .map_or_else(String::new, FlowFilter::text);
    let head = Head::new(scenario, shown, algorithms);
    let programs = RecordedProgram::of_algorithms(plane.algorithms());
    let writer = Writer::create(&args.out, &head, &programs)?;
    Ok(Recorder::new(writer, programs, is_meant(filter)))
}

fn is_meant(filter: FlowFilter) -> Filter {
    Box::new(move |candidate: &Candidate<'_>| {
        let key = PolicyKey {
            datapath: candidate.datapath,
            local: candidate.info.local,
            remote: candidate.info.remote,
            tag: candidate.info.tag,
            cgroup: None,
        };
        filter.matches(candidate.algorithm, &key)
    })
}

fn summary(out: &Path, end: &End) -> String {
    let invocations = usize::try_from(end.invocations).unwrap_or(usize::MAX);
    let flows = usize::try_from(end.flows).unwrap_or(usize::MAX);
    let mut text = format!(
        "Recorded {} of {} in {}",
        count(invocations, "invocation"),
        count(flows, "flow"),
        out.display()
    );
    if end.invocations > 0 {
        let each = end.bytes as f64 / end.invocations as f64;
        text += &format!(": {each:.1} bytes for each");
    }
    if end.lost > 0 {
        text += &format!("; {} more were too fast for the recorder", end.lost);
    }
    text
}

/// Ends a simulation when asked to, and records its flows.
struct RecordObserver<'a> {
    stop: &'a Stop,
    recorder: &'a Recorder,
}

impl Observer for RecordObserver<'_> {
    fn progress(&mut self, _: Time) -> ControlFlow<()> {
        match self.stop.is_asked() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }

    fn invocations(&mut self, datapath: &str) -> Option<Box<dyn InvocationObserver>> {
        Some(self.recorder.of_datapath(datapath))
    }
}

impl From<WriteError> for Failure {
    fn from(error: WriteError) -> Self {
        match error {
            error @ WriteError::NotEmpty(_) => Self::BadInput(error.to_string()),
            error => Self::Other(error.to_string()),
        }
    }
}
