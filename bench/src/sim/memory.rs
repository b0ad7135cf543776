//! The most memory that a simulation takes, by the kernel's account of a process of its own.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use fairwater_sim::run as simulate;

use super::Case;
use super::network::Dumbbell;

/// Each flow gets 1 Mbit/s, as few segments as make it a flow.
const NETWORK: Dumbbell = Dumbbell {
    name: "10 Gbit/s",
    flows: 10_000,
    mbit: 10_000,
    seconds: 2.0,
    start_jitter: Duration::from_millis(100),
};

/// Has this program simulate the case in another process, and prints what that needed.
pub(super) fn measure(case: &Case) -> anyhow::Result<()> {
    let output = Command::new(std::env::current_exe()?)
        .args(["sim", "--memory-of", case.name])
        .output()?;
    ensure!(
        output.status.success(),
        "{}: {}",
        case.name,
        String::from_utf8_lossy(&output.stderr)
    );
    print!("{}", String::from_utf8_lossy(&output.stdout));
    Ok(())
}

/// Simulates in this process, and prints the most that it ever had.
pub(super) fn report(case: &Case) -> anyhow::Result<()> {
    let outcome = simulate(&NETWORK.config(&case.controller), case.plane()?, &mut ())?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1));
    let kib: u64 = kib.context("the kernel does not tell VmHWM")?.parse()?;
    println!(
        "{} bulk flows over {} for {} s, {}: {} MiB at most ({} packet-hops)",
        NETWORK.flows,
        NETWORK.name,
        NETWORK.seconds,
        case.name,
        kib >> 10,
        outcome.hops
    );
    Ok(())
}
