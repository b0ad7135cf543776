//! Smoothed RTT and the retransmission timeout that a guest is thought to have (RFC 6298).

use std::time::Duration;

/// The least timeout that a guest is thought to have: Linux's `TCP_RTO_MIN`. RFC 6298 §2.4 has 1 s.
const MIN_RTO: Duration = Duration::from_millis(200);

/// The timeout before the first sample (RFC 6298 §2.1).
const FIRST_RTO: Duration = Duration::from_secs(1);

/// Smoothed RTT and its variation, ns.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rtt {
    srtt: u64,
    variation: u64,
    min: u64,
}

impl Rtt {
    /// RFC 6298 §2.2 and §2.3.
    pub(super) fn on_sample(&mut self, rtt: u64) {
        if self.srtt == 0 {
            (self.srtt, self.variation, self.min) = (rtt, rtt / 2, rtt);
            return;
        }
        self.min = self.min.min(rtt);
        let difference = self.srtt.abs_diff(rtt);
        self.variation = self.variation - self.variation / 4 + difference / 4;
        self.srtt = self.srtt - self.srtt / 8 + rtt / 8;
    }

    /// Smoothed RTT, ns; 0 before the first sample.
    pub(super) const fn srtt(&self) -> u64 {
        self.srtt
    }

    /// The least sample, ns; 0 before the first.
    pub(super) const fn min(&self) -> u64 {
        self.min
    }

    /// The guest's timeout, as far as it can be known.
    pub(super) fn rto(&self) -> Duration {
        if self.srtt == 0 {
            return FIRST_RTO;
        }
        Duration::from_nanos(self.srtt.saturating_add(4 * self.variation)).max(MIN_RTO)
    }
}
