//! Values of a benchmark in its rounds, and what else used the machine meanwhile.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use fairwater_results::BenchmarkResult;

use crate::statistics::Rounds;

/// The share of the machine's CPU time that other processes may take in a round, 0 to 1.
const MOST_FOREIGN: f64 = 0.05;
/// The share that the host of a virtual machine may take, 0 to 1.
const MOST_STEAL: f64 = 0.02;

/// What a benchmark measured so far.
pub(crate) struct Record {
    result: BenchmarkResult,
    begun: Option<Usage>,
}

/// CPU time used up to an instant, in clock ticks.
struct Usage {
    at: Instant,
    foreign: u64,
    machine: MachineTicks,
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
        self.begun = Some(Usage::now()?);
        Ok(())
    }

    /// Adds a value of this round.
    pub(crate) fn push(&mut self, measure: &str, variables: &[(&str, &str)], value: f64) {
        self.result.push(measure, variables, value);
    }

    /// Ends a round: says on standard error what disturbed it, if anything did.
    pub(crate) fn end_round(&mut self) -> anyhow::Result<()> {
        let disturbed = match &self.begun {
            Some(begun) => disturbance(begun, &Usage::now()?),
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
    /// Taken by the host of a virtual machine.
    pub(crate) steal: u64,
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
        // user, nice, system, idle, iowait, irq, softirq, steal
        let [user, nice, system, _, _, irq, softirq, steal, ..] = ticks[..] else {
            anyhow::bail!("/proc/stat begins with {line:?}");
        };
        Ok(Self {
            user: user + nice,
            system,
            interrupts: irq + softirq,
            steal,
        })
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
            interrupts: self.interrupts.saturating_sub(before.interrupts),
            steal: self.steal.saturating_sub(before.steal),
        }
    }

    /// All that was busy for processes and interrupts.
    pub(crate) fn busy(self) -> u64 {
        self.user + self.system + self.interrupts
    }
}

/// Seconds of that many clock ticks: USER_HZ is 100 on all architectures of Linux that this runs on.
pub(crate) fn tick_seconds(ticks: u64) -> f64 {
    ticks as f64 / 100.0
}

impl Usage {
    fn now() -> anyhow::Result<Self> {
        Ok(Self {
            at: Instant::now(),
            foreign: foreign_ticks()?,
            machine: MachineTicks::now()?,
        })
    }
}

/// CPU time of all processes but this one and the kernel's threads, with that of their children that
/// ended (proc(5), /proc/pid/stat).
fn foreign_ticks() -> anyhow::Result<u64> {
    let own = std::process::id();
    let mut sum = 0;
    for entry in fs::read_dir("/proc")?.flatten() {
        let pid = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok());
        let Some(pid) = pid.filter(|pid| *pid != own) else {
            continue;
        };
        // A process may end meanwhile.
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        sum += process_ticks(pid, &stat).unwrap_or(0);
    }
    Ok(sum)
}

/// The ticks of a process by its line; `None` of the kernel's threads: they work for this process, too.
fn process_ticks(pid: u32, stat: &str) -> Option<u64> {
    /// The thread that is the parent of all others of the kernel.
    const KTHREADD: u32 = 2;
    // A name may contain anything: what counts is behind its last parenthesis.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let parent: u32 = fields.get(1)?.parse().ok()?;
    if pid == KTHREADD || parent == KTHREADD {
        return None;
    }
    // utime, stime, cutime, cstime: fields 14 to 17, of which two are before the parenthesis.
    let ticks = fields.get(11..15)?.iter().map(|field| field.parse::<u64>());
    ticks.sum::<Result<u64, _>>().ok()
}

fn disturbance(before: &Usage, after: &Usage) -> Option<String> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let seconds = after.at.duration_since(before.at).as_secs_f64() * cores as f64;
    if seconds <= 0.0 {
        return None;
    }
    let foreign = tick_seconds(after.foreign.saturating_sub(before.foreign)) / seconds;
    let steal = tick_seconds(after.machine.since(before.machine).steal) / seconds;
    let mut causes = Vec::new();
    if foreign > MOST_FOREIGN {
        causes.push(format!(
            "other processes took {:.0} % of the machine",
            foreign * 100.0
        ));
    }
    if steal > MOST_STEAL {
        causes.push(format!("{:.1} % of CPU time was stolen", steal * 100.0));
    }
    (!causes.is_empty()).then(|| causes.join(" and "))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn ticks_of_a_process_are_behind_its_name() {
        let line = "7 (a) b) S 1 7 7 0 -1 0 0 0 0 0 30 4 200 1000 20 0 1 0 0 0 0";
        assert_eq!(process_ticks(7, line), Some(1234));
        let kernel = "9 (kworker/0:1) I 2 0 0 0 -1 0 0 0 0 0 30 4 0 0 20 0 1 0 0 0 0";
        assert_eq!(process_ticks(9, kernel), None);
        assert_eq!(process_ticks(9, "9 (cut"), None);
    }

    #[test]
    fn a_busy_neighbour_disturbs_a_round() {
        let mut record = Record::new("test");
        record.begin_round().unwrap();
        let mut other = std::process::Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(500));
        let cores = std::thread::available_parallelism().unwrap().get() as f64;
        record.end_round().unwrap();
        other.kill().unwrap();
        other.wait().unwrap();
        // Of a machine with many cores, one loop is less.
        if 1.0 / cores > 2.0 * MOST_FOREIGN {
            assert!(record.result.disturbed[0].is_some());
        }
    }
}
