//! The search for a path: particle swarms over the space, by `argmin`.

use std::borrow::Borrow;
use std::cell::RefCell;
use std::collections::HashMap;

use argmin::core::{CostFunction, Error, Executor};
use argmin::solver::particleswarm::ParticleSwarm;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use thiserror::Error;

use crate::objective::{Fault, Objective};
use crate::path::{Path, Space};

/// How much is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// Paths that are tried at once, and together learn from each other.
    pub particles: usize,
    /// Rounds after the first, each of so many paths.
    pub rounds: u64,
}

impl Budget {
    /// Less than a minute of CPU for an objective.
    pub const QUICK: Self = Self {
        particles: 24,
        rounds: 5,
    };
    /// Some minutes of CPU for an objective.
    pub const FULL: Self = Self {
        particles: 48,
        rounds: 15,
    };

    /// Paths that are tried at most.
    #[must_use]
    pub const fn paths(self) -> u64 {
        self.particles as u64 * (self.rounds + 1)
    }
}

/// The worst path that was met.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Found {
    /// The path.
    pub path: Path,
    /// What it shows.
    pub fault: Fault,
}

/// Why a search ended without a result.
#[derive(Debug, Error)]
pub enum SearchError {
    /// The caller stopped it.
    #[error("stopped")]
    Stopped,
    /// The optimiser failed.
    #[error("the search failed: {0}")]
    Optimiser(String),
}

/// Searches the objective's space. `evaluate` says what paths show, in their order; `None` stops the search.
/// The same seed asks for the same paths, if it gets the same answers.
///
/// # Errors
/// [`SearchError`].
pub fn search<'a>(
    objective: Objective,
    space: Space,
    budget: Budget,
    seed: u64,
    evaluate: &'a mut Evaluate<'a>,
) -> Result<Option<Found>, SearchError> {
    let problem = Problem {
        objective,
        space,
        evaluate: RefCell::new(evaluate),
        known: RefCell::default(),
        best: RefCell::default(),
        is_stopped: RefCell::default(),
    };
    let bounds = (vec![0.0; Space::DIMENSIONS], vec![1.0; Space::DIMENSIONS]);
    let solver = ParticleSwarm::new(bounds, budget.particles)
        .with_rng_generator(Xoshiro256PlusPlus::seed_from_u64(seed));
    let executor = Executor::new(&problem, solver)
        .configure(|state| state.max_iters(budget.rounds))
        .timer(false);
    let ended = executor.run().map(|_| ());
    if problem.is_stopped.take() {
        return Err(SearchError::Stopped);
    }
    ended.map_err(|error| SearchError::Optimiser(error.to_string()))?;
    Ok(problem.best.take())
}

/// Says what paths show; `None` stops the search.
type Evaluate<'a> = dyn FnMut(&[Path]) -> Option<Vec<Fault>> + 'a;

struct Problem<'a> {
    objective: Objective,
    space: Space,
    evaluate: RefCell<&'a mut Evaluate<'a>>,
    /// Paths that were tried: rounding makes equal paths of near positions.
    known: RefCell<HashMap<Path, f64>>,
    best: RefCell<Option<Found>>,
    is_stopped: RefCell<bool>,
}

impl Problem<'_> {
    /// Costs of paths: what is minimised.
    fn costs(&self, paths: &[Path]) -> Result<Vec<f64>, Error> {
        let mut missing: Vec<Path> = Vec::new();
        for path in paths {
            let known = self.known.borrow().contains_key(path) || missing.contains(path);
            if !known && self.objective.applies(path) {
                missing.push(*path);
            }
        }
        let faults = match missing.is_empty() {
            true => Some(Vec::new()),
            false => (self.evaluate.borrow_mut())(&missing),
        };
        let Some(faults) = faults else {
            self.is_stopped.replace(true);
            return Err(Error::msg("stopped"));
        };
        for (path, fault) in missing.into_iter().zip(faults) {
            let score = self.objective.score(&fault);
            self.known.borrow_mut().insert(path, -score);
            let mut best = self.best.borrow_mut();
            let before = best
                .as_ref()
                .map(|found| self.objective.score(&found.fault));
            if before.is_none_or(|before| score > before) {
                *best = Some(Found { path, fault });
            }
        }
        let known = self.known.borrow();
        let cost = |path: &Path| known.get(path).copied().unwrap_or(0.0);
        Ok(paths.iter().map(cost).collect())
    }
}

impl CostFunction for &Problem<'_> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, position: &Vec<f64>) -> Result<f64, Error> {
        let costs = self.costs(&[self.space.path(position)])?;
        Ok(costs.first().copied().unwrap_or(0.0))
    }

    fn bulk_cost<P>(&self, positions: &[P]) -> Result<Vec<f64>, Error>
    where
        P: Borrow<Vec<f64>>,
    {
        let path = |position: &P| self.space.path(position.borrow());
        self.costs(&positions.iter().map(path).collect::<Vec<_>>())
    }
}
