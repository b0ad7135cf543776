//! Makes a path smaller while it shows the fault.

use crate::objective::{Fault, Objective};
use crate::path::{Competitor, JitterOn, Path};
use crate::search::Found;

/// Rounds over all simplifications at most.
const ROUNDS: usize = 4;

/// How far beyond its bound the fault of a smaller path stays, if it was so far: a fault that barely shows
/// convinces nobody.
const BEYOND: f64 = 1.5;

/// Drops what the fault does not need, and rounds what it needs. `shows` says what a smaller path shows, and
/// `None` where that is no fault, or nothing more is to be tried.
pub fn minimise(
    objective: Objective,
    found: Found,
    shows: &mut dyn FnMut(&Path) -> Option<Fault>,
) -> Found {
    let mut smallest = found;
    let least = found.fault.value.min(objective.bound() * BEYOND);
    for _ in 0..ROUNDS {
        let before = smallest.path;
        for step in STEPS {
            for path in step(&smallest.path) {
                if path == smallest.path || path.duration_s < path.least_duration_s() {
                    continue;
                }
                if let Some(fault) = shows(&path).filter(|fault| fault.value >= least) {
                    smallest = Found { path, fault };
                    break;
                }
            }
        }
        if smallest.path == before {
            break;
        }
    }
    smallest
}

/// Paths that are simpler in one way, the simplest first.
type Step = fn(&Path) -> Vec<Path>;

const STEPS: [Step; 11] = [
    |path| {
        vec![Path {
            loss_bp: 0,
            ..*path
        }]
    },
    |path| {
        vec![Path {
            ack_gap_ms: 0,
            ..*path
        }]
    },
    |path| {
        vec![Path {
            jitter_ms: 0,
            ..*path
        }]
    },
    |path| {
        let all = Path {
            jitter_on: JitterOn::All,
            ..*path
        };
        let none = Path {
            jitter_on: JitterOn::First,
            ..*path
        };
        // Where nothing jitters, there is nobody to tell apart.
        if path.jitter_ms == 0 {
            vec![none]
        } else {
            vec![all]
        }
    },
    |path| {
        let fewer = (0..path.competitors).map(|competitors| Path {
            competitors,
            competitor: Competitor::Cubic,
            ..*path
        });
        fewer.collect()
    },
    |path| {
        (1..path.flows)
            .map(|flows| Path { flows, ..*path })
            .collect()
    },
    |path| {
        [0, 1_000]
            .map(|gap_ms| Path { gap_ms, ..*path })
            .into_iter()
            .filter(|p| p.gap_ms < path.gap_ms)
            .collect()
    },
    |path| {
        near(path.buffer_tenths, &[10, 20, 40, 80])
            .map(|buffer_tenths| Path {
                buffer_tenths,
                ..*path
            })
            .collect()
    },
    |path| {
        near(
            path.rate_kbit,
            &[2_000, 5_000, 10_000, 20_000, 50_000, 100_000],
        )
        .map(|rate_kbit| fitted(Path { rate_kbit, ..*path }))
        .collect()
    },
    |path| {
        near(path.rtt_ms, &[10, 20, 40, 100, 200])
            .map(|rtt_ms| fitted(Path { rtt_ms, ..*path }))
            .collect()
    },
    |path| {
        let shorter = [20, 30, 40, 60]
            .into_iter()
            .chain([path.least_duration_s()]);
        let shorter = shorter.filter(|s| *s < path.duration_s);
        shorter
            .map(|duration_s| Path {
                duration_s,
                ..*path
            })
            .collect()
    },
];

/// The path with time enough for its flows.
fn fitted(path: Path) -> Path {
    Path {
        duration_s: path.duration_s.max(path.least_duration_s()),
        ..path
    }
}

/// The two round numbers that are nearest by ratio; none where the value is round already.
fn near(value: u32, round: &'static [u32]) -> impl Iterator<Item = u32> {
    let distance = move |to: u32| (f64::from(to) / f64::from(value.max(1))).ln().abs();
    let mut sorted = round.to_vec();
    sorted.sort_by(|a, b| distance(*a).total_cmp(&distance(*b)));
    let is_round = round.contains(&value);
    sorted.into_iter().take(if is_round { 0 } else { 2 })
}
