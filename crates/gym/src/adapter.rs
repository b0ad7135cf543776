//! A flow as a policy sees it and steers it.

use crate::Reported;

/// What one number of an observation is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Feature {
    /// Its name.
    pub name: &'static str,
    /// Its least value.
    pub low: f32,
    /// Its greatest value.
    pub high: f32,
    /// What it means.
    pub meaning: &'static str,
}

/// How many numbers an observation has.
pub const OBSERVATION: usize = 7;

/// What they are, in order. None has a unit: a policy that learned on slow paths may run on fast
/// ones. Each is cut off at its bounds.
pub const FEATURES: [Feature; OBSERVATION] = [
    Feature {
        name: "queue",
        low: 0.0,
        high: 3.0,
        meaning: "ln(mean RTT / least RTT of the connection): 0 is no queue, 0.69 one of a BDP",
    },
    Feature {
        name: "gradient",
        low: -1.0,
        high: 1.0,
        meaning: "change of the mean RTT since the report before, by the time between",
    },
    Feature {
        name: "loss",
        low: 0.0,
        high: 1.0,
        meaning: "square root of the share of packets lost: 0.1 is one in a hundred",
    },
    Feature {
        name: "rate",
        low: 0.0,
        high: 1.0,
        meaning: "delivery rate, by the greatest of the last 32 reports",
    },
    Feature {
        name: "window",
        low: -3.0,
        high: 3.0,
        meaning: "ln(cwnd / (that greatest delivery rate x least RTT)): cwnd in estimated BDPs",
    },
    Feature {
        name: "action",
        low: -1.0,
        high: 1.0,
        meaning: "the last action",
    },
    Feature {
        name: "timeout",
        low: 0.0,
        high: 1.0,
        meaning: "1 if a retransmission timeout caused this report, which halved cwnd",
    },
];

/// The numbers of [`FEATURES`].
pub type Observation = [f32; OBSERVATION];

/// Reports that the greatest delivery rate is sought among.
const MEMORY: usize = 32;

/// cwnd in estimated BDPs, at most: no buffer that a policy should fill is as deep.
const MAX_BDPS: f64 = 8.0;

/// cwnd in segments that may be had in any case.
const ALWAYS: f64 = 16.0;

/// cwnd in segments, at least.
const LEAST: f64 = 2.0;

/// Turns the reports of a flow into observations, and actions into its cwnd.
#[derive(Debug, Clone)]
pub struct PolicyAdapter {
    mss: f64,
    /// Bytes. It is kept in fractions, for the datapath's is in whole segments.
    cwnd: f64,
    /// µs; 0 before the first sample.
    min_rtt: f64,
    /// µs, of the last report that had a sample.
    mean_rtt: f64,
    /// Delivery rates, bytes/µs.
    rates: [f64; MEMORY],
    next: usize,
    action: f32,
}

impl PolicyAdapter {
    /// For a flow that begins. `mss` is in bytes.
    #[must_use]
    pub fn new(mss: u32) -> Self {
        Self {
            mss: f64::from(mss.max(1)),
            cwnd: 0.0,
            min_rtt: 0.0,
            mean_rtt: 0.0,
            rates: [0.0; MEMORY],
            next: 0,
            action: 0.0,
        }
    }

    /// Takes in a report, and says what a policy observes.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        reason = "features are rough, and bounded"
    )]
    pub fn observe(&mut self, report: &Reported) -> Observation {
        let cwnd = report.cwnd as f64;
        // The program, an idle restart or a resumption may have changed it.
        if (cwnd - self.cwnd).abs() >= self.mss {
            self.cwnd = cwnd;
        }
        let elapsed = report.elapsed.max(1) as f64;
        let before = self.mean_rtt;
        if report.rtt_samples > 0 {
            self.mean_rtt = report.rtt_sum as f64 / report.rtt_samples as f64;
            self.min_rtt = report.min_rtt as f64;
        }
        let rate = report.delivered as f64 / elapsed;
        self.rates[self.next] = rate;
        self.next = (self.next + 1) % MEMORY;
        let best = self.best_rate();
        let gradient = if before > 0.0 {
            (self.mean_rtt - before) / elapsed
        } else {
            0.0
        };
        let lost = report.lost as f64 * self.mss;
        let values = [
            log_ratio(self.mean_rtt, self.min_rtt),
            gradient,
            ratio(lost, lost + report.delivered as f64).sqrt(),
            ratio(rate, best),
            log_ratio(self.cwnd, best * self.min_rtt),
            f64::from(self.action),
            f64::from(u8::from(report.timeouts > 0)),
        ];
        let mut observation = [0.0; OBSERVATION];
        for ((to, value), feature) in observation.iter_mut().zip(values).zip(&FEATURES) {
            *to = (value as f32).clamp(feature.low, feature.high);
        }
        observation
    }

    /// Takes an action: cwnd times 2 to its power, within −1 and 1, so from a half to twice what it
    /// was. It is at least 2 segments, and at most 8 times the greatest delivery rate seen lately
    /// times the least RTT, or 16 segments if that is more. Returns the cwnd to set, bytes. An
    /// action that is not a number is none.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "cwnd is positive, and a conversion saturates"
    )]
    pub fn apply(&mut self, action: f32) -> u64 {
        let action = if action.is_nan() {
            0.0
        } else {
            action.clamp(-1.0, 1.0)
        };
        self.action = action;
        let bdp = self.best_rate() * self.min_rtt;
        let most = (MAX_BDPS * bdp).max(ALWAYS * self.mss);
        let cwnd = self.cwnd * libm::exp2(f64::from(action));
        self.cwnd = cwnd.clamp(LEAST * self.mss, most);
        self.cwnd as u64
    }

    /// The mean RTT of the last report that had samples, µs; 0 before the first.
    #[must_use]
    pub fn mean_rtt_us(&self) -> f64 {
        self.mean_rtt
    }

    fn best_rate(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// 0 where there is nothing to compare yet.
fn log_ratio(value: f64, with: f64) -> f64 {
    if value > 0.0 && with > 0.0 {
        libm::log(value / with)
    } else {
        0.0
    }
}
