//! One algorithm over three datapaths, as figure 8 of CCP has it: its window in time on Linux TCP, on a TCP in user
//! space and on QUIC.

mod picture;
mod teeth;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use fairwater_hosting::{HostedAlgorithms, InProcessPlane, NamedAlgorithm, resolve_argument};
use fairwater_lab::{Candidate, Comparison, NoqEnds};
use fairwater_linux::Options;
use fairwater_results::{RunResult, TrafficProgram};
use fairwater_testbed::{QUIC, USER_TCP, UserPlane};

use crate::statistics::Rounds;
use picture::Panel;

/// How to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Algorithms and their paths, each as `copa on 12mbit 20ms 1bdp`, separated by `;`.
    #[arg(
        long,
        default_value = "copa on 12mbit 20ms 1bdp;cubic on 24mbit 20ms 1bdp",
        value_delimiter = ';'
    )]
    runs: Vec<String>,
    /// Rounds; the picture is of the first.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Seconds of a run.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Seconds from the beginning that the mean window and the saw-teeth leave out: slow start.
    #[arg(long, default_value_t = 5)]
    skip: u64,
    /// Write the picture to this file, as SVG.
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

/// The datapaths, as they are called.
const DATAPATHS: [&str; 3] = ["linux", "utcp", "noq"];

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut panels = Vec::new();
    for spec in &arguments.runs {
        let (algorithm, link) = spec
            .split_once(" on ")
            .with_context(|| format!("`{spec}` is not an algorithm, ` on ` and a path"))?;
        let mut measures: [Measures; 3] = Default::default();
        let mut first = None;
        for round in 1..=arguments.rounds {
            let runs = one_round(arguments, algorithm, link, round)?;
            for ((run, measures), datapath) in runs.iter().zip(&mut measures).zip(DATAPATHS) {
                let all = windows(run);
                let after: Vec<_> = all
                    .iter()
                    .filter(|(at, _)| *at >= arguments.skip as f64)
                    .map(|(_, window)| *window)
                    .collect();
                let mean = after.iter().sum::<f64>() / after.len() as f64;
                let teeth = teeth::count(after);
                eprintln!(
                    "round {round}, {algorithm} over {datapath}: mean window {mean:.1} packets, utilisation {:.1} %, \
                     {teeth} saw-teeth, {:.2} ms queueing delay at the median{}",
                    100.0 * run.utilisation,
                    run.queueing_delay_ms.p50,
                    if run.disturbed { ", disturbed" } else { "" },
                );
                measures.window.push(mean);
                measures.utilisation.push(100.0 * run.utilisation);
                measures.teeth.push(teeth as f64);
            }
            first.get_or_insert(runs);
        }
        for (measures, datapath) in measures.iter().zip(DATAPATHS) {
            println!(
                "{algorithm} over {datapath} on {link}: mean window {:.1} packets, utilisation {:.1} %, saw-teeth {:.0}",
                measures.window, measures.utilisation, measures.teeth
            );
        }
        for (run, datapath) in first.iter().flatten().zip(DATAPATHS) {
            panels.push(Panel {
                title: format!("{algorithm} over {datapath}, {link}"),
                points: windows(run),
            });
        }
    }
    if let Some(path) = &arguments.picture {
        picture::write(path, &panels, DATAPATHS.len(), arguments.seconds as f64)?;
    }
    Ok(())
}

/// What is measured of one datapath, by round.
#[derive(Debug, Default)]
struct Measures {
    window: Rounds,
    utilisation: Rounds,
    teeth: Rounds,
}

/// A run over each datapath, one after another on the same path.
fn one_round(
    arguments: &Arguments,
    algorithm: &str,
    link: &str,
    round: u32,
) -> anyhow::Result<Vec<RunResult>> {
    let resolved = resolve_argument(algorithm)?;
    let name = resolved.choice.name().to_owned();
    let hosted: [NamedAlgorithm; 1] = [(name.clone(), resolved.clone())];
    let options = Options {
        unique_names: true,
        ..Options::default()
    };
    let linux = HostedAlgorithms::start(&hosted, options)?;
    let plane = InProcessPlane::start(&hosted)?;
    let noq = NoqEnds::new(&[(name.clone(), resolved.choice)])?;
    let on_linux = linux.names().first().context("no name on Linux")?;
    let names = [
        on_linux.clone(),
        format!("{USER_TCP}{name}"),
        format!("{QUIC}{name}"),
    ];
    let candidates = names.iter().zip(DATAPATHS).map(|(name, label)| Candidate {
        label: label.to_owned(),
        congestion_control: name.clone(),
    });
    let comparison = Comparison {
        duration: Duration::from_secs(arguments.seconds),
        program: TrafficProgram::Bulk,
        user_plane: Some(UserPlane::new(plane.connector())),
        quic: Some(Arc::new(noq)),
        ..Comparison::new(
            format!("{link} seed={round}").parse()?,
            candidates.collect(),
        )
    };
    let results = fairwater_lab::run(&comparison, &AtomicBool::new(false), &mut |_| {})?;
    for notice in linux.finish().iter().chain(&plane.notices()) {
        eprintln!("{notice}");
    }
    Ok(results.runs)
}

/// The window of a run in time: seconds, packets.
fn windows(run: &RunResult) -> Vec<(f64, f64)> {
    let samples = run.series.tcp.iter();
    samples
        .map(|sample| (sample.at.as_secs_f64(), f64::from(sample.cwnd_packets)))
        .collect()
}
