//! HyStart (Ha and Rhee, "Taming the elephants", 2011), as Linux has it: slow start ends when the
//! ACKs of a round trip are spread over half of it, or when its first ACKs come late.

use fairwater_tcp::Invocation;

/// Not below this window, segments.
const LOW_WINDOW: u64 = 16;
/// ACKs closer than this are of one train, ns.
const SPACING: u64 = 2_000_000;
/// Time that aggregation at the sender may add to a train, ns.
const AGGREGATION: u64 = 1_000_000;
/// RTT samples at the beginning of a round trip that tell its delay.
const SAMPLES: u32 = 8;

#[derive(Debug, Clone, Default)]
pub(super) struct HyStart {
    found: bool,
    round_end: u64,
    round_start: u64,
    last_ack: u64,
    round_min: u64,
    samples: u32,
}

impl HyStart {
    /// After a timeout, slow start begins again.
    pub(super) fn reset(&mut self, now: u64, next: u64) {
        self.found = false;
        self.begin_round(now, next);
    }

    fn begin_round(&mut self, now: u64, next: u64) {
        self.round_start = now;
        self.last_ack = now;
        self.round_end = next;
        self.round_min = u64::MAX;
        self.samples = 0;
    }

    /// Whether slow start has gone far enough: an ACK with an RTT sample, ns, while in slow
    /// start. `paced` senders spread their ACKs over the round trip by themselves.
    pub(super) fn on_ack(
        &mut self,
        now: u64,
        rtt: u64,
        min_rtt: u64,
        cwnd: u64,
        paced: bool,
        invocation: &Invocation,
    ) -> bool {
        if invocation.acked > self.round_end {
            self.begin_round(now, invocation.next);
        }
        if self.found || cwnd < LOW_WINDOW {
            return false;
        }
        if now.saturating_sub(self.last_ack) <= SPACING {
            self.last_ack = now;
            let whole = min_rtt.saturating_add(AGGREGATION);
            let threshold = if paced { whole } else { whole / 2 };
            self.found |= now.saturating_sub(self.round_start) > threshold;
        }
        self.round_min = self.round_min.min(rtt);
        if self.samples < SAMPLES {
            self.samples += 1;
        } else {
            let late = (min_rtt / 8).clamp(4_000_000, 16_000_000);
            self.found |= self.round_min > min_rtt.saturating_add(late);
        }
        self.found
    }
}
