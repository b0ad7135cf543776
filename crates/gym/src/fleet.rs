//! Several environments, stepped in one call.

use thiserror::Error;

use crate::{ActionError, Environment, OBSERVATION, Path, Settings, SettingsErrors, StepMetrics};

/// Environments of the same settings, each with a seed of its own. An episode that ends is
/// followed by the next at once: the observation is then the next one's first, and the last of the
/// one that ended is handed out beside it.
#[derive(Debug)]
pub struct Fleet {
    environments: Vec<Environment>,
}

/// What a step of a fleet fills, by environment. Observations are rows of [`OBSERVATION`] numbers.
#[derive(Debug)]
pub struct Steps<'a> {
    /// What policies observe now.
    pub observations: &'a mut [f32],
    /// By [`crate::Reward`].
    pub rewards: &'a mut [f64],
    /// See [`crate::Step::terminated`].
    pub terminated: &'a mut [bool],
    /// See [`crate::Step::truncated`].
    pub truncated: &'a mut [bool],
    /// Where an episode ended, its last observation; elsewhere left as it is.
    pub last_observations: &'a mut [f32],
}

/// Why a fleet does not do something.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FleetError {
    /// The settings are wrong.
    #[error(transparent)]
    Settings(#[from] SettingsErrors),
    /// There are none, or too many.
    #[error("a fleet of {0} environments: expected 1 to 65536")]
    Count(usize),
    /// A slice is not as long as it has to be.
    #[error("{what} has {found} entries: expected {expected}")]
    Length {
        /// Which.
        what: &'static str,
        /// How long it is.
        found: usize,
        /// How long it has to be.
        expected: usize,
    },
    /// An action is not a number.
    #[error(transparent)]
    Action(#[from] ActionError),
}

impl Fleet {
    /// `count` environments; environment `i` has the seed `seed + i`.
    ///
    /// # Errors
    /// Wrong settings, or a number of environments out of range.
    pub fn new(settings: Settings, count: usize, seed: u64) -> Result<Self, FleetError> {
        if !(1..=1 << 16).contains(&count) {
            return Err(FleetError::Count(count));
        }
        let environments: Result<_, _> = (0..count as u64)
            .map(|index| Environment::new(settings, seed.wrapping_add(index)))
            .collect();
        Ok(Self {
            environments: environments?,
        })
    }

    /// How many there are; at least one.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a fleet is never empty")]
    pub fn len(&self) -> usize {
        self.environments.len()
    }

    /// Begins an episode in each, with its seed if it has one. See [`Environment::reset`].
    ///
    /// # Errors
    /// [`FleetError::Length`]; nothing happens then.
    pub fn reset(
        &mut self,
        seeds: &[Option<u64>],
        observations: &mut [f32],
    ) -> Result<(), FleetError> {
        let count = self.len();
        check("seeds", seeds.len(), count)?;
        check("observations", observations.len(), count * OBSERVATION)?;
        let rows = observations.chunks_exact_mut(OBSERVATION);
        for ((environment, seed), row) in self.environments.iter_mut().zip(seeds).zip(rows) {
            row.copy_from_slice(&environment.reset(*seed));
        }
        Ok(())
    }

    /// Takes an action in each. See [`Environment::step`].
    ///
    /// # Errors
    /// A slice of a wrong length, or an action that is not a number; nothing happens then.
    pub fn step(&mut self, actions: &[f32], steps: Steps<'_>) -> Result<(), FleetError> {
        let count = self.len();
        check("actions", actions.len(), count)?;
        check(
            "observations",
            steps.observations.len(),
            count * OBSERVATION,
        )?;
        check("rewards", steps.rewards.len(), count)?;
        check("terminated", steps.terminated.len(), count)?;
        check("truncated", steps.truncated.len(), count)?;
        let last = steps.last_observations.len();
        check("last observations", last, count * OBSERVATION)?;
        if let Some(index) = actions.iter().position(|action| action.is_nan()) {
            return Err(ActionError(index).into());
        }
        for (index, (environment, action)) in self.environments.iter_mut().zip(actions).enumerate()
        {
            let step = environment.step(*action)?;
            let row = index * OBSERVATION..(index + 1) * OBSERVATION;
            steps.rewards[index] = step.reward;
            steps.terminated[index] = step.terminated;
            steps.truncated[index] = step.truncated;
            let observation = if step.terminated || step.truncated {
                steps.last_observations[row.clone()].copy_from_slice(&step.observation);
                environment.reset(None)
            } else {
                step.observation
            };
            steps.observations[row].copy_from_slice(&observation);
        }
        Ok(())
    }

    /// By environment: its last step in units. After the end of an episode, the first report of
    /// the next.
    pub fn metrics(&self) -> impl Iterator<Item = StepMetrics> + '_ {
        self.environments.iter().map(Environment::metrics)
    }

    /// By environment: its path, once it has one.
    pub fn paths(&self) -> impl Iterator<Item = Option<Path>> + '_ {
        self.environments.iter().map(Environment::path)
    }
}

fn check(what: &'static str, found: usize, expected: usize) -> Result<(), FleetError> {
    if found == expected {
        Ok(())
    } else {
        Err(FleetError::Length {
            what,
            found,
            expected,
        })
    }
}
