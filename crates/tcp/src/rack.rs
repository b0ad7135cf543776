//! RACK-TLP's loss detection by time (RFC 8985 §6).

use super::scoreboard::{Scoreboard, Sent};

/// Segments out of order that show a loss while no reordering was seen (RFC 8985 §6.2).
const DUP_THRESH: u64 = 3;
/// Recoveries that a larger reordering window lasts (RFC 8985 §6.2, step 4).
const PERSIST: u8 = 16;

/// The most recently sent segment that was delivered, and what is known of reordering.
#[derive(Debug, Clone)]
pub(super) struct Rack {
    /// Number of that segment's transmission; 0 before the first.
    order: u64,
    /// RACK.rtt, ns.
    rtt: u64,
    reordering_seen: bool,
    /// The reordering window, in quarters of the least RTT.
    steps: u64,
    persist: u8,
    /// A D-SACK widens the window once a round trip: not before this offset is acknowledged.
    widened_at: Option<u64>,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            order: 0,
            rtt: 0,
            reordering_seen: false,
            steps: 1,
            persist: 0,
            widened_at: None,
        }
    }
}

impl Rack {
    /// Steps 1 and 2: a segment was delivered. One that was sent again since the clock that its
    /// ACK echoes, ns, or sooner than a round trip ago, was acknowledged for an earlier
    /// transmission. Only an ACK in order echoes the clock of what arrived (RFC 7323 §4.3).
    #[inline]
    pub(super) fn on_delivered(&mut self, now: u64, echo: Option<u64>, sent: &Sent, min_rtt: u64) {
        let rtt = now.saturating_sub(sent.at);
        let earlier = || rtt < min_rtt || echo.is_some_and(|echo| echo < sent.at);
        if sent.order < self.order || (sent.ever_resent && earlier()) {
            return;
        }
        self.order = sent.order;
        self.rtt = rtt;
    }

    /// Step 3: a segment that was sent once arrived after a later one. So did, by its clock, one
    /// whose retransmission was in vain.
    pub(super) fn on_reordering(&mut self) {
        self.reordering_seen = true;
    }

    /// Step 4: a D-SACK says that a retransmission was in vain.
    pub(super) fn on_spurious_retransmission(&mut self, acked: u64, next: u64) {
        if self.widened_at.is_some_and(|at| acked < at) {
            return;
        }
        self.widened_at = Some(next);
        self.steps = (self.steps + 1).min(255);
        self.persist = PERSIST;
    }

    /// Step 4: a recovery is over.
    pub(super) fn on_recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.steps = 1;
        }
    }

    /// Step 4: how long a segment may come later than one sent after it, ns.
    fn window(&self, sacked: u64, recovering: bool, min_rtt: u64, srtt: u64) -> u64 {
        if !self.reordering_seen && (recovering || sacked >= DUP_THRESH) {
            return 0;
        }
        (min_rtt / 4).saturating_mul(self.steps).min(srtt)
    }

    /// Step 5: marks what was sent before the most recently delivered segment, and longer ago
    /// than a round trip and the window. Returns when the next segment is due to be declared lost,
    /// ns.
    pub(super) fn detect(
        &self,
        now: u64,
        scoreboard: &mut Scoreboard,
        recovering: bool,
        min_rtt: u64,
        srtt: u64,
    ) -> Option<u64> {
        if self.order == 0 {
            return None;
        }
        let window = self.window(scoreboard.sacked(), recovering, min_rtt, srtt);
        while let Some((number, sent)) = scoreboard.earliest() {
            if sent.order >= self.order {
                break;
            }
            let due = sent.at.saturating_add(self.rtt).saturating_add(window);
            if due > now {
                return Some(due);
            }
            scoreboard.mark_lost(number);
        }
        None
    }

    /// Whether a segment is older than a round trip: what a retransmission timeout takes for lost
    /// (RFC 8985 §6.3).
    pub(super) fn is_overdue(&self, now: u64, sent: &Sent) -> bool {
        sent.at.saturating_add(self.rtt) <= now
    }
}
