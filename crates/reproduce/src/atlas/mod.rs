//! The atlas: a static site with a page for each result and an index.
//!
//! Pages share the style sheet, the script and the plotting library of report pages ([`assets`]). They
//! contain no date and nothing of a machine but what Linux runs and benchmarks depend on: of the
//! simulator, the same runs make the same bytes.

mod boxes;
mod index;
mod page;
mod plots;

use std::collections::BTreeMap;

use fairwater_results::report::escaped;
use fairwater_results::{BenchmarkResult, PointResult};
use serde::{Deserialize, Serialize};

use crate::entry::{Form, Run, World};
use crate::verdict::{Judged, Verdict};

pub use index::{Listing, index};
pub use page::page;

/// The machine that runs of real TCP, or a benchmark, were measured on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Kernel: `6.18.44`.
    pub kernel: String,
    /// Model of the CPU.
    pub cpu: String,
    /// CPU cores.
    pub cores: usize,
}

/// What was measured for an entry in a world.
#[derive(Debug, Clone, PartialEq)]
pub enum Measured {
    /// Runs of a scenario, by point, in the order of the seeds.
    Points(BTreeMap<usize, Vec<PointResult>>),
    /// Rounds of a benchmark.
    Rounds(BenchmarkResult),
    /// Nothing.
    Nothing,
}

impl Measured {
    /// How many runs or rounds were disturbed, and of how many.
    fn disturbed(&self) -> (usize, usize) {
        match self {
            Self::Points(runs) => {
                let all = || runs.values().flatten();
                (all().filter(|run| run.disturbed).count(), all().count())
            }
            Self::Rounds(rounds) => {
                let calm = rounds.calm_rounds().count();
                (rounds.rounds() - calm, rounds.rounds())
            }
            Self::Nothing => (0, 0),
        }
    }
}

/// An entry in one world, as its page shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Part<'a> {
    /// The world.
    pub world: World,
    /// What ran, in which form; `None` if nothing can.
    pub run: Option<(&'a Run, &'a Form)>,
    /// The verdicts.
    pub judged: &'a [Judged],
    /// What they come from.
    pub measured: &'a Measured,
    /// Where it was measured; `None` in the simulator.
    pub machine: Option<&'a Machine>,
}

/// Files that all pages share, by their names in the folder `assets`.
#[must_use]
pub fn assets() -> Vec<(&'static str, String)> {
    let mut files = fairwater_results::report::assets().to_vec();
    let own = include_str!("../../assets/atlas.css").to_owned();
    files.push(("atlas.css", own));
    files
}

/// The verdict on a result: that of its worst claim.
#[must_use]
pub fn overall<'a>(judged: impl IntoIterator<Item = &'a Judged>) -> Verdict {
    let all: Vec<Verdict> = judged.into_iter().map(|judged| judged.verdict).collect();
    let has = |verdict| all.contains(&verdict);
    match () {
        () if has(Verdict::DoesNotHold) => Verdict::DoesNotHold,
        () if has(Verdict::CannotBeTold) => Verdict::CannotBeTold,
        () if has(Verdict::Holds) => Verdict::Holds,
        () => Verdict::NotRun,
    }
}

/// The style of a verdict's chip.
fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "holds",
        Verdict::DoesNotHold => "fails",
        Verdict::CannotBeTold => "open",
        Verdict::NotRun => "absent",
    }
}

/// A text of the catalogue as HTML: what stands between backticks is code.
fn prose(text: &str) -> String {
    let mut html = String::new();
    for (index, part) in text.split('`').enumerate() {
        // A backtick without another is one.
        let is_last = text.matches('`').count() == index;
        let part = escaped(part);
        html += &match (index % 2 == 1, is_last) {
            (true, false) => format!("<code>{part}</code>"),
            (true, true) => format!("`{part}"),
            (false, _) => part,
        };
    }
    html
}

/// A number with four digits that say something.
#[must_use]
pub fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let digits = 3.0 - value.abs().log10().floor();
    let digits = digits.clamp(0.0, 9.0) as usize;
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::{number, prose};

    #[test]
    fn backticks_mark_code() {
        assert_eq!(prose("a `b < c` d"), "a <code>b &lt; c</code> d");
        assert_eq!(prose("a ` b"), "a ` b");
        assert_eq!(prose("plain"), "plain");
    }

    #[test]
    fn numbers_have_four_digits() {
        let of = [0.0, 1.0, 103.84, 0.012_345, 12_345.6, -2.5].map(number);
        assert_eq!(of, ["0", "1", "103.8", "0.01235", "12346", "-2.5"]);
    }
}
