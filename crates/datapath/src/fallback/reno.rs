//! Reno (RFC 5681), from the signals that programs see.

use fairwater_lang::{Signal, SignalSet, Signals};

/// Reno's state besides cwnd. The rate is left at none: ACKs clock what is sent.
///
/// cwnd never goes below 1 MSS, the loss window (RFC 5681 §3.1), and not below 2 MSS but after a
/// retransmission timeout (eq. 4). Bytes are counted as RFC 3465 does, so that ACKs that
/// cover many segments, or few, make no difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reno {
    /// Slow start threshold, bytes.
    ssthresh: u64,
    /// Bytes acknowledged since congestion avoidance last grew cwnd.
    acked: u64,
    /// Bytes still to be acknowledged of the window in which cwnd was last reduced.
    recover: u64,
    /// The last reduction was a retransmission timeout's.
    timed_out: bool,
}

impl Default for Reno {
    fn default() -> Self {
        Self::new()
    }
}

impl Reno {
    /// For a connection that begins: slow start up to the first loss (RFC 5681 §3.1, an initial
    /// ssthresh that is arbitrarily high).
    #[must_use]
    pub const fn new() -> Self {
        Self {
            ssthresh: u64::MAX,
            acked: 0,
            recover: 0,
            timed_out: false,
        }
    }

    /// For a flow that ran under a program until now. Returns the state and the cwnd to go on
    /// with, bytes: the program's, as far as the flow made use of it. A program that governs by
    /// rate may leave a window that the path could never bear, and what is in flight tells
    /// (RFC 7661 §4.2). Growth goes on by congestion avoidance.
    #[must_use]
    pub fn take_over(cwnd: u64, path: &Path<'_>) -> (Self, u64) {
        let flight = path.in_flight();
        let bound = flight.saturating_mul(2).max(path.mss.saturating_mul(10));
        let cwnd = if flight > 0 { cwnd.min(bound) } else { cwnd };
        let cwnd = cwnd.max(path.mss);
        let reno = Self {
            ssthresh: cwnd,
            ..Self::new()
        };
        (reno, cwnd)
    }

    /// Slow start threshold, bytes.
    #[must_use]
    pub const fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    /// The new cwnd after an ACK or a retransmission timeout, bytes.
    #[must_use]
    pub fn on_signals(&mut self, cwnd: u64, path: &Path<'_>) -> u64 {
        let cwnd = cwnd.max(path.mss);
        let acked = path.signal(Signal::BytesAcked);
        if path.signal(Signal::WasTimeout) != 0 {
            return self.on_timeout(cwnd, path);
        }
        // Congestion counts once per window of data (RFC 5681 §3.2, RFC 3168 §6.1.2).
        if self.recover == 0 && path.is_congested() {
            let flight = path.flight(cwnd);
            self.ssthresh = threshold(flight, path.mss);
            self.recover = flight;
            self.timed_out = false;
            self.acked = 0;
            return self.ssthresh.min(cwnd);
        }
        let recovering = self.recover > 0 && !self.timed_out;
        self.recover = self.recover.saturating_sub(acked);
        if recovering || acked == 0 || path.is_limited_by_application(cwnd) {
            return cwnd;
        }
        self.grow(cwnd, acked, path.mss)
    }

    fn grow(&mut self, cwnd: u64, acked: u64, mss: u64) -> u64 {
        if cwnd < self.ssthresh {
            // RFC 5681 §3.1 (eq. 2), with the limit of RFC 3465 §2.2: L = 2 × SMSS.
            return cwnd.saturating_add(acked.min(mss.saturating_mul(2)));
        }
        // RFC 3465 §2.1: one SMSS for each cwnd of bytes acknowledged.
        self.acked = self.acked.saturating_add(acked);
        if self.acked < cwnd {
            return cwnd;
        }
        self.acked = (self.acked - cwnd).min(cwnd);
        cwnd.saturating_add(mss)
    }

    /// RFC 5681 §3.1: ssthresh by eq. 4 unless the same window timed out before, cwnd to the loss
    /// window of one segment.
    fn on_timeout(&mut self, cwnd: u64, path: &Path<'_>) -> u64 {
        if !(self.timed_out && self.recover > 0) {
            let flight = path.flight(cwnd);
            self.ssthresh = self.ssthresh.min(threshold(flight, path.mss));
            self.recover = flight;
        }
        self.timed_out = true;
        self.acked = 0;
        path.mss
    }
}

/// RFC 5681 §3.1 (eq. 4).
fn threshold(flight: u64, mss: u64) -> u64 {
    (flight / 2).max(mss.saturating_mul(2))
}

/// What an invocation says of the path.
#[derive(Debug, Clone, Copy)]
pub struct Path<'a> {
    /// Maximum segment size, bytes; at least 1.
    pub mss: u64,
    /// The signals that the datapath has.
    pub available: SignalSet,
    /// The signals, by index.
    pub signals: &'a Signals,
}

impl Path<'_> {
    /// 0 for a signal that the datapath lacks.
    fn signal(&self, signal: Signal) -> u64 {
        if self.available.contains(signal) {
            self.signals[signal]
        } else {
            0
        }
    }

    fn is_congested(&self) -> bool {
        [Signal::LostPkts, Signal::EcnPackets, Signal::EcnBytes]
            .into_iter()
            .any(|signal| self.signal(signal) > 0)
    }

    /// Bytes in flight after the ACK; 0 when there are none or the datapath cannot tell.
    fn in_flight(&self) -> u64 {
        let packets = self.signal(Signal::PacketsInFlight);
        self.signal(Signal::BytesInFlight)
            .max(packets.saturating_mul(self.mss))
    }

    /// FlightSize before what is now known to be lost was declared lost, at most cwnd; cwnd when
    /// it is not known.
    fn flight(&self, cwnd: u64) -> u64 {
        let lost = self.signal(Signal::LostPkts).saturating_mul(self.mss);
        let in_flight = self.in_flight();
        let timeout = self.signal(Signal::WasTimeout) != 0;
        if in_flight == 0 && (lost == 0 || !timeout) {
            return cwnd;
        }
        in_flight
            .saturating_add(lost)
            .saturating_add(self.signal(Signal::BytesMisordered))
            .min(cwnd)
    }

    /// cwnd is not what holds the flow back, so that it must not grow (RFC 9002 §7.8): less than
    /// half of it was in flight.
    fn is_limited_by_application(&self, cwnd: u64) -> bool {
        let left = self.in_flight();
        let before = left.saturating_add(self.signal(Signal::BytesAcked));
        left > 0 && before < cwnd / 2
    }
}
