//! A selector: clauses in order, of which the first that holds names the algorithm.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fairwater_net::{Probability, Time};

use super::windowed::Windowed;
use super::{Condition, Measures};

/// One clause: the algorithm, if all conditions hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clause {
    /// The conditions; without any the clause always holds.
    pub conditions: Vec<Condition>,
    /// The algorithm's name.
    pub algorithm: Arc<str>,
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.conditions.is_empty() {
            return write!(f, "otherwise `{}`", self.algorithm);
        }
        let conditions: Vec<_> = self.conditions.iter().map(ToString::to_string).collect();
        write!(f, "{}: `{}`", conditions.join(" and "), self.algorithm)
    }
}

/// How a selector chooses: `[selector.NAME]` of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectorConfig {
    /// Its name.
    pub name: Arc<str>,
    /// The algorithm that a flow begins with.
    pub first: Arc<str>,
    /// Least time between two switches.
    pub hold: Duration,
    /// How long losses and marks count; zero is the time between two measures.
    pub window: Duration,
    /// How far beyond a threshold a measure must be to change what a condition says, as a part of the threshold.
    pub margin: Probability,
    /// Fewer packets in the window say nothing about their share that was lost.
    pub least_packets: u64,
    /// The clauses, in their order; the last has no condition.
    pub clauses: Vec<Clause>,
}

impl SelectorConfig {
    /// The algorithms that it may choose, each once.
    #[must_use]
    pub fn algorithms(&self) -> Vec<Arc<str>> {
        let mut found = vec![Arc::clone(&self.first)];
        for clause in &self.clauses {
            if !found.contains(&clause.algorithm) {
                found.push(Arc::clone(&clause.algorithm));
            }
        }
        found
    }
}

/// Another algorithm should control the flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switch {
    /// The algorithm's name.
    pub algorithm: Arc<str>,
    /// Index of the clause that says so.
    pub clause: usize,
}

/// The selector of one flow.
///
/// Mystique's algorithm 1 looks at each ACK and remembers nothing. Here each threshold has a margin, losses count
/// for a window of time, and after a switch there is none for the hold time.
#[derive(Debug, Clone)]
pub struct Selector {
    config: Arc<SelectorConfig>,
    counts: Windowed,
    /// Whether each condition of each clause held last; `None` before anything was known.
    held: Vec<Option<bool>>,
    algorithm: Arc<str>,
    switched: Option<Time>,
}

impl Selector {
    /// Of a flow that begins.
    #[must_use]
    pub fn new(config: Arc<SelectorConfig>) -> Self {
        let conditions = config.clauses.iter().map(|clause| clause.conditions.len());
        Self {
            counts: Windowed::new(config.window),
            held: vec![None; conditions.sum()],
            algorithm: Arc::clone(&config.first),
            switched: None,
            config,
        }
    }

    /// The algorithm that should control the flow.
    #[must_use]
    pub fn algorithm(&self) -> &Arc<str> {
        &self.algorithm
    }

    /// How it chooses.
    #[must_use]
    pub fn config(&self) -> &SelectorConfig {
        &self.config
    }

    /// Takes what was measured since the last time, in the order of time.
    pub fn on_measures(&mut self, measures: &Measures) -> Option<Switch> {
        self.counts.add(measures);
        let counts = self.counts.sum(measures.now);
        let config = &self.config;
        let conditions = config.clauses.iter().flat_map(|clause| &clause.conditions);
        for (condition, held) in conditions.zip(&mut self.held) {
            *held = condition.holds(measures, counts, config.least_packets, config.margin, *held);
        }
        let is_held = |at: Time| measures.now.since(at) < config.hold;
        if self.switched.is_some_and(is_held) {
            return None;
        }
        let clause = self.clause()?;
        let algorithm = &config.clauses.get(clause)?.algorithm;
        if *algorithm == self.algorithm {
            return None;
        }
        self.algorithm = Arc::clone(algorithm);
        self.switched = Some(measures.now);
        Some(Switch {
            algorithm: Arc::clone(&self.algorithm),
            clause,
        })
    }

    /// The first clause that holds; `None` if it is not known of an earlier one whether it does.
    fn clause(&self) -> Option<usize> {
        let holding = self.holding();
        let known = holding.iter().position(|holds| *holds != Some(false))?;
        (*holding.get(known)? == Some(true)).then_some(known)
    }

    /// Whether each clause holds; `None` if that is not known.
    fn holding(&self) -> Vec<Option<bool>> {
        let mut held = self.held.as_slice();
        let clauses = self.config.clauses.iter().map(|clause| {
            let (of_clause, others) = held.split_at(clause.conditions.len().min(held.len()));
            held = others;
            if of_clause.contains(&Some(false)) {
                return Some(false);
            }
            (!of_clause.contains(&None)).then_some(true)
        });
        clauses.collect()
    }

    /// What each clause asks, and whether it holds, in sentences.
    #[must_use]
    pub fn explain(&self, now: Time) -> Vec<String> {
        let clauses = self.config.clauses.iter().zip(self.holding());
        let mut sentences: Vec<_> = clauses
            .map(|(clause, holds)| {
                let holds = match holds {
                    Some(true) => "holds",
                    Some(false) => "does not hold",
                    None => "is not known yet",
                };
                format!("{clause} ({holds})")
            })
            .collect();
        let left = self.switched.and_then(|at| {
            let left = self.config.hold.checked_sub(now.since(at))?;
            (!left.is_zero()).then_some(left)
        });
        if let Some(left) = left {
            sentences.push(format!("no switch for another {left:?}"));
        }
        sentences
    }
}
