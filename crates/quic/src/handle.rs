//! What the program that owns a connection may know of its path.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use fairwater_datapath::{Controls, Signal, Signals};

/// Live measures of one path, for the program that owns the connection: `cwnd / RTT` is no rate.
///
/// Any thread may read it, at the cost of a few loads. It lives on when the connection is gone.
#[derive(Debug, Clone)]
pub struct Handle(Arc<Measures>);

/// What a path delivered of late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryRate {
    /// Bytes/s that arrived at the peer.
    pub bytes_per_s: u64,
    /// The application had less to send than the path takes: the path may carry more.
    pub app_limited: bool,
    /// How many of the last 16 rate samples were not application-limited: 0 says nothing about
    /// what the path could carry.
    pub confidence: u32,
}

impl Handle {
    pub(crate) const fn new(measures: Arc<Measures>) -> Self {
        Self(measures)
    }

    /// The last delivery rate; `None` before the first.
    #[must_use]
    pub fn delivery_rate(&self) -> Option<DeliveryRate> {
        let bytes_per_s = self.0.rate.load(Ordering::Relaxed);
        (bytes_per_s > 0).then(|| DeliveryRate {
            bytes_per_s,
            app_limited: self.0.app_limited.load(Ordering::Relaxed),
            confidence: (self.0.history.load(Ordering::Relaxed) & 0xffff).count_ones(),
        })
    }

    /// Congestion window, bytes; 0 before the first ACK.
    #[must_use]
    pub fn window(&self) -> u64 {
        self.0.cwnd.load(Ordering::Relaxed)
    }

    /// Pacing rate, bytes/s; 0 when none is set.
    #[must_use]
    pub fn pacing_rate(&self) -> u64 {
        self.0.pacing.load(Ordering::Relaxed)
    }

    /// The last RTT sample, µs, with what the peer waited before it acknowledged; `None` before
    /// the first.
    #[must_use]
    pub fn rtt_us(&self) -> Option<u64> {
        let rtt_us = self.0.rtt_us.load(Ordering::Relaxed);
        (rtt_us != 0 && rtt_us != u64::MAX).then_some(rtt_us)
    }
}

/// Written by the path's controller alone.
#[derive(Debug, Default)]
pub(crate) struct Measures {
    rate: AtomicU64,
    app_limited: AtomicBool,
    /// One bit a sample, the last in the lowest: it was not application-limited.
    history: AtomicU64,
    cwnd: AtomicU64,
    pacing: AtomicU64,
    rtt_us: AtomicU64,
}

impl Measures {
    #[inline]
    pub(crate) fn set(&self, signals: &Signals, controls: Controls) {
        let app_limited = signals[Signal::AppLimited] != 0;
        if signals[Signal::BytesAcked] | signals[Signal::BytesMisordered] != 0 {
            let before = self.history.load(Ordering::Relaxed);
            let history = before << 1 | u64::from(!app_limited);
            self.history.store(history, Ordering::Relaxed);
        }
        self.rate
            .store(signals[Signal::RateIncoming], Ordering::Relaxed);
        self.app_limited.store(app_limited, Ordering::Relaxed);
        self.cwnd.store(controls.cwnd, Ordering::Relaxed);
        self.pacing.store(controls.rate, Ordering::Relaxed);
        self.rtt_us
            .store(signals[Signal::RttSampleUs], Ordering::Relaxed);
    }
}
