//! What many bundles cost that have nothing to send: time to start, memory, and CPU of both boxes' processes.

use std::thread;
use std::time::{Duration, Instant};

use fairwater_testbed::TwoSites;

use super::Program;
use super::running::{DataPlane, Files, RunningBox};
use crate::statistics::Rounds;

/// How to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program: Program,
    /// Bundles of each box.
    #[arg(long, default_value_t = 1_000)]
    bundles: u32,
    /// Rounds; each starts each sendbox once.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds that the boxes are measured in a round.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

/// Boxes that do not know each other yet greet each other more often.
const SETTLING: Duration = Duration::from_secs(3);

/// What is measured of a box.
#[derive(Default)]
struct Found {
    start_s: Rounds,
    memory_mb: Rounds,
    cpu_percent: Rounds,
}

impl Found {
    fn print(&self, name: &str) {
        let Self {
            start_s,
            memory_mb,
            cpu_percent,
        } = self;
        println!(
            "{name}: {cpu_percent} % of one core, {memory_mb:.1} MB, {start_s} s from the start to the first answer"
        );
    }
}

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut sendboxes = DataPlane::ALL.map(|_| Found::default());
    let mut receiveboxes = Found::default();
    let files = Files::new(
        &arguments.program,
        arguments.bundles,
        "algorithm = \"copa\"\n",
    )?;
    for round in 1..=arguments.rounds {
        for (plane, found) in DataPlane::ALL.into_iter().zip(&mut sendboxes) {
            let sites = TwoSites::wired()?;
            let receive = files.receive(&sites)?;
            let send = files.send(&sites, plane)?;
            thread::sleep(SETTLING);
            let before = [send.cpu_seconds()?, receive.cpu_seconds()?];
            let began = Instant::now();
            thread::sleep(Duration::from_secs(arguments.seconds));
            let elapsed = began.elapsed();
            note(found, &send, before[0], elapsed)?;
            note(&mut receiveboxes, &receive, before[1], elapsed)?;
        }
        eprintln!("round {round} of {}", arguments.rounds);
    }
    println!("{} bundles that send nothing", arguments.bundles);
    for (plane, found) in DataPlane::ALL.into_iter().zip(&sendboxes) {
        found.print(&format!("sendbox `{}`", plane.name()));
    }
    receiveboxes.print("receivebox");
    Ok(())
}

fn note(found: &mut Found, of: &RunningBox, before: f64, elapsed: Duration) -> anyhow::Result<()> {
    let cpu = of.cpu_seconds()? - before;
    found.cpu_percent.push(100.0 * cpu / elapsed.as_secs_f64());
    found.memory_mb.push(of.memory_mb()?);
    found.start_s.push(of.start_time.as_secs_f64());
    Ok(())
}
