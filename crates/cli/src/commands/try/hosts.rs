//! What hosts the algorithms of a comparison on real TCP.

use std::collections::HashMap;

use fairwater_hosting::{HostedAlgorithms, InProcessPlane, NamedAlgorithm, sample_controllers};
use fairwater_lab::Comparison;
use fairwater_linux::{Options, probe};
use fairwater_testbed::{USER_TCP, UserPlane};

use super::candidate::{CandidateArgument, Sender};
use super::{Args, Transport};
use crate::backend::BackendArgument;
use crate::failure::Failure;

/// The algorithms at work.
#[derive(Debug)]
pub(super) enum Hosts {
    /// The kernel's algorithms alone run.
    None,
    /// On the kernel's TCP.
    Linux(HostedAlgorithms),
    /// For a TCP in user space.
    Utcp(InProcessPlane),
}

/// Checks what `--over` needs of the other arguments.
pub(super) fn check(args: &Args, arguments: &[CandidateArgument]) -> Result<(), Failure> {
    if args.over == Transport::Quic && args.on.is_some() {
        return Err(Failure::BadInput(
            "--over quic runs in virtual time: leave out --on".to_owned(),
        ));
    }
    if args.over != Transport::Utcp {
        return Ok(());
    }
    let refuse = |message: &str| Err(Failure::BadInput(message.to_owned()));
    if args.on == Some(BackendArgument::Sim) {
        return refuse("--over utcp is for real packets: leave out --on sim");
    }
    let is_hosted = |argument: &&CandidateArgument| argument.sender.is_hosted();
    if args.together && arguments.iter().filter(is_hosted).count() < arguments.len() {
        return refuse(
            "a TCP in user space and the kernel's cannot share the link's sender: leave out \
             --together, or the kernel's algorithms",
        );
    }
    if args.baseline {
        return refuse("--baseline is for the kernel's TCP: leave out --over utcp");
    }
    let is_python = |argument: &CandidateArgument| match &argument.sender {
        Sender::Hosted(algorithm) => algorithm.is_python,
        Sender::Kernel(_) => false,
    };
    match arguments.iter().find(|argument| is_python(argument)) {
        Some(python) => refuse(&format!(
            "--over utcp hosts no algorithms in Python: `{}`",
            python.label
        )),
        None => Ok(()),
    }
}

impl Hosts {
    /// Hosts the algorithms, and tells the comparison where they are.
    pub(super) fn start(
        over: Transport,
        hosted: &[NamedAlgorithm],
        arguments: &[CandidateArgument],
        comparison: &mut Comparison,
    ) -> Result<Self, Failure> {
        if hosted.is_empty() {
            return Ok(Self::None);
        }
        if over == Transport::Utcp {
            let plane = InProcessPlane::start(hosted)?;
            comparison.user_plane = Some(UserPlane::new(plane.connector()));
            let names = hosted.iter().map(|(name, _)| format!("{USER_TCP}{name}"));
            take_names(comparison, arguments, &names.collect::<Vec<_>>());
            return Ok(Self::Utcp(plane));
        }
        probe::probe().require()?;
        let options = Options {
            unique_names: true,
            ..Options::default()
        };
        let hosting = HostedAlgorithms::start(hosted, options)?;
        take_names(comparison, arguments, hosting.names());
        comparison.at_both_ends = hosting.at_both_ends();
        comparison.controllers = Some(sample_controllers);
        Ok(Self::Linux(hosting))
    }

    /// The plane's name of an algorithm, by the kernel's name, for each.
    pub(super) fn algorithms(&self) -> HashMap<String, String> {
        match self {
            Self::None | Self::Utcp(_) => HashMap::new(),
            Self::Linux(hosted) => hosted.algorithms(),
        }
    }

    /// What went wrong since the last call, one notice each.
    pub(super) fn notices(&mut self) -> Vec<String> {
        match self {
            Self::None => Vec::new(),
            Self::Linux(hosted) => hosted.notices(),
            Self::Utcp(plane) => plane.notices(),
        }
    }

    /// Ends; returns the notices since the last call of [`Self::notices`].
    pub(super) fn finish(self) -> Vec<String> {
        match self {
            Self::None => Vec::new(),
            Self::Linux(hosted) => hosted.finish(),
            Self::Utcp(plane) => plane.notices(),
        }
    }
}

/// Gives hosted algorithms the names that they were attached under.
fn take_names(comparison: &mut Comparison, arguments: &[CandidateArgument], names: &[String]) {
    let hosted = comparison
        .candidates
        .iter_mut()
        .zip(arguments)
        .filter(|(_, argument)| argument.sender.is_hosted());
    for ((candidate, _), name) in hosted.zip(names) {
        candidate.congestion_control.clone_from(name);
    }
}
