//! Whether delay control holds the queue: the evidence of elastic cross traffic that needs neither μ
//! nor pulses. Traffic that fills the buffer keeps the queue long however much the flow gives way;
//! beside any other traffic the queue comes back to the target.

/// Whether the verdict of the spectrum must be confirmed by a queue that delay control does not hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NimbusConfirm {
    /// Where μ is told, and for a bundle: a flow that has to find μ keeps a greater share of the link
    /// by the spectrum alone.
    #[default]
    Auto,
    /// For each flow.
    Always,
    /// For none.
    Never,
}

impl crate::parameter::Named for NimbusConfirm {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("always", Self::Always),
        ("never", Self::Never),
    ];
}

/// The queue is long while its mean is above this many times the target.
const LONG: f64 = 1.5;
/// Time constant of the mean, µs: some round trips, and many requests.
const MEAN_US: f64 = 1_000_000.0;
/// Delay control fails when the queue has been long for so many control loops, and for so long, µs.
const FAILED_LOOPS: u64 = 5;
const FAILED_US: u64 = 2_500_000;
/// The first test of whether competition is still needed comes after this time, µs: soon where μ is
/// not told, since z then contains the flow's own pulses. After each test the next takes twice as
/// long, at most the latter.
const FIRST_TEST_US: u64 = 60_000_000;
const FIRST_TEST_UNTOLD_US: u64 = 8_000_000;
const RAREST_TEST_US: u64 = 120_000_000;

/// The queue as delay control leaves it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pressure {
    /// The mean queueing delay, µs.
    mean_us: f64,
    /// Since when the queue has been long, µs.
    long_us: Option<u64>,
    /// Time between tests, µs, and when the next is due.
    each_us: u64,
    first_us: u64,
    test_at_us: u64,
}

impl Pressure {
    pub(super) fn new(told: bool) -> Self {
        let first_us = if told {
            FIRST_TEST_US
        } else {
            FIRST_TEST_UNTOLD_US
        };
        Self {
            mean_us: 0.0,
            long_us: None,
            each_us: first_us,
            first_us,
            test_at_us: u64::MAX,
        }
    }

    /// Takes the least RTT beyond RTTmin since the last report.
    pub(super) fn report(&mut self, time_us: u64, since_us: u64, queue_us: u64, target_us: u64) {
        let weight = (since_us as f64 / MEAN_US).min(1.0);
        self.mean_us += weight * (queue_us as f64 - self.mean_us);
        let long = self.mean_us > LONG * target_us as f64;
        self.long_us = long.then(|| self.long_us.unwrap_or(time_us));
    }

    /// Whether the queue is long.
    pub(super) fn is_long(&self) -> bool {
        self.long_us.is_some()
    }

    /// Whether the queue has been long for longer than delay control takes to shorten it.
    pub(super) fn fails(&self, time_us: u64, loop_us: u64) -> bool {
        let enough_us = loop_us.saturating_mul(FAILED_LOOPS).max(FAILED_US);
        self.long_us
            .is_some_and(|since| time_us.saturating_sub(since) > enough_us)
    }

    /// The flow competes from now on.
    pub(super) fn compete(&mut self, time_us: u64) {
        self.test_at_us = time_us.saturating_add(self.each_us);
        self.each_us = self.each_us.saturating_mul(2).min(RAREST_TEST_US);
    }

    /// Delay control has the flow from now on: what waited before was of competition.
    pub(super) fn give_way(&mut self) {
        self.mean_us = 0.0;
        self.long_us = None;
    }

    /// Whether it is time to see if delay control would do.
    pub(super) fn test_is_due(&self, time_us: u64) -> bool {
        time_us >= self.test_at_us
    }

    /// Delay control holds the queue: competition, when it is needed again, is tested soon.
    pub(super) fn holds(&mut self) {
        self.each_us = self.first_us;
    }
}
