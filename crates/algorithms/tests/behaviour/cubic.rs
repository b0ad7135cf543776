//! CUBIC, held to RFC 9438.

use crate::support::driver::Driver;
use crate::support::path::{Ack, Controller, Path, Sample, run};

const C: f64 = 0.4;
const BETA: f64 = 0.7;

/// A path whose queue never fills.
fn wide(rtt_us: u64) -> Path {
    Path::new(40_000, rtt_us, 100_000)
}

/// The first loss after a time: cwnd before it, and when its recovery was over.
fn loss_after(samples: &[Sample], us: u64) -> (f64, u64) {
    let at = samples
        .iter()
        .position(|s| s.now_us > us && s.lost_now > 0)
        .unwrap();
    let before = samples[at - 1].cwnd;
    let reduced = (before as f64 * BETA) as u64;
    let over = samples[at..].iter().find(|s| s.cwnd == reduced).unwrap();
    let over = samples[at..]
        .iter()
        .find(|s| {
            s.now_us >= over.now_us
                && s.cwnd >= reduced
                && s.now_us > samples[at].now_us + samples[at].rtt_us
        })
        .unwrap_or(over);
    (before as f64, over.now_us)
}

/// Holds cwnd to a curve of the time since `start_us`, in s.
fn follows(samples: &[Sample], start_us: u64, end_us: u64, curve: impl Fn(f64) -> f64) {
    let span = samples
        .iter()
        .filter(|s| (start_us..end_us).contains(&s.now_us));
    for s in span.step_by(97) {
        let expected = curve((s.now_us - start_us) as f64 / 1e6);
        let error = s.cwnd as f64 - expected;
        assert!(
            error.abs() <= 3.0 + expected / 100.0,
            "{s:?}: expected {expected:.1}"
        );
    }
}

fn w_cubic(w_max: f64, cwnd: f64) -> impl Fn(f64) -> f64 {
    let k = ((w_max - cwnd) / C).cbrt();
    move |t| C * (t - k).powi(3) + w_max
}

/// RFC 9438 §4.2: concave to W_max, then convex.
#[test]
fn cwnd_follows_the_curve() {
    for report in ["rtt", "ack", "10ms", "300ms"] {
        let mut path = wide(100_000);
        path.lose = Box::new(|n, _| n == 400);
        let samples = run(
            path,
            &mut Driver::new(&format!("cubic:hystart=off,report={report}")),
            12.0,
        );
        let (before, over) = loss_after(&samples, 0);
        follows(
            &samples,
            over,
            12_000_000,
            w_cubic(before, (before * BETA).floor()),
        );
    }
}

/// RFC 9438 §4.7: a loss below the last W_max lowers W_max to 0.85 of cwnd, unless told not to.
#[test]
fn fast_convergence_gives_up_some_of_the_window() {
    for (on, factor) in [(true, (1.0 + BETA) / 2.0), (false, 1.0)] {
        let mut path = wide(100_000);
        path.lose = Box::new({
            let mut second = false;
            move |n, now| {
                n == 400 || (now > 3_000_000 && !std::mem::replace(&mut second, now > 3_000_000))
            }
        });
        let spec = format!("cubic:hystart=off,fast_convergence={on}");
        let samples = run(path, &mut Driver::new(&spec), 11.0);
        let (first, _) = loss_after(&samples, 0);
        let (before, over) = loss_after(&samples, 3_000_000);
        assert!(before < first);
        follows(
            &samples,
            over,
            11_000_000,
            w_cubic(before * factor, (before * BETA).floor()),
        );
    }
}

/// RFC 9438 §4.3: where Reno would be faster, cwnd is W_est: α segments a round trip up to the
/// window of the last loss, one from there.
#[test]
fn in_the_reno_friendly_region_cwnd_is_what_reno_would_have() {
    let mut path = wide(10_000);
    path.lose = Box::new(|n, _| n == 300);
    let samples = run(path, &mut Driver::new("cubic:hystart=off"), 3.0);
    let (before, over) = loss_after(&samples, 0);
    let (start, alpha) = ((before * BETA).floor(), 3.0 * (1.0 - BETA) / (1.0 + BETA));
    let until = (before - start) / alpha * 0.010;
    follows(&samples, over, 3_000_000, |t| {
        start + alpha * t.min(until) / 0.010 + (t - until).max(0.0) / 0.010
    });

    let mut path = wide(10_000);
    path.lose = Box::new(|n, _| n == 300);
    let samples = run(
        path,
        &mut Driver::new("cubic:hystart=off,reno_friendly=false"),
        3.0,
    );
    follows(&samples, over, 3_000_000, w_cubic(before, start));
}

/// RFC 9438 §4.6 and §4.8: a timeout reduces ssthresh by β, and slow start leads back to it.
#[test]
fn a_timeout_leads_back_to_seven_tenths() {
    let mut path = wide(50_000);
    path.lose = Box::new(|n, now| n == 400 || (2_000_000..2_900_000).contains(&now));
    let samples = run(path, &mut Driver::new("cubic:hystart=off"), 5.0);
    let at = samples.iter().position(|s| s.timeout).unwrap();
    let before = samples[at - 1].cwnd as f64;
    assert_eq!(samples[at].cwnd, 1);
    let restarted = samples[at..]
        .iter()
        .find(|s| s.now_us > 2_900_000 && s.cwnd > 1)
        .unwrap()
        .now_us;
    let trips = (before * BETA).log2().ceil() as u64 + 1;
    let cwnd = samples
        .iter()
        .find(|s| s.now_us >= restarted + trips * 50_000)
        .unwrap()
        .cwnd as f64;
    assert!(
        (before * BETA - 1.0..before * BETA * 1.15).contains(&cwnd),
        "{cwnd} of {before}"
    );
}

/// Takes the first reduction back after 20 ms, as a kernel does that finds it spurious.
struct Undoing {
    driver: Driver,
    before: u64,
    reduced_us: Option<u64>,
    undone: bool,
}

impl Controller for Undoing {
    fn invoke(&mut self, ack: &Ack, cwnd: u64) -> (u64, u64) {
        if ack.lost_packets > 0 && self.reduced_us.is_none() {
            self.reduced_us = Some(ack.now_us);
            self.before = cwnd;
        }
        let due = self.reduced_us.is_some_and(|t| ack.now_us > t + 20_000);
        if due && !std::mem::replace(&mut self.undone, due) {
            return self.driver.invoke(ack, self.before);
        }
        self.driver.invoke(ack, cwnd)
    }
}

/// RFC 9438 §4.9: a reduction that the datapath takes back leaves no trace: slow start goes on.
#[test]
fn a_spurious_reduction_is_undone() {
    for spec in ["cubic:hystart=off", "reno"] {
        let mut path = wide(100_000);
        path.lose = Box::new(|n, _| n == 400);
        let driver = Driver::new(spec);
        let mut undoing = Undoing {
            driver,
            before: 0,
            reduced_us: None,
            undone: false,
        };
        let samples = run(path, &mut undoing, 1.0);
        let at = undoing.reduced_us.unwrap() + 20_000;
        let undone = samples.iter().find(|s| s.now_us > at + 5_000).unwrap().cwnd;
        assert!(
            undone >= undoing.before,
            "{spec}: {undone} of {}",
            undoing.before
        );
        let later = samples
            .iter()
            .find(|s| s.now_us > at + 220_000)
            .unwrap()
            .cwnd;
        assert!(
            later > undoing.before * 3 / 2,
            "{spec}: {later} of {}",
            undoing.before
        );
    }
}
