//! How much throughput the plane costs where nothing but the CPU bounds it (CCP Table 1 and
//! §7.2.2): flows over loopback, as a share of the kernel's own implementation.

use std::time::{Duration, Instant};

use fairwater_linux::Options;

use crate::bulk::{Pace, throughput};
use crate::hosted::Hosted;
use crate::record::Record;

/// How to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Algorithms, each against the kernel's of the same name.
    #[arg(long, value_delimiter = ',', default_value = "reno,cubic")]
    algorithms: Vec<String>,
    /// Flows at once; each of several numbers.
    #[arg(long, value_delimiter = ',', default_value = "1")]
    flows: Vec<usize>,
    /// How often flows report: `10ms`, `rtt` or `ack`.
    #[arg(long, value_delimiter = ',', default_value = "10ms,ack")]
    reports: Vec<String>,
    /// Rounds; each measures every variant once, beside the kernel.
    #[arg(long, default_value_t = 11)]
    rounds: usize,
    /// Seconds a variant runs in a round.
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// Print all values as JSON.
    #[arg(long)]
    json: bool,
}

/// Time until flows have their pace.
const WARM_UP: Duration = Duration::from_millis(300);

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut record = Record::new("loopback");
    for round in 1..=arguments.rounds {
        record.begin_round()?;
        for (algorithm, flows, report) in variants(arguments) {
            // Who goes first alternates: a machine that speeds up or slows down favours none.
            let (ours, theirs) = if round % 2 == 0 {
                let ours = under_plane(algorithm, flows, report, arguments)?;
                (ours, in_kernel(algorithm, flows, arguments)?)
            } else {
                let theirs = in_kernel(algorithm, flows, arguments)?;
                (under_plane(algorithm, flows, report, arguments)?, theirs)
            };
            let count = flows.to_string();
            let variables = variables(algorithm, &count, report);
            record.push("loopback_kernel", &variables, theirs / 1e9);
            record.push("loopback_kept", &variables, 100.0 * ours / theirs);
            eprintln!(
                "round {round}: {algorithm}, {flows} flow(s), report={report}: {:.3}",
                ours / theirs
            );
        }
        record.end_round()?;
    }
    if arguments.json {
        println!("{}", record.json()?);
        return Ok(());
    }
    for (algorithm, flows, report) in variants(arguments) {
        let count = flows.to_string();
        let variables = variables(algorithm, &count, report);
        let kernel = record.rounds("loopback_kernel", &variables);
        let kept = record.rounds("loopback_kept", &variables);
        println!(
            "{algorithm}, report={report}, {flows} flow(s): {kept:.1} % of the kernel's {kernel:.1} Gbit/s"
        );
    }
    Ok(())
}

fn variants(arguments: &Arguments) -> impl Iterator<Item = (&str, usize, &str)> {
    arguments.algorithms.iter().flat_map(move |algorithm| {
        arguments.flows.iter().flat_map(move |flows| {
            let reports = arguments.reports.iter();
            reports.map(move |report| (algorithm.as_str(), *flows, report.as_str()))
        })
    })
}

fn variables<'a>(
    algorithm: &'a str,
    flows: &'a str,
    report: &'a str,
) -> [(&'static str, &'a str); 3] {
    [
        ("algorithm", algorithm),
        ("flows", flows),
        ("report", report),
    ]
}

/// Throughput in bits/s under the kernel's own algorithm.
fn in_kernel(algorithm: &str, flows: usize, arguments: &Arguments) -> anyhow::Result<f64> {
    let time = Duration::from_secs(arguments.seconds);
    Ok(throughput(algorithm, flows, Pace::Full, WARM_UP, time)?)
}

/// Throughput in bits/s under the plane's algorithm of that name.
fn under_plane(
    algorithm: &str,
    flows: usize,
    report: &str,
    arguments: &Arguments,
) -> anyhow::Result<f64> {
    let choice = fairwater_algorithms::by_spec(&format!("{algorithm}:report={report}"))?;
    let fill = move |plane: &mut fairwater_plane::Plane| plane.add(|p| choice.build(p)).map(drop);
    let hosted = Hosted::start(fill, Options::default())?;
    let start = Instant::now();
    let name = format!("fw_{algorithm}");
    let time = Duration::from_secs(arguments.seconds);
    let bps = throughput(&name, flows, Pace::Full, WARM_UP, time)?;
    let (seconds, work) = (start.elapsed().as_secs_f64(), hosted.stop());
    #[expect(clippy::cast_precision_loss, reason = "a rate")]
    let reports = work.reports as f64 / seconds;
    eprintln!(
        "{reports:.0} reports/s, the plane {:.1} % of one core",
        100.0 * work.cpu.as_secs_f64() / seconds
    );
    Ok(bps)
}
