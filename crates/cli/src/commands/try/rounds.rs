//! Rounds of a comparison, in alternating order, and a baseline beside it.

use fairwater_experiment::Progress;
use fairwater_lab::{Candidate, Comparison};
use fairwater_results::{Results, RoundResults};

use super::candidate::{CandidateArgument, Sender};
use crate::failure::Failure;

/// What to run, how often.
pub(super) struct Rounds<C> {
    pub(super) comparison: Comparison<C>,
    /// The comparison with the kernel's algorithm alone.
    pub(super) baseline: Option<Comparison<C>>,
    pub(super) rounds: u32,
}

impl<C: Clone> Rounds<C> {
    /// Runs the rounds by `run`. Every second round is in the reverse order, so that a machine that
    /// becomes slower, or its first run, is nobody's advantage; each has a seed of its own.
    pub(super) fn run(
        &self,
        progress: &mut dyn FnMut(&Progress),
        mut run: impl FnMut(&Comparison<C>, &mut dyn FnMut(&Progress)) -> Result<Results, Failure>,
    ) -> Result<RoundResults, Failure> {
        let runs_of = |comparison: &Comparison<C>| match comparison.together {
            true => 1,
            false => comparison.candidates.len(),
        };
        let both = || [Some(&self.comparison), self.baseline.as_ref()];
        let runs_a_round: usize = both().into_iter().flatten().map(runs_of).sum();
        let runs = runs_a_round * self.rounds as usize;
        let mut done = 0;
        let mut results = [Vec::new(), Vec::new()];
        for round in 0..self.rounds {
            let reversed = round % 2 == 1;
            let mut turns: Vec<_> = both().into_iter().zip(&mut results).collect();
            if reversed {
                turns.reverse();
            }
            for (comparison, results) in turns {
                let Some(comparison) = comparison else {
                    continue;
                };
                let mut comparison = comparison.clone();
                comparison.link.seed = comparison.link.seed.wrapping_add(round.into());
                if reversed {
                    comparison.candidates.reverse();
                }
                let mut numbered = |of_one: &Progress| {
                    progress(&Progress {
                        run: done + of_one.run,
                        runs,
                        ..of_one.clone()
                    });
                };
                let mut result = run(&comparison, &mut numbered)?;
                done += runs_of(&comparison);
                if reversed {
                    result.runs.reverse();
                }
                results.push(result);
            }
        }
        let [compared, baseline] = results;
        let baseline = self
            .baseline
            .is_some()
            .then(|| RoundResults::of(baseline, None));
        Ok(RoundResults::of(compared, baseline))
    }
}

/// The comparison in which the first of the kernel's algorithms stands in the place of every hosted
/// algorithm.
pub(super) fn baseline<C: Clone>(
    comparison: &Comparison<C>,
    arguments: &[CandidateArgument],
) -> Result<Comparison<C>, Failure> {
    if !comparison.together {
        return Err(Failure::BadInput(
            "--baseline is for algorithms that share a link: give --together too".to_owned(),
        ));
    }
    let is_kernel = |argument: &CandidateArgument| matches!(argument.sender, Sender::Kernel(_));
    let Some(twin) = arguments.iter().position(is_kernel) else {
        return Err(Failure::BadInput(
            "--baseline needs one of the kernel's algorithms to compare with: --against \
             kernel:cubic"
                .to_owned(),
        ));
    };
    let twin = &comparison.candidates[twin];
    let candidates = comparison.candidates.iter().zip(arguments);
    let candidates = candidates.map(|(candidate, argument)| match argument.sender {
        Sender::Kernel(_) => candidate.clone(),
        Sender::Hosted(_) => Candidate {
            label: format!("{} in place of {}", twin.label, candidate.label),
            congestion_control: twin.congestion_control.clone(),
        },
    });
    Ok(Comparison {
        candidates: candidates.collect(),
        ..comparison.clone()
    })
}
