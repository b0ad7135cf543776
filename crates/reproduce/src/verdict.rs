//! Whether claims hold, by the runs.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use fairwater_results::{BenchmarkResult, Fallback, PointResult};
use serde::Serialize;

use crate::bootstrap::{Interval, interval};
use crate::distribution::ks;
use crate::entry::{Check, Claim, Comparison, Entry, Run, Scale, Subject, World};
use crate::measure::{Read, View};
use crate::plan::{Plan, Points};

/// Resamples for an interval of numbers.
const RESAMPLES: usize = 10_000;
/// Resamples for an interval of distances of distributions, which take long.
const KS_RESAMPLES: usize = 1_000;

/// Whether a claim holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The whole interval passes the check.
    Holds,
    /// The whole interval fails the check.
    DoesNotHold,
    /// The interval reaches over the check's bound, or there is none.
    CannotBeTold,
    /// The claim was not run.
    NotRun,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Holds => "holds",
            Self::DoesNotHold => "does not hold",
            Self::CannotBeTold => "cannot be told",
            Self::NotRun => "not run",
        })
    }
}

/// A claim with its verdict.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Judged {
    /// Name of the claim.
    pub id: String,
    /// The world that the verdict is of.
    pub world: World,
    /// What the paper claims, in our own words.
    pub text: String,
    /// The section that says it.
    pub section: String,
    /// The figure or table that shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figure: Option<String>,
    /// The paper's numbers.
    pub theirs: String,
    /// What was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measure: Option<&'static str>,
    /// The check, as a phrase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// Where the check's numbers come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound: Option<String>,
    /// Our number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ours: Option<Ours>,
    /// Whether the claim holds.
    pub verdict: Verdict,
    /// Why there is no verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A number of ours with its 95 % interval.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Ours {
    /// Of all seeds. Of an order, the least step from one to the next.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Unit.
    pub unit: &'static str,
    /// How many seeds.
    pub seeds: usize,
    /// Mean of the measure at each point that was compared, in the measure's own unit: of the subject and
    /// what it is compared with, or of each part of an order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub means: Vec<f64>,
    /// The measure's own unit.
    pub measured_in: &'static str,
}

type Runs = BTreeMap<usize, Vec<PointResult>>;

/// Judges the claims of an entry that the run decides. `runs` has the runs of each point of the plan, in
/// the order of the seeds, of all points the same seeds. A seed that was disturbed at a point that a claim
/// needs does not count for that claim. The same runs always have the same verdicts.
#[must_use]
pub fn judge(entry: &Entry, run: &Run, plan: &Plan, runs: &Runs) -> Vec<Judged> {
    judged(entry, run, |index, name, comparison| {
        let points = plan.claim(index)?;
        let calm = calm(points, runs);
        Some(calm.and_then(|runs| weigh(name, comparison, points, &runs)))
    })
}

/// Judges the claims of an entry that the benchmark decides. A round is what a seed is elsewhere; rounds
/// that were disturbed do not count.
#[must_use]
pub fn judge_benchmark(entry: &Entry, run: &Run, rounds: &BenchmarkResult) -> Vec<Judged> {
    judged(entry, run, |_, name, comparison| {
        Some(weigh_rounds(name, comparison, rounds))
    })
}

fn judged(
    entry: &Entry,
    run: &Run,
    weigh: impl Fn(usize, &str, &Comparison) -> Option<Weighed>,
) -> Vec<Judged> {
    let one = |(index, claim): (usize, &Claim)| {
        // Resamples are drawn by this name.
        let name = match run.world {
            World::Sim => format!("{}/{}", entry.name(), claim.id),
            world => format!("{}/{}/{}", entry.name(), claim.id, world.name()),
        };
        let comparison = claim.comparison.as_ref();
        let Some(found) = comparison.and_then(|c| weigh(index, &name, c)) else {
            return not_run(claim, run.world, "the entry says not how it is measured");
        };
        let (ours, verdict, reason) = match found {
            Ok((ours, verdict)) => (Some(ours), verdict, None),
            Err(reason) => (None, Verdict::CannotBeTold, Some(reason)),
        };
        Judged {
            ours,
            reason,
            ..said(claim, run.world, verdict)
        }
    };
    let claims = entry.claims.iter().enumerate();
    claims
        .filter(|(_, claim)| run.judges(claim))
        .map(one)
        .collect()
}

/// The runs of the seeds that nothing disturbed at any of a claim's points.
fn calm<'a>(points: &Points, runs: &'a Runs) -> Result<Cow<'a, Runs>, String> {
    let needed: BTreeSet<usize> = points.in_order().into_iter().collect();
    let of = |point: &usize| runs.get(point).map_or(&[][..], Vec::as_slice);
    let all = needed.iter().flat_map(of);
    let disturbed: BTreeSet<u64> = all
        .filter(|run| run.disturbed)
        .map(|run| run.seed)
        .collect();
    if disturbed.is_empty() {
        return Ok(Cow::Borrowed(runs));
    }
    let seeds = needed.iter().map(|point| of(point).len()).max();
    let seeds = seeds.unwrap_or(0);
    if seeds < disturbed.len() + LEAST_CALM {
        return Err(too_disturbed(disturbed.len(), seeds, "seeds"));
    }
    let calm = |point: &usize| {
        let runs = of(point).iter();
        let calm = runs.filter(|run| !disturbed.contains(&run.seed));
        (*point, calm.cloned().collect())
    };
    Ok(Cow::Owned(needed.iter().map(calm).collect()))
}

/// Seeds or rounds without a disturbance that a verdict needs at least, where any was disturbed.
const LEAST_CALM: usize = 2;

fn too_disturbed(disturbed: usize, of: usize, what: &str) -> String {
    format!("the machine disturbed {disturbed} of {of} {what}, which do not count")
}

fn weigh_rounds(name: &str, comparison: &Comparison, rounds: &BenchmarkResult) -> Weighed {
    let calm: Vec<usize> = rounds.calm_rounds().collect();
    let disturbed = rounds.rounds() - calm.len();
    if disturbed > 0 && calm.len() < LEAST_CALM {
        return Err(too_disturbed(disturbed, rounds.rounds(), "rounds"));
    }
    let of = |subject: &Subject| -> Result<Vec<f64>, String> {
        let measure = comparison.measure.name;
        let values = rounds.find(measure, &subject.points);
        let values = values
            .ok_or_else(|| format!("the benchmark has not one `{measure}` with these values"))?;
        let one = |round: &usize| {
            values
                .get(*round)
                .copied()
                .filter(|value| value.is_finite())
        };
        let found: Option<Vec<f64>> = calm.iter().map(one).collect();
        found.ok_or_else(|| format!("a round has no `{measure}`"))
    };
    match &comparison.check {
        Check::Orders(parts) => {
            let parts = parts.iter().map(of).collect::<Result<Vec<_>, _>>()?;
            order(name, comparison, &parts)
        }
        _ => {
            let subject = of(&comparison.subject)?;
            let against = comparison.against.as_ref().map(of).transpose()?;
            compare(name, comparison, &subject, against.as_deref())
        }
    }
}

/// A claim that was not run.
pub(crate) fn not_run(claim: &Claim, world: World, reason: &str) -> Judged {
    Judged {
        reason: Some(reason.to_owned()),
        ..said(claim, world, Verdict::NotRun)
    }
}

impl Entry {
    /// All claims as not run in that world, for this reason.
    #[must_use]
    pub fn not_judged(&self, world: World, reason: &str) -> Vec<Judged> {
        let run = self.runs.iter().find(|run| run.world == world);
        let claims = self.claims.iter();
        claims
            .filter(|claim| run.is_none_or(|run| run.judges(claim)))
            .map(|claim| not_run(claim, world, reason))
            .collect()
    }
}

fn said(claim: &Claim, world: World, verdict: Verdict) -> Judged {
    let comparison = claim.comparison.as_ref();
    Judged {
        world,
        id: claim.id.clone(),
        text: claim.text.clone(),
        section: claim.section.clone(),
        figure: claim.figure.clone(),
        theirs: claim.theirs.clone(),
        measure: comparison.map(|c| c.measure.name),
        check: comparison.map(|c| c.check.phrase(unit(c))),
        bound: comparison.map(|c| c.bound.clone()),
        ours: None,
        verdict,
        reason: None,
    }
}

impl Check {
    /// The check as a phrase: `at most 45 %`.
    fn phrase(&self, unit: &str) -> String {
        let unit = match unit {
            "" => String::new(),
            unit => format!(" {unit}"),
        };
        match self {
            Self::Within(low, high) => format!("from {low} to {high}{unit}"),
            Self::AtMost(most) => format!("at most {most}{unit}"),
            Self::AtLeast(least) => format!("at least {least}{unit}"),
            Self::Orders(parts) => format!("rises over {} points", parts.len()),
            Self::KsAtMost(most) => format!("distance at most {most}"),
        }
    }

    /// What an interval of the compared value says.
    fn verdict(&self, of: Interval) -> Verdict {
        let (passes, fails) = match *self {
            Self::Within(low, high) => (
                low <= of.low && of.high <= high,
                of.high < low || high < of.low,
            ),
            Self::AtMost(most) | Self::KsAtMost(most) => (of.high <= most, of.low > most),
            Self::AtLeast(least) => (of.low >= least, of.high < least),
            // Of one step: rises, or stays or falls.
            Self::Orders(_) => (of.low > 0.0, of.high <= 0.0),
        };
        match (passes, fails) {
            (true, _) => Verdict::Holds,
            (_, true) => Verdict::DoesNotHold,
            _ => Verdict::CannotBeTold,
        }
    }
}

/// The unit of what is compared.
fn unit(comparison: &Comparison) -> &'static str {
    match comparison.scale {
        Scale::Value | Scale::Difference => comparison.measure.unit,
        Scale::Percent | Scale::Change => "%",
        Scale::Ratio | Scale::Ks => "",
    }
}

type Weighed = Result<(Ours, Verdict), String>;

fn weigh(name: &str, comparison: &Comparison, points: &Points, runs: &Runs) -> Weighed {
    let of = |point: usize| {
        let runs = runs.get(&point).map_or(&[][..], Vec::as_slice);
        match runs.iter().find(|run| has_failed(run)) {
            Some(run) => Err(format!(
                "an algorithm failed in the run of seed {}",
                run.seed
            )),
            None => Ok(runs),
        }
    };
    match (&comparison.check, comparison.measure.read) {
        (Check::Orders(parts), Read::Number(read)) => {
            let one = |(part, point): (&Subject, &usize)| numbers(of(*point)?, part, read);
            let parts = parts.iter().zip(&points.ordered).map(one);
            order(name, comparison, &parts.collect::<Result<Vec<_>, _>>()?)
        }
        (_, Read::Number(read)) => {
            let subject = numbers(of(points.subject)?, &comparison.subject, read)?;
            let against = match (&comparison.against, points.against) {
                (Some(other), Some(point)) => Some(numbers(of(point)?, other, read)?),
                _ => None,
            };
            compare(name, comparison, &subject, against.as_deref())
        }
        (_, Read::Series) => Err("only a benchmark has this measure".to_owned()),
        (_, Read::Distribution(read)) => {
            let (Some(other), Some(point)) = (&comparison.against, points.against) else {
                return Err("there is nothing to compare with".to_owned());
            };
            let a = of(points.subject)?;
            let b = of(point)?;
            distance(name, comparison, (a, &comparison.subject), (b, other), read)
        }
    }
}

fn has_failed(run: &PointResult) -> bool {
    let mut fallbacks = run.flows.iter().filter_map(|flow| flow.fallback.as_ref());
    fallbacks.any(Fallback::is_failure)
}

/// The measure of each run.
fn numbers(
    runs: &[PointResult],
    subject: &Subject,
    read: fn(&View<'_>) -> Option<f64>,
) -> Result<Vec<f64>, String> {
    let one = |run: &PointResult| {
        let value = read(&View { run, subject });
        let value = value.filter(|value| value.is_finite());
        value.ok_or_else(|| format!("the run of seed {} has no such measure", run.seed))
    };
    runs.iter().map(one).collect()
}

fn weighted(values: &[f64], weights: &[f64]) -> f64 {
    let sum: f64 = values.iter().zip(weights).map(|(v, w)| v * w).sum();
    sum / weights.iter().sum::<f64>()
}

/// The interval of a statistic, or why it has none.
fn interval_of(
    name: &str,
    runs: usize,
    resamples: usize,
    statistic: impl Fn(&[f64]) -> Option<f64>,
) -> Result<Interval, String> {
    if runs < 2 {
        return Err(format!("{runs} seeds have no interval"));
    }
    let found = interval(runs, resamples, name, statistic);
    found.ok_or_else(|| "what it is compared with is 0 or was not measured".to_owned())
}

fn ours(comparison: &Comparison, of: Interval, seeds: usize, means: Vec<f64>) -> Ours {
    Ours {
        value: of.value,
        low: of.low,
        high: of.high,
        unit: unit(comparison),
        seeds,
        means,
        measured_in: comparison.measure.unit,
    }
}

/// Compares numbers, or takes them as they are.
fn compare(name: &str, comparison: &Comparison, a: &[f64], b: Option<&[f64]>) -> Weighed {
    let other = b.unwrap_or(a);
    if other.len() != a.len() {
        return Err("the points have not the same seeds".to_owned());
    }
    let statistic = |weights: &[f64]| {
        let (a, b) = (weighted(a, weights), weighted(other, weights));
        Some(match comparison.scale {
            Scale::Value | Scale::Ks => a,
            Scale::Ratio => a / b,
            Scale::Percent => 100.0 * a / b,
            Scale::Change => 100.0 * (a / b - 1.0),
            Scale::Difference => a - b,
        })
    };
    let found = interval_of(name, a.len(), RESAMPLES, statistic)?;
    let all = vec![1.0; a.len()];
    let means = match b {
        Some(b) => vec![weighted(a, &all), weighted(b, &all)],
        None => Vec::new(),
    };
    let verdict = comparison.check.verdict(found);
    Ok((ours(comparison, found, a.len(), means), verdict))
}

/// Each step from one part of an order to the next must rise: all of them, for the claim to hold.
fn order(name: &str, comparison: &Comparison, parts: &[Vec<f64>]) -> Weighed {
    let seeds = parts.first().map_or(0, Vec::len);
    if parts.iter().any(|part| part.len() != seeds) {
        return Err("the points have not the same seeds".to_owned());
    }
    let step = |pair: &[Vec<f64>]| {
        interval_of(name, seeds, RESAMPLES, |weights| {
            Some(weighted(&pair[1], weights) - weighted(&pair[0], weights))
        })
    };
    let steps: Vec<Interval> = parts.windows(2).map(step).collect::<Result<_, _>>()?;
    let verdicts: Vec<_> = steps.iter().map(|s| comparison.check.verdict(*s)).collect();
    let verdict = match &verdicts[..] {
        all if all.contains(&Verdict::DoesNotHold) => Verdict::DoesNotHold,
        all if all.contains(&Verdict::CannotBeTold) => Verdict::CannotBeTold,
        _ => Verdict::Holds,
    };
    let least = steps.into_iter().min_by(|a, b| a.low.total_cmp(&b.low));
    let least = least.ok_or_else(|| "there is nothing to order".to_owned())?;
    let all = vec![1.0; seeds];
    let means = parts.iter().map(|part| weighted(part, &all)).collect();
    Ok((ours(comparison, least, seeds, means), verdict))
}

fn distance(
    name: &str,
    comparison: &Comparison,
    a: (&[PointResult], &Subject),
    b: (&[PointResult], &Subject),
    read: fn(&View<'_>) -> Vec<f64>,
) -> Weighed {
    let seeds = a.0.len();
    if b.0.len() != seeds {
        return Err("the points have not the same seeds".to_owned());
    }
    let pooled = |(runs, subject): (&[PointResult], &Subject)| {
        let of = |(index, run)| {
            let values = read(&View { run, subject });
            values.into_iter().map(move |value| (value, index))
        };
        let mut all: Vec<(f64, usize)> = runs.iter().enumerate().flat_map(of).collect();
        all.sort_unstable_by(|(a, _), (b, _)| a.total_cmp(b));
        all
    };
    let (a, b) = (pooled(a), pooled(b));
    let found = interval_of(name, seeds, KS_RESAMPLES, |weights| ks(&a, &b, weights))?;
    let verdict = comparison.check.verdict(found);
    Ok((ours(comparison, found, seeds, Vec::new()), verdict))
}
