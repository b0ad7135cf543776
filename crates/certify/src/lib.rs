//! Whether a congestion control algorithm is fit to be let out.
//!
//! A [`Section`] is one of the evaluation criteria of RFC 9743, or a test case of the appendix of
//! draft-ietf-ccwg-bbr: a scenario and its checks, which are claims of the catalogue of `reproduce`, judged
//! by the same intervals over seeds. A [`Certificate`] holds the verdicts.
//!
//! The [search](search()) looks for the path on which an algorithm is worst: a [`Path`] is a point of the
//! search space, an [`Objective`] says what is bad about a run, and [`minimise`] makes the path that was
//! found as small as possible. Nothing here runs a simulation: callers do, and hand results in.

mod catalogue;
mod certificate;
mod minimise;
mod objective;
mod path;
mod search;

pub use catalogue::{Section, Suite, UnknownSection, sections};
pub use certificate::{Certificate, Finding, Judgement, Opinion, SectionReport, WorstPath};
pub use minimise::minimise;
pub use objective::{Fault, Objective};
pub use path::{Competitor, JitterOn, Path, Space};
pub use search::{Budget, Found, SearchError, search};
