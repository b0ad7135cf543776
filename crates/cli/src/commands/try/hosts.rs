//! What hosts the algorithms of a comparison on real TCP.

use std::collections::HashMap;
use std::sync::Arc;

use fairwater_hosting::{HostedAlgorithms, InProcessPlane, NamedAlgorithm, sample_controllers};
use fairwater_lab::{Comparison, NoqEnds};
use fairwater_linux::{Options, probe};
use fairwater_testbed::{QUIC, USER_TCP, UserPlane};

use super::Args;
use super::candidate::{CandidateArgument, Sender, Transport, hosted_over};
use crate::backend::BackendArgument;
use crate::failure::Failure;

/// The algorithms at work; none where the kernel's algorithms alone run.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    /// On the kernel's TCP.
    linux: Option<HostedAlgorithms>,
    /// For a TCP in user space.
    utcp: Option<InProcessPlane>,
}

/// Checks what `--over` needs of the other arguments.
pub(super) fn check(args: &Args, arguments: &[CandidateArgument]) -> Result<(), Failure> {
    let refuse = |message: &str| Err(Failure::BadInput(message.to_owned()));
    let times = |over| args.over.iter().filter(|&&other| other == over).count();
    if args.over.iter().any(|&over| times(over) > 1) {
        return refuse("--over names a transport twice");
    }
    if args.over == [Transport::Tcp] || (args.over == [Transport::Quic] && args.on.is_none()) {
        return Ok(());
    }
    if args.on == Some(BackendArgument::Sim) {
        return match args.over.as_slice() {
            [Transport::Quic] => refuse("--over quic runs in virtual time: leave out --on sim"),
            _ => refuse("--over utcp is for real packets: leave out --on sim"),
        };
    }
    let is_one = arguments
        .iter()
        .all(|argument| argument.over == arguments[0].over);
    if args.together && !is_one {
        return refuse(
            "flows over different transports cannot share the link's sender: leave out --together, \
             or give one transport and none of the kernel's algorithms",
        );
    }
    if args.baseline {
        return refuse("--baseline is for the kernel's TCP: leave out --over");
    }
    let is_python = |argument: &CandidateArgument| match &argument.sender {
        Sender::Hosted(algorithm) => algorithm.is_python && argument.over != Transport::Tcp,
        Sender::Kernel(_) => false,
    };
    match arguments.iter().find(|argument| is_python(argument)) {
        Some(python) => refuse(&format!(
            "transports in user space host no algorithms in Python: `{}`",
            python.label
        )),
        None => Ok(()),
    }
}

impl Hosts {
    /// Hosts the algorithms, and tells the comparison where they are.
    pub(super) fn start(
        arguments: &[CandidateArgument],
        comparison: &mut Comparison,
    ) -> Result<Self, Failure> {
        let mut hosts = Self::default();
        let names_of = |hosted: &[NamedAlgorithm], prefix: &str| -> Vec<String> {
            let names = hosted.iter().map(|(name, _)| format!("{prefix}{name}"));
            names.collect()
        };
        let over_utcp = hosted_over(arguments, Transport::Utcp);
        if !over_utcp.is_empty() {
            let plane = InProcessPlane::start(&over_utcp)?;
            comparison.user_plane = Some(UserPlane::new(plane.connector()));
            let names = names_of(&over_utcp, USER_TCP);
            take_names(comparison, arguments, Transport::Utcp, &names);
            hosts.utcp = Some(plane);
        }
        let over_quic = hosted_over(arguments, Transport::Quic);
        if !over_quic.is_empty() {
            let algorithms = over_quic.iter();
            let algorithms = algorithms.map(|(name, found)| (name.clone(), found.choice.clone()));
            comparison.quic = Some(Arc::new(NoqEnds::new(&algorithms.collect::<Vec<_>>())?));
            let names = names_of(&over_quic, QUIC);
            take_names(comparison, arguments, Transport::Quic, &names);
        }
        let over_tcp = hosted_over(arguments, Transport::Tcp);
        if !over_tcp.is_empty() {
            probe::probe().require()?;
            let options = Options {
                unique_names: true,
                ..Options::default()
            };
            let hosting = HostedAlgorithms::start(&over_tcp, options)?;
            take_names(comparison, arguments, Transport::Tcp, hosting.names());
            comparison.at_both_ends = hosting.at_both_ends();
            comparison.controllers = Some(sample_controllers);
            hosts.linux = Some(hosting);
        }
        Ok(hosts)
    }

    /// The plane's name of an algorithm, by the kernel's name, for each.
    pub(super) fn algorithms(&self) -> HashMap<String, String> {
        let linux = self.linux.as_ref();
        linux.map_or_else(HashMap::new, HostedAlgorithms::algorithms)
    }

    /// What went wrong since the last call, one notice each.
    pub(super) fn notices(&mut self) -> Vec<String> {
        let linux = self.linux.as_mut().map(HostedAlgorithms::notices);
        let mut notices = linux.unwrap_or_default();
        notices.extend(self.utcp.iter().flat_map(InProcessPlane::notices));
        notices
    }

    /// Ends; returns the notices since the last call of [`Self::notices`].
    pub(super) fn finish(self) -> Vec<String> {
        let mut notices = self.linux.map(HostedAlgorithms::finish).unwrap_or_default();
        notices.extend(self.utcp.iter().flat_map(InProcessPlane::notices));
        notices
    }
}

/// Gives hosted algorithms over a transport the names that they were attached under.
fn take_names(
    comparison: &mut Comparison,
    arguments: &[CandidateArgument],
    over: Transport,
    names: &[String],
) {
    let hosted = comparison
        .candidates
        .iter_mut()
        .zip(arguments)
        .filter(|(_, argument)| argument.sender.is_hosted() && argument.over == over);
    for ((candidate, _), name) in hosted.zip(names) {
        candidate.congestion_control.clone_from(name);
    }
}
