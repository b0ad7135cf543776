//! Copa (NSDI '18) over the model path.

use crate::support::driver::Driver;
use crate::support::path::{MSS, Path, run};
use crate::support::samples::{after, mean, throughput};

const PACKETS_PER_S: u64 = 2_000;
const RTT_US: u64 = 50_000;

/// §2.1: at 1/δ packets in the queue, about, the rates are equal.
#[test]
fn about_one_by_delta_packets_wait() {
    for (delta, packets) in [("1", 1.0), ("0.5", 2.0), ("0.2", 5.0), ("0.05", 20.0)] {
        let path = Path::new(PACKETS_PER_S, RTT_US, 10_000);
        let mut driver = Driver::new(&format!("copa:delta={delta}"));
        let late = after(&run(path, &mut driver, 20.0), 10.0);
        let queue_us = mean(&late, |s| s.rtt_us as f64) - RTT_US as f64;
        let waiting = queue_us * PACKETS_PER_S as f64 / 1e6;
        assert!(
            (0.5 * packets..2.0 * packets + 2.0).contains(&waiting),
            "δ {delta}: {waiting} packets"
        );
        assert!(throughput(&late) > 0.97 * PACKETS_PER_S as f64, "δ {delta}");
    }
}

/// §2.1: packets are paced at 2 cwnd/RTTstanding, and RTTstanding lies between the least and the
/// greatest RTT.
#[test]
fn the_pace_is_twice_the_window_over_the_standing_rtt() {
    let path = Path::new(PACKETS_PER_S, RTT_US, 10_000);
    let samples = after(&run(path, &mut Driver::new("copa"), 10.0), 0.5);
    let greatest = samples.iter().map(|s| s.rtt_us).max().unwrap();
    for s in &samples {
        let fastest = 2 * (s.cwnd + 1) * MSS * 1_000_000 / RTT_US;
        let slowest = 2 * s.cwnd * MSS * 1_000_000 / (greatest + 1);
        assert!((slowest..=fastest).contains(&s.rate), "{s:?}");
    }
}

/// §2.1: velocity doubles while cwnd keeps its direction, so a link that is ten times as fast as
/// the window is filled in far fewer round trips than v = 1 would take.
#[test]
fn velocity_finds_a_far_window_soon() {
    let mut path = Path::new(20_000, RTT_US, 10_000);
    // A cut to 1 segment, which ends slow start at once by the queue that it meets.
    path.lose = Box::new(|_, now_us| (3_000_000..3_300_000).contains(&now_us));
    let samples = run(path, &mut Driver::new("copa"), 10.0);
    let rounds = (8_000_000 - 3_300_000) / RTT_US;
    let late = after(&samples, 8.0);
    assert!(throughput(&late) > 19_000.0, "{}", throughput(&late));
    assert!(
        late[0].cwnd > 5 * 2 * rounds,
        "{:?} in {rounds} rounds",
        late[0]
    );
}

/// A timeout leaves one segment, and slow start begins anew.
#[test]
fn a_timeout_leaves_one_segment() {
    let mut path = Path::new(PACKETS_PER_S, RTT_US, 10_000);
    path.lose = Box::new(|_, now_us| (5_000_000..5_400_000).contains(&now_us));
    let samples = run(path, &mut Driver::new("copa"), 10.0);
    let timeout = samples.iter().find(|s| s.timeout).unwrap();
    assert_eq!(timeout.cwnd, 1);
    let late = after(&samples, 7.0);
    assert!(throughput(&late) > 0.95 * PACKETS_PER_S as f64);
}

/// §2: a loss is not a sign of congestion in default mode.
#[test]
fn default_mode_does_not_mind_losses() {
    let mut path = Path::new(PACKETS_PER_S, RTT_US, 10_000);
    path.lose = Box::new(|n, _| n % 50 == 7);
    let late = after(&run(path, &mut Driver::new("copa"), 20.0), 5.0);
    // Each packet lost is sent again: one in fifty.
    assert!(throughput(&late) > 0.93 * PACKETS_PER_S as f64);
    assert!(late.iter().all(|s| s.rtt_us < RTT_US + 20_000));
}

/// The program goes on by itself: a plane that says no more costs nothing at once.
#[test]
fn a_flow_whose_plane_is_silent_stays_near_its_target() {
    let mut driver = Driver::new("copa");
    driver.deafen();
    let late = after(
        &run(Path::new(PACKETS_PER_S, RTT_US, 10_000), &mut driver, 20.0),
        5.0,
    );
    assert!(throughput(&late) > 0.95 * PACKETS_PER_S as f64);
    assert!(late.iter().all(|s| s.rtt_us < RTT_US + 20_000));
}

/// §2.1: RTTmin is forgotten after 10 s, so a path that became longer is used fully again.
#[test]
fn a_longer_path_is_believed_after_ten_seconds() {
    let mut driver = Driver::new("copa");
    let first = run(Path::new(PACKETS_PER_S, RTT_US, 10_000), &mut driver, 5.0);
    assert!(throughput(&after(&first, 2.0)) > 0.97 * PACKETS_PER_S as f64);
    let mut later = Moved {
        driver,
        by_us: first[first.len() - 1].now_us,
    };
    let second = run(
        Path::new(PACKETS_PER_S, 2 * RTT_US, 10_000),
        &mut later,
        40.0,
    );
    let late = after(&second, 25.0);
    assert!(throughput(&late) > 0.95 * PACKETS_PER_S as f64);
}

/// The same flow, so much later.
struct Moved {
    driver: Driver,
    by_us: u64,
}

impl crate::support::path::Controller for Moved {
    fn invoke(&mut self, ack: &crate::support::path::Ack, cwnd_packets: u64) -> (u64, u64) {
        let ack = crate::support::path::Ack {
            now_us: ack.now_us + self.by_us,
            ..*ack
        };
        self.driver.invoke(&ack, cwnd_packets)
    }
}

#[test]
fn settings_out_of_range_are_refused_with_the_range() {
    for (spec, says) in [
        ("copa:delta=0", "delta must be a number from 0.01 to 2"),
        ("copa:delta=3", "delta must be a number from 0.01 to 2"),
        (
            "copa:mode=fast",
            "mode must be `auto`, `paper` or `default`",
        ),
        ("copa:detla=1", "did you mean `delta`?"),
    ] {
        let error = fairwater_algorithms::by_spec(spec).unwrap_err();
        assert!(error.to_string().contains(says), "{error}");
    }
}
