//! Losses and coverage, from the gap between what was sent and what was received.
//!
//! At a boundary packet the gap is the number of packets sent up to it less the number received up to it. A lost
//! packet raises the gap for good. A packet that is overtaken raises it for less than an RTT, a boundary that is
//! overtaken lowers it likewise, and a duplicate lowers it for good. So the losses are the rises of the least gap of
//! the last RTT.
//!
//! Packets that bypass the receivebox raise the gap, too, but evenly: the least share missing in any of the latest
//! periods is taken for bypassing traffic (*coverage*), and what exceeds it is loss. A period is an RTT, or more if
//! fewer packets were sent than a share can be told from.

use std::collections::VecDeque;

/// Periods over which the least share missing is taken, and how many have to be there.
const PERIODS: usize = 8;
const MIN_PERIODS: usize = 3;

/// Packets of a period, at least.
const PERIOD_PACKETS: u64 = 512;

/// Losses of a bundle.
#[derive(Debug, Clone, Default)]
pub struct LossMonitor {
    /// The gap that has been accounted for; `None` before the first.
    accounted: Option<i64>,
    /// Round trips since the gap is followed. In the first two, the greatest gap counts as
    /// accounted for: the least may be that of a packet that was overtaken.
    rounds: u32,
    /// Shares missing in the latest periods.
    shares: VecDeque<f64>,
    /// Packets sent and packets missing in the present period.
    present: (u64, u64),
    /// Packets missing beyond the coverage and not told yet.
    excess: f64,
}

impl LossMonitor {
    /// Takes in the least and the greatest gap of the last RTT, packets, and how many packets were sent since the
    /// last call. Returns how many were lost, newly.
    pub fn update(&mut self, (least, greatest): (i64, i64), sent: u64) -> u64 {
        if self.rounds < 2 {
            self.accounted = Some(greatest);
            return 0;
        }
        let accounted = self.accounted.get_or_insert(greatest);
        let risen = u64::try_from(least.saturating_sub(*accounted)).unwrap_or(0);
        *accounted = (*accounted).max(least).min(greatest.max(least));
        self.present.0 += sent;
        self.present.1 = self.present.1.saturating_add(risen);
        let bypassing = 1.0 - self.coverage();
        let expected = bypassing * sent as f64;
        // What bypasses comes in lumps as well: a period of it may be owed.
        let owed = bypassing * self.present.0 as f64 + 1.0;
        self.excess = (self.excess + risen as f64 - expected).max(-owed);
        let lost = self.excess.max(0.0).floor();
        self.excess -= lost;
        lost as u64
    }

    /// An RTT has passed.
    pub fn on_round_trip(&mut self) {
        self.rounds = self.rounds.saturating_add(1);
        if self.present.0 < PERIOD_PACKETS {
            return;
        }
        let (sent, missing) = std::mem::take(&mut self.present);
        self.shares
            .push_back((missing as f64 / sent as f64).clamp(0.0, 1.0));
        if self.shares.len() > PERIODS {
            self.shares.pop_front();
        }
    }

    /// Forgets the gap: a counter began again, or was not followed for a while.
    pub fn restart(&mut self) {
        let shares = std::mem::take(&mut self.shares);
        *self = Self {
            shares,
            ..Self::default()
        };
    }

    /// Share of the packets sent that pass the receivebox, 0 to 1.
    #[must_use]
    pub fn coverage(&self) -> f64 {
        if self.shares.len() < MIN_PERIODS {
            return 1.0;
        }
        1.0 - self.shares.iter().copied().fold(1.0, f64::min)
    }
}
