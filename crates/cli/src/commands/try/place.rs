//! Where the contenders send: over real TCP if it can run here, in the simulator otherwise.

use std::fmt::Display;

use fairwater_lab::{Contender, Traffic, counterpart, require};
use fairwater_linux::probe;
use fairwater_sim::Governor;

use super::contender::{Sender, Typed};
use crate::algorithm::Chosen;
use crate::failure::Failure;
use crate::world::On;

/// Where, and why not on real TCP if that was not asked for.
#[derive(Debug)]
pub(super) enum Place {
    Linux,
    Sim { because: Option<String> },
}

impl Place {
    /// What was asked for, else what this machine can.
    pub(super) fn find(asked: Option<On>, contenders: &[Typed]) -> Self {
        match asked {
            Some(On::Linux) => Place::Linux,
            Some(On::Sim) => Place::Sim { because: None },
            None => match lacks(contenders) {
                None => Place::Linux,
                because => Place::Sim { because },
            },
        }
    }
}

/// What keeps real TCP from running here. That iperf3 is missing does not: it can be installed, or
/// done without.
fn lacks(contenders: &[Typed]) -> Option<String> {
    let ours = |typed: &Typed| matches!(typed.sender, Sender::Ours(_));
    if contenders.iter().any(ours)
        && let Err(missing) = probe::probe().require()
    {
        return Some(missing.reason);
    }
    let missing = require(Traffic::Bulk).err()?;
    missing.first().map(ToString::to_string)
}

/// The contenders as the simulator has them; `names` are the plane's of those of this project.
pub(super) fn simulated(
    contenders: &[Typed],
    names: &[(String, Chosen)],
    because: Option<&str>,
) -> Result<Vec<Contender<Governor>>, Failure> {
    let mut names = names.iter();
    let mut refused = Vec::new();
    let mut governors = Vec::with_capacity(contenders.len());
    for typed in contenders {
        let governor = match &typed.sender {
            Sender::Ours(_) => names.next().map(|(name, _)| Governor::Plane(name.clone())),
            Sender::Kernel(name) => counterpart(name).map(Governor::Native),
        };
        match governor {
            Some(congestion_control) => governors.push(Contender {
                label: typed.label.clone(),
                congestion_control,
            }),
            None => refused.push(format!("`{}`", typed.label)),
        }
    }
    if refused.is_empty() {
        return Ok(governors);
    }
    let message = format!(
        "the simulator has no {}; of the kernel's it has `kernel:reno` and `kernel:cubic`",
        refused.join(" and no ")
    );
    Err(refusal(&message, because))
}

/// What the simulator refuses is bad input to who asked for it; else this machine cannot.
pub(super) fn refusal(message: &dyn Display, because: Option<&str>) -> Failure {
    match because {
        None => Failure::BadInput(message.to_string()),
        Some(because) => Failure::LabMissing(format!(
            "{message}; and real TCP cannot run here: {because}"
        )),
    }
}
