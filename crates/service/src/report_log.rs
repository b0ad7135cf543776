//! The last reports of all flows, so that what went before an incident can be told.

use fairwater_plane::{FlowId, ProgramId, RawReport};

/// Words of a record besides the report's fields: how many fields, the flow, the program, the time,
/// cwnd, rate; and behind the fields their number again, to find a record's start from its end.
const HEAD: usize = 6;
const OVERHEAD: usize = HEAD + 1;

/// A ring of reports. The oldest make room for the newest, whosever they are.
#[derive(Debug, Default)]
pub(crate) struct ReportLog {
    words: Box<[u64]>,
    /// Words written from the start on.
    written: u64,
}

/// A report of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LoggedReport {
    pub(crate) program: ProgramId,
    pub(crate) time_us: u64,
    pub(crate) cwnd: u64,
    pub(crate) rate: u64,
    pub(crate) fields: Vec<u64>,
}

impl ReportLog {
    /// A log in so many bytes; none keeps nothing.
    pub(crate) fn with_bytes(bytes: usize) -> Self {
        Self {
            words: vec![0; bytes / 8].into_boxed_slice(),
            written: 0,
        }
    }

    /// Keeps a report.
    #[inline]
    pub(crate) fn push(&mut self, flow: FlowId, report: &RawReport<'_>) {
        if report.fields.len() + OVERHEAD > self.words.len() {
            return;
        }
        let count = report.fields.len() as u64;
        self.write(count);
        self.write(pair(flow.slot, flow.generation));
        self.write(pair(report.program.algorithm(), report.program.index()));
        self.write(report.time_us);
        self.write(report.cwnd);
        self.write(report.rate);
        for field in report.fields {
            self.write(*field);
        }
        self.write(count);
    }

    #[inline]
    fn write(&mut self, word: u64) {
        let at = self.written % self.words.len() as u64;
        // Below the length, which is a `usize`.
        if let Some(oldest) = self.words.get_mut(at as usize) {
            *oldest = word;
        }
        self.written += 1;
    }

    fn read(&self, at: u64) -> u64 {
        let at = at.checked_rem(self.words.len() as u64).unwrap_or(0);
        self.words.get(at as usize).copied().unwrap_or(0)
    }

    /// The last reports of a flow, at most so many, the oldest first.
    pub(crate) fn last(&self, flow: FlowId, most: usize) -> Vec<LoggedReport> {
        let oldest = self.written.saturating_sub(self.words.len() as u64);
        let mut found = Vec::new();
        let mut end = self.written;
        while end > oldest && found.len() < most {
            let count = self.read(end - 1);
            let Some(start) = end.checked_sub(count + OVERHEAD as u64) else {
                break;
            };
            if start < oldest {
                break;
            }
            if self.read(start + 1) == pair(flow.slot, flow.generation) {
                let program = self.read(start + 2);
                let first = start + HEAD as u64;
                found.push(LoggedReport {
                    program: ProgramId::new((program >> 32) as u32, program as u32),
                    time_us: self.read(start + 3),
                    cwnd: self.read(start + 4),
                    rate: self.read(start + 5),
                    fields: (first..first + count).map(|at| self.read(at)).collect(),
                });
            }
            end = start;
        }
        found.reverse();
        found
    }
}

fn pair(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn report(fields: &[u64], time_us: u64) -> RawReport<'_> {
        RawReport {
            program: ProgramId::new(1, 2),
            time_us,
            cwnd: 3,
            rate: 4,
            fields,
        }
    }

    #[test]
    fn a_log_without_memory_keeps_nothing() {
        let mut log = ReportLog::default();
        let flow = FlowId {
            slot: 0,
            generation: 1,
        };
        log.push(flow, &report(&[1, 2], 5));
        assert_eq!(log.last(flow, 8), []);
    }

    proptest! {
        /// Whatever was written, the log tells the newest reports of each flow, whole and in order.
        #[test]
        fn the_last_reports_of_a_flow_are_found(
            reports in prop::collection::vec((0u32..4, prop::collection::vec(any::<u64>(), 0..9)), 0..200),
            bytes in 0usize..2000,
            most in 1usize..9,
        ) {
            let mut log = ReportLog::with_bytes(bytes);
            for (time_us, (slot, fields)) in (0u64..).zip(&reports) {
                let flow = FlowId { slot: *slot, generation: 1 };
                log.push(flow, &report(fields, time_us));
            }
            for slot in 0..4 {
                let flow = FlowId { slot, generation: 1 };
                let found = log.last(flow, most);
                prop_assert!(found.len() <= most);
                let all: Vec<_> = (0u64..).zip(&reports).filter(|(_, r)| r.0 == slot).collect();
                prop_assert!(found.len() <= all.len());
                // With room for all, none is missing.
                let words: usize = reports.iter().map(|(_, fields)| fields.len() + OVERHEAD).sum();
                if words <= bytes / 8 {
                    prop_assert_eq!(found.len(), all.len().min(most));
                }
                let kept: Vec<_> = found.iter().map(|r| (r.time_us, r.fields.clone())).collect();
                let newest: Vec<_> = all[all.len() - found.len()..]
                    .iter()
                    .map(|(time, (_, fields))| (*time, fields.clone()))
                    .collect();
                // A report that never fitted is left out, and so are those before it… of the ring's size.
                if reports.iter().all(|(_, fields)| fields.len() + OVERHEAD <= bytes / 8) {
                    prop_assert_eq!(kept, newest);
                }
            }
            let stranger = FlowId { slot: 1, generation: 2 };
            prop_assert!(log.last(stranger, most).is_empty());
        }
    }
}
