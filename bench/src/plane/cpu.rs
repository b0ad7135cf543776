//! What a plane at rest takes of a processor, and one with as many reports as 64 flows send.

use std::fs;
use std::time::{Duration, Instant};

use anyhow::Context;
use fairwater_proto::Dialect;
use fairwater_proto::link::{DEFAULT_SPIN, Link, ring};

use super::sender::Sender;
use super::{Arguments, Running, ours};
use crate::statistics::Rounds;

/// The mean time from one report to the next where 64 flows report each 10 ms.
const GAP: Duration = Duration::from_nanos(156_250);

/// Measures and prints the plane's CPU, % of one core.
pub(crate) fn cpu(arguments: &Arguments) -> anyhow::Result<()> {
    let spins = [Duration::ZERO, DEFAULT_SPIN];
    let mut idle = spins.map(|_| Rounds::default());
    let mut busy = spins.map(|_| Rounds::default());
    for _ in 0..arguments.rounds {
        for ((spin, idle), busy) in spins.into_iter().zip(&mut idle).zip(&mut busy) {
            let running = ours::start(true, spin)?;
            let path = running.ring.as_ref().context("no ring")?;
            let link: Box<dyn Link> = Box::new(ring::Ring::connect(path, Duration::from_secs(10))?);
            let mut sender = Sender::start(link, Dialect::Own)?;
            idle.push(percent(&running, || {
                std::thread::sleep(Duration::from_secs(1));
                Ok(())
            })?);
            busy.push(percent(&running, || report(&mut sender))?);
        }
    }
    for ((spin, idle), busy) in spins.into_iter().zip(&idle).zip(&busy) {
        let spin = spin.as_micros();
        println!("plane, --spin {spin}us: idle {idle:.2} % of a core; 6,400 reports/s {busy:.2} %");
    }
    Ok(())
}

/// Reports for a second, at odd times: each gap is drawn evenly from nothing to twice the mean.
fn report(sender: &mut Sender) -> anyhow::Result<()> {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let start = Instant::now();
    let mut due = Duration::ZERO;
    while due < Duration::from_secs(1) {
        // Marsaglia's xorshift.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        due += Duration::from_nanos(random % (2 * GAP.as_nanos() as u64));
        while start.elapsed() < due {
            std::hint::spin_loop();
        }
        sender.say_report()?;
        sender.forget_answers();
    }
    Ok(())
}

/// The CPU time of the plane's thread while something is done, %.
fn percent(running: &Running, done: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<f64> {
    let (before, start) = (cpu_time(running)?, Instant::now());
    done()?;
    let used = cpu_time(running)?.saturating_sub(before);
    Ok(100.0 * used.as_secs_f64() / start.elapsed().as_secs_f64())
}

/// What the plane's thread has run so far: the first number of its `schedstat`, ns
/// (Documentation/scheduler/sched-stats.rst).
fn cpu_time(running: &Running) -> anyhow::Result<Duration> {
    let thread = running.thread.context("not our plane")?;
    let path = format!("/proc/self/task/{}/schedstat", thread.as_raw_nonzero());
    let text = fs::read_to_string(path)?;
    let ran = text.split_ascii_whitespace().next();
    Ok(Duration::from_nanos(ran.context("no numbers")?.parse()?))
}
