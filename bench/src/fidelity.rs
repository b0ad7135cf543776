//! Whether an algorithm outside the kernel does what it does inside (CCP §7.1): throughput and
//! median queueing delay on an emulated path, as ratios to the kernel's own implementation.

use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fairwater_lab::{Candidate, Comparison};
use fairwater_linux::Options;
use fairwater_results::RunResult;

use crate::hosted::Hosted;
use crate::statistics::Rounds;

/// How to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Algorithms, separated by `;`, each against the kernel's of the same name;
    /// `cubic:report=10ms` sets parameters.
    #[arg(long, default_value = "reno;cubic", value_delimiter = ';')]
    algorithms: Vec<String>,
    /// The path.
    #[arg(long, default_value = "96mbit 20ms 1bdp")]
    link: String,
    /// Seeds; each is a run of both on a path whose random loss, if any, is that seed's.
    #[arg(long, default_value_t = 5)]
    seeds: u64,
    /// Seconds of a run.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// Also write each run's window and RTT in time to this file, as CSV.
    #[arg(long, value_name = "FILE")]
    series: Option<PathBuf>,
}

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut series = arguments.series.as_ref().map(File::create).transpose()?;
    if let Some(file) = &mut series {
        writeln!(
            file,
            "algorithm,seed,at_s,cwnd_packets,srtt_us,retransmissions"
        )?;
    }
    for spec in &arguments.algorithms {
        let choice = fairwater_algorithms::by_spec(spec)?;
        let name = choice.name().to_owned();
        let fill =
            move |plane: &mut fairwater_plane::Plane| plane.add(|p| choice.build(p)).map(drop);
        let _hosted = Hosted::start(fill, Options::default())?;
        let candidate = |label: String, congestion_control: String| Candidate {
            label,
            congestion_control,
        };
        let ours = candidate(spec.clone(), format!("fw_{name}"));
        let theirs = candidate(format!("kernel:{name}"), name);

        let (mut throughput, mut delay) = (Rounds::default(), Rounds::default());
        for seed in 1..=arguments.seeds {
            let order = if seed % 2 == 0 {
                vec![ours.clone(), theirs.clone()]
            } else {
                vec![theirs.clone(), ours.clone()]
            };
            let link = format!("{} seed={seed}", arguments.link);
            let comparison = Comparison {
                duration: Duration::from_secs(arguments.seconds),
                ..Comparison::new(link.parse()?, order)
            };
            let results = fairwater_lab::run(&comparison, &AtomicBool::new(false), &mut |_| {})?;
            let of = |candidate: &Candidate| -> anyhow::Result<&RunResult> {
                results
                    .runs
                    .iter()
                    .find(|r| r.name == candidate.label)
                    .ok_or_else(|| anyhow::anyhow!("no result of {}", candidate.label))
            };
            let (a, b) = (of(&ours)?, of(&theirs)?);
            for run in [a, b] {
                if let Some(file) = &mut series {
                    write_series(file, run, seed)?;
                }
                eprintln!(
                    "seed {seed}: {}: {:.2} Mbit/s, {:.2} ms queueing delay at the median, {:.2} at p95, \
                     {} retransmissions{}",
                    run.name,
                    run.throughput_bps / 1e6,
                    run.queueing_delay_ms.p50,
                    run.queueing_delay_ms.p95,
                    run.retransmissions,
                    if run.disturbed {
                        ", disturbed by the machine"
                    } else {
                        ""
                    },
                );
            }
            throughput.push(a.throughput_bps / b.throughput_bps);
            delay.push(a.queueing_delay_ms.p50 / b.queueing_delay_ms.p50);
        }
        println!(
            "{spec} on {}: throughput ratio {throughput:.3}",
            arguments.link
        );
        println!(
            "{spec} on {}: median queueing delay ratio {delay:.3}",
            arguments.link
        );
    }
    Ok(())
}

fn write_series(file: &mut File, run: &RunResult, seed: u64) -> io::Result<()> {
    for sample in &run.series.tcp {
        writeln!(
            file,
            "{},{seed},{:.4},{},{},{}",
            run.name,
            sample.at.as_secs_f64(),
            sample.cwnd_packets,
            sample.srtt_us,
            sample.retransmissions
        )?;
    }
    Ok(())
}
