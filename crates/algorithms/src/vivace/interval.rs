//! Measurements of one monitor interval, and their utility.

/// A monitor interval's measurements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measured {
    /// Bytes sent in the interval that arrived.
    pub(super) delivered: f64,
    /// Bytes sent in the interval that were lost.
    pub(super) lost: f64,
    /// Bytes a packet.
    pub(super) mss: f64,
    /// ACKs for those bytes that had an RTT sample.
    pub(super) acks: u64,
    /// ACKs among them at which the application had nothing more to send.
    pub(super) idle: u64,
    /// Slope of the RTT over the time of sending.
    pub(super) rtt_slope: Slope,
}

/// Sums over the RTT samples y of what was sent at x, µs, as the program counts them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sums {
    pub(super) n: u64,
    pub(super) x: u64,
    pub(super) y: u64,
    pub(super) xx: u64,
    pub(super) xy: u64,
    pub(super) yy: u64,
    /// Of these, the samples of ACKs that the receiver may have held back.
    pub(super) held: u64,
    pub(super) held_x: u64,
    pub(super) held_y: u64,
}

/// A slope by least squares, without a unit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Slope {
    pub(super) value: f64,
    /// Variance of the estimate, from the residuals.
    pub(super) variance: f64,
}

impl Sums {
    /// The regression by which Vivace takes d(RTT)/dt (NSDI '18 §3); none of too few samples. The line
    /// of the ACKs that were held back is parallel to the other: how long the receiver holds an ACK
    /// says nothing of the path.
    pub(super) fn slope(&self) -> Slope {
        let lines = if self.held == 0 || self.held >= self.n {
            1
        } else {
            2
        };
        if self.n < 2 + lines {
            return Slope::default();
        }
        let at_once = [self.n, self.x, self.y].map(i128::from);
        let held = [self.held, self.held_x, self.held_y].map(i128::from);
        let [n, x, y] = [0, 1, 2].map(|i| at_once[i] - held[i]);
        let [held_n, held_x, held_y] = held;
        let (n, held_n) = (n.max(1), held_n.max(1));
        let scale = n.saturating_mul(held_n);
        // Sum of products of deviations from the means of either line, times `scale`: exact, as
        // differences of what may be large and nearly the same.
        let of = |product: u64, a: i128, b: i128, held_a: i128, held_b: i128| {
            let own = a.saturating_mul(b).saturating_mul(held_n);
            let held = held_a.saturating_mul(held_b).saturating_mul(n);
            (scale.saturating_mul(product.into()))
                .saturating_sub(own)
                .saturating_sub(held) as f64
        };
        let spread = of(self.xx, x, x, held_x, held_x);
        let common = of(self.xy, x, y, held_x, held_y);
        let height = of(self.yy, y, y, held_y, held_y);
        if spread <= 0.0 {
            return Slope::default();
        }
        let value = common / spread;
        let apart = (height - common * value).max(0.0);
        Slope {
            value,
            variance: apart / ((self.n - 1 - lines) as f64 * spread),
        }
    }
}

/// The utility function (NSDI '18 §3): x^0.9 − b·x·d(RTT)/dt − c·x·L, x in Mbit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Utility {
    /// b.
    pub(super) latency: f64,
    /// c.
    pub(super) loss: f64,
    /// Smaller RTT gradients are taken for noise, as are those within the regression's error.
    pub(super) filter: f64,
}

/// The throughput's exponent, t.
const EXPONENT: f64 = 0.9;

impl Utility {
    /// Utility of an interval that was sent at `rate`, Mbit/s.
    pub(super) fn of(&self, rate: f64, measured: &Measured) -> IntervalUtility {
        let slope = measured.rtt_slope;
        let noise = self.filter.max(slope.variance.sqrt());
        let beyond = slope.value.abs() >= noise;
        let gradient = if beyond { slope } else { Slope::default() };
        let sent = measured.delivered + measured.lost;
        let loss = if sent > 0.0 {
            measured.lost / sent
        } else {
            0.0
        };
        let packets = (sent / measured.mss).max(1.0);
        let (by_latency, by_loss) = (self.latency * rate, self.loss * rate);
        IntervalUtility {
            value: libm::pow(rate, EXPONENT) - by_latency * gradient.value - by_loss * loss,
            variance: by_latency * by_latency * gradient.variance
                + by_loss * by_loss * loss * (1.0 - loss) / packets,
        }
    }
}

/// The measured utility of one interval.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct IntervalUtility {
    pub(super) value: f64,
    /// Variance of `value`: losses are independent with one probability, and RTT samples deviate
    /// independently from the line.
    pub(super) variance: f64,
}

impl Measured {
    /// Whether the application or the receive window limited the flow, not the rate: then the interval
    /// says nothing about the path.
    pub(super) fn is_limited(&self, rate: f64, length_us: u64) -> bool {
        let sent = self.delivered * 8.0 / length_us.max(1) as f64;
        let part = if 2 * self.idle > self.acks { 0.9 } else { 0.6 };
        self.lost == 0.0 && sent < part * rate
    }
}
