//! What a flow loses when its plane is killed: throughput under the fallback on an emulated path,
//! as a ratio to the kernel's Cubic alone over the same time.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fairwater_lab::{Candidate, Comparison};
use fairwater_linux::Options;
use fairwater_results::{RunResult, TrafficProgram};

use crate::hosted::Hosted;
use crate::statistics::Rounds;

/// How to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The algorithm whose plane is killed.
    #[arg(long, default_value = "cubic")]
    algorithm: String,
    /// The paths, separated by `;`.
    #[arg(
        long,
        default_value = "200mbit 100ms 1bdp;400mbit 50ms 1bdp",
        value_delimiter = ';'
    )]
    links: Vec<String>,
    /// Seconds under the algorithm.
    #[arg(long, default_value_t = 10)]
    before: u64,
    /// Seconds measured, from the plane's end on.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Rounds; each measures both.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Host the algorithm until killed; what this benchmark starts as its child.
    #[arg(long, hide = true)]
    host: bool,
}

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let name = &arguments.algorithm;
    if arguments.host {
        return host(name);
    }
    for link in &arguments.links {
        let (mut ours, mut theirs, mut ratio) =
            (Rounds::default(), Rounds::default(), Rounds::default());
        for round in 1..=arguments.rounds {
            let killed = || throughput(arguments, link, Some(Plane::start(name)?));
            let alone = || throughput(arguments, link, None);
            let (a, b) = if round % 2 == 0 {
                (killed()?, alone()?)
            } else {
                let alone = alone()?;
                (killed()?, alone)
            };
            eprintln!("round {round}: {:.2} of {:.2} Mbit/s", a / 1e6, b / 1e6);
            ours.push(a / 1e6);
            theirs.push(b / 1e6);
            ratio.push(a / b);
        }
        println!(
            "{link}: {} s after the plane of {name} was killed {ours:.1} Mbit/s, the kernel's \
             Cubic alone {theirs:.1}: ratio {ratio:.3}",
            arguments.seconds
        );
    }
    Ok(())
}

/// Throughput of the time measured, bits/s: with a plane of the algorithm, which is killed as that
/// time begins, or of the kernel's Cubic.
fn throughput(arguments: &Arguments, link: &str, plane: Option<Plane>) -> anyhow::Result<f64> {
    let congestion_control = match plane {
        Some(_) => format!("fw_{}", arguments.algorithm),
        None => "cubic".to_owned(),
    };
    let candidate = Candidate {
        label: congestion_control.clone(),
        congestion_control,
    };
    let comparison = Comparison {
        duration: Duration::from_secs(arguments.before + arguments.seconds),
        program: TrafficProgram::Bulk,
        tries: 1,
        ..Comparison::new(link.parse()?, vec![candidate])
    };
    let begin = Duration::from_secs(arguments.before);
    let mut plane = plane;
    let results = fairwater_lab::run(&comparison, &AtomicBool::new(false), &mut |progress| {
        if progress.elapsed >= begin {
            plane = None;
        }
    })?;
    let run: &RunResult = results
        .runs
        .first()
        .ok_or_else(|| anyhow::anyhow!("no result"))?;
    if run.disturbed {
        eprintln!("disturbed by other load on the machine");
    }
    let after = run
        .series
        .link
        .iter()
        .filter(|i| i.at_s >= begin.as_secs_f64());
    let (sum, count) = after.fold((0.0, 0.0), |(sum, n), i| (sum + i.throughput_bps, n + 1.0));
    Ok(sum / count)
}

/// A plane in a process of its own, killed when dropped.
struct Plane(Child);

impl Plane {
    /// Starts it and waits until its algorithm is registered.
    fn start(algorithm: &str) -> anyhow::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["fallback", "--host", "--algorithm", algorithm])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take();
        let plane = Self(child);
        let mut line = String::new();
        if let Some(output) = output {
            BufReader::new(output).read_line(&mut line)?;
        }
        anyhow::ensure!(line.trim() == READY, "{algorithm} is not attached");
        Ok(plane)
    }
}

impl Drop for Plane {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the child says once its algorithm is registered.
const READY: &str = "ready";

fn host(algorithm: &str) -> anyhow::Result<()> {
    let choice = fairwater_algorithms::by_spec(algorithm)?;
    let fill = move |plane: &mut fairwater_plane::Plane| plane.add(|p| choice.build(p)).map(drop);
    let _hosted = Hosted::start(fill, Options::default())?;
    println!("{READY}");
    // Until the parent ends, which kills before.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
