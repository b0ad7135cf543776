//! Whether the TCP in user space does what the kernel's does, and what it does itself in the simulator: throughput,
//! queueing delay and drops of one algorithm on an emulated path.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use fairwater_experiment::Controller;
use fairwater_hosting::{InProcessPlane, NamedAlgorithm, plane_of, resolve_argument};
use fairwater_lab::{Candidate, Comparison, LabError};
use fairwater_plane::PlaneError;
use fairwater_results::{RunResult, TrafficProgram};
use fairwater_testbed::{USER_TCP, UserPlane};

use crate::statistics::Rounds;

/// How to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Algorithm, against the kernel's of the same name.
    #[arg(long, default_value = "cubic")]
    algorithm: String,
    /// The path.
    #[arg(long, default_value = "96mbit 20ms 1bdp")]
    link: String,
    /// Rounds; every second one is in reverse order.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Seconds of a run.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
}

/// What keeps a simulation from running.
#[derive(Debug, thiserror::Error)]
enum SimulationFailure {
    #[error(transparent)]
    Lab(#[from] LabError),
    #[error(transparent)]
    Plane(#[from] PlaneError),
}

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let algorithm = resolve_argument(&arguments.algorithm)?;
    let name = algorithm.choice.name().to_owned();
    let hosted: NamedAlgorithm = (name.clone(), algorithm);
    let simulated = simulated(arguments, &hosted)?;
    print_run("simulated", &simulated);
    let plane = InProcessPlane::start(std::slice::from_ref(&hosted))?;
    let ours = candidate("utcp", format!("{USER_TCP}{name}"));
    let kernel = candidate("kernel", name);
    let (mut throughput, mut delay) = (Rounds::default(), Rounds::default());
    let (mut utilisation, mut drops) = (Rounds::default(), Rounds::default());
    for round in 1..=arguments.rounds {
        let order = match round % 2 {
            0 => vec![kernel.clone(), ours.clone()],
            _ => vec![ours.clone(), kernel.clone()],
        };
        let comparison = Comparison {
            duration: Duration::from_secs(arguments.seconds),
            program: TrafficProgram::Bulk,
            user_plane: Some(UserPlane::new(plane.connector())),
            ..Comparison::new(arguments.link.parse()?, order)
        };
        let results = fairwater_lab::run(&comparison, &AtomicBool::new(false), &mut |_| {})?;
        let of = |name: &str| -> anyhow::Result<&RunResult> {
            let found = results.runs.iter().find(|run| run.name == name);
            found.with_context(|| format!("no result of {name}"))
        };
        let (own, theirs) = (of("utcp")?, of("kernel")?);
        print_run(&format!("round {round}, utcp"), own);
        print_run(&format!("round {round}, kernel"), theirs);
        throughput.push(own.throughput_bps / theirs.throughput_bps);
        delay.push(own.queueing_delay_ms.p50 / theirs.queueing_delay_ms.p50);
        utilisation.push(100.0 * (own.utilisation - simulated.utilisation));
        drops.push(own.dropped as f64 / simulated.dropped as f64);
    }
    for notice in plane.notices() {
        eprintln!("{notice}");
    }
    let path = &arguments.link;
    println!("to the kernel's on {path}: throughput ratio {throughput:.3}");
    println!("to the kernel's on {path}: median queueing delay ratio {delay:.3}");
    println!(
        "to its simulated self on {path}: utilisation {utilisation:.2} percentage points above"
    );
    println!("to its simulated self on {path}: drops ratio {drops:.3}");
    Ok(())
}

fn candidate<C>(label: &str, congestion_control: C) -> Candidate<C> {
    Candidate {
        label: label.to_owned(),
        congestion_control,
    }
}

/// The same algorithm over the same TCP in virtual time.
fn simulated(arguments: &Arguments, hosted: &NamedAlgorithm) -> anyhow::Result<RunResult> {
    let (name, algorithm) = hosted;
    let own = candidate("simulated", Controller::Plane(name.clone()));
    let comparison = Comparison {
        duration: Duration::from_secs(arguments.seconds),
        ..Comparison::new(arguments.link.parse()?, vec![own])
    };
    let plane = || plane_of([(name.as_str(), &algorithm.choice)]).map_err(SimulationFailure::from);
    let never = AtomicBool::new(false);
    let done = fairwater_lab::simulate(&comparison, plane, &never, &mut |_| {})?;
    let run = done.results.runs.into_iter().next();
    run.context("the simulator ran nothing")
}

fn print_run(name: &str, run: &RunResult) {
    eprintln!(
        "{name}: {:.2} Mbit/s, utilisation {:.2} %, {:.2} ms queueing delay at the median, {:.2} at p95, {} drops{}",
        run.throughput_bps / 1e6,
        100.0 * run.utilisation,
        run.queueing_delay_ms.p50,
        run.queueing_delay_ms.p95,
        run.dropped,
        match &run.disturbance {
            Some(cause) => format!(", disturbed: {cause}"),
            None => String::new(),
        },
    );
}
