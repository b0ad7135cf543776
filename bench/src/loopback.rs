//! How much throughput the plane costs where nothing but the CPU bounds it (CCP Table 1 and
//! §7.2.2): one flow over loopback, as a ratio to the kernel's own implementation.

use std::time::{Duration, Instant};

use fairwater_linux::Options;

use crate::bulk::{Pace, throughput};
use crate::hosted::Hosted;
use crate::statistics::Rounds;

/// How to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Algorithms, each against the kernel's of the same name.
    #[arg(long, value_delimiter = ',', default_value = "reno,cubic")]
    algorithms: Vec<String>,
    /// Flows at once.
    #[arg(long, default_value_t = 1)]
    flows: usize,
    /// Rounds; each measures every variant once, beside the kernel.
    #[arg(long, default_value_t = 11)]
    rounds: usize,
    /// Seconds a variant runs in a round.
    #[arg(long, default_value_t = 2)]
    seconds: u64,
}

/// How often flows report.
const VARIANTS: [(&str, &str); 2] = [
    ("a report each 10 ms", "report=10ms"),
    ("a report per ACK", "report=ack"),
];

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let time = Duration::from_secs(arguments.seconds);
    let warm_up = Duration::from_millis(300);
    for algorithm in &arguments.algorithms {
        let mut kernel = Rounds::default();
        let mut ratios = [(); VARIANTS.len()].map(|()| Rounds::default());
        for round in 1..=arguments.rounds {
            for ((name, parameters), ratios) in VARIANTS.iter().zip(&mut ratios) {
                let choice = fairwater_algorithms::by_spec(&format!("{algorithm}:{parameters}"))?;
                let ours = || -> anyhow::Result<f64> {
                    let fill = move |plane: &mut fairwater_plane::Plane| {
                        plane.add(|p| choice.build(p)).map(drop)
                    };
                    let hosted = Hosted::start(fill, Options::default())?;
                    let start = Instant::now();
                    let bps = throughput(
                        &format!("fw_{algorithm}"),
                        arguments.flows,
                        Pace::Full,
                        warm_up,
                        time,
                    )?;
                    let (seconds, work) = (start.elapsed().as_secs_f64(), hosted.stop());
                    #[expect(clippy::cast_precision_loss, reason = "a rate")]
                    let reports = work.reports as f64 / seconds;
                    eprintln!(
                        "{reports:.0} reports/s, the plane {:.1} % of one core",
                        100.0 * work.cpu.as_secs_f64() / seconds
                    );
                    Ok(bps)
                };
                let theirs = || throughput(algorithm, arguments.flows, Pace::Full, warm_up, time);
                // Who goes first alternates: a machine that speeds up or slows down favours none.
                let (ours, theirs) = if round % 2 == 0 {
                    (ours()?, theirs()?)
                } else {
                    let theirs = theirs()?;
                    (ours()?, theirs)
                };
                kernel.push(theirs / 1e9);
                ratios.push(ours / theirs);
                eprintln!("round {round}: {algorithm}, {name}: {:.3}", ours / theirs);
            }
        }
        println!(
            "{algorithm} in the kernel: {kernel:.1} Gbit/s, {} flow(s)",
            arguments.flows
        );
        for ((name, ..), ratios) in VARIANTS.iter().zip(&ratios) {
            println!("{algorithm}, {name}: ratio {ratios:.3}");
        }
    }
    Ok(())
}
