//! Running an experiment.

mod live;
mod measure;
mod record;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use fairwater_experiment::{Experiment, Progress};
use fairwater_results::{AtBottleneck, ControllerProbe, Lateness, RunResult, TrafficProgram};

use crate::check::links;
use crate::emulator::lateness;
use crate::error::TestbedError;
use crate::guests::EdgeAttacher;
use crate::traffic::{QuicEnds, UserPlane};
use record::Try;

/// Above this, a run counts as disturbed: the share of CPU time stolen.
const MOST_STEAL: f64 = 0.02;

/// Above this, a run counts as disturbed: the lateness of the 99th of 100 packets, ms.
const MOST_LATENESS_MS: f64 = 1.0;

/// A run on real TCP.
#[derive(Debug, Clone)]
pub struct Run<'a> {
    /// Two hosts joined by one link in each direction, and bulk flows from the one to the other.
    pub experiment: &'a Experiment,
    /// By flow: the sender's congestion control.
    pub senders: Vec<KernelSender>,
    /// The program that sends; to a congestion control at both ends always
    /// [`TrafficProgram::Bulk`], since iperf3 sets it only once connected.
    pub program: TrafficProgram,
    /// Whether flows go over IPv6.
    pub ipv6: bool,
    /// Maximum attempts for a run disturbed by other load on the machine; at least 1.
    pub tries: u32,
    /// Samples who controls flows; `None` where the kernel's own algorithms alone run.
    pub controllers: Option<ControllerProbe>,
    /// Puts boxes at the ports of guests, for flows that are behind one.
    pub edge: Option<&'a dyn EdgeAttacher>,
    /// Where flows of a TCP in user space find their plane; `None` without such flows.
    pub user_plane: Option<UserPlane>,
    /// The ends of QUIC connections; `None` without such flows.
    pub quic: Option<Arc<dyn QuicEnds>>,
}

/// The congestion control of one flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelSender {
    /// The kernel's name of it: `cubic`, `fw_cubic`. With [`USER_TCP`](crate::USER_TCP) before it, the name of an algorithm of
    /// [`Run::user_plane`], whose flow a TCP in user space sends; with [`QUIC`](crate::QUIC), what [`Run::quic`] knows by
    /// the rest.
    pub congestion_control: String,
    /// Whether the receiver has it too: one that needs ECN is asked for it at both ends, before
    /// they connect (RFC 8257 §3.2).
    pub at_both_ends: bool,
}

/// What a run measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// By flow.
    pub flows: Vec<RunResult>,
    /// All flows together at the bottleneck.
    pub bottleneck: AtBottleneck,
}

impl Run<'_> {
    /// Runs; `progress` hears ten times a second how far the run is. Setting `cancel` ends it soon.
    /// Whatever ends it, its processes, devices and namespaces end too: with this thread, at the
    /// latest.
    ///
    /// # Errors
    /// What kept it from running, or [`TestbedError::Cancelled`].
    pub fn run(
        &self,
        cancel: &AtomicBool,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Measured, TestbedError> {
        self.check()?;
        let [forward, reverse] = links(self.experiment)?;
        let best = least_disturbed(self.tries, |attempt| {
            let mut now = Progress {
                run: 0,
                runs: 1,
                attempt,
                elapsed: Duration::ZERO,
                duration: self.experiment.duration,
                flows: Vec::new(),
            };
            Try {
                run: self,
                flows: &self.experiment.flows,
                forward,
                reverse,
                cancel,
            }
            .run(&mut now, progress)
        })?;
        Ok(best.into_measured())
    }
}

/// The release of the running kernel.
#[must_use]
pub fn kernel_release() -> String {
    let name = rustix::system::uname();
    name.release().to_string_lossy().into_owned()
}

/// Tries until one is not disturbed, `tries` times at most and once at least; the least disturbed.
fn least_disturbed(
    tries: u32,
    mut attempt: impl FnMut(u32) -> Result<Attempt, TestbedError>,
) -> Result<Attempt, TestbedError> {
    let mut best = attempt(1)?;
    for number in 2..=tries {
        if best.disturbance.is_none() {
            break;
        }
        let tried = match attempt(number) {
            Ok(tried) => tried,
            Err(cancelled @ TestbedError::Cancelled) => return Err(cancelled),
            // What ended with an earlier try, the process of an algorithm for instance, keeps the run
            // from being repeated: the earlier try stands, and says that it was disturbed.
            Err(_) => break,
        };
        if tried.severity < best.severity {
            best = tried;
        }
        best.tries = number;
    }
    Ok(best)
}

/// What a try gave.
struct Attempt {
    measured: Measured,
    disturbance: Option<String>,
    /// How disturbed it was: at most 1 counts as not.
    severity: f64,
    tries: u32,
}

impl Attempt {
    fn into_measured(self) -> Measured {
        let mut measured = self.measured;
        for flow in &mut measured.flows {
            flow.disturbed = self.disturbance.is_some();
            flow.disturbance.clone_from(&self.disturbance);
            flow.tries = self.tries;
        }
        measured
    }
}

impl Try<'_> {
    fn run(
        &self,
        now: &mut Progress,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Attempt, TestbedError> {
        let recorded = self.record(now, progress)?;
        let lateness = lateness(&recorded.emulator.lateness_ns);
        let measured = self.measure(&recorded, lateness)?;
        Ok(Attempt {
            measured,
            disturbance: disturbance(recorded.steal, lateness),
            severity: (recorded.steal / MOST_STEAL).max(lateness.p99 / MOST_LATENESS_MS),
            tries: 1,
        })
    }
}

fn disturbance(steal: f64, lateness: Lateness) -> Option<String> {
    let mut causes = Vec::new();
    if steal > MOST_STEAL {
        causes.push(format!("{:.1} % of CPU time was stolen", steal * 100.0));
    }
    if lateness.p99 > MOST_LATENESS_MS {
        causes.push(format!(
            "1 packet in 100 was over {:.1} ms late",
            lateness.p99
        ));
    }
    (!causes.is_empty()).then(|| causes.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The severity and tries of what is kept when tries are this severe.
    fn kept(tries: u32, severities: &[f64]) -> (f64, u32) {
        let mut made = severities.iter();
        let kept = least_disturbed(tries, |_| {
            let severity = *made.next().unwrap_or(&f64::NAN);
            Ok(Attempt {
                measured: Measured {
                    flows: Vec::new(),
                    bottleneck: AtBottleneck::default(),
                },
                disturbance: (severity > 1.0).then(|| "something".to_owned()),
                severity,
                tries: 1,
            })
        });
        kept.map_or((f64::NAN, 0), |kept| (kept.severity, kept.tries))
    }

    #[test]
    fn a_disturbed_run_is_repeated_and_the_least_disturbed_kept() {
        assert_eq!(kept(3, &[0.5, 0.1]), (0.5, 1));
        assert_eq!(kept(3, &[4.0, 0.9, 0.1]), (0.9, 2));
        assert_eq!(kept(3, &[4.0, 2.0, 3.0, 0.1]), (2.0, 3));
        assert_eq!(kept(1, &[4.0, 0.1]), (4.0, 1));
        assert_eq!(kept(0, &[4.0, 0.1]), (4.0, 1));
    }

    #[test]
    fn a_run_that_cannot_be_repeated_stands() {
        let kept = least_disturbed(3, |number| match number {
            1 => Ok(Attempt {
                measured: Measured {
                    flows: Vec::new(),
                    bottleneck: AtBottleneck::default(),
                },
                disturbance: Some("something".to_owned()),
                severity: 4.0,
                tries: 1,
            }),
            _ => Err(TestbedError::Timing),
        });
        assert!(kept.is_ok_and(|kept| kept.tries == 1 && kept.disturbance.is_some()));
    }

    #[test]
    fn steal_and_lateness_beyond_their_bounds_disturb() {
        let late = |p99| Lateness {
            p50: 0.01,
            p99,
            max: 30.0,
        };
        assert_eq!(disturbance(0.02, late(1.0)), None);
        let stolen = disturbance(0.031, late(0.2));
        assert_eq!(stolen.as_deref(), Some("3.1 % of CPU time was stolen"));
        let both = disturbance(0.5, late(4.0)).expect("disturbed");
        assert!(
            both.contains("50.0 %") && both.contains("over 4.0 ms late"),
            "{both}"
        );
    }
}
