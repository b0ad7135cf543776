//! DCTCP, held to RFC 8257 by a reckoning of its own.

use proptest::prelude::*;

use crate::support::driver::Driver;
use crate::support::path::{Path, Sample, run};

/// A path whose queue never fills: the RTT stays 50 ms, whatever cwnd is.
fn wide() -> Path {
    Path::new(40_000, 50_000, 100_000)
}

/// RFC 8257 §3.3 from what the network saw: each cut as (cwnd before, what it is to be), packets,
/// and cwnd as it was once the reduced window had been acknowledged.
fn cuts(samples: &[Sample], gain: f64) -> Vec<(u64, f64, u64)> {
    // WindowEnd begins at SND.UNA: the first ACK, without a mark, ends a window.
    let first = &samples[0];
    let (mut alpha, mut window_end) = (1.0 - gain, first.delivered + first.in_flight);
    let (mut acked, mut marked) = (0, 0);
    let mut cuts = Vec::new();
    let mut under_way: Option<(u64, f64, u64)> = None;
    for pair in samples.windows(2) {
        let (before, now) = (&pair[0], &pair[1]);
        assert_eq!(now.lost_now, 0, "this reckoning is of marks alone");
        acked += now.delivered - before.delivered;
        marked += now.marked_now;
        if now.delivered > window_end {
            alpha = alpha * (1.0 - gain) + gain * marked as f64 / acked as f64;
            window_end = now.delivered + now.in_flight;
            (acked, marked) = (0, 0);
        }
        if let Some((cwnd, cut, end)) = under_way
            && now.delivered >= end
        {
            // Another may begin with this very ACK, and starts from there.
            cuts.push((cwnd, cut, now.cwnd));
            under_way = None;
        }
        if under_way.is_none() && now.marked_now > 0 {
            let cwnd = before.cwnd;
            let end = now.delivered + now.in_flight;
            under_way = Some((cwnd, cwnd as f64 * (1.0 - alpha / 2.0), end));
        }
    }
    cuts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// RFC 8257 §3.3: whatever is marked, once a window cwnd becomes cwnd × (1 - α/2).
    #[test]
    fn a_window_with_marks_is_cut_by_half_of_the_marked_share(
        first in 100_u64..400,
        every in prop::collection::vec((1_u64..40, 1_u64..40), 12),
        thousandths in 10_u32..1_000,
    ) {
        let gain = f64::from(thousandths) / 1e3;
        let mut path = wide();
        // Of each thousand packets, some at the beginning are marked more or less densely.
        path.mark = Box::new(move |n, _| {
            let (dense, tenths) = every[(n / 1_000) as usize % every.len()];
            n >= first && n % 1_000 < 10 * tenths && n % dense == 0
        });
        let samples = run(path, &mut Driver::new(&format!("dctcp:g={gain}")), 4.0);
        let cuts = cuts(&samples, gain);
        prop_assert!(cuts.len() >= 3);
        for (cwnd, cut, found) in cuts {
            prop_assert!(
                (found as f64 - cut.max(2.0)).abs() <= 2.0 + 0.003 * cwnd as f64,
                "g = {gain}: from {cwnd} to {found}, not {cut:.2}"
            );
        }
    }
}

/// RFC 8257 §3.4: to a loss, DCTCP is Reno.
#[test]
fn a_loss_halves_the_window_whatever_the_share() {
    let mut path = wide();
    path.lose = Box::new(|n, _| n == 300 || n == 6_000);
    let samples = run(path, &mut Driver::new("dctcp"), 4.0);
    let at = samples.iter().rposition(|s| s.lost_now > 0).unwrap();
    let before = samples[at - 1].cwnd;
    let settled = samples[at..]
        .iter()
        .find(|s| s.now_us > samples[at].now_us + 60_000)
        .unwrap();
    assert!(
        (before / 2..=before / 2 + 2).contains(&settled.cwnd),
        "{before} to {}",
        settled.cwnd
    );
}

/// RFC 8257 §3.3: without marks the share fades by (1 - g) a round trip, from the 1 that it
/// begins with.
#[test]
fn the_share_fades_without_marks() {
    for rounds in [6, 20, 40] {
        let mut path = wide();
        path.lose = Box::new(|n, _| n == 300);
        let quiet = run(path, &mut Driver::new("dctcp"), 3.0);
        let at_us = 50_000 * rounds;
        let sample = quiet.iter().find(|s| s.now_us >= at_us).unwrap();
        let chosen = sample.delivered + sample.in_flight;
        let mut path = wide();
        path.lose = Box::new(|n, _| n == 300);
        path.mark = Box::new(move |n, _| n == chosen);
        let samples = run(path, &mut Driver::new("dctcp"), 3.0);
        let at = samples.iter().position(|s| s.marked_now > 0).unwrap();
        let before = samples[at - 1].cwnd;
        let settled = samples[at..]
            .iter()
            .find(|s| s.now_us > samples[at].now_us + 60_000)
            .unwrap();
        let share = 2.0 * (1.0 - settled.cwnd as f64 / before as f64);
        let expected = 0.9375_f64.powi(samples[at].now_us as i32 / 50_000);
        assert!(
            (share - expected).abs() < 0.06,
            "{rounds} round trips: {share}, not {expected}"
        );
    }
}

/// With K packets as the threshold of marks, the queue stays near K, whatever the path: RFC 8257
/// §1 has it from Alizadeh et al., SIGCOMM 2010, §3.3.
#[test]
fn the_queue_of_one_flow_is_held_below_the_threshold() {
    for (rate, rtt_us, k) in [
        (10_000, 10_000, 30),
        (80_000, 1_000, 30),
        (20_000, 20_000, 80),
    ] {
        let mut path = Path::new(rate, rtt_us, 100_000);
        path.mark = Box::new(move |_, queue| queue > k);
        let samples = run(path, &mut Driver::new("dctcp"), 8.0);
        let late: Vec<_> = samples.iter().filter(|s| s.now_us > 4_000_000).collect();
        let least = samples.iter().map(|s| s.rtt_us).min().unwrap();
        let queue = |s: &Sample| (s.rtt_us - least) * rate / 1_000_000;
        let longest = late.iter().map(|s| queue(s)).max().unwrap();
        let delivered = late.last().unwrap().delivered - late[0].delivered;
        assert!(
            (k as u64..=k as u64 + 4).contains(&longest),
            "{longest} packets, K = {k}"
        );
        // §3.4 there: K above a seventh of the BDP loses no throughput.
        assert!(
            delivered as f64 > 0.99 * 4.0 * rate as f64,
            "{delivered} at {rate}"
        );
    }
}
