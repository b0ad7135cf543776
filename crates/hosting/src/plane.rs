//! A plane that hosts algorithms under names of the caller's choice.

use fairwater_algorithms::Choice;
use fairwater_plane::{
    Aggregate, Algorithm, CarefulResumeConfig, Control, Ecn, Flow, FlowInfo, Key, Plane, PlaneError,
};

use crate::NamedAlgorithm;

/// A plane with these algorithms, each under the name before it.
///
/// # Errors
/// The first algorithm that [`Plane::add`] refuses, and why.
pub fn plane_of<'a>(
    algorithms: impl IntoIterator<Item = (&'a str, &'a Choice)>,
) -> Result<Plane, PlaneError> {
    let mut plane = Plane::new();
    host(&mut plane, algorithms)?;
    Ok(plane)
}

fn host<'a>(
    plane: &mut Plane,
    algorithms: impl IntoIterator<Item = (&'a str, &'a Choice)>,
) -> Result<(), PlaneError> {
    for (name, choice) in algorithms {
        plane.add(|programs| {
            Ok(RenamedAlgorithm {
                name: name.to_owned(),
                algorithm: choice.build(programs)?,
            })
        })?;
    }
    Ok(())
}

/// [`plane_of`] for resolved algorithms.
pub(crate) fn plane_of_named(algorithms: &[NamedAlgorithm]) -> Result<Plane, PlaneError> {
    plane_resuming(algorithms, None)
}

/// [`plane_of_named`], whose flows resume carefully if a configuration says how, which was checked.
pub(crate) fn plane_resuming(
    algorithms: &[NamedAlgorithm],
    resume: Option<CarefulResumeConfig>,
) -> Result<Plane, PlaneError> {
    let mut plane = Plane::new();
    if let Some(resume) = resume {
        plane.resume_carefully(resume)?;
    }
    let named = algorithms
        .iter()
        .map(|(name, algorithm)| (name.as_str(), &algorithm.choice));
    host(&mut plane, named)?;
    Ok(plane)
}

/// Two algorithms were to be hosted under one name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} is given twice; only one algorithm can have the name")]
pub struct DuplicateName {
    /// The name.
    pub name: String,
}

/// Checks that no two algorithms have the same name.
///
/// # Errors
/// The first name that comes a second time.
pub fn require_different(algorithms: &[NamedAlgorithm]) -> Result<(), DuplicateName> {
    let repeated = |(index, (name, _)): &(usize, &NamedAlgorithm)| {
        algorithms[..*index]
            .iter()
            .any(|(before, _)| before == name)
    };
    match algorithms.iter().enumerate().find(repeated) {
        Some((_, (name, _))) => Err(DuplicateName { name: name.clone() }),
        None => Ok(()),
    }
}

/// An algorithm under another name, so that it can be hosted twice with different parameters.
struct RenamedAlgorithm {
    name: String,
    algorithm: Box<dyn Algorithm>,
}

impl Algorithm for RenamedAlgorithm {
    fn name(&self) -> &str {
        &self.name
    }

    fn new_flow(&self, info: &FlowInfo, control: &mut Control<'_>) -> Box<dyn Flow> {
        self.algorithm.new_flow(info, control)
    }

    fn idle_restart(&self) -> bool {
        self.algorithm.idle_restart()
    }

    fn needs_rate(&self) -> bool {
        self.algorithm.needs_rate()
    }

    fn ecn(&self) -> Ecn {
        self.algorithm.ecn()
    }

    fn resumes_carefully(&self) -> bool {
        self.algorithm.resumes_carefully()
    }

    fn aggregate_by(&self, info: &FlowInfo) -> Option<Key> {
        self.algorithm.aggregate_by(info)
    }

    fn new_aggregate(&self, key: &Key, info: &FlowInfo) -> Option<Box<dyn Aggregate>> {
        self.algorithm.new_aggregate(key, info)
    }
}
