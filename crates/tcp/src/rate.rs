//! Delivery-rate samples (draft-cheng-iccrg-delivery-rate-estimation-02), in segments.

/// The flow when a segment is sent: P.delivered, P.delivered_time, P.first_sent_time and
/// P.is_app_limited of §3.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Stamp {
    delivered: u64,
    delivered_at: u64,
    first_sent_at: u64,
    app_limited: bool,
}

/// The connection's part of the estimator (§3.2).
#[derive(Debug, Clone, Default)]
pub(super) struct Estimator {
    delivered: u64,
    delivered_at: u64,
    first_sent_at: u64,
    /// Samples are application-limited until this many segments are delivered; 0 for not limited.
    app_limited_until: u64,
}

/// A sample: segments delivered, and the intervals they took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) delivered: u64,
    /// How long they took to be sent, ns.
    pub(super) send_ns: u64,
    /// How long they took to be acknowledged, ns.
    pub(super) ack_ns: u64,
}

/// The most recently sent of the segments that one ACK delivers.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Newest {
    order: u64,
    sent_at: u64,
    stamp: Option<Stamp>,
}

impl Newest {
    /// Whether the segment was sent while the application limited the connection (§3.4); `None`
    /// when the ACK delivers nothing.
    pub(super) fn app_limited(&self) -> Option<bool> {
        self.stamp.map(|stamp| stamp.app_limited)
    }

    /// §3.3, UpdateRateSample.
    pub(super) fn consider(&mut self, order: u64, sent_at: u64, stamp: Stamp) {
        if self.stamp.is_none() || order > self.order {
            *self = Self {
                order,
                sent_at,
                stamp: Some(stamp),
            };
        }
    }
}

impl Estimator {
    /// A segment is sent (§3.2, SendPacket); `idle` says that none was in flight.
    pub(super) fn on_send(&mut self, now: u64, idle: bool) -> Stamp {
        if idle {
            self.first_sent_at = now;
            self.delivered_at = now;
        }
        Stamp {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            app_limited: self.app_limited_until > 0,
        }
    }

    /// Counts deliveries that no segment of the scoreboard stands for: those of a D-SACK, or of a
    /// duplicate ACK without SACK.
    pub(super) fn count(&mut self, segments: u64) {
        self.delivered += segments;
    }

    /// An ACK has been processed (§3.3, GenerateRateSample). A sample shorter than the least RTT
    /// tells of spurious retransmissions, not of the path.
    pub(super) fn on_ack(
        &mut self,
        now: u64,
        newest: &Newest,
        newly_delivered: bool,
        min_rtt_ns: u64,
    ) -> Option<Sample> {
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        if newly_delivered {
            self.delivered_at = now;
        }
        let stamp = newest.stamp?;
        self.first_sent_at = newest.sent_at;
        let sample = Sample {
            delivered: self.delivered - stamp.delivered,
            send_ns: newest.sent_at.saturating_sub(stamp.first_sent_at),
            ack_ns: now.saturating_sub(stamp.delivered_at),
        };
        (sample.send_ns.max(sample.ack_ns) >= min_rtt_ns && sample.delivered > 0).then_some(sample)
    }

    /// The application has no more to send than what is in flight (§3.4).
    pub(super) fn on_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = (self.delivered + in_flight).max(1);
    }

    /// Whether what is sent now is limited by the application.
    pub(super) fn is_app_limited(&self) -> bool {
        self.app_limited_until > 0
    }
}
