//! How a [`CongestionManager`] behaves, and how text says so.

use fairwater_plane::{AlgorithmError, By};

use super::CongestionManager;
use crate::registry::{Choice, Entry, builder};
use crate::spec::{Parameter, Settings, within};
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

/// How the algorithm is known by name.
pub(crate) const ENTRY: Entry = Entry {
    name: "congestion_manager",
    summary: "one algorithm for all flows of a key (CCP §6.3)",
    parameters: PARAMETERS,
    parse: |settings| {
        builder(
            CongestionManagerConfig::from_settings(settings),
            CongestionManager::new,
        )
    },
};

const REPORTS: std::ops::RangeInclusive<u64> = 1..=64;

const PARAMETERS: &[Parameter] = &[
    Parameter {
        key: "by",
        range: "`host`, `prefix`, `interface`, `connection`, `tag` or `all`",
        default: "host",
        meaning: "what flows that are controlled together have in common",
    },
    Parameter {
        key: "prefix4",
        range: "from 0 to 32 bits",
        default: "24",
        meaning: "with `by=prefix`: how much of an IPv4 address counts",
    },
    Parameter {
        key: "prefix6",
        range: "from 0 to 128 bits",
        default: "48",
        meaning: "with `by=prefix`: how much of an IPv6 address counts",
    },
    Parameter {
        key: "share",
        range: "`equal`, `weighted` (by tag) or `demand`",
        default: "equal",
        meaning: "what each flow has of the whole",
    },
    Parameter {
        key: "reports",
        range: "from 1 to 64",
        default: "4",
        meaning: "reports of each flow in a round trip",
    },
    Parameter {
        key: "algorithm",
        range: "another algorithm; with parameters of its own it comes last",
        default: "cubic",
        meaning: "what controls the flows together",
    },
];

impl CongestionManagerConfig {
    fn from_settings(settings: &mut Settings<'_>) -> Self {
        let default = Self::default();
        let length =
            |bits: Option<u64>, usual| bits.and_then(|b| b.try_into().ok()).unwrap_or(usual);
        let prefix = By::Prefix {
            v4: length(settings.number("prefix4", 0..=32), 24),
            v6: length(settings.number("prefix6", 0..=128), 48),
        };
        let keys = [
            ("host", By::Host),
            ("prefix", prefix),
            ("interface", By::Interface),
            ("connection", By::Connection),
            ("tag", By::Tag),
            ("all", By::All),
        ];
        let shares = [
            ("equal", Share::Equal),
            ("weighted", Share::Weighted),
            ("demand", Share::Demand),
        ];
        Self {
            algorithm: settings
                .algorithm("algorithm", ENTRY.name)
                .unwrap_or(default.algorithm),
            by: settings.one_of("by", &keys).unwrap_or(default.by),
            share: settings.one_of("share", &shares).unwrap_or(default.share),
            reports: settings
                .number("reports", REPORTS)
                .unwrap_or(default.reports),
        }
    }

    pub(super) fn check(&self) -> Result<(), AlgorithmError> {
        if let By::Prefix { v4, v6 } = self.by {
            within(PARAMETERS, "prefix4", &(0..=32), v4, "")?;
            within(PARAMETERS, "prefix6", &(0..=128), v6, "")?;
        }
        within(PARAMETERS, "reports", &REPORTS, self.reports, "")
    }
}
