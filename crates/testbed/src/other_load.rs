//! CPU time that other processes take while something is measured.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::num::NonZero;
use std::thread;
use std::time::Instant;

use crate::steal::MachineTime;

/// The share of the machine's CPU time that other processes may take, 0 to 1.
const MOST_FOREIGN: f64 = 0.05;
/// The share that the host of a virtual machine may take, 0 to 1.
const MOST_STEAL: f64 = 0.02;
/// Clock ticks of `/proc` in a second: `USER_HZ` is 100 wherever this runs.
const TICKS_PER_SECOND: f64 = 100.0;
/// The thread that is the parent of all others of the kernel.
const KTHREADD: u32 = 2;

/// The CPU time of other processes up to an instant: processes that are neither this one nor its
/// descendants. Threads of the kernel work for all processes, and are none of them.
#[derive(Debug, Clone, Copy)]
pub struct OtherLoad {
    at: Instant,
    ticks: u64,
    machine: MachineTime,
}

impl OtherLoad {
    /// Reads it.
    ///
    /// # Errors
    /// That `/proc` cannot be read.
    pub fn now() -> io::Result<Self> {
        let mut processes = BTreeMap::new();
        for entry in fs::read_dir("/proc")?.flatten() {
            let name = entry.file_name();
            let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // A process may end meanwhile.
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            if let Some(process) = Process::parse(&stat) {
                processes.insert(pid, process);
            }
        }
        Ok(Self {
            at: Instant::now(),
            ticks: foreign_ticks(&processes, std::process::id()),
            machine: MachineTime::now()?,
        })
    }

    /// What of the machine's CPU time others had since `earlier`, as a clause; `None` if it was little.
    #[must_use]
    pub fn disturbance_since(&self, earlier: &Self) -> Option<String> {
        let cores = thread::available_parallelism().map_or(1, NonZero::get) as f64;
        let seconds = self.at.duration_since(earlier.at).as_secs_f64() * cores;
        let ticks = self.ticks.saturating_sub(earlier.ticks) as f64;
        let steal = self.machine.steal_since(earlier.machine);
        let foreign = match seconds > 0.0 {
            true => ticks / TICKS_PER_SECOND / seconds,
            false => 0.0,
        };
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
}

/// A process by its line in `/proc/PID/stat` (proc(5)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    parent: u32,
    /// Of it and of its children that ended, in clock ticks: so nothing is lost when a child ends.
    ticks: u64,
}

impl Process {
    fn parse(stat: &str) -> Option<Self> {
        // A name may contain anything: what counts is behind its last parenthesis.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        // utime, stime, cutime, cstime: fields 14 to 17, of which two are before the parenthesis.
        let ticks = fields.get(11..15)?.iter();
        let ticks = ticks
            .map(|field| field.parse::<u64>())
            .sum::<Result<_, _>>();
        Some(Self {
            parent: fields.get(1)?.parse().ok()?,
            ticks: ticks.ok()?,
        })
    }
}

fn foreign_ticks(processes: &BTreeMap<u32, Process>, own: u32) -> u64 {
    let is_foreign = |pid: u32| {
        let mut ancestor = pid;
        // No line of ancestors is longer than there are processes.
        for _ in 0..processes.len() {
            if ancestor == own || ancestor == KTHREADD {
                return false;
            }
            let Some(process) = processes.get(&ancestor) else {
                return true;
            };
            ancestor = process.parent;
        }
        true
    };
    let foreign = processes.iter().filter(|(pid, _)| is_foreign(**pid));
    foreign.map(|(_, process)| process.ticks).sum()
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;

    #[test]
    fn ticks_of_a_process_are_behind_its_name() {
        let line = "7 (a) b) S 1 7 7 0 -1 0 0 0 0 0 30 4 200 1000 20 0 1 0 0 0 0";
        let process = Process {
            parent: 1,
            ticks: 1234,
        };
        assert_eq!(Process::parse(line), Some(process));
        assert_eq!(Process::parse("9 (cut"), None);
        assert_eq!(Process::parse(""), None);
    }

    #[test]
    fn own_descendants_and_the_kernel_are_not_foreign() {
        let of = |parent, ticks| Process { parent, ticks };
        let processes = BTreeMap::from([
            (1, of(0, 1)),
            (2, of(0, 10)),
            (3, of(2, 100)),
            (7, of(1, 1_000)),
            (8, of(7, 10_000)),
            (9, of(8, 100_000)),
            (11, of(1, 1_000_000)),
        ]);
        assert_eq!(foreign_ticks(&processes, 7), 1_000_001);
    }

    /// A loop that is not a descendant: its parent ends at once.
    #[test]
    fn a_busy_neighbour_is_a_disturbance() {
        let cores = thread::available_parallelism().unwrap().get();
        let before = OtherLoad::now().unwrap();
        let loops = "(timeout 2 sh -c 'while :; do :; done' >/dev/null 2>&1 &) ;".repeat(cores);
        Command::new("sh").args(["-c", &loops]).status().unwrap();
        thread::sleep(Duration::from_secs(1));
        let found = OtherLoad::now().unwrap().disturbance_since(&before);
        assert!(found.is_some_and(|found| found.starts_with("other processes took")));
    }
}
