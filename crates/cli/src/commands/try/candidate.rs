//! The senders that are compared, as typed: an algorithm of this project or in Python, or one of
//! the kernel's.

use std::str::FromStr;

use fairwater_hosting::{NamedAlgorithm, ResolvedAlgorithm, resolve_argument};

/// `cubic`, `cubic:report=10ms`, `my_alg.py:MyAlg` or `kernel:cubic`.
#[derive(Debug, Clone)]
pub(crate) struct CandidateArgument {
    /// The argument as typed.
    pub(super) label: String,
    pub(super) sender: Sender,
    /// What carries its flow.
    pub(super) over: Transport,
}

/// What carries flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Transport {
    /// The back end's TCP.
    Tcp,
    /// A TCP in user space.
    Utcp,
    /// QUIC.
    Quic,
}

impl Transport {
    const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Utcp => "utcp",
            Self::Quic => "quic",
        }
    }
}

#[derive(Debug, Clone)]
pub(super) enum Sender {
    /// An algorithm that a plane hosts.
    Hosted(ResolvedAlgorithm),
    /// A congestion control of the kernel's, by the kernel's name.
    Kernel(String),
}

impl Sender {
    pub(super) fn is_hosted(&self) -> bool {
        matches!(self, Sender::Hosted(_))
    }
}

impl FromStr for CandidateArgument {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let sender = match text.strip_prefix("kernel:") {
            Some("") => {
                return Err(
                    "the kernel's name of an algorithm goes behind `kernel:`: `kernel:cubic`"
                        .into(),
                );
            }
            Some(name) => Sender::Kernel(name.to_owned()),
            None => Sender::Hosted(resolve_argument(text).map_err(|error| error.to_string())?),
        };
        Ok(Self {
            label: text.to_owned(),
            sender,
            over: Transport::Tcp,
        })
    }
}

/// Each hosted algorithm over each transport; the kernel's algorithms are over TCP.
pub(super) fn over_each(
    candidates: Vec<CandidateArgument>,
    transports: &[Transport],
) -> Vec<CandidateArgument> {
    let each = |candidate: CandidateArgument| match candidate.sender {
        Sender::Kernel(_) => vec![candidate],
        Sender::Hosted(_) => transports
            .iter()
            .map(|&over| CandidateArgument {
                label: match transports {
                    [_] => candidate.label.clone(),
                    _ => format!("{} over {}", candidate.label, over.name()),
                },
                over,
                ..candidate.clone()
            })
            .collect(),
    };
    candidates.into_iter().flat_map(each).collect()
}

/// The hosted algorithms over a transport; see [`hosted`].
pub(super) fn hosted_over(
    candidates: &[CandidateArgument],
    over: Transport,
) -> Vec<NamedAlgorithm> {
    let of_it = candidates.iter().filter(|candidate| candidate.over == over);
    hosted(&of_it.cloned().collect::<Vec<_>>())
}

/// The hosted algorithms among them, each under a name of its own: one that comes a second time
/// with other parameters is `cubic_2`.
pub(super) fn hosted(candidates: &[CandidateArgument]) -> Vec<NamedAlgorithm> {
    let mut hosted: Vec<NamedAlgorithm> = Vec::new();
    for candidate in candidates {
        if let Sender::Hosted(algorithm) = &candidate.sender {
            let name = algorithm.choice.name();
            let before = hosted
                .iter()
                .filter(|(_, other)| other.choice.name() == name)
                .count();
            let name = match before {
                0 => name.to_owned(),
                n => format!("{name}_{}", n + 1),
            };
            hosted.push((name, algorithm.clone()));
        }
    }
    hosted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_marks_the_kernels_algorithms() {
        let kernel: CandidateArgument = "kernel:reno".parse().unwrap();
        assert!(matches!(&kernel.sender, Sender::Kernel(name) if name == "reno"));
        let reno: CandidateArgument = "reno:report=10ms".parse().unwrap();
        assert!(matches!(reno.sender, Sender::Hosted(found) if found.choice.name() == "reno"));
        assert!(
            "kernel:"
                .parse::<CandidateArgument>()
                .unwrap_err()
                .contains("kernel:cubic")
        );
        assert!(
            "renoo"
                .parse::<CandidateArgument>()
                .unwrap_err()
                .contains("`reno`")
        );
    }

    #[test]
    fn a_hosted_algorithm_is_over_each_transport_and_the_kernels_over_tcp() {
        let typed = ["copa", "kernel:cubic"].map(|text| text.parse().unwrap());
        let each = over_each(typed.to_vec(), &[Transport::Tcp, Transport::Quic]);
        let labels: Vec<_> = each.iter().map(|each| each.label.as_str()).collect();
        assert_eq!(labels, ["copa over tcp", "copa over quic", "kernel:cubic"]);
        let names = hosted_over(&each, Transport::Quic);
        assert_eq!(names.len(), 1);
        assert_eq!(names[0].0, "copa");
        let one = over_each(typed.to_vec(), &[Transport::Utcp]);
        assert_eq!(one[0].label, "copa");
        assert_eq!(one[1].over, Transport::Tcp);
    }

    #[test]
    fn one_algorithm_twice_has_two_names() {
        let typed = [
            "reno",
            "kernel:reno",
            "reno:report=10ms",
            "constant",
            "reno",
        ]
        .map(|text| text.parse().unwrap());
        let names: Vec<_> = hosted(&typed).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["reno", "reno_2", "constant", "reno_3"]);
    }
}
