//! The CPU time that the host of a virtual machine gave to others.

use std::fs;
use std::io;

/// The machine's CPU time so far, from the first line of `/proc/stat`, in clock ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MachineTime {
    total: u64,
    steal: u64,
}

impl MachineTime {
    /// Reads it.
    ///
    /// # Errors
    /// That `/proc/stat` cannot be read, or is in no form this knows.
    pub(crate) fn now() -> io::Result<Self> {
        let stat = fs::read_to_string("/proc/stat")?;
        Self::parse(&stat).ok_or_else(|| io::Error::other("/proc/stat has no line `cpu`"))
    }

    /// Parses the text of `/proc/stat` (`proc_stat(5)`): user, nice, system, idle, iowait, irq,
    /// softirq, steal; the guest times after them are part of user and nice.
    fn parse(stat: &str) -> Option<Self> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = line
            .split_whitespace()
            .map_while(|word| word.parse().ok())
            .collect();
        Some(MachineTime {
            total: ticks.iter().take(8).sum(),
            steal: *ticks.get(7)?,
        })
    }

    /// The share of CPU time stolen since `earlier`, 0 to 1.
    pub(crate) fn steal_since(self, earlier: MachineTime) -> f64 {
        let total = self.total.saturating_sub(earlier.total);
        let steal = self.steal.saturating_sub(earlier.steal);
        if total == 0 {
            0.0
        } else {
            steal as f64 / total as f64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_a_share_of_the_time_between() {
        let before = MachineTime::parse("cpu  100 0 50 800 10 0 5 35 7 0\ncpu0 1 1 1 1 1 1 1 1\n");
        let after = MachineTime::parse("cpu  130 0 60 850 10 0 5 45 9 0\nintr 5\n");
        let (before, after) = (before.expect("a line"), after.expect("a line"));
        assert_eq!(after.steal_since(before), 0.1);
        assert_eq!(before.steal_since(before), 0.0);
    }

    #[test]
    fn a_line_without_steal_is_refused() {
        assert_eq!(MachineTime::parse("cpu  1 2 3 4 5 6 7\n"), None);
        assert_eq!(MachineTime::parse(""), None);
    }

    #[test]
    fn this_machine_has_it() {
        MachineTime::now().expect("/proc/stat is readable");
    }
}
