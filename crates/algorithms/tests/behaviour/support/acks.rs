//! One flow's ACKs as the test says them, one a segment.

use super::driver::Driver;
use super::path::{Ack, Controller, MSS};

/// ACKs of a flow that always has more to send, and has its window full.
pub(crate) struct Acks {
    driver: Driver,
    pub(crate) now_us: u64,
    /// Segments.
    pub(crate) cwnd: u64,
}

impl Acks {
    pub(crate) fn new(spec: &str) -> Self {
        Self {
            driver: Driver::new(spec),
            now_us: 0,
            cwnd: 10,
        }
    }

    /// The next, so long after the last; what cwnd it leaves.
    pub(crate) fn ack(&mut self, after_us: u64, rtt_us: u64, lost_packets: u64) -> u64 {
        self.now_us += after_us;
        let ack = Ack {
            now_us: self.now_us,
            acked: MSS,
            delivered: MSS,
            lost_packets,
            in_flight: self.cwnd.saturating_sub(1 + lost_packets) * MSS,
            pending: 1 << 30,
            rtt_us,
            ..Ack::default()
        };
        (self.cwnd, _) = self.driver.invoke(&ack, self.cwnd);
        self.cwnd
    }

    /// The next, as the window clocks it at this RTT.
    pub(crate) fn clocked(&mut self, rtt_us: u64, lost_packets: u64) -> u64 {
        self.ack((rtt_us / self.cwnd).max(1), rtt_us, lost_packets)
    }
}
