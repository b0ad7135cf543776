//! Changes the algorithm of running flows, and takes it back where that was worse.
//!
//! Flows that share a bottleneck interfere, so two halves with one algorithm each cannot be compared
//! (Spang et al., "Unbiased experiments in congested networks", IMC 2021). Here all chosen flows
//! change together, back and forth, in pairs of periods whose order is drawn by lot, and the flows
//! that stayed are measured too. Sans I/O: samples of flows in, hand-overs out.

mod evidence;
mod measured;
mod verdict;

use std::collections::{BTreeSet, HashMap};

use fairwater_plane::FlowId;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use crate::flow_status::FlowStatus;
use crate::policy::{PolicyKey, Rule};
use evidence::Evidence;
use measured::{Measured, Totals};

pub use verdict::{Outcome, Ratios, Verdict};

/// Odds from which evidence decides. Two quantities can take a switch back, each with a chance of at
/// most 1/40 where there is no difference: 5 % in all.
const DECISIVE: f64 = 40.0;

/// Length of the first periods, µs: seven pairs of them, which can tell a disaster, take 8.4 s.
const FIRST_PERIOD_US: u64 = 600_000;
/// Pairs of the first length.
const FIRST_PAIRS: u32 = 8;
/// From then on periods grow, so that slower effects show, by a fifth each pair, up to this, µs.
const LONGEST_PERIOD_US: u64 = 10_000_000;
/// A period lasts at least so many round trips.
const PERIOD_RTTS: u64 = 8;
/// Part of a period, from its start, in which the flows find their new balance: one third.
const SETTLING: u64 = 3;
/// Pairs before the other algorithm may be kept.
const PAIRS_TO_KEEP: u32 = 16;

/// What is to be tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Name of the present algorithm.
    pub from: String,
    /// Name of the other.
    pub to: String,
    /// Which flows; the rule's algorithm means nothing here.
    pub flows: Rule,
    /// Share of them that change, above 0 and at most 1, drawn by lot; at least one.
    pub share: f64,
    /// How long to try at most, µs.
    pub for_us: u64,
    /// Seed of the lots.
    pub seed: u64,
}

/// Why a plan cannot be tried.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// Both algorithms are one.
    #[error("the flows run {0} already")]
    Same(String),
    /// No flow has the present algorithm and is meant.
    #[error("none of the chosen flows runs {0}")]
    NoFlow(String),
    /// No flow is in a datapath that counts what is acknowledged.
    #[error(
        "the datapaths of these flows do not count delivered bytes, so there is nothing to compare"
    )]
    NotCounted,
}

/// How a trial stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Time since the start, µs.
    pub elapsed_us: u64,
    /// Flows that change.
    pub flows: usize,
    /// Pairs of periods so far.
    pub pairs: u32,
    /// Name of the algorithm that the flows have now.
    pub algorithm: String,
    /// Median ratios of the other algorithm to the present one.
    pub ratios: Ratios,
    /// Odds to 1 that the other has less goodput.
    pub worse: f64,
    /// Odds to 1 that it has more.
    pub better: f64,
}

/// Which of the two algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The present algorithm.
    From,
    /// The other.
    To,
}

/// What a sample led to.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Step {
    /// Flows that are to be handed over.
    pub hand_overs: Vec<(FlowId, Side)>,
    /// How it ended; nothing is to be sampled any more.
    pub verdict: Option<Verdict>,
}

/// A trial at work.
#[derive(Debug)]
pub struct Trial {
    plan: Plan,
    lots: ChaCha8Rng,
    /// Flows that change.
    treated: BTreeSet<FlowId>,
    started_us: u64,
    /// When the present period began.
    period_us: u64,
    /// Length of the periods of this pair.
    length_us: u64,
    side: Side,
    /// Whether this is the pair's second period.
    second: bool,
    /// Counts as the settling ended.
    baseline: Option<Totals>,
    /// What the pair's first period measured.
    first: Option<Measured>,
    rtt_samples_us: Vec<u64>,
    pairs: u32,
    goodput: Evidence,
    rtt: Evidence,
    retransmissions: Evidence,
    /// Goodput of the flows that stayed.
    stayed: Evidence,
    /// Sums over all pairs, of both sides, for sentences: bytes/s.
    sums: [f64; 2],
}

impl Trial {
    /// Begins with these flows.
    ///
    /// # Errors
    /// The plan cannot be tried.
    pub fn begin(plan: Plan, flows: &[FlowStatus], now_us: u64) -> Result<(Self, Step), PlanError> {
        if plan.from == plan.to {
            return Err(PlanError::Same(plan.to));
        }
        let mut lots = ChaCha8Rng::seed_from_u64(plan.seed);
        let meant = flows.iter().filter(|flow| {
            flow.algorithm == plan.from && flow.controlled && plan.flows.matches(&key(flow))
        });
        let meant: Vec<_> = meant.collect();
        if meant.is_empty() {
            return Err(PlanError::NoFlow(plan.from));
        }
        let mut counted: Vec<_> = meant
            .iter()
            .filter(|flow| flow.measures.counts.is_some())
            .map(|flow| flow.id())
            .collect();
        if counted.is_empty() {
            return Err(PlanError::NotCounted);
        }
        counted.shuffle(&mut lots);
        let share = (counted.len() as f64 * plan.share.clamp(0.0, 1.0)).round() as usize;
        counted.truncate(share.max(1));
        let mut trial = Self {
            plan,
            lots,
            treated: counted.into_iter().collect(),
            started_us: now_us,
            period_us: now_us,
            length_us: FIRST_PERIOD_US,
            side: Side::From,
            second: false,
            baseline: None,
            first: None,
            rtt_samples_us: Vec::new(),
            pairs: 0,
            goodput: Evidence::default(),
            rtt: Evidence::default(),
            retransmissions: Evidence::default(),
            stayed: Evidence::default(),
            sums: [0.0; 2],
        };
        let first = trial.draw();
        let mut step = Step::default();
        trial.begin_pair(flows, first, now_us, &mut step);
        Ok((trial, step))
    }

    /// Takes a sample of all flows of the plane.
    pub fn sample(&mut self, flows: &[FlowStatus], now_us: u64) -> Step {
        let mut step = Step::default();
        if let Some(fallen) = self.fallen(flows) {
            let cause = format!(
                "flow {} to {} fell back while {} controlled it",
                fallen.number, fallen.measures.remote, self.plan.to
            );
            self.end(Outcome::RolledBack, cause, now_us, &mut step);
            return step;
        }
        let present: BTreeSet<_> = flows
            .iter()
            .filter(|flow| flow.controlled && flow.measures.counts.is_some())
            .map(FlowStatus::id)
            .collect();
        self.treated.retain(|flow| present.contains(flow));
        if self.treated.is_empty() {
            let cause = "no chosen flow is left".to_owned();
            self.end(Outcome::Undecided, cause, now_us, &mut step);
            return step;
        }
        let in_period = now_us.saturating_sub(self.period_us);
        if in_period < self.length_us / SETTLING {
            return step;
        }
        let Some(baseline) = &self.baseline else {
            self.baseline = Some(Totals::of(flows, &self.treated, now_us));
            return step;
        };
        self.rtt_samples_us
            .extend(measured::rtts_us(flows, &self.treated));
        if in_period < self.length_us {
            return step;
        }
        let mut rtts = std::mem::take(&mut self.rtt_samples_us);
        let measured = Measured::between(
            baseline,
            &Totals::of(flows, &self.treated, now_us),
            &mut rtts,
        );
        self.end_period(flows, measured, now_us, &mut step);
        step
    }

    /// Takes the switch back, because whoever asked for it has left, for instance.
    pub fn abort(&mut self, why: &str, now_us: u64) -> Step {
        let mut step = Step::default();
        self.end(Outcome::RolledBack, why.to_owned(), now_us, &mut step);
        step
    }

    /// How it stands.
    #[must_use]
    pub fn progress(&self, now_us: u64) -> Progress {
        Progress {
            elapsed_us: now_us.saturating_sub(self.started_us),
            flows: self.treated.len(),
            pairs: self.pairs,
            algorithm: self.name(self.side).to_owned(),
            ratios: self.ratios(),
            worse: self.goodput.smaller(),
            better: self.goodput.larger(),
        }
    }

    /// A flow that fell back while it had the other algorithm.
    fn fallen<'f>(&self, flows: &'f [FlowStatus]) -> Option<&'f FlowStatus> {
        let mut flows = flows.iter();
        (self.side == Side::To).then(|| {
            flows.find(|flow| {
                !flow.controlled
                    && flow.algorithm == self.plan.to
                    && self.treated.contains(&flow.id())
            })
        })?
    }

    /// Draws by lot which algorithm is first in a pair.
    fn draw(&mut self) -> Side {
        match self.lots.random() {
            true => Side::To,
            false => Side::From,
        }
    }

    fn end_period(
        &mut self,
        flows: &[FlowStatus],
        measured: Measured,
        now_us: u64,
        step: &mut Step,
    ) {
        let Some(first) = self.first.take().filter(|_| self.second) else {
            self.first = Some(measured);
            self.second = true;
            let other = match self.side {
                Side::From => Side::To,
                Side::To => Side::From,
            };
            self.begin_period(flows, other, now_us, step);
            return;
        };
        let (present, other) = match self.side {
            Side::To => (first, measured),
            Side::From => (measured, first),
        };
        self.add_pair(&present, &other);
        if let Some((outcome, cause)) = self.decision(now_us) {
            return self.end(outcome, cause, now_us, step);
        }
        let next = self.draw();
        self.begin_pair(flows, next, now_us, step);
    }

    fn add_pair(&mut self, present: &Measured, other: &Measured) {
        self.pairs += 1;
        self.sums[0] += present.goodput;
        self.sums[1] += other.goodput;
        self.goodput.add(
            present.goodput,
            other.goodput,
            present.goodput.max(other.goodput) / 1000.0,
        );
        if let (Some(present), Some(other)) = (present.rtt_p99_us, other.rtt_p99_us) {
            self.rtt.add(present, other, 1.0);
        }
        // One retransmission in a period is no rate.
        let floor = present.one_packet.max(other.one_packet);
        self.retransmissions
            .add(present.retransmitted, other.retransmitted, floor);
        if let (Some(present), Some(other)) = (present.stayed, other.stayed) {
            self.stayed.add(present, other, present.max(other) / 1000.0);
        }
    }

    /// Whether the pairs so far decide.
    fn decision(&self, now_us: u64) -> Option<(Outcome, String)> {
        let Plan { from, to, .. } = &self.plan;
        if self.goodput.smaller() >= DECISIVE {
            let cause = format!("{to} got less goodput than {from}");
            return Some((Outcome::RolledBack, cause));
        }
        if self.stayed.smaller() >= DECISIVE {
            let cause = format!("the flows that stayed got less goodput beside {to}");
            return Some((Outcome::RolledBack, cause));
        }
        let slower = self.rtt.larger() >= DECISIVE && self.rtt.ratio() > Some(1.25);
        if slower && self.goodput.larger() < DECISIVE && self.pairs >= PAIRS_TO_KEEP {
            let cause = format!("{to} raised the RTT and got no more goodput");
            return Some((Outcome::RolledBack, cause));
        }
        if self.pairs >= PAIRS_TO_KEEP {
            if self.goodput.larger() >= DECISIVE && !slower {
                let cause = format!("{to} got more goodput than {from}");
                return Some((Outcome::Kept, cause));
            }
            let no_less = self.goodput.ratio() >= Some(0.97);
            if no_less && self.rtt.smaller() >= DECISIVE && self.rtt.ratio() < Some(0.9) {
                let cause = format!("{to} lowered the RTT and got no less goodput");
                return Some((Outcome::Kept, cause));
            }
        }
        let over = now_us.saturating_sub(self.started_us) >= self.plan.for_us;
        over.then(|| {
            (
                Outcome::Undecided,
                "the pairs do not decide between the two".to_owned(),
            )
        })
    }

    fn begin_pair(&mut self, flows: &[FlowStatus], side: Side, now_us: u64, step: &mut Step) {
        self.second = false;
        self.first = None;
        if self.pairs >= FIRST_PAIRS {
            self.length_us = (self.length_us / 5 * 6).min(LONGEST_PERIOD_US);
        }
        let srtt_us = measured::median_srtt_us(flows, &self.treated);
        let least = (PERIOD_RTTS * srtt_us).min(LONGEST_PERIOD_US);
        self.length_us = self.length_us.max(least);
        self.begin_period(flows, side, now_us, step);
    }

    fn begin_period(&mut self, flows: &[FlowStatus], side: Side, now_us: u64, step: &mut Step) {
        self.side = side;
        self.period_us = now_us;
        self.baseline = None;
        self.rtt_samples_us.clear();
        self.hand_over_to(side, flows, step);
    }

    /// Hands over the flows that are not known to have the algorithm.
    fn hand_over_to(&self, side: Side, flows: &[FlowStatus], step: &mut Step) {
        let name = self.name(side);
        let known = flows.iter();
        let algorithms: HashMap<_, _> = known.map(|flow| (flow.id(), &*flow.algorithm)).collect();
        let others = self.treated.iter();
        let others = others.filter(|flow| algorithms.get(flow) != Some(&name));
        step.hand_overs.extend(others.map(|flow| (*flow, side)));
    }

    fn name(&self, side: Side) -> &str {
        match side {
            Side::From => &self.plan.from,
            Side::To => &self.plan.to,
        }
    }

    fn ratios(&self) -> Ratios {
        Ratios {
            goodput: self.goodput.ratio(),
            rtt_p99: self.rtt.ratio(),
            retransmissions: self.retransmissions.ratio(),
            stayed: self.stayed.ratio(),
        }
    }

    fn end(&mut self, outcome: Outcome, cause: String, now_us: u64, step: &mut Step) {
        let side = match outcome {
            Outcome::Kept => Side::To,
            Outcome::RolledBack | Outcome::Undecided => Side::From,
        };
        // Otherwise they were asked as the period began.
        if side != self.side {
            self.hand_over_to(side, &[], step);
        }
        let pairs = f64::from(self.pairs.max(1));
        step.verdict = Some(Verdict {
            outcome,
            from: self.plan.from.clone(),
            to: self.plan.to.clone(),
            cause,
            elapsed_us: now_us.saturating_sub(self.started_us),
            flows: self.treated.len(),
            pairs: self.pairs,
            ratios: self.ratios(),
            goodput_bits_per_s: self.sums.map(|sum| sum / pairs * 8.0),
            worse: self.goodput.smaller(),
            better: self.goodput.larger(),
        });
    }
}

fn key(flow: &FlowStatus) -> PolicyKey<'_> {
    let measures = &flow.measures;
    PolicyKey {
        datapath: &flow.datapath,
        local: measures.local,
        remote: measures.remote,
        tag: measures.tag,
        cgroup: measures.cgroup.as_deref(),
    }
}
