//! How long nothing arrives when a sendbox hangs, and when it is killed.

use std::thread;
use std::time::Duration;

use fairwater_testbed::{Family, Machine, Ping, TwoSites};
use rustix::process::Signal;

use super::Program;
use super::running::{DataPlane, Files};
use crate::statistics::Rounds;

/// How to measure.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    program: Program,
    /// Rounds; each stops and kills each sendbox once.
    #[arg(long, default_value_t = 11)]
    rounds: usize,
}

/// Datagrams of a measurement, and the time between two.
const DATAGRAMS: usize = 1_500;
const INTERVAL: Duration = Duration::from_millis(1);
/// When the box is disturbed.
const BEFORE: Duration = Duration::from_millis(700);

/// What is measured of one kind of disturbance.
#[derive(Default)]
struct Found {
    gap_ms: Rounds,
    lost: Rounds,
}

/// Measures and prints.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let files = Files::new(&arguments.program, 1, "algorithm = \"copa\"\n")?;
    let disturbances = [
        ("undisturbed", None),
        ("hung (SIGSTOP)", Some(Signal::STOP)),
        ("killed (SIGKILL)", Some(Signal::KILL)),
    ];
    for plane in DataPlane::ALL {
        let sites = TwoSites::wired()?;
        let _receive = files.receive(&sites)?;
        let mut found = disturbances.map(|_| Found::default());
        for round in 1..=arguments.rounds {
            let send = files.send(&sites, plane)?;
            for ((_, signal), found) in disturbances.iter().zip(&mut found) {
                let pings = thread::scope(|scope| {
                    let disturb = scope.spawn(|| -> anyhow::Result<()> {
                        thread::sleep(BEFORE);
                        signal.map_or(Ok(()), |signal| send.signal(signal))
                    });
                    let pings = sites.ping(Machine::Sender, Family::V4, (DATAGRAMS, INTERVAL));
                    let disturbed = disturb.join();
                    disturbed.unwrap_or_else(|_| Err(anyhow::anyhow!("no signal was sent")))?;
                    anyhow::Ok(pings?)
                })?;
                found.gap_ms.push(longest_gap(&pings).as_secs_f64() * 1e3);
                let lost = pings.iter().filter(|ping| ping.delay.is_none());
                found.lost.push(lost.count() as f64);
                if *signal == Some(Signal::STOP) {
                    send.signal(Signal::CONT)?;
                    send.await_status("an answer", |_| true)?;
                }
            }
            eprintln!("{}: round {round} of {}", plane.name(), arguments.rounds);
        }
        for ((name, _), Found { gap_ms, lost }) in disturbances.iter().zip(&found) {
            println!(
                "sendbox `{}`, {name}: longest time without a datagram {gap_ms:.1} ms, of {DATAGRAMS} lost {lost:.0}",
                plane.name()
            );
        }
    }
    Ok(())
}

/// The longest time between the sending of two datagrams that came back: one was sent about each millisecond.
fn longest_gap(pings: &[Ping]) -> Duration {
    let answered = pings.iter().filter(|ping| ping.delay.is_some());
    let sent: Vec<Duration> = answered.map(|ping| ping.sent).collect();
    let gaps = sent.windows(2).map(|pair| pair[1] - pair[0]);
    gaps.max().unwrap_or(Duration::MAX)
}
