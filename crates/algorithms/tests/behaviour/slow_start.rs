//! Slow start in its three places (CCP §4.4), and its end.

use crate::support::driver::Driver;
use crate::support::path::{INITIAL_WINDOW, MSS, Path, Sample, run};

const RTT_US: u64 = 100_000;

/// A path that ten doublings do not fill.
fn long() -> Path {
    Path::new(20_000, RTT_US, 10_000)
}

fn cwnd_at(samples: &[Sample], us: u64) -> u64 {
    samples.iter().rfind(|s| s.now_us <= us).unwrap().cwnd
}

/// RFC 5681 §3.1: cwnd grows by what is acknowledged.
#[test]
fn by_cwnd_the_window_doubles_each_round_trip() {
    for algorithm in ["reno", "cubic:hystart=off"] {
        let samples = run(long(), &mut Driver::new(algorithm), 0.75);
        for trips in 1..=6 {
            let cwnd = cwnd_at(&samples, trips * RTT_US + RTT_US / 2);
            assert_eq!(cwnd, 10 << trips, "{algorithm} after {trips} round trips");
        }
    }
}

/// A hand-over: what the flow knew of the path before holds, also when its window is above the threshold.
#[test]
fn a_flow_that_has_left_slow_start_does_not_begin_another() {
    const SHORT_US: u64 = 25_000;
    let path = || Path::new(20_000, SHORT_US, 10_000);
    for algorithm in [
        "reno",
        "reno:slow_start=plane",
        "reno:slow_start=program-rate",
        "cubic",
        "cubic:hystart=plusplus",
        "vegas",
        "hybla",
        "illinois",
        "dctcp",
    ] {
        let windows = |ssthresh| {
            let mut driver = Driver::with_ssthresh(algorithm, ssthresh);
            let samples = run(path(), &mut driver, 0.2);
            let all = samples.iter().map(|sample| sample.cwnd);
            (all.min().unwrap(), cwnd_at(&samples, 7 * SHORT_US / 2))
        };
        for ssthresh in [INITIAL_WINDOW / 2, INITIAL_WINDOW] {
            let (least, third) = windows(Some(ssthresh));
            assert!(least >= INITIAL_WINDOW / MSS, "{algorithm}: {least}");
            // Illinois grows fastest: by up to 10 segments a round trip.
            assert!(third <= 4 * INITIAL_WINDOW / MSS, "{algorithm}: {third}");
        }
        // Without a threshold: 10 segments double three times, but for Vegas, which doubles less often.
        if !matches!(
            algorithm,
            "vegas" | "reno:slow_start=plane" | "reno:slow_start=program-rate"
        ) {
            let (_, third) = windows(None);
            assert!(third >= 7 * INITIAL_WINDOW / MSS, "{algorithm}: {third}");
        }
    }
}

#[test]
fn a_flow_below_its_threshold_takes_slow_start_up_to_it() {
    for algorithm in ["reno", "cubic"] {
        let mut driver = Driver::with_ssthresh(algorithm, Some(2 * INITIAL_WINDOW));
        let samples = run(long(), &mut driver, 0.5);
        let cwnd = cwnd_at(&samples, 3 * RTT_US / 2);
        assert_eq!(cwnd, 2 * INITIAL_WINDOW / MSS, "{algorithm}");
        let later = cwnd_at(&samples, 9 * RTT_US / 2);
        assert!((cwnd..cwnd + 6).contains(&later), "{algorithm}: {later}");
    }
}

/// CCP §4.4, Figure 5: one report a round trip, so the window lags, but it does double.
#[test]
fn in_the_plane_the_window_doubles_with_each_report() {
    for algorithm in [
        "reno:slow_start=plane",
        "cubic:slow_start=plane,hystart=off",
    ] {
        let samples = run(long(), &mut Driver::new(algorithm), 1.2);
        let mut steps: Vec<u64> = samples.iter().map(|s| s.cwnd).collect();
        steps.dedup();
        assert!(steps.len() >= 6, "{steps:?}");
        for pair in steps.windows(2) {
            let ratio = pair[1] as f64 / pair[0] as f64;
            assert!((1.3..=2.25).contains(&ratio), "{algorithm}: {steps:?}");
        }
        let by_cwnd = cwnd_at(&run(long(), &mut Driver::new("reno"), 1.2), 700_000);
        let cwnd = cwnd_at(&samples, 1_100_000);
        assert!(
            cwnd >= by_cwnd / 2,
            "{algorithm}: {cwnd}, not near {by_cwnd}"
        );
    }
}

/// CCP §4.4: the rate doubles each round trip, from the initial window a round trip.
#[test]
fn by_rate_the_rate_doubles_each_round_trip() {
    let samples = run(
        long(),
        &mut Driver::new("reno:slow_start=program-rate"),
        0.9,
    );
    let mut rates: Vec<u64> = samples.iter().map(|s| s.rate).filter(|r| *r > 0).collect();
    rates.dedup();
    let initial = 10_000 * 1_000_000 / samples[0].rtt_us;
    assert_eq!(rates[0], initial);
    assert!(rates.len() >= 5, "{rates:?}");
    for pair in rates.windows(2) {
        assert_eq!(pair[1], 2 * pair[0]);
    }
}

/// RFC 5681 §3.1 and the lesson of the CCP reproduction §3.1: the program itself leaves slow
/// start at the loss, even when the plane does not answer.
#[test]
fn a_loss_ends_slow_start_at_once_and_without_the_plane() {
    for slow_start in ["program-cwnd", "program-rate"] {
        let mut path = long();
        path.lose = Box::new(|n, _| n == 500);
        let mut driver = Driver::new(&format!("reno:slow_start={slow_start}"));
        driver.deafen();
        let samples = run(path, &mut driver, 3.0);
        let at = samples.iter().position(|s| s.lost_now > 0).unwrap();
        let flight = samples[at - 1].in_flight;
        for s in &samples[at..] {
            assert!(s.cwnd <= flight + 1, "{slow_start}: {} of {flight}", s.cwnd);
            assert_eq!(s.rate, 0);
        }
        let settled = samples.last().unwrap().cwnd;
        assert!(
            settled.abs_diff(flight / 2) <= 2,
            "{slow_start}: {settled} of {flight}"
        );
    }
}

/// RFC 9406 §4.2: rising delay ends slow start before the queue is full.
#[test]
fn hystart_leaves_before_a_deep_queue_fills() {
    for slow_start in ["program-cwnd", "program-rate", "plane"] {
        for (hystart, loses) in [("off", true), ("classic", false), ("plusplus", false)] {
            let path = Path::new(5_000, 40_000, 4_000);
            let spec = format!("reno:slow_start={slow_start},hystart={hystart}");
            let samples = run(path, &mut Driver::new(&spec), 6.0);
            let lost: u64 = samples.iter().map(|s| s.lost_now).sum();
            assert_eq!(lost > 0, loses, "{spec}: {lost} lost");
            let last = samples.last().unwrap();
            assert!(
                last.delivered > 12_000,
                "{spec}: only {} delivered",
                last.delivered
            );
        }
    }
}

/// The queue that a burst of slow start builds and that drains before the next one is no reason to
/// leave: both kinds leave when the window holds what the path does, or later.
#[test]
fn hystart_does_not_leave_before_the_path_is_full() {
    for rtt_us in [23_000, 90_000, 200_000, 310_000] {
        for packets_per_s in [1_900, 4_100, 8_300] {
            for kind in ["classic", "plusplus"] {
                let path = Path::new(packets_per_s, rtt_us, 100_000);
                let bdp = packets_per_s * rtt_us / 1_000_000;
                let round_trips = f64::from(bdp.div_ceil(10).ilog2()) + 4.0;
                let spec = format!("reno:hystart={kind}");
                let seconds = round_trips * rtt_us as f64 / 1e6;
                let samples = run(path, &mut Driver::new(&spec), seconds);
                let reached = samples.last().unwrap().cwnd;
                assert!(
                    reached >= bdp,
                    "{kind}: {reached} of {bdp}, {packets_per_s} packets/s, {rtt_us} µs"
                );
            }
        }
    }
}

/// RFC 9406 §4.2: conservative slow start grows at a quarter of the pace.
#[test]
fn hystart_plusplus_slows_down_before_it_leaves() {
    let path = Path::new(5_000, 40_000, 100_000);
    let samples = run(path, &mut Driver::new("reno:hystart=plusplus"), 3.0);
    // Growth over each span in which one window was delivered, once the queue has built.
    let from = samples.iter().position(|s| s.rtt_us > 60_000).unwrap();
    let mut ratios = Vec::new();
    let mut at = from;
    while let Some(next) = samples[at..]
        .iter()
        .position(|s| s.delivered >= samples[at].delivered + samples[at].cwnd)
    {
        ratios.push(samples[at + next].cwnd as f64 / samples[at].cwnd as f64);
        at += next;
    }
    assert!(ratios[0] > 1.1, "{ratios:?}");
    assert!(ratios.iter().all(|r| *r < 1.6), "{ratios:?}");
    assert!(*ratios.last().unwrap() < 1.01, "{ratios:?}");
}
