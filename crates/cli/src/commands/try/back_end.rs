//! The back end of a comparison: real TCP if it can run here, the simulator otherwise.

use std::fmt::Display;

use fairwater_experiment::{Controller, Native};
use fairwater_hosting::NamedAlgorithm;
use fairwater_lab::Candidate;
use fairwater_linux::probe;
use fairwater_results::TrafficProgram;
use fairwater_testbed::require;

use super::candidate::{CandidateArgument, Sender};
use crate::backend::BackendArgument;
use crate::failure::Failure;

/// The back end that was chosen.
#[derive(Debug)]
pub(super) enum ChosenBackend {
    Linux,
    /// The simulator, and why not real TCP if the user did not ask for the simulator.
    Sim {
        because: Option<String>,
    },
}

impl ChosenBackend {
    /// The one that was asked for, else the one that this machine can run.
    pub(super) fn find(asked: Option<BackendArgument>, candidates: &[CandidateArgument]) -> Self {
        match asked {
            Some(BackendArgument::Linux) => ChosenBackend::Linux,
            Some(BackendArgument::Sim) => ChosenBackend::Sim { because: None },
            None => match missing_for(candidates) {
                None => ChosenBackend::Linux,
                because => ChosenBackend::Sim { because },
            },
        }
    }
}

/// Why real TCP cannot run here. A missing iperf3 is no reason: it can be installed, and --bulk does
/// without it.
fn missing_for(candidates: &[CandidateArgument]) -> Option<String> {
    if candidates
        .iter()
        .any(|candidate| candidate.sender.is_hosted())
        && let Err(missing) = probe::probe().require()
    {
        return Some(missing.reason);
    }
    let missing = require(TrafficProgram::Bulk).err()?;
    missing.first().map(ToString::to_string)
}

/// The candidates as the simulator has them; `names` are those of the hosted algorithms.
pub(super) fn simulated(
    candidates: &[CandidateArgument],
    names: &[NamedAlgorithm],
    because: Option<&str>,
) -> Result<Vec<Candidate<Controller>>, Failure> {
    let mut names = names.iter();
    let mut refused = Vec::new();
    let mut controllers = Vec::with_capacity(candidates.len());
    for candidate in candidates {
        let controller = match &candidate.sender {
            Sender::Hosted(_) => names
                .next()
                .map(|(name, _)| Controller::Plane(name.clone())),
            Sender::Kernel(name) => Native::in_place_of_kernel(name).map(Controller::Native),
        };
        match controller {
            Some(congestion_control) => controllers.push(Candidate {
                label: candidate.label.clone(),
                congestion_control,
            }),
            None => refused.push(format!("`{}`", candidate.label)),
        }
    }
    if refused.is_empty() {
        return Ok(controllers);
    }
    let message = format!(
        "the simulator has no {}; of the kernel's it has `kernel:reno` and `kernel:cubic`",
        refused.join(" and no ")
    );
    Err(refusal(&message, because))
}

/// Bad input if the user asked for the simulator; else this machine lacks something.
pub(super) fn refusal(message: &dyn Display, because: Option<&str>) -> Failure {
    match because {
        None => Failure::BadInput(message.to_string()),
        Some(because) => Failure::LabMissing(format!(
            "{message}; and real TCP cannot run here: {because}"
        )),
    }
}
