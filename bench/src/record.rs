//! Values of a benchmark in its rounds, and what else used the machine meanwhile.

use std::collections::BTreeMap;
use std::fs;

use fairwater_results::BenchmarkResult;
use fairwater_testbed::OtherLoad;

use crate::statistics::Rounds;

/// What a benchmark measured so far.
pub(crate) struct Record {
    result: BenchmarkResult,
    begun: Option<OtherLoad>,
}

impl Record {
    pub(crate) fn new(benchmark: &str) -> Self {
        Self {
            result: BenchmarkResult::new(benchmark),
            begun: None,
        }
    }

    /// Begins a round.
    pub(crate) fn begin_round(&mut self) -> anyhow::Result<()> {
        self.begun = Some(OtherLoad::now()?);
        Ok(())
    }

    /// Adds a value of this round.
    pub(crate) fn push(&mut self, measure: &str, variables: &[(&str, &str)], value: f64) {
        self.result.push(measure, variables, value);
    }

    /// Ends a round: says on standard error what disturbed it, if anything did.
    pub(crate) fn end_round(&mut self) -> anyhow::Result<()> {
        let disturbed = match &self.begun {
            Some(begun) => OtherLoad::now()?.disturbance_since(begun),
            None => None,
        };
        if let Some(what) = &disturbed {
            eprintln!("round {}: {what}", self.result.rounds() + 1);
        }
        self.result.disturbed.push(disturbed);
        Ok(())
    }

    /// The rounds of a measure.
    pub(crate) fn rounds(&self, measure: &str, variables: &[(&str, &str)]) -> Rounds {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let wanted: BTreeMap<String, String> = variables.iter().map(owned).collect();
        let mut rounds = Rounds::default();
        for value in self.result.find(measure, &wanted).unwrap_or_default() {
            rounds.push(*value);
        }
        rounds
    }

    /// All values as JSON, which `fairwater reproduce` reads.
    pub(crate) fn json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string(&self.result)?)
    }
}

/// CPU time of the machine since it started, in clock ticks of all cores (proc(5), /proc/stat).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct MachineTicks {
    /// Processes in user space, nice ones included.
    pub(crate) user: u64,
    /// The kernel for processes.
    pub(crate) system: u64,
    /// Interrupts, hard and soft.
    pub(crate) interrupts: u64,
}

impl MachineTicks {
    pub(crate) fn now() -> anyhow::Result<Self> {
        let stat = fs::read_to_string("/proc/stat")?;
        let line = stat.lines().next().unwrap_or_default();
        let ticks: Vec<u64> = line
            .split_whitespace()
            .skip(1)
            .map_while(|word| word.parse().ok())
            .collect();
        // user, nice, system, idle, iowait, irq, softirq
        let [user, nice, system, _, _, irq, softirq, ..] = ticks[..] else {
            anyhow::bail!("/proc/stat begins with {line:?}");
        };
        Ok(Self {
            user: user + nice,
            system,
            interrupts: irq + softirq,
        })
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            interrupts: self.interrupts.saturating_sub(before.interrupts),
        }
    }

    /// All that was busy for processes and interrupts.
    pub(crate) fn busy(self) -> u64 {
        self.user + self.system + self.interrupts
    }
}

/// Seconds of that many clock ticks: `USER_HZ` is 100 wherever this runs.
pub(crate) fn tick_seconds(ticks: u64) -> f64 {
    ticks as f64 / 100.0
}
