//! One result of a paper, as its file in the catalogue has it.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;

use crate::measure::Measure;
use crate::plan::Plan;

/// Where a result comes from. A verdict in one world is none in another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum World {
    /// The simulator.
    Sim,
    /// Real TCP on emulated links.
    Linux,
    /// A benchmark of this machine.
    Bench,
}

impl World {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Sim, Self::Linux, Self::Bench];

    /// As files and the command line have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Linux => "linux",
            Self::Bench => "bench",
        }
    }
}

/// A figure, a table or a section of a paper that measures something.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Short name of the paper, the folder in the catalogue: `ccp`.
    pub paper: String,
    /// Name of the result within the paper, the file's name: `14`.
    pub id: String,
    /// What is measured.
    pub title: String,
    /// The section: `§7.3`.
    pub section: String,
    /// The figure or table, if there is one.
    pub figure: Option<String>,
    /// The paper's set-up, in our own words.
    pub setup: Option<String>,
    /// What is known about differences between the paper's numbers and ours.
    pub note: Option<String>,
    /// Where it is reproduced, or would be.
    pub world: World,
    /// What runs it, in its own world first; empty: it is not run here, and `not_run` says why.
    pub runs: Vec<Run>,
    /// Worlds in which it is not run.
    pub not_run: Vec<NotRun>,
    /// Questions that the paper leaves open, answered.
    pub questions: Vec<Question>,
    /// What the paper claims.
    pub claims: Vec<Claim>,
}

impl Entry {
    /// As the command line names it: `ccp:14`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}:{}", self.paper, self.id)
    }
}

/// What runs an entry in a world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// The world.
    pub world: World,
    /// What is run there.
    pub source: Source,
    /// Ids of the claims that are judged by it; `None`: all.
    pub claims: Option<Vec<String>>,
    /// In full.
    pub full: Form,
    /// In a short time, with fewer seeds, shorter runs or fewer points.
    pub quick: Form,
}

impl Run {
    /// Whether it decides this claim.
    #[must_use]
    pub fn judges(&self, claim: &Claim) -> bool {
        let ids = self.claims.as_ref();
        ids.is_none_or(|ids| ids.contains(&claim.id))
    }
}

/// What is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A scenario's file, relative to the folder that the catalogue is in.
    Scenario(String),
    /// A subcommand of `fairwater-bench`.
    Benchmark(String),
}

impl Source {
    /// The file or the subcommand.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Scenario(name) | Self::Benchmark(name) => name,
        }
    }
}

/// How much is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    /// Changes of the scenario, `key=value`, one after another; of a benchmark, its arguments.
    pub settings: Vec<String>,
    /// Seeds to begin with; 1 to this number. Of a benchmark, its rounds.
    pub seeds: u64,
    /// While a verdict cannot be told, the seeds double up to this number.
    pub most_seeds: u64,
    /// The points of the grid that the claims need.
    pub plan: Plan,
}

/// A question that the paper leaves open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Question {
    /// The question, in our own words.
    pub asks: String,
    /// The section that leaves it open.
    pub section: String,
    /// The answer, with what it was measured by.
    pub answer: String,
}

/// A world in which an entry is not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NotRun {
    /// The world.
    pub world: World,
    /// Why.
    pub reason: String,
    /// The command that runs it by hand, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
}

/// One statement of a paper, in our own words.
#[derive(Debug, Clone, PartialEq)]
pub struct Claim {
    /// Its name within the entry.
    pub id: String,
    /// What the paper claims.
    pub text: String,
    /// The section that says it.
    pub section: String,
    /// The figure or table that shows it, if one does.
    pub figure: Option<String>,
    /// The paper's numbers, with their units; or that it gives none.
    pub theirs: String,
    /// What decides it; `None` in entries that are not run.
    pub comparison: Option<Comparison>,
}

/// What decides a claim.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// What is measured of each run.
    pub measure: &'static Measure,
    /// Of which runs, and of what in them.
    pub subject: Subject,
    /// What the measure is compared with, if with anything: the same measure of this.
    pub against: Option<Subject>,
    /// How the two are compared.
    pub scale: Scale,
    /// The check that decides.
    pub check: Check,
    /// Where the check's numbers come from: the paper, or a margin of ours.
    pub bound: String,
    /// Place of the check in the file, for messages.
    pub(crate) span: Range<usize>,
}

/// Runs, and what is measured in them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subject {
    /// Variables of the sweep with their values: the whole value, or its first part, by which values
    /// that are tables are told apart.
    pub points: BTreeMap<String, String>,
    /// The `[[flow]]`, by its name; all flows if there is none.
    pub flows: Option<String>,
    /// The link, by its name; the busiest if there is none.
    pub link: Option<String>,
    /// The size class of requests, `10kB-1MB`; all if there is none.
    pub class: Option<String>,
    /// Samples count from here, µs, so that equality is exact.
    pub from_us: Option<u64>,
    /// Samples count up to here, µs.
    pub to_us: Option<u64>,
    /// Places of its keys in the file, for messages.
    pub(crate) places: BTreeMap<&'static str, Range<usize>>,
    /// Its own place.
    pub(crate) span: Range<usize>,
}

impl Subject {
    /// Where a key of it stands, or it itself.
    pub(crate) fn place(&self, key: &str) -> Range<usize> {
        self.places.get(key).unwrap_or(&self.span).clone()
    }
}

/// How a measure is compared with another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// As it is, in the measure's unit.
    Value,
    /// Their quotient.
    Ratio,
    /// Their quotient, %.
    Percent,
    /// What is more or less than the other, % of the other.
    Change,
    /// What is more or less than the other, in the measure's unit.
    Difference,
    /// Greatest distance of the two distributions (Kolmogorov-Smirnov), 0 to 1.
    Ks,
}

/// What decides: the whole vocabulary.
#[derive(Debug, Clone, PartialEq)]
pub enum Check {
    /// From the first to the second. "Alike" is this, with a stated margin (an equivalence test).
    Within(f64, f64),
    /// At most.
    AtMost(f64),
    /// At least.
    AtLeast(f64),
    /// The measure rises from each of these to the next.
    Orders(Vec<Subject>),
    /// The distributions differ by at most this Kolmogorov-Smirnov distance.
    KsAtMost(f64),
}
