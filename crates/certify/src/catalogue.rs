//! The sections, embedded: each a file of checks and the scenario that they are about.

use std::fmt;

use fairwater_experiment::Backend;
use fairwater_reproduce::{Entry, Resolver, World};
use fairwater_scenario::{self as scenario, Scenario};
use thiserror::Error;

/// Where criteria come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suite {
    /// RFC 9743, "Specifying New Congestion Control Algorithms".
    Rfc9743,
    /// Appendix A of draft-ietf-ccwg-bbr-06.
    Bbr,
}

impl Suite {
    /// How the document is cited.
    #[must_use]
    pub const fn cited(self) -> &'static str {
        match self {
            Self::Rfc9743 => "RFC 9743",
            Self::Bbr => "draft-ietf-ccwg-bbr-06",
        }
    }

    /// Short name, for names of sections.
    const fn name(self) -> &'static str {
        match self {
            Self::Rfc9743 => "rfc9743",
            Self::Bbr => "bbr",
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.cited())
    }
}

/// One criterion with its checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Section {
    /// Where the criterion comes from.
    pub suite: Suite,
    /// Name of the section, of its files and of the folder of its results.
    pub id: &'static str,
    checks: &'static str,
    scenario: Option<&'static str>,
}

/// A section that is run.
macro_rules! run {
    ($suite:ident, $folder:literal, $id:literal) => {
        Section {
            suite: Suite::$suite,
            id: $id,
            checks: include_str!(concat!("../", $folder, "/", $id, ".toml")),
            scenario: Some(include_str!(concat!("../scenarios/", $id, ".toml"))),
        }
    };
}

/// A section that the simulator cannot run; the file says why.
macro_rules! not_run {
    ($suite:ident, $folder:literal, $id:literal) => {
        Section {
            suite: Suite::$suite,
            id: $id,
            checks: include_str!(concat!("../", $folder, "/", $id, ".toml")),
            scenario: None,
        }
    };
}

/// In the order of the documents.
const ALL: &[Section] = &[
    run!(Rfc9743, "sections", "congestion-collapse"),
    run!(Rfc9743, "sections", "bufferbloat"),
    run!(Rfc9743, "sections", "loss"),
    run!(Rfc9743, "sections", "fairness"),
    run!(Rfc9743, "sections", "short-flows"),
    run!(Rfc9743, "sections", "harm"),
    run!(Rfc9743, "sections", "real-time"),
    run!(Rfc9743, "sections", "short-and-long"),
    run!(Rfc9743, "sections", "tail-drop"),
    not_run!(Rfc9743, "sections", "tunnels"),
    run!(Rfc9743, "sections", "wireless"),
    run!(Rfc9743, "sections", "aqm"),
    not_run!(Rfc9743, "sections", "circuit-breakers"),
    run!(Rfc9743, "sections", "varying-delay"),
    run!(Rfc9743, "sections", "constrained"),
    run!(Rfc9743, "sections", "high-delay"),
    not_run!(Rfc9743, "sections", "misbehaving-nodes"),
    run!(Rfc9743, "sections", "reordering"),
    run!(Rfc9743, "sections", "transient"),
    run!(Rfc9743, "sections", "path-change"),
    not_run!(Rfc9743, "sections", "multipath"),
    run!(Rfc9743, "sections", "data-center"),
    run!(Bbr, "bbr", "bbr-a01"),
    not_run!(Bbr, "bbr", "bbr-a02"),
    run!(Bbr, "bbr", "bbr-a03"),
    not_run!(Bbr, "bbr", "bbr-a04"),
    not_run!(Bbr, "bbr", "bbr-a05"),
    not_run!(Bbr, "bbr", "bbr-a06"),
    not_run!(Bbr, "bbr", "bbr-a07"),
    not_run!(Bbr, "bbr", "bbr-a08"),
    not_run!(Bbr, "bbr", "bbr-a09"),
    run!(Bbr, "bbr", "bbr-a10"),
    not_run!(Bbr, "bbr", "bbr-a11"),
    run!(Bbr, "bbr", "bbr-a12"),
    run!(Bbr, "bbr", "bbr-a13"),
    run!(Bbr, "bbr", "bbr-a14"),
    run!(Bbr, "bbr", "bbr-a15"),
    run!(Bbr, "bbr", "bbr-a16"),
    run!(Bbr, "bbr", "bbr-a17"),
    run!(Bbr, "bbr", "bbr-a18"),
    not_run!(Bbr, "bbr", "bbr-a19"),
    not_run!(Bbr, "bbr", "bbr-a20"),
    not_run!(Bbr, "bbr", "bbr-a21"),
    not_run!(Bbr, "bbr", "bbr-a22"),
];

/// The sections that concern an algorithm of this name, without parameters: `bbr3`.
pub fn sections(algorithm: &str) -> impl Iterator<Item = &'static Section> {
    let is_bbr = matches!(algorithm, "bbr" | "bbr3");
    let all = ALL.iter();
    all.filter(move |section| section.suite != Suite::Bbr || is_bbr)
}

/// Why a section cannot be used.
#[derive(Debug, Error)]
#[error("the section {section} cannot be used:\n{reason}")]
pub struct UnknownSection {
    /// Name of the section.
    pub section: &'static str,
    /// What is wrong with it.
    pub reason: String,
}

impl Section {
    /// The checks, with the scenario set for `candidate`; `resolver` knows algorithms and files.
    ///
    /// # Errors
    /// What is wrong with the section for this candidate.
    pub fn entry(
        &self,
        candidate: &str,
        resolver: &dyn scenario::Resolver,
    ) -> Result<Entry, UnknownSection> {
        let resolver = Embedded {
            section: self,
            candidate,
            resolver,
        };
        let name = format!("{}.toml", self.id);
        Entry::parse(self.suite.name(), self.id, &name, self.checks, &resolver).map_err(|refused| {
            UnknownSection {
                section: self.id,
                reason: refused.render(false),
            }
        })
    }

    /// The text of the scenario for `candidate`, with more settings, `key=value`; `None` of a section that is
    /// not run.
    ///
    /// # Errors
    /// A setting that the scenario cannot have.
    pub fn source(&self, candidate: &str, settings: &[String]) -> Result<Option<String>, String> {
        let Some(text) = self.scenario else {
            return Ok(None);
        };
        let mut source = text.to_owned();
        let first = format!("candidate={candidate}");
        for setting in std::iter::once(&first).chain(settings) {
            source = scenario::set(&source, setting).map_err(|error| error.to_string())?;
        }
        Ok(Some(source))
    }
}

/// The scenario of a section, for the checks that name it.
struct Embedded<'a> {
    section: &'a Section,
    candidate: &'a str,
    resolver: &'a dyn scenario::Resolver,
}

impl Resolver for Embedded<'_> {
    fn scenario(&self, file: &str, settings: &[String], world: World) -> Result<Scenario, String> {
        if world != World::Sim {
            return Err("sections are run in the simulator alone".to_owned());
        }
        let source = self.section.source(self.candidate, settings)?;
        let source = source.ok_or_else(|| format!("there is no scenario {file}"))?;
        Scenario::parse(file, &source, Backend::Sim, self.resolver)
            .map_err(|refused| refused.render(false))
    }
}
