//! Results of papers, reproduced: a catalogue of what papers claim, and verdicts on the claims.
//!
//! An [`Entry`] is one result of a paper, a figure or a table: what runs it, and its [`Claim`]s in our
//! own words, with section, figure and numbers. A claim compares one of the [`measure`]s between points
//! of a scenario's grid, by one of five checks ([`Check`]); there is no expression language. [`judge`]
//! weighs the runs of a [`Plan`], and [`judge_benchmark`] the rounds of a benchmark, by 95 % bootstrap intervals over seeds ([`bootstrap`]), paired where two
//! points are compared, and gives a [`Verdict`]. [`atlas`] shows them as pages. No I/O.

pub mod atlas;
pub mod bootstrap;
mod distribution;
mod entry;
pub mod measure;
mod plan;
mod read;
mod verdict;

pub use entry::{
    Check, Claim, Comparison, Entry, Form, NotRun, Question, Run, Scale, Source, Subject, World,
};
pub use plan::Plan;
pub use read::Resolver;
pub use verdict::{Judged, Ours, Verdict, judge, judge_benchmark};
