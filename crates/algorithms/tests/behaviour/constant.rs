//! A constant cwnd and rate.

use crate::support::driver::Driver;
use crate::support::path::{Path, run};

#[test]
fn cwnd_is_held_whatever_is_lost() {
    let mut path = Path::new(2_000, 30_000, 1_000);
    path.lose = Box::new(|n, _| n % 50 == 0);
    let samples = run(path, &mut Driver::new("constant:cwnd=40"), 10.0);
    assert!(samples[1..].iter().all(|s| s.cwnd == 40 && s.rate == 0));
    assert!(samples.iter().all(|s| s.in_flight <= 40));
}

#[test]
fn cwnd_comes_back_after_a_timeout() {
    let mut path = Path::new(2_000, 30_000, 1_000);
    path.lose = Box::new(|_, now| (1_000_000..1_500_000).contains(&now));
    let samples = run(path, &mut Driver::new("constant:cwnd=40"), 3.0);
    assert!(samples.iter().any(|s| s.timeout));
    assert_eq!(samples.last().unwrap().cwnd, 40);
}

#[test]
fn a_rate_paces_and_brings_the_window_it_needs() {
    // 4 Mbit/s are 500 packets of 1,000 bytes a second.
    let path = Path::new(2_000, 200_000, 1_000);
    let samples = run(path, &mut Driver::new("constant:rate=4mbit"), 20.0);
    let (from, to) = (
        samples.iter().find(|s| s.now_us > 5_000_000).unwrap(),
        samples.last().unwrap(),
    );
    let rate = (to.delivered - from.delivered) as f64 / ((to.now_us - from.now_us) as f64 / 1e6);
    assert!((rate - 500.0).abs() < 5.0, "{rate} packets/s");
    assert!(
        (195..=205).contains(&to.cwnd),
        "twice the BDP of 100 packets, not {}",
        to.cwnd
    );
}
