//! Delivery-rate samples (draft-cheng-iccrg-delivery-rate-estimation-02), in bytes.

/// The path when a packet is sent: P.delivered, P.delivered_time, P.first_sent_time and
/// P.is_app_limited of §3.2, and the time of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Stamp {
    /// When the packet was sent, ns.
    pub(crate) sent_ns: u64,
    /// Bytes sent before and with the packet.
    pub(crate) sent_bytes: u64,
    delivered: u64,
    delivered_ns: u64,
    first_sent_ns: u64,
    app_limited: bool,
}

/// The path's part of the estimator (§3.2).
#[derive(Debug, Clone, Default)]
pub(crate) struct RateEstimator {
    sent: u64,
    delivered: u64,
    delivered_ns: u64,
    first_sent_ns: u64,
    /// Samples are application-limited until this many bytes are delivered; 0 for not limited.
    app_limited_until: u64,
    min_rtt_ns: Option<u64>,
}

/// Bytes delivered, and the intervals they took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateSample {
    bytes: u64,
    send_ns: u64,
    ack_ns: u64,
    pub(crate) app_limited: bool,
}

impl RateSample {
    /// How fast the bytes arrived, bytes/s; `None` for an interval of 0.
    pub(crate) fn incoming(&self) -> Option<u64> {
        per_second(self.bytes, self.ack_ns)
    }

    /// How fast the bytes were sent, bytes/s; `None` for an interval of 0.
    pub(crate) fn outgoing(&self) -> Option<u64> {
        per_second(self.bytes, self.send_ns)
    }
}

fn per_second(bytes: u64, ns: u64) -> Option<u64> {
    bytes.saturating_mul(1_000_000_000).checked_div(ns)
}

impl RateEstimator {
    /// A packet is sent (§3.2, SendPacket); `idle` says that none was in flight.
    #[inline]
    pub(crate) fn on_send(&mut self, now_ns: u64, bytes: u64, idle: bool) -> Stamp {
        if idle {
            self.first_sent_ns = now_ns;
            self.delivered_ns = now_ns;
        }
        self.sent += bytes;
        Stamp {
            sent_ns: now_ns,
            sent_bytes: self.sent,
            delivered: self.delivered,
            delivered_ns: self.delivered_ns,
            first_sent_ns: self.first_sent_ns,
            app_limited: self.app_limited_until > 0,
        }
    }

    /// Takes in an RTT sample: no delivery takes less than the least of them (§3.3).
    #[inline]
    pub(crate) fn on_rtt(&mut self, rtt_ns: u64) {
        self.min_rtt_ns = Some(self.min_rtt_ns.map_or(rtt_ns, |least| least.min(rtt_ns)));
    }

    /// Bytes were acknowledged.
    #[inline]
    pub(crate) fn deliver(&mut self, bytes: u64) {
        self.delivered += bytes;
    }

    /// An ACK frame has been processed, of whose packets this one was sent last (§3.3,
    /// GenerateRateSample). An interval shorter than the least RTT says nothing of the path.
    #[inline]
    pub(crate) fn on_ack(&mut self, now_ns: u64, newest: &Stamp) -> Option<RateSample> {
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        self.delivered_ns = now_ns;
        self.first_sent_ns = newest.sent_ns;
        let sample = RateSample {
            bytes: self.delivered - newest.delivered,
            send_ns: newest.sent_ns.saturating_sub(newest.first_sent_ns),
            ack_ns: now_ns.saturating_sub(newest.delivered_ns),
            app_limited: newest.app_limited,
        };
        let least_ns = self.min_rtt_ns.unwrap_or(0);
        (sample.send_ns.max(sample.ack_ns) >= least_ns && sample.bytes > 0).then_some(sample)
    }

    /// The application has no more to send than what is in flight (§3.4).
    #[inline]
    pub(crate) fn on_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = (self.delivered + in_flight).max(1);
    }
}
