//! The detector of buffer-filling traffic on a fluid model of a bottleneck.

use std::collections::VecDeque;
use std::time::Duration;

use fairwater_bundle::CrossTraffic;
use fairwater_bundle::elasticity::{Detector, Evidence, Observation};
use fairwater_net::Time;

/// Bytes/s of the bottleneck: 96 Mbit/s. The detector is not told.
const LINK: f64 = 12e6;
const STEP: f64 = 0.01;

/// Cross traffic.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Cross {
    /// A constant rate, as a share of the link's.
    Constant(f64),
    /// A window of so many bytes, 2 % more each second: a window each round trip, and each round trip is longer by
    /// the queue.
    Window(f64),
}

/// A bottleneck that is always busy while its queue is not empty, and a bundle that sends what the detector lets it or
/// keeps the queue as it is.
struct Fluid {
    now: f64,
    base: f64,
    /// s.
    queue: f64,
    cross: Cross,
    /// Share of the link that the bundle has by itself.
    share: f64,
    /// What the sendbox learns, a round trip late: RTT and received rate.
    news: VecDeque<(f64, f64)>,
    detector: Detector,
    evidence: Vec<(f64, Evidence)>,
}

impl Fluid {
    fn new(base_ms: u32, share: f64, cross: Cross) -> Self {
        Self {
            now: 0.0,
            base: f64::from(base_ms) / 1e3,
            queue: 0.0,
            cross,
            share,
            news: VecDeque::new(),
            detector: Detector::new(Duration::ZERO),
            evidence: Vec::new(),
        }
    }

    /// Beside a window that makes the RTT 1.5 times the base.
    fn elastic(base_ms: u32, share: f64) -> Self {
        let bytes = 1.5 * (1.0 - share) * LINK * f64::from(base_ms) / 1e3;
        Self::new(base_ms, share, Cross::Window(bytes))
    }

    fn run(&mut self, seconds: f64) {
        let end = self.now + seconds;
        while self.now < end {
            self.step();
        }
    }

    fn step(&mut self) {
        let steps = ((self.base + self.queue) / STEP).round() as usize;
        let cross = match &mut self.cross {
            Cross::Constant(share) => *share * LINK,
            Cross::Window(bytes) => {
                *bytes *= 1.0 + 0.02 * STEP;
                *bytes / (self.base + self.queue)
            }
        };
        let sent = match self.detector.probe_rate() {
            Some(rate) => rate,
            None => self.share * LINK,
        };
        let all = sent + cross;
        let received = if self.queue > 0.0 {
            LINK * sent / all
        } else {
            sent * (LINK / all).min(1.0)
        };
        self.queue = (self.queue + (all / LINK - 1.0) * STEP).clamp(0.0, 2.0 * self.base);
        self.news.push_back((self.base + self.queue, received));
        self.now += STEP;
        let now = Time::from_nanos((self.now * 1e9) as u64);
        if self.news.len() > steps
            && let Some((rtt, rate)) = self.news.pop_front()
        {
            self.detector.on_rtt(now, Duration::from_secs_f64(rtt));
            let evidence = self.detector.on_tick(Observation {
                now,
                receive_rate: Some(rate),
                is_backlogged: true,
                limits: true,
            });
            self.evidence.extend(evidence.map(|e| (self.now, e)));
        }
    }
}

#[test]
fn window_limited_traffic_is_found_and_constant_traffic_is_not() {
    for base in [10, 20, 50, 100, 200] {
        for share in [0.4, 0.5, 0.6] {
            let mut elastic = Fluid::elastic(base, share);
            elastic.run(10.0);
            assert_eq!(
                elastic.detector.verdict(),
                CrossTraffic::Elastic,
                "{base} ms, {share}: {:?}",
                elastic.evidence
            );
            // As much as the link carries, and a queue that nothing but the bundle could shorten.
            let mut constant = Fluid::new(base, share, Cross::Constant(1.003 - share));
            constant.run(30.0);
            assert_eq!(
                constant.detector.verdict(),
                CrossTraffic::Inelastic,
                "{base} ms, {share}: {:?}",
                constant.evidence
            );
            assert!(constant.evidence.is_empty(), "{:?}", constant.evidence);
        }
    }
}

/// The bundle's own end hosts keep the queue long in pass-through, and take what the others leave: the queue alone
/// does not tell that the others are gone.
#[test]
fn it_is_found_within_seven_seconds_that_the_others_are_gone() {
    for base in [20, 50, 100] {
        for share in [0.5, 0.7] {
            for seconds in [12.0, 40.0] {
                let mut fluid = Fluid::elastic(base, share);
                fluid.run(seconds);
                assert_eq!(fluid.detector.verdict(), CrossTraffic::Elastic);
                let queue = fluid.queue;
                fluid.cross = Cross::Constant(0.003);
                fluid.share = 1.0;
                fluid.queue = queue.max(0.5 * fluid.base);
                let changed = fluid.now;
                fluid.run(10.0);
                let (at, evidence) = *fluid.evidence.last().unwrap();
                assert_eq!(
                    fluid.detector.verdict(),
                    CrossTraffic::Inelastic,
                    "{base} ms, {share}: {:?}",
                    fluid.evidence
                );
                assert!(at - changed <= 7.0, "{base} ms, {share}: {evidence}");
            }
        }
    }
}

/// A link with room to spare has an empty queue now and then, and a buffer that a window fills has none. So a bundle
/// that has too little to send for a probe learns that the others are gone as well.
#[test]
fn a_queue_that_empties_ends_pass_through_without_a_probe() {
    let mut fluid = Fluid::elastic(50, 0.5);
    fluid.run(10.0);
    assert_eq!(fluid.detector.verdict(), CrossTraffic::Elastic);
    let began = fluid.now;
    let mut returned = None;
    let mut tick = 0_u32;
    while returned.is_none() && fluid.now < began + 7.0 {
        // Bursts: 400 ms of a queue of 40 ms, then 100 ms without any.
        let queue = if tick % 50 < 40 { 40 } else { 0 };
        tick += 1;
        fluid.now += STEP;
        let now = Time::from_nanos((fluid.now * 1e9) as u64);
        fluid
            .detector
            .on_rtt(now, Duration::from_millis(50 + queue));
        returned = fluid.detector.on_tick(Observation {
            now,
            receive_rate: Some(0.4 * LINK),
            is_backlogged: false,
            limits: true,
        });
    }
    assert!(matches!(returned, Some(Evidence::Empty(_))), "{returned:?}");
    let text = returned.unwrap().to_string();
    assert!(
        text.starts_with("the network's queue was empty for 1"),
        "{text}"
    );
}

/// An algorithm gives way to a queue that others fill; the bundle keeps what it has on average until a probe has told
/// who does, and gives that up where the path carries less.
#[test]
fn a_bundle_keeps_its_usual_rate_in_a_queue_that_others_fill() {
    let mut detector = Detector::new(Duration::ZERO);
    let mut least = |from: u64, rate: f64, queue: u64| {
        let mut least = None;
        for tick in from..from + 100 {
            let now = Time::from_millis(10 * tick);
            detector.on_rtt(now, Duration::from_millis(50 + queue));
            detector.on_tick(Observation {
                now,
                receive_rate: Some(rate),
                is_backlogged: true,
                limits: true,
            });
            least = detector.least_rate();
        }
        least
    };
    // It was at 2 MB/s and at 8: 5 on average.
    for second in 0..10 {
        assert_eq!(least(200 * second, 2e6, 0), None);
        assert_eq!(least(200 * second + 100, 8e6, 0), None);
    }
    let kept = least(2_000, 4e6, 30).unwrap();
    assert!((4e6..=5.5e6).contains(&kept), "{kept}");
    assert_eq!(least(2_100, 1e6, 30), None, "the path carries less");
}

#[test]
fn a_short_queue_is_no_suspicion_and_a_pause_forgets_one() {
    let mut fluid = Fluid::elastic(50, 0.5);
    fluid.run(0.5);
    assert!(fluid.detector.probe_rate().is_none());
    // Nothing is asked of a bundle that the box does not limit.
    let seen = |ms| Observation {
        now: Time::from_millis(ms),
        receive_rate: Some(1e6),
        is_backlogged: true,
        limits: false,
    };
    let mut detector = Detector::new(Duration::ZERO);
    for tick in 0..1_000 {
        detector.on_rtt(
            Time::from_millis(10 * tick),
            Duration::from_millis(50 + tick),
        );
        assert_eq!(detector.on_tick(seen(10 * tick)), None);
        assert_eq!(detector.probe_rate(), None);
    }
}

#[test]
fn evidence_is_a_sentence_with_numbers() {
    let mut fluid = Fluid::elastic(50, 0.5);
    fluid.run(10.0);
    let (_, evidence) = fluid.evidence[0];
    let text = evidence.to_string();
    assert!(
        text.starts_with("the network's queue went only from "),
        "{text}"
    );
    assert!(text.contains(" % less for "), "{text}");
}
