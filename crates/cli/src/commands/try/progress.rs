//! The progress of runs, on standard error.

use std::fmt::Write;
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use fairwater_experiment::{FlowProgress, Progress};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use crate::units;

/// Time between two lines of progress where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Shows progress as standard error allows.
#[derive(Debug)]
pub(super) enum ProgressDisplay {
    Quiet,
    Lines(Lines, Instant),
    Bars(Bars),
}

impl ProgressDisplay {
    pub(super) fn new(quiet: bool) -> Self {
        match quiet {
            true => Self::Quiet,
            false if io::stderr().is_terminal() => Self::Bars(Bars::default()),
            false => Self::Lines(Lines::default(), Instant::now()),
        }
    }

    pub(super) fn show(&mut self, progress: &Progress) {
        match self {
            Self::Quiet => {}
            Self::Lines(lines, since) => {
                if let Some(line) = lines.next(progress, since.elapsed()) {
                    eprintln!("{line}");
                }
            }
            Self::Bars(bars) => bars.show(progress),
        }
    }
}

/// Which try of which run.
type Attempt = (usize, u32);

/// Plain lines: one at the start of each try, and one every few seconds.
#[derive(Debug, Default)]
pub(super) struct Lines {
    last: Option<(Attempt, Duration)>,
}

impl Lines {
    /// `now` is real time, in which a simulation is quick.
    fn next(&mut self, progress: &Progress, now: Duration) -> Option<String> {
        let attempt = (progress.run, progress.attempt);
        let due = match self.last {
            Some((last, at)) if last == attempt => now >= at + LINE_EVERY,
            _ => true,
        };
        due.then(|| {
            self.last = Some((attempt, now));
            let mut line = heading(progress);
            for flow in &progress.flows {
                // Writing to a string cannot fail.
                let _ = write!(line, "; {}", describe(flow));
            }
            line
        })
    }
}

/// A bar for the run, and under it a line for each flow.
#[derive(Debug, Default)]
pub(super) struct Bars {
    all: MultiProgress,
    attempt: Option<Attempt>,
    run: Option<ProgressBar>,
    flows: Vec<ProgressBar>,
}

impl Bars {
    fn show(&mut self, progress: &Progress) {
        let attempt = (progress.run, progress.attempt);
        if self.attempt != Some(attempt) || self.flows.len() != progress.flows.len() {
            self.attempt = Some(attempt);
            self.restart(progress);
        }
        if let Some(run) = &self.run {
            run.set_message(heading(progress));
            run.set_position(progress.elapsed.as_millis() as u64);
        }
        for (bar, flow) in self.flows.iter().zip(&progress.flows) {
            bar.set_message(describe(flow));
        }
    }

    fn restart(&mut self, progress: &Progress) {
        self.clear();
        let run = ProgressBar::new(progress.duration.as_millis() as u64);
        self.run = Some(self.all.add(run.with_style(style("{bar:30} {msg}"))));
        for _ in &progress.flows {
            let line = ProgressBar::new_spinner().with_style(style("  {msg}"));
            self.flows.push(self.all.add(line));
        }
    }

    fn clear(&mut self) {
        for bar in self.flows.drain(..).chain(self.run.take()) {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn heading(progress: &Progress) -> String {
    let Progress {
        run,
        runs,
        attempt,
        elapsed,
        duration,
        ..
    } = progress;
    let elapsed = elapsed.min(duration).as_secs();
    let mut text = format!(
        "run {} of {runs}, {elapsed} of {} s",
        run + 1,
        duration.as_secs()
    );
    if *attempt > 1 {
        let _ = write!(text, " (try {attempt}: the machine disturbed the last)");
    }
    text
}

fn describe(flow: &FlowProgress) -> String {
    let mut text = format!("{}: {}", flow.label, units::bit_rate(flow.throughput_bps));
    if let Some(cwnd) = flow.cwnd_bytes {
        let _ = write!(text, ", cwnd {}", units::bytes(cwnd));
    }
    if let Some(srtt) = flow.srtt {
        let _ = write!(text, ", SRTT {}", units::duration(srtt));
    }
    if let Some(retransmissions) = flow.retransmissions {
        let _ = write!(
            text,
            ", {}",
            units::count(retransmissions as usize, "retransmission")
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(run: usize, attempt: u32, elapsed_ms: u64) -> Progress {
        Progress {
            run,
            runs: 2,
            attempt,
            elapsed: Duration::from_millis(elapsed_ms),
            duration: Duration::from_secs(30),
            flows: vec![FlowProgress {
                label: "cubic".into(),
                throughput_bps: 47.9e6,
                cwnd_bytes: Some(144_800),
                srtt: Some(Duration::from_micros(31_200)),
                retransmissions: Some(12),
            }],
        }
    }

    #[test]
    fn a_line_comes_with_each_try_and_each_five_seconds() {
        let mut lines = Lines::default();
        let mut shown = Vec::new();
        for run in 0..2 {
            for tenth in 0..=300 {
                let now = Duration::from_millis(tenth * 100);
                shown.extend(lines.next(&at(run, 1, tenth * 100), now));
            }
        }
        assert_eq!(shown.len(), 14, "{shown:#?}");
        assert_eq!(
            shown[2],
            "run 1 of 2, 10 of 30 s; \
             cubic: 47.9 Mbit/s, cwnd 145 kB, SRTT 31.2 ms, 12 retransmissions"
        );
        assert!(
            lines
                .next(&at(1, 2, 0), Duration::from_secs(31))
                .is_some_and(|line| line.contains("try 2"))
        );
    }
}
