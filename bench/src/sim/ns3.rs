//! The same network in ns-3: the program of `bench/ns3`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};
use serde::Deserialize;

use super::network::{ACCESS, DELAY, Dumbbell};

/// The program, built.
#[derive(Debug)]
pub(super) struct Ns3 {
    program: PathBuf,
}

/// What it prints.
#[derive(Debug, Deserialize)]
pub(super) struct Run {
    hops: f64,
    cpu_s: f64,
    later_hops: f64,
    later_cpu_s: f64,
    /// Payload bytes that arrived.
    pub(super) delivered_bytes: u64,
    /// Packets dropped at the bottleneck.
    pub(super) drops: u64,
    /// Packets waiting at the bottleneck, mean over time.
    pub(super) mean_queue_packets: f64,
}

impl Run {
    /// Million packet-hops in a second of CPU time.
    pub(super) fn rate(&self) -> f64 {
        self.hops / self.cpu_s / 1e6
    }

    /// The same, of the second half of the virtual time alone.
    pub(super) fn later_rate(&self) -> f64 {
        self.later_hops / self.later_cpu_s / 1e6
    }
}

impl Ns3 {
    /// The program, if it exists; prints a note if not.
    pub(super) fn find(program: Option<&Path>) -> Option<Self> {
        let found = program.filter(|path| path.exists());
        if found.is_none() {
            eprintln!("ns-3 is not installed (`make bench-sim` installs it): measuring ours alone");
        }
        Some(Self {
            program: found?.to_owned(),
        })
    }

    /// Simulates once, under ns-3's own CUBIC.
    pub(super) fn run(&self, network: &Dumbbell) -> anyhow::Result<Run> {
        let output = Command::new(&self.program)
            .arg(format!("--flows={}", network.flows))
            .arg(format!("--rate={}Mbps", network.mbit))
            .arg(format!("--access={}Mbps", ACCESS * network.mbit))
            .arg(format!("--delay={}ms", DELAY.as_millis()))
            .arg(format!("--buffer={}", network.buffer_packets()))
            .arg(format!("--seconds={}", network.seconds))
            .output()
            .with_context(|| format!("cannot run {}", self.program.display()))?;
        ensure!(
            output.status.success(),
            "ns-3 failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).context("ns-3 printed an unexpected result")
    }
}
