//! What a certification found.

use fairwater_reproduce::{Judged, Ours, Verdict};
use serde::Serialize;

use crate::objective::{Fault, Objective};

/// What a check says of an algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Opinion {
    /// The whole 95 % interval over seeds is within the bound.
    Passes,
    /// The whole interval is beyond the bound.
    FallsShort,
    /// The interval reaches over the bound, or nothing was measured.
    CannotBeTold,
    /// The simulator cannot run it.
    NotRun,
}

impl Opinion {
    /// For people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Passes => "passes",
            Self::FallsShort => "falls short",
            Self::CannotBeTold => "cannot be told",
            Self::NotRun => "not run",
        }
    }
}

impl From<Verdict> for Opinion {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Holds => Self::Passes,
            Verdict::DoesNotHold => Self::FallsShort,
            Verdict::CannotBeTold => Self::CannotBeTold,
            Verdict::NotRun => Self::NotRun,
        }
    }
}

/// A check with its verdict.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judgement {
    /// Name of the check within its section.
    pub id: String,
    /// What is checked.
    pub text: String,
    /// The section of the document that asks for it.
    pub section: String,
    /// The measure, by its name in the catalogue of `reproduce`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measure: Option<&'static str>,
    /// The check, as a phrase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// Where the bound comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<String>,
    /// What was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<Ours>,
    /// The verdict.
    pub opinion: Opinion,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl From<Judged> for Judgement {
    fn from(judged: Judged) -> Self {
        Self {
            id: judged.id,
            text: judged.text,
            section: judged.section,
            measure: judged.measure,
            check: judged.check,
            bound: judged.bound,
            measured: judged.ours,
            opinion: judged.verdict.into(),
            reason: judged.reason,
        }
    }
}

/// Something that must not happen on any path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// Where: a section, or a path of the search.
    pub at: String,
    /// What happened, as a sentence.
    pub what: String,
    /// The scenario that shows it, relative to the folder of the certificate.
    pub scenario: String,
}

/// A section with its verdicts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SectionReport {
    /// Name of the section.
    pub id: String,
    /// What is looked at.
    pub title: String,
    /// The document and the section: `RFC 9743 §5.1.2`.
    pub cites: String,
    /// The scenario, relative to the folder of the certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    /// What is known to be missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The verdicts.
    pub checks: Vec<Judgement>,
}

/// The worst path that a search found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorstPath {
    /// What was searched for.
    pub objective: Objective,
    /// How many paths were tried.
    pub paths: u64,
    /// The worst of them; `None` where nothing could be run.
    pub fault: Option<Fault>,
    /// Whether that is a fault: beyond the bound.
    pub is_fault: bool,
    /// The smallest scenario that shows it, relative to the folder of the certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    /// Text of that scenario.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// What a certification found: the same algorithm, form and seed give the same.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Certificate {
    /// The algorithm, as it was named.
    pub algorithm: String,
    /// The version of Fairwater.
    pub version: &'static str,
    /// Whether the quick form was run.
    pub quick: bool,
    /// Seed of the search.
    pub seed: u64,
    /// The sections.
    pub sections: Vec<SectionReport>,
    /// Failures, blocks and invalid windows.
    pub findings: Vec<Finding>,
    /// The worst paths, of each objective that was searched.
    pub worst: Vec<WorstPath>,
}

impl Certificate {
    /// How many checks have this verdict.
    #[must_use]
    pub fn count(&self, opinion: Opinion) -> usize {
        let checks = self.sections.iter().flat_map(|section| &section.checks);
        checks.filter(|check| check.opinion == opinion).count()
    }
}
