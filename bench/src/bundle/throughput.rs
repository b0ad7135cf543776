//! What a sendbox carries, against plain forwarding: two sites, TCP between their hosts, and nothing but this machine's
//! processors in the way. The ends are on the same processors.

use std::thread;
use std::time::{Duration, Instant};

use fairwater_testbed::{Bulk, Family, TwoSites};

use super::Program;
use super::running::{DataPlane, Files};
use crate::statistics::Rounds;

/// How to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program: Program,
    /// Connections at once.
    #[arg(long, default_value_t = 4)]
    flows: usize,
    /// Rounds; each measures both sendboxes once, each beside plain forwarding.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Seconds a variant is measured in a round.
    #[arg(long, default_value_t = 3)]
    seconds: u64,
}

/// The boxes limit, but to more than the machine can carry.
const NO_LIMIT: &str =
    "algorithm = \"constant:rate=20gbit,cwnd=1000000\"\nassured_rate = \"100gbit\"\n";
/// Time for windows to grow.
const WARM_UP: Duration = Duration::from_secs(1);

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    for offload in [false, true] {
        let mut plain = Rounds::default();
        let mut carried = DataPlane::ALL.map(|_| (Rounds::default(), Rounds::default()));
        for round in 1..=arguments.rounds {
            for (plane, (rate, ratio)) in DataPlane::ALL.into_iter().zip(&mut carried) {
                let both = [Some(plane), None];
                let mut found = [0.0; 2];
                // Whoever goes first has the other's heat.
                for turn in 0..2 {
                    let variant = (turn + round) % 2;
                    found[variant] = measure(arguments, offload, both[variant])?;
                }
                let [with, without] = found;
                println!(
                    "round {round}: {} {with:.2} Gbit/s, plain {without:.2} Gbit/s",
                    plane.name()
                );
                plain.push(without);
                rate.push(with);
                ratio.push(with / without);
            }
        }
        let packets = match offload {
            true => "offloads on",
            false => "packets of one segment",
        };
        println!("{packets}: plain forwarding {plain} Gbit/s");
        for (plane, (rate, ratio)) in DataPlane::ALL.into_iter().zip(&carried) {
            let name = plane.name();
            println!(
                "{packets}: sendbox `{name}` with a receivebox {rate} Gbit/s, / plain {ratio}"
            );
        }
    }
    Ok(())
}

/// Gbit/s that the receiver's host reads.
fn measure(arguments: &Arguments, offload: bool, plane: Option<DataPlane>) -> anyhow::Result<f64> {
    let sites = TwoSites::wired()?;
    if !offload {
        sites.without_offload()?;
    }
    let Some(plane) = plane else {
        let bulk = sites.bulk(Family::V4, arguments.flows)?;
        return Ok(rate(&bulk, arguments));
    };
    let files = Files::new(&arguments.program, 1, NO_LIMIT)?;
    let _receive = files.receive(&sites)?;
    let send = files.send(&sites, plane)?;
    let bulk = sites.bulk(Family::V4, arguments.flows)?;
    send.await_control()?;
    let found = rate(&bulk, arguments);
    // What was released meanwhile was not measured as a box.
    send.await_control()?;
    let status = send.status().unwrap_or_default();
    for count in ["stalls", "passed", "clock_jumps"] {
        if let Some(1..) = status[count].as_u64() {
            println!("{}: {count}: {}", plane.name(), status[count]);
        }
    }
    Ok(found)
}

fn rate(bulk: &Bulk, arguments: &Arguments) -> f64 {
    thread::sleep(WARM_UP);
    let (began, before) = (Instant::now(), bulk.received());
    thread::sleep(Duration::from_secs(arguments.seconds));
    let bytes = bulk.received() - before;
    bytes as f64 * 8e-9 / began.elapsed().as_secs_f64()
}
