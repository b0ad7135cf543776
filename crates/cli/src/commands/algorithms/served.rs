//! Which algorithms a kind of datapath can run, and how well.

use std::collections::BTreeMap;

use comfy_table::{Table, presets};
use fairwater_algorithms::{Choice, by_spec};
use fairwater_datapath::Config;
use fairwater_plane::{Capabilities, HostedAlgorithm, Plane, Signal, SignalQuality};
use fairwater_proto::{Dialect, ccp};
use fairwater_service::obstacles;
use serde::Serialize;

use crate::failure::Failure;

/// A kind of datapath, by what it has and can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum DatapathKind {
    /// Linux TCP, by `fairwater attach`
    Linux,
    /// A transport over the datapath library, in Rust or C, that tells and enforces what the
    /// library asks for by default
    Library,
    /// The same without a pacer: it enforces windows alone
    LibraryUnpaced,
    /// A transport over the original libccp
    Libccp,
    /// Guests behind an edge, by `fairwater edge`
    Edge,
    /// Senders of the simulator
    Simulator,
}

impl DatapathKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Linux => "linux",
            Self::Library => "library",
            Self::LibraryUnpaced => "library-unpaced",
            Self::Libccp => "libccp",
            Self::Edge => "edge",
            Self::Simulator => "simulator",
        }
    }

    fn capabilities(self) -> Capabilities {
        match self {
            Self::Linux => fairwater_linux::CAPABILITIES,
            Self::Library => Config::default().capabilities(),
            Self::LibraryUnpaced => {
                let mut config = Config::default();
                config.abilities.rate = false;
                config.capabilities()
            }
            Self::Libccp => ccp::CAPABILITIES,
            Self::Edge => fairwater_edge_tc::capabilities(),
            Self::Simulator => fairwater_sim::capabilities(),
        }
    }

    const fn dialect(self) -> Dialect {
        match self {
            Self::Libccp => Dialect::Ccp,
            Self::Linux | Self::Library | Self::LibraryUnpaced | Self::Edge | Self::Simulator => {
                Dialect::Own
            }
        }
    }
}

/// What a kind of datapath has and can do, and each algorithm against it.
#[derive(Debug, Serialize)]
pub(super) struct Matches {
    datapath: &'static str,
    /// The quality of each signal, by name.
    signals: BTreeMap<&'static str, &'static str>,
    abilities: Abilities,
    fallback: &'static str,
    max_programs: u32,
    algorithms: Vec<Match>,
}

#[derive(Debug, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "independent abilities")]
struct Abilities {
    window: bool,
    rate: bool,
    ecn: bool,
    idle_restart: bool,
}

/// One algorithm on a kind of datapath.
#[derive(Debug, Serialize)]
struct Match {
    name: String,
    served: bool,
    /// Why it is refused.
    unmet: Vec<String>,
    /// The signals that it reads and that are there, but not exact, with their quality.
    inexact: BTreeMap<&'static str, &'static str>,
    /// It wants no restart after an idle period, and the datapath may restart all the same.
    may_restart_after_idle: bool,
}

impl Matches {
    /// Builds each algorithm from its name and parameters, and matches it.
    pub(super) fn of(kind: DatapathKind, specs: &[String]) -> Result<Self, Failure> {
        let mut plane = Plane::new();
        for spec in specs {
            let choice: Choice = by_spec(spec).map_err(|e| Failure::BadInput(e.to_string()))?;
            let built = plane.add(|programs| choice.build(programs));
            built.map_err(|e| Failure::BadInput(format!("{spec}: {e}")))?;
        }
        let capabilities = kind.capabilities();
        let hosted = specs.iter().zip(plane.algorithms());
        let algorithms =
            hosted.map(|(spec, hosted)| Match::of(spec, hosted, &capabilities, kind.dialect()));
        let quality = |signal: Signal| (signal.name(), capabilities.signals.of(signal).name());
        Ok(Self {
            datapath: kind.name(),
            signals: Signal::ALL.into_iter().map(quality).collect(),
            abilities: Abilities {
                window: capabilities.abilities.window,
                rate: capabilities.abilities.rate,
                ecn: capabilities.abilities.ecn,
                idle_restart: capabilities.abilities.idle_restart,
            },
            fallback: capabilities.fallback.name(),
            max_programs: capabilities.max_programs,
            algorithms: algorithms.collect(),
        })
    }

    /// What the datapath is, and a line for each algorithm.
    pub(super) fn text(&self) -> String {
        let mut table = Table::new();
        table
            .load_style(presets::NOTHING)
            .set_header(["algorithm", "", "remarks"]);
        table.add_rows(self.algorithms.iter().map(|matched| {
            let served = if matched.served { "served" } else { "refused" };
            [matched.name.clone(), served.to_owned(), matched.remarks()]
        }));
        format!(
            "{}: {}\nsignals: {}\nfallback: {}\n\n{}\n",
            self.datapath,
            self.abilities.sentence(),
            self.lacking(),
            self.fallback,
            table.trim_fmt()
        )
    }

    /// The signals that are absent, or not exact.
    fn lacking(&self) -> String {
        let all = Signal::ALL.into_iter();
        let lacking: Vec<_> = all
            .filter_map(|signal| {
                let quality = *self.signals.get(signal.name())?;
                (quality != SignalQuality::Exact.name())
                    .then(|| format!("{} {quality}", signal.name()))
            })
            .collect();
        if lacking.is_empty() {
            "all exact".to_owned()
        } else {
            format!("exact but {}", lacking.join(", "))
        }
    }
}

impl Abilities {
    fn sentence(&self) -> String {
        let controls = match (self.window, self.rate) {
            (true, true) => "enforces window and rate",
            (true, false) => "enforces windows alone, at most rate × minimum RTT",
            (false, true) => "enforces rates alone, at most cwnd / SRTT",
            (false, false) => "enforces nothing",
        };
        let ecn = if self.ecn { "ECN" } else { "no ECN" };
        let idle = if self.idle_restart {
            "restarts after idle as algorithms ask"
        } else {
            "may restart after idle"
        };
        format!("{controls}, {ecn}, {idle}")
    }
}

impl Match {
    fn of(
        spec: &str,
        hosted: &HostedAlgorithm,
        capabilities: &Capabilities,
        dialect: Dialect,
    ) -> Self {
        let unmet = obstacles(hosted, capabilities, dialect);
        let requirements = hosted.requirements();
        let inexact = requirements.inexact(capabilities);
        Self {
            name: spec.to_owned(),
            served: unmet.is_empty(),
            unmet: unmet.iter().map(ToString::to_string).collect(),
            inexact: inexact
                .filter(|(_, quality)| *quality != SignalQuality::Absent)
                .map(|(signal, quality)| (signal.name(), quality.name()))
                .collect(),
            may_restart_after_idle: !requirements.idle_restart
                && !capabilities.abilities.idle_restart,
        }
    }

    /// Why it is refused, or in what it is served less well than it could be.
    fn remarks(&self) -> String {
        let mut remarks = self.unmet.clone();
        let inexact = self.inexact.iter();
        remarks.extend(inexact.map(|(signal, quality)| format!("{signal} is {quality}")));
        if self.may_restart_after_idle {
            remarks.push("may restart after idle, which it does not want".to_owned());
        }
        remarks.join("; ")
    }
}

#[cfg(test)]
mod tests {
    use fairwater_plane::SignalQualities;

    use super::*;

    fn matched(spec: &str, capabilities: &Capabilities) -> Match {
        let mut plane = Plane::new();
        let choice = by_spec(spec).unwrap();
        plane.add(|programs| choice.build(programs)).unwrap();
        Match::of(spec, &plane.algorithms()[0], capabilities, Dialect::Own)
    }

    /// A datapath that lacks what an algorithm needs refuses it by name and reason; one that knows
    /// a signal less well runs it, and says so.
    #[test]
    fn a_poor_datapath_refuses_by_reason_and_names_what_is_inexact() {
        let mut poor = Capabilities::ALL;
        poor.abilities.ecn = false;
        poor.signals = poor.signals.with(Signal::EcnBytes, SignalQuality::Absent);
        let dctcp = matched("dctcp", &poor);
        assert!(!dctcp.served);
        assert!(
            dctcp
                .unmet
                .contains(&"its flows cannot negotiate ECN".to_owned()),
            "{dctcp:?}"
        );
        assert!(matched("constant", &poor).served);

        let mut coarse = Capabilities::ALL;
        coarse.signals = SignalQualities::exact(coarse.signals.present())
            .with(Signal::RttSampleUs, SignalQuality::Inferred)
            .with(Signal::LostPkts, SignalQuality::Degraded);
        coarse.abilities.idle_restart = false;
        let bbr = matched("bbr", &coarse);
        assert!(bbr.served);
        assert!(
            bbr.remarks()
                .contains("Flow.rtt_sample_us is inferred; may restart after idle"),
            "{}",
            bbr.remarks()
        );
    }
}
