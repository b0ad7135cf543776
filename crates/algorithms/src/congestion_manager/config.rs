//! How a [`CongestionManager`] behaves, and how text says so.

use fairwater_plane::{Algorithm, AlgorithmError, By, Programs};

use super::CongestionManager;
use crate::parameter::{Configuration, Named, ParameterField, ParameterSpec};
use crate::registry::Choice;
use crate::{Cubic, CubicConfig};

/// What the members' shares follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Share {
    /// All have the same.
    #[default]
    Equal,
    /// As much more as their tag says: a flow of tag 3 has three times what one of tag 1 or none
    /// has. Tags above 1000 count as 1000.
    Weighted,
    /// What they use, as far as it is no more than the others can have.
    Demand,
}

/// How a [`CongestionManager`] behaves.
#[derive(Debug, Clone)]
pub struct CongestionManagerConfig {
    /// What controls the members together.
    pub algorithm: Choice,
    /// Which flows are members of one aggregate.
    pub by: By,
    /// What their shares follow.
    pub share: Share,
    /// Reports of each member in a round trip, from 1 to 64.
    pub reports: u64,
}

impl Default for CongestionManagerConfig {
    fn default() -> Self {
        Self {
            algorithm: Choice::new("cubic", |programs| {
                Ok(Box::new(Cubic::new(programs, CubicConfig::default())?))
            }),
            by: By::Host,
            share: Share::default(),
            reports: 4,
        }
    }
}

impl Configuration for CongestionManagerConfig {
    const NAME: &'static str = "congestion_manager";
    const SUMMARY: &'static str = "one algorithm for all flows of a key (CCP §6.3)";
    const PARAMETERS: &'static [ParameterSpec<Self>] = &[
        ParameterSpec::<Self>::new(
            "by",
            "what flows that are controlled together have in common",
            |c| ParameterField::Word(&mut c.by),
        ),
        ParameterSpec::<Self>::new(
            "prefix4",
            "with `by=prefix`: how much of an IPv4 address counts",
            |c| ParameterField::Bits(prefix(&mut c.by).map(|(v4, _)| v4), 32),
        )
        .by_default("24"),
        ParameterSpec::<Self>::new(
            "prefix6",
            "with `by=prefix`: how much of an IPv6 address counts",
            |c| ParameterField::Bits(prefix(&mut c.by).map(|(_, v6)| v6), 128),
        )
        .by_default("48"),
        ParameterSpec::<Self>::new(
            "share",
            "what each flow's share of the whole follows; `weighted` is by tag",
            |c| ParameterField::Word(&mut c.share),
        ),
        ParameterSpec::<Self>::new("reports", "reports of each flow in a round trip", |c| {
            ParameterField::Number(&mut c.reports, 1..=64, "a number")
        }),
        ParameterSpec::<Self>::new("algorithm", "what controls the flows together", |c| {
            ParameterField::Algorithm(&mut c.algorithm, Self::NAME)
        }),
    ];

    fn build(self, programs: &mut Programs) -> Result<Box<dyn Algorithm>, AlgorithmError> {
        Ok(Box::new(CongestionManager::new(programs, self)?))
    }
}

/// The lengths of the prefixes, where there are any.
fn prefix(by: &mut By) -> Option<(&mut u8, &mut u8)> {
    match by {
        By::Prefix { v4, v6 } => Some((v4, v6)),
        _ => None,
    }
}

impl Named for By {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("host", Self::Host),
        ("prefix", Self::Prefix { v4: 24, v6: 48 }),
        ("interface", Self::Interface),
        ("connection", Self::Connection),
        ("tag", Self::Tag),
        ("all", Self::All),
    ];
}

impl Named for Share {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("equal", Self::Equal),
        ("weighted", Self::Weighted),
        ("demand", Self::Demand),
    ];
}
