//! CUBIC against a model of RFC 9438 in floating point, and by its rules on whatever ACKs come.

use fairwater_datapath::fallback::{Cubic, Path};
use fairwater_datapath::{Signal, Signals};
use fairwater_lang::SignalSet;
use proptest::prelude::*;

const MSS: u64 = 1000;

fn path(signals: &Signals, srtt_us: u64) -> Path<'_> {
    Path {
        mss: MSS,
        srtt_us,
        available: SignalSet::ALL,
        signals,
    }
}

/// RFC 9438 in segments and seconds, one segment at a time.
#[derive(Debug)]
struct Model {
    cwnd: f64,
    ssthresh: f64,
    w_max: Option<f64>,
    cwnd_prior: f64,
    epoch: Option<ModelEpoch>,
}

#[derive(Debug, Clone, Copy)]
struct ModelEpoch {
    start: f64,
    k: f64,
    origin: f64,
    w_est: f64,
}

impl Model {
    fn new(cwnd: f64, ssthresh: f64) -> Self {
        Self {
            cwnd,
            ssthresh,
            w_max: None,
            cwnd_prior: 0.0,
            epoch: None,
        }
    }

    fn acknowledge(&mut self, now: f64, rtt: f64) {
        if self.cwnd < self.ssthresh {
            self.cwnd = (self.cwnd + 1.0).min(self.ssthresh);
            return;
        }
        let cwnd = self.cwnd;
        let w_max = self.w_max.unwrap_or(cwnd).max(cwnd);
        let epoch = self.epoch.get_or_insert(ModelEpoch {
            start: now,
            k: ((w_max - cwnd) / 0.4).cbrt(),
            origin: w_max,
            w_est: cwnd,
        });
        let alpha = if epoch.w_est < self.cwnd_prior {
            3.0 * 0.3 / 1.7
        } else {
            1.0
        };
        epoch.w_est += alpha / cwnd;
        let w_cubic = |t: f64| 0.4 * (t - epoch.k).powi(3) + epoch.origin;
        let t = now - epoch.start;
        self.cwnd = if w_cubic(t) < epoch.w_est {
            cwnd.max(epoch.w_est)
        } else {
            let target = w_cubic(t + rtt).clamp(cwnd, 1.5 * cwnd);
            cwnd + (target - cwnd) / cwnd
        };
    }

    fn lose(&mut self) {
        let fast = self.w_max.is_some_and(|w_max| self.cwnd < w_max);
        let kept = if fast { 1.7 / 2.0 } else { 1.0 };
        self.w_max = Some(self.cwnd * kept);
        self.reduce();
    }

    fn time_out(&mut self) {
        self.reduce();
        self.w_max = None;
        self.cwnd = 1.0;
    }

    fn reduce(&mut self) {
        self.cwnd_prior = self.cwnd;
        self.ssthresh = (self.cwnd * 0.7).max(2.0);
        self.cwnd = self.ssthresh;
        self.epoch = None;
    }
}

/// What happens at the end of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Congestion {
    Loss,
    Timeout,
}

/// A path of one RTT, on which each window is acknowledged segment by segment within a round trip.
struct Trip {
    cubic: Cubic,
    cwnd: u64,
    model: Model,
    now_us: f64,
    rtt_us: u64,
}

impl Trip {
    fn invoke(&mut self, set: &[(Signal, u64)]) {
        let mut signals: Signals = set.iter().copied().collect();
        signals[Signal::Now] = self.now_us as u64;
        let path = path(&signals, self.rtt_us);
        self.cwnd = self.cubic.on_signals(self.cwnd, &path);
    }

    fn round(&mut self, model: bool) {
        let acks = self.cwnd / MSS;
        for _ in 0..acks {
            self.now_us += self.rtt_us as f64 / acks as f64;
            if model {
                let now = (self.now_us as u64) as f64 / 1e6;
                self.model.acknowledge(now, self.rtt_us as f64 / 1e6);
            }
            self.invoke(&[
                (Signal::BytesAcked, MSS),
                (Signal::BytesInFlight, self.cwnd - MSS),
            ]);
        }
    }

    fn congestion(&mut self, congestion: Congestion) {
        match congestion {
            Congestion::Loss => {
                let window = self.cwnd;
                self.invoke(&[(Signal::LostPkts, 1), (Signal::BytesInFlight, window - MSS)]);
                self.model.lose();
                // The rest of the window does not count.
                for _ in 0..window.div_ceil(MSS) {
                    let reduced = self.cwnd;
                    self.invoke(&[
                        (Signal::BytesAcked, MSS),
                        (Signal::BytesInFlight, window - MSS),
                    ]);
                    assert_eq!(self.cwnd, reduced);
                }
            }
            Congestion::Timeout => {
                let lost = self.cwnd.div_ceil(MSS);
                self.invoke(&[(Signal::LostPkts, lost), (Signal::WasTimeout, 1)]);
                self.model.time_out();
                // What is lost of the same window is no congestion of its own.
                let mut acked = 0;
                while acked <= lost {
                    acked += self.cwnd / MSS;
                    self.round(true);
                }
            }
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let (ours, theirs) = (self.cwnd as f64 / MSS as f64, self.model.cwnd);
        prop_assert!(
            (ours - theirs).abs() <= 1.5 + 0.02 * theirs,
            "{ours}, and by the RFC {theirs}: {:?}, {:?}",
            self.cubic,
            self.model
        );
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_window_is_that_of_the_rfc(
        start in 2_u64..400,
        rtt_ms in 2_u64..200,
        stages in proptest::collection::vec(
            (1_u32..60, prop_oneof![
                4 => Just(Congestion::Loss), 1 => Just(Congestion::Timeout)
            ]),
            1..6,
        ),
    ) {
        let mut trip = Trip {
            cubic: Cubic::with_ssthresh(start * MSS),
            cwnd: start * MSS,
            model: Model::new(start as f64, start as f64),
            now_us: 0.0,
            rtt_us: rtt_ms * 1000,
        };
        for (rounds, congestion) in stages {
            for _ in 0..rounds {
                trip.round(true);
                trip.check()?;
                if trip.cwnd > 3000 * MSS {
                    break;
                }
            }
            // From the same window on, so that what is rounded does not add up.
            trip.model.cwnd = trip.cwnd as f64 / MSS as f64;
            trip.congestion(congestion);
            trip.check()?;
        }
    }
}

#[test]
fn the_plateau_is_the_window_of_the_last_loss_and_less_when_the_window_shrinks() {
    let mut trip = Trip {
        cubic: Cubic::with_ssthresh(100 * MSS),
        cwnd: 100 * MSS,
        model: Model::new(100.0, 100.0),
        now_us: 0.0,
        rtt_us: 200_000,
    };
    trip.congestion(Congestion::Loss);
    assert_eq!(trip.cwnd, 70 * MSS);
    // K = ∛(30 / 0.4) = 4.2 s.
    for _ in 0..21 {
        trip.round(false);
    }
    assert!((98..=100).contains(&(trip.cwnd / MSS)), "{}", trip.cwnd);
    trip.cwnd = 90 * MSS;
    trip.congestion(Congestion::Loss);
    assert_eq!(trip.cwnd, 63 * MSS);
    // W_max is 90 × 1.7 / 2 = 76.5: K = ∛(13.5 / 0.4) = 3.2 s.
    for _ in 0..16 {
        trip.round(false);
    }
    assert!((75..=77).contains(&(trip.cwnd / MSS)), "{}", trip.cwnd);
}

#[test]
fn on_a_short_path_it_grows_as_reno_does() {
    // RFC 9438 §4.3: 9/17 of a segment a round trip up to the window of the last loss, then one.
    let mut trip = Trip {
        cubic: Cubic::with_ssthresh(20 * MSS),
        cwnd: 20 * MSS,
        model: Model::new(20.0, 20.0),
        now_us: 0.0,
        rtt_us: 2_000,
    };
    trip.congestion(Congestion::Loss);
    assert_eq!(trip.cwnd, 14 * MSS);
    let windows: Vec<u64> = (0..20)
        .map(|_| {
            trip.round(false);
            trip.cwnd / MSS
        })
        .collect();
    assert_eq!(
        (windows[11], windows[19] - windows[12]),
        (20, 7),
        "{windows:?}"
    );
}

#[test]
fn slow_start_takes_whole_acks_and_ends_at_ssthresh() {
    let mut cubic = Cubic::with_ssthresh(50 * MSS);
    let mut signals = Signals::default();
    signals[Signal::BytesAcked] = 8 * MSS;
    assert_eq!(cubic.on_signals(10 * MSS, &path(&signals, 0)), 18 * MSS);
    signals[Signal::BytesAcked] = u64::MAX;
    assert_eq!(cubic.on_signals(18 * MSS, &path(&signals, 0)), 36 * MSS);
    assert_eq!(cubic.on_signals(36 * MSS, &path(&signals, 0)), 50 * MSS);
}

#[test]
fn time_without_use_of_the_window_does_not_count() {
    let grown = |pause: Option<&[(Signal, u64)]>, until_us: f64| {
        let mut trip = Trip {
            cubic: Cubic::with_ssthresh(100 * MSS),
            cwnd: 100 * MSS,
            model: Model::new(100.0, 100.0),
            now_us: 0.0,
            rtt_us: 50_000,
        };
        trip.congestion(Congestion::Loss);
        for _ in 0..10 {
            trip.round(false);
        }
        // ACKs come now and then, if any.
        while let Some(pause) = pause.filter(|_| trip.now_us < until_us) {
            trip.now_us += 5e7;
            trip.invoke(pause);
        }
        trip.now_us = trip.now_us.max(until_us);
        for _ in 0..10 {
            trip.round(false);
        }
        trip.cwnd / MSS
    };
    let busy = grown(None, 0.0);
    let little = [(Signal::BytesAcked, MSS), (Signal::BytesInFlight, MSS)];
    assert!(grown(Some(&little), 3.6e9).abs_diff(busy) <= 1);
    assert!(grown(None, 3.6e9).abs_diff(busy) <= 1);
}

#[test]
fn a_reduction_that_is_taken_back_is_no_reduction() {
    let mut trip = Trip {
        cubic: Cubic::with_ssthresh(100 * MSS),
        cwnd: 100 * MSS,
        model: Model::new(100.0, 100.0),
        now_us: 0.0,
        rtt_us: 20_000,
    };
    trip.invoke(&[(Signal::LostPkts, 100), (Signal::WasTimeout, 1)]);
    assert_eq!(trip.cwnd, MSS);
    // The transport finds the timeout spurious.
    trip.cwnd = 100 * MSS;
    trip.invoke(&[(Signal::Undo, 1), (Signal::BytesAcked, MSS)]);
    assert_eq!(trip.cubic.ssthresh(), 100 * MSS);
    for _ in 0..5 {
        trip.round(false);
    }
    assert!(
        (100 * MSS..=107 * MSS).contains(&trip.cwnd),
        "{}",
        trip.cwnd
    );
}

fn invocations() -> impl Strategy<Value = Vec<(u64, u64, u64, u64, bool)>> {
    let elapsed = prop_oneof![0_u64..100_000, 0..10_000_000_000_u64, any::<u64>()];
    let acked = prop_oneof![Just(0), 1..20 * MSS, any::<u64>()];
    let lost = prop_oneof![8 => Just(0), 1 => 1_u64..20, 1 => any::<u64>()];
    let in_flight = prop_oneof![Just(0), 0..200 * MSS, any::<u64>()];
    let timeout = proptest::bool::weighted(0.05);
    proptest::collection::vec((elapsed, acked, lost, in_flight, timeout), 1..200)
}

proptest! {
    #[test]
    fn cwnd_keeps_to_the_rules_whatever_comes(
        start in prop_oneof![1_u64..1 << 40, any::<u64>()],
        srtt_us in prop_oneof![0_u64..1_000_000, any::<u64>()],
        acks in invocations(),
    ) {
        let mut cubic = Cubic::new();
        let mut cwnd = start;
        let mut now_us = 0_u64;
        let mut since_reduction = None;
        for (elapsed, acked, lost, in_flight, timeout) in acks {
            let (before, ssthresh) = (cwnd.max(MSS), cubic.ssthresh());
            now_us = now_us.saturating_add(elapsed);
            let mut signals = Signals::default();
            signals[Signal::Now] = now_us;
            signals[Signal::BytesAcked] = acked;
            signals[Signal::LostPkts] = lost;
            signals[Signal::BytesInFlight] = in_flight;
            signals[Signal::WasTimeout] = u64::from(timeout);
            cwnd = cubic.on_signals(cwnd, &path(&signals, srtt_us));
            prop_assert!(cwnd >= MSS, "never below the loss window");
            if timeout {
                prop_assert_eq!(cwnd, MSS);
                since_reduction = None;
                continue;
            }
            // RFC 9438 §4.2: the target is at most 1.5 × cwnd, so that of what is acknowledged half
            // counts at most, and what was due before is less than a segment. Slow start: all counts.
            let acked_of_window = acked.min(before);
            let most = if before < ssthresh { acked_of_window } else { acked_of_window / 2 + MSS };
            prop_assert!(cwnd.saturating_sub(before) <= most, "{before} to {cwnd} for {acked}");
            if acked == 0 {
                prop_assert!(cwnd <= before, "never grows without ACKs");
            }
            if cwnd < before {
                prop_assert!(lost > 0, "never shrinks without a loss");
                if let Some((window, acked_since)) = since_reduction {
                    prop_assert!(acked_since >= window, "once a window at most");
                }
                prop_assert!(cwnd >= 2 * MSS || before < 2 * MSS);
                since_reduction = Some((cwnd, 0));
            } else if let Some((_, since)) = &mut since_reduction {
                *since = u64::saturating_add(*since, acked);
            }
        }
    }
}
