//! How a switch ended, and why, in a sentence with numbers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a switch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The flows have the other algorithm.
    Kept,
    /// They have the former one again: the other was worse, or failed.
    RolledBack,
    /// They have the former one again: there was no telling.
    Undecided,
}

/// Median ratios of the other algorithm to the present one, over pairs of periods.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Ratios {
    /// Goodput of the flows that changed.
    pub goodput: Option<f64>,
    /// Their 99th percentile RTT.
    pub rtt_p99: Option<f64>,
    /// Part of their packets that was retransmitted.
    pub retransmissions: Option<f64>,
    /// Goodput of the flows that stayed.
    pub stayed: Option<f64>,
}

/// The end of a switch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// How it ended.
    pub outcome: Outcome,
    /// The algorithm before.
    pub from: String,
    /// The other.
    pub to: String,
    /// Why, as one clause.
    pub cause: String,
    /// Time from the start, µs.
    pub elapsed_us: u64,
    /// Flows that changed.
    pub flows: usize,
    /// Pairs of periods that were compared.
    pub pairs: u32,
    /// What they told.
    pub ratios: Ratios,
    /// Mean goodput of the flows that changed, under both, bit/s.
    pub goodput_bits_per_s: [f64; 2],
    /// Odds to 1 that the other has less goodput.
    pub worse: f64,
    /// Odds to 1 that it has more.
    pub better: f64,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to, .. } = self;
        match self.outcome {
            Outcome::Kept => write!(f, "{to} is kept: ")?,
            Outcome::RolledBack => write!(f, "{from} is back: ")?,
            Outcome::Undecided => write!(f, "{from} is back, undecided: ")?,
        }
        write!(f, "{}", self.cause)?;
        if self.pairs == 0 {
            return write!(f, ".");
        }
        let [before, after] = self.goodput_bits_per_s.map(|rate| rate / 1e6);
        write!(
            f,
            ". In {} pairs of periods its goodput was {after:.3} Mbit/s, {from}'s {before:.3}",
            self.pairs
        )?;
        if let Some(ratio) = self.ratios.goodput {
            write!(f, " (median ratio {ratio:.2})")?;
        }
        if let Some(ratio) = self.ratios.rtt_p99 {
            write!(f, "; p99 RTT {ratio:.2} of {from}'s")?;
        }
        if let Some(ratio) = self.ratios.retransmissions {
            write!(f, "; retransmissions {ratio:.2}")?;
        }
        if let Some(ratio) = self.ratios.stayed {
            write!(f, "; the flows that stayed got {ratio:.2} of theirs")?;
        }
        write!(
            f,
            ". Odds that it is worse {}:1, better {}:1.",
            odds(self.worse),
            odds(self.better)
        )
    }
}

fn odds(odds: f64) -> String {
    match odds {
        odds if odds >= 1000.0 => ">1000".to_owned(),
        odds if odds >= 10.0 => format!("{odds:.0}"),
        odds => format!("{odds:.1}"),
    }
}
