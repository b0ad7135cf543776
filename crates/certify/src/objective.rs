//! What is bad about a run: four objectives, each with the bound from which on it is a fault.

use fairwater_results::PointResult;
use serde::Serialize;

use crate::path::{Path, Space};

/// What stands in for an algorithm to tell what a path allows.
const REFERENCE: &str = "native:cubic";

/// What the search maximises.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// One flow has many times the throughput of another.
    Starvation,
    /// The flows carry a small part of what the reference carries.
    Collapse,
    /// Flows of the algorithm alone keep a standing queue.
    StandingQueue,
    /// Several flows keep a standing queue where one flow keeps none.
    LockIn,
}

/// What the objective says of a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Fault {
    /// Starvation: greatest over least throughput of a flow. Collapse: throughput of the reference over that
    /// of the algorithm. Standing queue and lock-in: median queueing delay, less five packets a flow, over the
    /// round trip.
    pub value: f64,
    /// Starvation: the same of `native:cubic` in the algorithm's place. Collapse: the share of the link that
    /// `native:cubic` uses. Lock-in: the same of one flow of the algorithm alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<f64>,
}

/// Least throughput that a flow is counted with, bit/s, so that ratios stay finite: a packet in five seconds.
const LEAST_BPS: f64 = 2_400.0;

/// Packets of a flow that may wait without being a standing queue: an algorithm needs some to know the
/// path's rate.
const PACKETS_A_FLOW: f64 = 5.0;

impl Objective {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Starvation,
        Self::Collapse,
        Self::StandingQueue,
        Self::LockIn,
    ];

    /// As the command line and files have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starvation => "starvation",
            Self::Collapse => "collapse",
            Self::StandingQueue => "standing-queue",
            Self::LockIn => "lock-in",
        }
    }

    /// The value from which on a run shows the fault.
    #[must_use]
    pub const fn bound(self) -> f64 {
        match self {
            // Arun et al., SIGCOMM 2022 §2: a ratio without bound; ten is far beyond any unfairness.
            Self::Starvation => 10.0,
            Self::Collapse => 4.0,
            Self::StandingQueue | Self::LockIn => 1.0,
        }
    }

    /// What the value is, for people.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Starvation => "greatest over least throughput of a flow",
            Self::Collapse => "throughput of native:cubic on this path over the algorithm's",
            Self::StandingQueue | Self::LockIn => {
                "median queueing delay, less five packets a flow, over the round trip"
            }
        }
    }

    /// The paths that are searched.
    #[must_use]
    pub const fn space(self) -> Space {
        match self {
            Self::Starvation => Space {
                flows: (1, 4),
                competitors: (0, 2),
                jitter_percent: 50,
                loss_bp: 50,
            },
            Self::Collapse => Space {
                flows: (1, 2),
                competitors: (0, 0),
                jitter_percent: 50,
                loss_bp: 200,
            },
            Self::StandingQueue => Space {
                flows: (1, 8),
                competitors: (0, 0),
                jitter_percent: 20,
                loss_bp: 0,
            },
            Self::LockIn => Space {
                flows: (2, 8),
                competitors: (0, 0),
                jitter_percent: 0,
                loss_bp: 0,
            },
        }
    }

    /// Whether the path has what the objective needs at all: two flows, for starvation.
    #[must_use]
    pub const fn applies(self, path: &Path) -> bool {
        match self {
            Self::Starvation => path.flows + path.competitors > 1,
            Self::LockIn => path.flows > 1,
            Self::Collapse | Self::StandingQueue => path.flows > 0,
        }
    }

    /// The scenario that a run is held against, if it is needed to tell: it is not where the run is good.
    #[must_use]
    pub fn reference(self, path: &Path, run: &PointResult, algorithm: &str) -> Option<String> {
        match self {
            Self::Starvation => (ratio(run) >= self.bound()).then(|| path.scenario(REFERENCE)),
            Self::Collapse => (used(run) < 0.8).then(|| path.scenario(REFERENCE)),
            Self::StandingQueue => None,
            Self::LockIn => (standing(path, run) >= self.bound() / 2.0).then(|| {
                let alone = Path { flows: 1, ..*path };
                alone.scenario(algorithm)
            }),
        }
    }

    /// What the run shows, with that of the reference.
    #[must_use]
    pub fn fault(self, path: &Path, run: &PointResult, reference: Option<&PointResult>) -> Fault {
        match self {
            Self::Starvation => Fault {
                value: ratio(run),
                reference: reference.map(ratio),
            },
            Self::Collapse => {
                let own = throughput(run).max(LEAST_BPS);
                let other = reference.map_or(own, throughput);
                Fault {
                    value: other / own,
                    reference: reference.map(used),
                }
            }
            Self::StandingQueue => Fault {
                value: standing(path, run),
                reference: None,
            },
            Self::LockIn => Fault {
                value: standing(path, run),
                reference: reference.map(|alone| standing(&Path { flows: 1, ..*path }, alone)),
            },
        }
    }

    /// What the search maximises of a fault: it grows with the value, and less where the path treats the
    /// reference no better.
    #[must_use]
    pub fn score(self, fault: &Fault) -> f64 {
        let value = fault.value.max(1e-3);
        match (self, fault.reference) {
            (Self::Starvation, Some(reference)) => value.ln() - reference.max(1.0).ln(),
            // Not run with the reference: below all that were.
            (Self::Starvation, None) => value.ln().min(1.0),
            (Self::Collapse, _) => value.ln(),
            (Self::StandingQueue, _) => value,
            (Self::LockIn, Some(alone)) => value - 4.0 * alone,
            (Self::LockIn, None) => value.min(0.5),
        }
    }

    /// Whether a run shows the fault: beyond the bound, and of starvation three times, of lock-in four times
    /// as bad as the reference.
    #[must_use]
    pub fn is_shown(self, fault: &Fault) -> bool {
        let is_beyond = fault.value >= self.bound();
        match self {
            Self::Starvation => {
                is_beyond
                    && fault
                        .reference
                        .is_some_and(|other| fault.value >= 3.0 * other)
            }
            Self::Collapse | Self::StandingQueue => is_beyond,
            Self::LockIn => {
                is_beyond
                    && fault
                        .reference
                        .is_some_and(|alone| fault.value >= 4.0 * alone)
            }
        }
    }
}

/// Median queueing delay beyond what the flows need to know the path, over the round trip.
fn standing(path: &Path, run: &PointResult) -> f64 {
    let spread = run.bottleneck().and_then(|edge| edge.queueing_us);
    let allowed = PACKETS_A_FLOW * f64::from(path.flows) * path.packet_time().as_secs_f64();
    let waits = spread.map_or(0.0, |spread| spread.p50 / 1e6) - allowed;
    waits.max(0.0) * 1e3 / f64::from(path.rtt_ms.max(1))
}

/// Greatest over least throughput of a flow.
fn ratio(run: &PointResult) -> f64 {
    let all = run
        .flows
        .iter()
        .map(|flow| flow.throughput_bps.max(LEAST_BPS));
    let (least, most) = all.fold((f64::INFINITY, 0.0_f64), |(least, most), bps| {
        (least.min(bps), most.max(bps))
    });
    if most > 0.0 { most / least } else { 1.0 }
}

fn throughput(run: &PointResult) -> f64 {
    run.groups.iter().map(|group| group.throughput_bps).sum()
}

/// The share of the bottleneck that is used, 0 to 1.
fn used(run: &PointResult) -> f64 {
    run.bottleneck().map_or(0.0, |edge| edge.utilisation)
}
