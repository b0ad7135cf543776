//! How a grid is going, on standard error.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use fairwater_results::PointResult;
use indicatif::{ProgressBar, ProgressStyle};

/// Time between two lines of progress where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Shows how many points are done, as standard error allows.
#[derive(Debug)]
pub(crate) struct Watch {
    total: usize,
    done: usize,
    shown: Shown,
}

#[derive(Debug)]
enum Shown {
    Nothing,
    Lines { last: Instant },
    Bar(ProgressBar),
}

impl Watch {
    /// Shows the progress of `total` points, of which `done` are done already.
    pub(crate) fn new(quiet: bool, total: usize, done: usize) -> Self {
        let shown = match quiet {
            true => Shown::Nothing,
            false if io::stderr().is_terminal() => {
                let style =
                    ProgressStyle::with_template("{bar:30} {pos} of {len} points{msg}, {eta} left")
                        .unwrap_or_else(|_| ProgressStyle::default_bar());
                let bar = ProgressBar::new(total as u64).with_style(style);
                bar.set_position(done as u64);
                bar.reset_eta();
                Shown::Bar(bar)
            }
            false => Shown::Lines {
                last: Instant::now(),
            },
        };
        if done > 0 && !quiet {
            eprintln!("{done} of {total} points were done before");
        }
        Watch { total, done, shown }
    }

    /// A point is done.
    pub(super) fn done(&mut self, result: &PointResult) {
        if let Shown::Nothing = self.shown {
            return;
        }
        for notice in &result.notices {
            let line = format!("point {}: {notice}", result.point);
            match &self.shown {
                Shown::Bar(bar) => bar.println(line),
                _ => eprintln!("{line}"),
            }
        }
        self.advance();
    }

    /// One more is done.
    pub(crate) fn advance(&mut self) {
        self.done += 1;
        match &mut self.shown {
            Shown::Nothing => {}
            Shown::Lines { last } => {
                if last.elapsed() >= LINE_EVERY {
                    *last = Instant::now();
                    eprintln!("{} of {} points", self.done, self.total);
                }
            }
            Shown::Bar(bar) => bar.set_position(self.done as u64),
        }
    }

    /// A point that takes real time is so far.
    pub(super) fn during(&mut self, elapsed: Duration, duration: Duration) {
        if let Shown::Bar(bar) = &self.shown {
            let (elapsed, duration) = (elapsed.min(duration).as_secs(), duration.as_secs());
            bar.set_message(format!(", {elapsed} of {duration} s"));
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
        }
    }
}
