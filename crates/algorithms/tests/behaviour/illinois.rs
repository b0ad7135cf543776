//! Illinois, held to Liu, Başar and Srikant, 2008.

use crate::support::driver::Driver;
use crate::support::path::{Path, Sample, run};

fn after(samples: &[Sample], us: u64) -> &Sample {
    samples.iter().find(|s| s.now_us >= us).unwrap()
}

/// With nothing queued the window grows by α_max a round trip, and a loss takes β_min of it.
#[test]
fn on_an_idle_path_it_grows_by_ten_and_loses_an_eighth() {
    // Slow start fills the queue, which tells how long it can be; losses then empty it.
    let mut path = Path::new(8_000, 50_000, 400);
    path.lose = Box::new(|n, now| now > 2_000_000 && n % 2_000 == 0);
    let samples = run(path, &mut Driver::new("illinois"), 8.0);
    let least = samples.iter().map(|s| s.rtt_us).min().unwrap();
    let losses: Vec<_> = samples
        .iter()
        .filter(|s| s.lost_now > 0 && s.now_us > 4_000_000)
        .map(|s| s.now_us)
        .collect();
    let mut seen = 0;
    for pair in losses.windows(2) {
        let (from, to) = (pair[0] + 100_000, pair[1] - 10_000);
        let idle = samples
            .iter()
            .filter(|s| (pair[0]..to).contains(&s.now_us))
            .all(|s| s.rtt_us < least + 400);
        if !idle {
            continue;
        }
        seen += 1;
        let grown = after(&samples, to).cwnd - after(&samples, from).cwnd;
        let per_round = grown as f64 * 50_000.0 / (to - from) as f64;
        assert!((8.0..10.6).contains(&per_round), "{per_round}");
        let before = after(&samples, to).cwnd as f64;
        let settled = after(&samples, pair[1] + 60_000).cwnd as f64;
        let taken = 1.0 - settled / before;
        assert!((0.07..0.15).contains(&taken), "{taken} of {before}");
    }
    assert!(seen >= 4, "{losses:?}");
}

/// Growth slows as the queue fills, so the window is a concave curve; a full queue costs
/// β_max.
#[test]
fn on_a_path_that_fills_it_grows_less_and_less_and_loses_half() {
    // A BDP of 60 packets and as much queue.
    let samples = run(
        Path::new(1_000, 60_000, 60),
        &mut Driver::new("illinois"),
        60.0,
    );
    let late: Vec<_> = samples.iter().filter(|s| s.now_us > 20_000_000).collect();
    let losses: Vec<_> = late
        .windows(2)
        .filter(|w| w[1].lost_now > 0)
        .map(|w| (w[1].now_us, w[0].cwnd))
        .collect();
    let mut seen = 0;
    for pair in losses.windows(2) {
        let ((begin, peak), (end, _)) = (pair[0], pair[1]);
        if end - begin < 2_000_000 {
            continue;
        }
        seen += 1;
        let settled = after(&samples, begin + 150_000).cwnd as f64;
        assert!(
            (0.45..0.6).contains(&(settled / peak as f64)),
            "{settled} of {peak}"
        );
        let at = |share: u64| {
            let us = begin + 150_000 + (end - begin - 150_000) * share / 100;
            after(&samples, us).cwnd as f64
        };
        let (early, later) = (at(30) - at(0), at(100) - at(70));
        assert!(early > 1.3 * later, "{early} first, {later} last");
    }
    assert!(seen >= 2, "{losses:?}");
}

/// The paper and Linux: below 15 segments it is Reno.
#[test]
fn small_windows_are_renos() {
    let mut path = Path::new(40_000, 50_000, 100_000);
    path.lose = Box::new(|n, _| n % 20 == 10);
    let windows = |spec: &str, path: Path| -> f64 {
        let samples = run(path, &mut Driver::new(spec), 20.0);
        samples.iter().map(|s| s.cwnd).sum::<u64>() as f64 / samples.len() as f64
    };
    let mut other = Path::new(40_000, 50_000, 100_000);
    other.lose = Box::new(|n, _| n % 20 == 10);
    let (illinois, reno) = (windows("illinois", path), windows("reno", other));
    assert!((illinois / reno - 1.0).abs() < 0.08, "{illinois} {reno}");
}
