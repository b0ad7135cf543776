//! Nimbus over the model path: alone, on a link whose rate it knows or finds.

use crate::support::driver::Driver;
use crate::support::path::{MSS, Path, Sample, run};
use crate::support::samples::{after, mean, throughput};

const PACKETS_PER_S: u64 = 3_000;
const RTT_US: u64 = 40_000;
/// The link's rate as the parameter has it: with headers of 52 bytes.
const CAPACITY: &str = "25248kbit";

fn alone(spec: &str, seconds: f64) -> Vec<Sample> {
    let path = Path::new(PACKETS_PER_S, RTT_US, 10_000);
    run(path, &mut Driver::new(spec), seconds)
}

/// Alone, each delay control keeps the queue near its target of 12.5 ms, and the link busy.
#[test]
fn the_queue_is_near_the_target_and_the_link_is_busy() {
    for delay in ["basic", "copa"] {
        for capacity in [format!(",capacity={CAPACITY}"), String::new()] {
            let spec = format!("nimbus:delay={delay}{capacity}");
            let late = after(&alone(&spec, 20.0), 8.0);
            let queue_us = mean(&late, |s| s.rtt_us as f64) - RTT_US as f64;
            assert!(
                (5_000.0..30_000.0).contains(&queue_us),
                "{spec}: {queue_us}"
            );
            let throughput = throughput(&late);
            assert!(
                throughput > 0.95 * PACKETS_PER_S as f64,
                "{spec}: {throughput}"
            );
        }
    }
}

/// Bundler §5.1: pulses of a quarter of the link's rate up and a twelfth down, five a second.
#[test]
fn the_rate_pulses_five_times_a_second() {
    let capacity = (PACKETS_PER_S * MSS) as f64;
    let late = after(&alone(&format!("nimbus:capacity={CAPACITY}"), 20.0), 15.0);
    let rates: Vec<_> = late.iter().map(|s| s.rate as f64 / capacity).collect();
    let average = rates.iter().sum::<f64>() / rates.len() as f64;
    let top = rates.iter().copied().fold(0.0, f64::max);
    let bottom = rates.iter().copied().fold(f64::MAX, f64::min);
    assert!(
        (0.18..0.40).contains(&(top - average)),
        "{top} over {average}"
    );
    assert!(
        (0.05..0.25).contains(&(average - bottom)),
        "{bottom} under {average}"
    );
    let ups = rates.windows(2).filter(|w| {
        let level = average + 0.1;
        w[0] < level && w[1] >= level
    });
    let ups = ups.count();
    assert!((23..=27).contains(&ups), "{ups} pulses in 5 s");
}

/// A timeout leaves one segment until something is acknowledged; then the flow finds its rate.
#[test]
fn a_timeout_leaves_one_segment() {
    let mut path = Path::new(PACKETS_PER_S, RTT_US, 10_000);
    path.lose = Box::new(|_, now_us| (8_000_000..8_400_000).contains(&now_us));
    let samples = run(path, &mut Driver::new("nimbus"), 20.0);
    let timeout = samples.iter().find(|s| s.timeout).unwrap();
    assert_eq!(timeout.cwnd, 1);
    let late = after(&samples, 15.0);
    let throughput = throughput(&late);
    assert!(throughput > 0.8 * PACKETS_PER_S as f64, "{throughput}");
}

#[test]
fn settings_out_of_range_are_refused_with_the_range() {
    for (spec, says) in [
        (
            "nimbus:report=30ms",
            "report must be a duration from 2ms to 25ms",
        ),
        ("nimbus:delay=vegas", "delay must be `basic` or `copa`"),
        (
            "nimbus:competitive=bbr",
            "competitive must be `cubic` or `reno`",
        ),
        ("nimbus:capacity=0mbit", "capacity must be a rate from 8bit"),
    ] {
        let error = fairwater_algorithms::by_spec(spec).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}
