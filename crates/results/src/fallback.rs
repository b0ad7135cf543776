//! Flows that ran without their algorithm for part of the time.

use serde::{Deserialize, Serialize};

/// A flow that the datapath's fallback controlled for part of the time, in its algorithm's place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fallback {
    /// The share of the flow's measured time, 0 to 1.
    pub share: f64,
    /// The kind of cause.
    pub cause: FallbackCause,
    /// The cause in words.
    pub reason: String,
}

/// Why a flow went to the fallback.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FallbackCause {
    /// The scenario has the plane silent for some time.
    Outage,
    /// The algorithm, or its whole process, did not answer for too long.
    Silent,
    /// The algorithm's process ended.
    Ended,
    /// The algorithm or its program failed, for this flow.
    Failed,
}

impl FallbackCause {
    /// The cause in words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Outage => "the plane was silent, as the scenario says",
            Self::Silent => "the algorithm blocked, or its process had no CPU",
            Self::Ended => "the algorithm's process ended",
            Self::Failed => "the algorithm or its program failed",
        }
    }
}

/// Who controls a flow of an algorithm on real TCP at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerSample {
    /// The kernel's name of the algorithm: `fw_cubic`.
    pub congestion_control: String,
    /// The local port of the flow's socket.
    pub local_port: u16,
    /// Why the fallback controls the flow; `None` where the algorithm does.
    pub fallback: Option<FallbackCause>,
}

/// Samples who controls every flow of this machine.
pub type ControllerProbe = fn() -> Vec<ControllerSample>;

/// Counts of one flow's samples.
#[derive(Debug, Clone, Copy, Default)]
pub struct FallbackCount {
    samples: u32,
    fallback: u32,
    cause: Option<FallbackCause>,
}

impl FallbackCount {
    /// Counts a sample.
    pub fn add(&mut self, fallback: Option<FallbackCause>) {
        self.samples += 1;
        self.fallback += u32::from(fallback.is_some());
        // What is for good says more than a silence before.
        self.cause = self.cause.max(fallback);
    }

    /// What they amount to; `None` if the algorithm controlled the flow in all of them.
    #[must_use]
    pub fn fallback(&self) -> Option<Fallback> {
        let cause = self.cause?;
        Some(Fallback {
            share: f64::from(self.fallback) / f64::from(self.samples),
            cause,
            reason: cause.text().to_owned(),
        })
    }
}

/// A flow of an algorithm that is silent for no more than this share of the time counts as the
/// algorithm's: on a busy machine the plane may get its CPU late.
const TOLERATED_SILENCE: f64 = 0.05;

impl Fallback {
    /// Whether the result is not the algorithm's, because the algorithm failed.
    #[must_use]
    pub fn is_failure(&self) -> bool {
        match self.cause {
            FallbackCause::Outage => false,
            FallbackCause::Silent => self.share > TOLERATED_SILENCE,
            FallbackCause::Ended | FallbackCause::Failed => true,
        }
    }

    /// Takes the reason from a notice of the run about the algorithm, by the plane's name, or about
    /// the process of its congestion control, by the kernel's name.
    pub fn explain<'n>(
        &mut self,
        algorithm: &str,
        congestion_control: &str,
        notices: impl IntoIterator<Item = &'n str>,
    ) {
        let of_flow = format!(" of {algorithm}: ");
        let of_process = format!("the process of {congestion_control} ended");
        let reason = notices.into_iter().find_map(|notice| match self.cause {
            FallbackCause::Failed => notice.split_once(&of_flow).map(|(_, why)| summary(why)),
            FallbackCause::Ended => notice.starts_with(&of_process).then(|| notice.to_owned()),
            FallbackCause::Silent | FallbackCause::Outage => None,
        });
        if let Some(reason) = reason {
            self.reason = reason;
        }
    }

    /// A sentence for tables and pages: `mine: the fallback in its place for 97.9 % of the time: …`.
    #[must_use]
    pub fn sentence(&self, flow: &str) -> String {
        format!(
            "{flow}: the fallback in its place for {:.1} % of the time: {}",
            self.share * 100.0,
            self.reason
        )
    }
}

/// The first line, and of an exception in Python its last line, which names it.
fn summary(text: &str) -> String {
    let first = text.lines().next().unwrap_or_default();
    let names_exception = |line: &&str| {
        let is_code = line.starts_with([' ', '\t']);
        !is_code && !line.starts_with("Traceback") && !line.starts_with("in the plane:")
    };
    let exception = text.lines().skip(1).filter(names_exception).last();
    match exception {
        Some(exception) if first.ends_with("raised") => format!("{first} {exception}"),
        _ => first.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(samples: &[Option<FallbackCause>]) -> Option<Fallback> {
        let mut count = FallbackCount::default();
        samples.iter().for_each(|sample| count.add(*sample));
        count.fallback()
    }

    #[test]
    fn the_share_is_that_of_the_samples_and_the_cause_the_gravest() {
        use FallbackCause::{Ended, Silent};
        assert_eq!(count(&[None, None]), None);
        assert_eq!(count(&[]), None);
        let fallback = count(&[None, Some(Silent), Some(Ended), Some(Silent)]);
        let fallback = fallback.map(|fallback| (fallback.share, fallback.cause));
        assert_eq!(fallback, Some((0.75, Ended)));
    }

    #[test]
    fn short_silences_are_no_failure_and_outages_never_are() {
        let of = |share, cause| Fallback {
            share,
            cause,
            reason: String::new(),
        };
        assert!(!of(0.04, FallbackCause::Silent).is_failure());
        assert!(of(0.2, FallbackCause::Silent).is_failure());
        assert!(of(0.001, FallbackCause::Failed).is_failure());
        assert!(!of(0.9, FallbackCause::Outage).is_failure());
    }

    #[test]
    fn the_reason_names_the_exception() {
        let mut fallback = Fallback {
            share: 0.5,
            cause: FallbackCause::Failed,
            reason: String::new(),
        };
        let notice = "0.1 s: flow 3 of mine: on_report raised\nTraceback (most recent call \
            last):\n  File \"a.py\", line 3\n    1 / 0\nZeroDivisionError: division by zero\nin the \
            plane: a report of program `mine` at 4 µs: cwnd 3 bytes";
        fallback.explain("mine", "fw_mine", ["flow 1 of other: no", notice]);
        assert_eq!(
            fallback.reason,
            "on_report raised ZeroDivisionError: division by zero"
        );
    }
}
