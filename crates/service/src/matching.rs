//! Whether a datapath can run an algorithm, before there is one of either.

use fairwater_plane::{Capabilities, HostedAlgorithm, Unmet};
use fairwater_proto::Dialect;
use thiserror::Error;

use crate::libccp_programs::Portable;

/// Places of libccp's table that algorithms do not get: libccp 1.2 never uses the last one, and
/// one is for the program that stands for a fallback.
pub(crate) const LIBCCP_RESERVED_PROGRAMS: u32 = 2;

/// Why a datapath cannot run an algorithm.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// The datapath does not meet a requirement.
    #[error(transparent)]
    Unmet(#[from] Unmet),
    /// The encoding that the datapath speaks cannot express a program.
    #[error("its encoding cannot express program `{program}`: {bound}")]
    Inexpressible {
        /// The program's name.
        program: String,
        /// The bound that the program exceeds.
        bound: String,
    },
    /// The datapath keeps fewer programs than the algorithm has.
    #[error("it keeps no more than {keeps} programs of algorithms, and there are {programs}")]
    Programs {
        /// Programs of algorithms that the datapath keeps.
        keeps: u32,
        /// Programs of the algorithm.
        programs: usize,
    },
}

/// Every reason why a datapath with these capabilities cannot run the algorithm; none if it can.
/// A direct datapath has the bounds of [`Dialect::Own`], which are those of its capabilities alone.
#[must_use]
pub fn obstacles(
    algorithm: &HostedAlgorithm,
    capabilities: &Capabilities,
    dialect: Dialect,
) -> Vec<Obstacle> {
    let unmet = algorithm.requirements().unmet(capabilities);
    let mut obstacles: Vec<_> = unmet.into_iter().map(Obstacle::Unmet).collect();
    let programs = algorithm.programs();
    if dialect == Dialect::Ccp {
        obstacles.extend(programs.iter().filter_map(|loaded| {
            let bound = Portable::of(loaded.program()).err()?;
            Some(Obstacle::Inexpressible {
                program: loaded.name().to_owned(),
                bound: bound.to_string(),
            })
        }));
    }
    let keeps = programs_kept(capabilities, dialect);
    if programs.len() > keeps as usize {
        obstacles.push(Obstacle::Programs {
            keeps,
            programs: programs.len(),
        });
    }
    obstacles
}

/// How many programs of algorithms the datapath keeps.
pub(crate) const fn programs_kept(capabilities: &Capabilities, dialect: Dialect) -> u32 {
    match dialect {
        Dialect::Own => capabilities.max_programs,
        Dialect::Ccp => capabilities
            .max_programs
            .saturating_sub(LIBCCP_RESERVED_PROGRAMS),
    }
}
