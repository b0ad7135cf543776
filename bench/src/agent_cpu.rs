//! What the plane costs in CPU at many flows (CCP §7.2.2, Figure 13b): its own, and the whole
//! machine's against the kernel running the same algorithm over the same load.

use std::fs;
use std::time::{Duration, Instant};

use fairwater_linux::Options;

use crate::bulk::{Pace, throughput};
use crate::hosted::Hosted;
use crate::statistics::Rounds;

/// How to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The algorithm: one whose reports can be each 10 ms.
    #[arg(long, default_value = "reno")]
    algorithm: String,
    /// The kernel's algorithm to compare with; the one of the same name if not given.
    #[arg(long)]
    against: Option<String>,
    /// Flows at once.
    #[arg(long, default_value_t = 64)]
    flows: usize,
    /// Milliseconds between the chunks that each flow's application writes. A flow reports at an
    /// ACK: for a report each 10 ms there has to be one.
    #[arg(long, default_value_t = 20)]
    chunk_ms: u64,
    /// KiB of each chunk.
    #[arg(long, default_value_t = 64)]
    chunk_kib: usize,
    /// Rounds; each measures both.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Seconds each runs in a round.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
}

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let name = &arguments.algorithm;
    let kernel = arguments.against.as_ref().unwrap_or(name);
    let choice = fairwater_algorithms::by_spec(&format!("{name}:report=10ms"))?;
    let load = |congestion_control: &str| -> anyhow::Result<(f64, f64)> {
        let pace = Pace::Chunk(
            arguments.chunk_kib << 10,
            Duration::from_millis(arguments.chunk_ms),
        );
        let time = Duration::from_secs(arguments.seconds);
        let before = busy_seconds()?;
        let bps = throughput(
            congestion_control,
            arguments.flows,
            pace,
            Duration::ZERO,
            time,
        )?;
        Ok((bps / 1e9, busy_seconds()? - before))
    };
    let (mut own, mut ratio, mut reports, mut rate) = (
        Rounds::default(),
        Rounds::default(),
        Rounds::default(),
        Rounds::default(),
    );
    for round in 1..=arguments.rounds {
        let ours = || -> anyhow::Result<_> {
            let choice = choice.clone();
            let fill =
                move |plane: &mut fairwater_plane::Plane| plane.add(|p| choice.build(p)).map(drop);
            let hosted = Hosted::start(fill, Options::default())?;
            let start = Instant::now();
            let (bps, busy) = load(&format!("fw_{name}"))?;
            let seconds = start.elapsed().as_secs_f64();
            Ok((bps, busy, hosted.stop(), seconds))
        };
        let ((bps, busy, work, seconds), theirs) = if round % 2 == 0 {
            (ours()?, load(kernel)?)
        } else {
            let theirs = load(kernel)?;
            (ours()?, theirs)
        };
        #[expect(clippy::cast_precision_loss, reason = "a rate")]
        reports.push(work.reports as f64 / seconds);
        own.push(100.0 * work.cpu.as_secs_f64() / seconds);
        // Per bit carried: the two loads differ by what the applications slept too long.
        ratio.push((busy / bps) / (theirs.1 / theirs.0));
        rate.push(bps);
        eprintln!("round {round} of {}", arguments.rounds);
    }
    println!(
        "{} flows of {name}, {rate:.2} Gbit/s, {reports:.0} reports/s",
        arguments.flows
    );
    println!("the plane: {own:.1} % of one core");
    println!("the machine, against kernel:{kernel} over the same load: ratio {ratio:.3}");
    Ok(())
}

/// CPU seconds that the machine was busy since it started, in user and kernel, interrupts
/// included (proc(5), /proc/stat).
pub(crate) fn busy_seconds() -> anyhow::Result<f64> {
    let stat = fs::read_to_string("/proc/stat")?;
    let line = stat.lines().next().unwrap_or_default();
    let ticks: Vec<f64> = line
        .split_whitespace()
        .skip(1)
        .flat_map(str::parse)
        .collect();
    anyhow::ensure!(ticks.len() > 6, "/proc/stat begins with {line:?}");
    // user, nice, system, idle, iowait, irq, softirq
    Ok((ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6]) / 100.0)
}
