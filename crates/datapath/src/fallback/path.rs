//! What the fallback reads of the signals.

use fairwater_lang::{Signal, SignalSet, Signals};

/// What an invocation says of the path.
#[derive(Debug, Clone, Copy)]
pub struct Path<'a> {
    /// Maximum segment size, bytes; at least 1.
    pub mss: u64,
    /// Smoothed RTT, µs; 0 when none was measured.
    pub srtt_us: u64,
    /// The signals that the datapath has.
    pub available: SignalSet,
    /// The signals, by index.
    pub signals: &'a Signals,
}

impl Path<'_> {
    /// 0 for a signal that the datapath lacks.
    pub(super) fn signal(&self, signal: Signal) -> u64 {
        if self.available.contains(signal) {
            self.signals[signal]
        } else {
            0
        }
    }

    pub(crate) fn is_congested(&self) -> bool {
        [Signal::LostPkts, Signal::EcnPackets, Signal::EcnBytes]
            .into_iter()
            .any(|signal| self.signal(signal) > 0)
    }

    pub(crate) fn is_timeout(&self) -> bool {
        self.signal(Signal::WasTimeout) != 0
    }

    /// Bytes in flight after the ACK; 0 when there are none or the datapath cannot tell.
    fn in_flight(&self) -> u64 {
        let packets = self.signal(Signal::PacketsInFlight);
        self.signal(Signal::BytesInFlight)
            .max(packets.saturating_mul(self.mss))
    }

    /// The window that the flow makes use of, bytes: what was in flight before the ACK, or what the
    /// measured rate carries in a round trip if that is more; 0 when nothing is in flight or the
    /// datapath cannot tell.
    pub(super) fn used(&self) -> u64 {
        let in_flight = self.in_flight();
        if in_flight == 0 {
            return 0;
        }
        let rate = self.signal(Signal::RateIncoming);
        let carried = u128::from(rate) * u128::from(self.srtt_us) / 1_000_000;
        in_flight
            .saturating_add(self.signal(Signal::BytesAcked))
            .max(u64::try_from(carried).unwrap_or(u64::MAX))
    }

    /// FlightSize before what is now known to be lost was declared lost; cwnd when it is not known. At
    /// most cwnd, but for a timeout, whose window a transport may have taken away already.
    pub(crate) fn flight(&self, cwnd: u64) -> u64 {
        let lost = self.signal(Signal::LostPkts).saturating_mul(self.mss);
        let in_flight = self.in_flight();
        if in_flight == 0 && (lost == 0 || !self.is_timeout()) {
            return cwnd;
        }
        let flight = in_flight
            .saturating_add(lost)
            .saturating_add(self.signal(Signal::BytesMisordered));
        if self.is_timeout() {
            flight
        } else {
            flight.min(cwnd)
        }
    }

    /// cwnd is not what holds the flow back, so that it must not grow (RFC 9002 §7.8): less than
    /// half of it was in flight.
    pub(super) fn is_limited_by_application(&self, cwnd: u64) -> bool {
        let left = self.in_flight();
        let before = left.saturating_add(self.signal(Signal::BytesAcked));
        left > 0 && before < cwnd / 2
    }
}
