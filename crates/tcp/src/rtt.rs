//! Round-trip times and the retransmission timeout (RFC 6298), as Linux computes them.

use crate::TcpConfig;

/// Retransmission timeout before the first sample (RFC 6298 §2.1), ns.
const INITIAL_RTO: u64 = 1_000_000_000;
/// Linux's greatest retransmission timeout, ns (RFC 6298 §2.5 asks for at least 60 s).
const MAX_RTO: u64 = 120_000_000_000;

/// The smoothed RTT and its variation.
#[derive(Debug, Clone)]
pub(super) struct Rtt {
    min_rto: u64,
    /// 8 × SRTT, ns; 0 before the first sample.
    srtt8: u64,
    /// 4 × the smoothed deviation, ns.
    deviation4: u64,
    /// The largest `deviation4` of this round trip, and at least `min_rto`.
    peak4: u64,
    /// 4 × RTTVAR, ns, and at least `min_rto`.
    variation4: u64,
    /// The round trip ends when this offset is acknowledged.
    round_end: u64,
    min: u64,
}

impl Rtt {
    pub(super) fn new(config: &TcpConfig) -> Self {
        let min_rto = u64::try_from(config.min_rto.as_nanos()).unwrap_or(MAX_RTO);
        Self {
            min_rto: min_rto.min(MAX_RTO),
            srtt8: 0,
            deviation4: 0,
            peak4: 0,
            variation4: 0,
            round_end: 0,
            min: u64::MAX,
        }
    }

    /// SRTT, ns; 0 before the first sample.
    pub(super) fn smoothed(&self) -> u64 {
        self.srtt8 >> 3
    }

    /// Least RTT of the connection, ns; `u64::MAX` before the first sample.
    pub(super) fn min(&self) -> u64 {
        self.min
    }

    /// Lowers the least RTT to the time that a segment took to be acknowledged, ns.
    pub(super) fn observe(&mut self, rtt: u64) {
        self.min = self.min.min(rtt.max(1));
    }

    /// Takes an RTT sample, ns: everything before `acked` is acknowledged, and `next` is sent next.
    ///
    /// RFC 6298 §2.2 and §2.3 with two differences that Linux makes for samples at every ACK:
    /// RTTVAR takes the peak of a round trip at once and decays by a quarter each round trip, and
    /// a falling RTT does not raise it.
    pub(super) fn sample(&mut self, rtt: u64, acked: u64, next: u64) {
        let rtt = rtt.max(1);
        if self.srtt8 == 0 {
            self.srtt8 = rtt << 3;
            self.deviation4 = rtt << 1;
            self.variation4 = self.deviation4.max(self.min_rto);
            self.peak4 = self.variation4;
            self.round_end = next;
            return;
        }
        let smoothed = self.srtt8 >> 3;
        self.srtt8 = self.srtt8 - smoothed + rtt;
        let mean = self.deviation4 >> 2;
        let error = rtt.abs_diff(smoothed);
        if error <= mean {
            self.deviation4 -= mean - error;
        } else if rtt < smoothed {
            self.deviation4 += (error - mean) >> 3;
        } else {
            self.deviation4 += error - mean;
        }
        if self.deviation4 > self.peak4 {
            self.peak4 = self.deviation4;
            self.variation4 = self.variation4.max(self.peak4);
        }
        if acked > self.round_end {
            if self.peak4 < self.variation4 {
                self.variation4 -= (self.variation4 - self.peak4) >> 2;
            }
            self.round_end = next;
            self.peak4 = self.min_rto;
        }
    }

    /// The retransmission timeout, ns, doubled for each backoff (RFC 6298 §2.3, §5.5). Its least
    /// value is SRTT and the configured minimum: Linux puts that in G's place.
    pub(super) fn timeout(&self, doublings: u32) -> u64 {
        let base = if self.srtt8 == 0 {
            INITIAL_RTO
        } else {
            (self.srtt8 >> 3) + self.variation4
        };
        base.saturating_mul(1 << doublings.min(16)).min(MAX_RTO)
    }

    pub(super) fn min_rto(&self) -> u64 {
        self.min_rto
    }
}
