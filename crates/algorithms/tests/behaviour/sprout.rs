//! A forecast like Sprout's: Winstein, Sivaraman & Balakrishnan, NSDI '13.

use fairwater_algorithms::{Sprout, SproutConfig};
use fairwater_plane::{AlgorithmError, Plane, PlaneError};

use crate::support::acks::Acks;
use crate::support::driver::Driver;
use crate::support::path::{Path, run};

/// So many packets/s for that long, with this RTT.
fn come(acks: &mut Acks, per_s: u64, for_us: u64, rtt_us: u64) -> u64 {
    let end = acks.now_us + for_us;
    while acks.now_us < end {
        acks.ack(1_000_000 / per_s, rtt_us, 0);
    }
    acks.cwnd
}

/// A queue stands (the RTT is 60 ms above the least), so what comes is what the link delivers: the
/// window is the round trip's worth and less than what 100 ms bring.
#[test]
fn the_window_is_what_the_link_will_cautiously_deliver() {
    for per_s in [100_u64, 300, 600, 5_000] {
        let mut acks = Acks::new("sprout");
        acks.ack(1_000, 40_000, 0);
        come(&mut acks, per_s, 4_000_000, 100_000);
        let window = acks.cwnd as f64;
        let (way, queue) = (per_s as f64 * 0.04, per_s as f64 * 0.1);
        assert!(
            window + 1.0 > way + 0.25 * queue && window < way + queue,
            "{per_s} packets/s: {window}"
        );
    }
}

#[test]
fn a_lower_percentile_and_a_shorter_target_make_the_window_smaller() {
    let window = |spec: &str| {
        let mut acks = Acks::new(spec);
        acks.ack(1_000, 40_000, 0);
        come(&mut acks, 400, 4_000_000, 100_000)
    };
    let windows = ["1", "5", "25", "50"].map(|p| window(&format!("sprout:percentile={p}")));
    assert!(
        windows.is_sorted() && windows[0] < windows[3],
        "{windows:?}"
    );
    let windows =
        ["20ms", "100ms", "160ms", "500ms"].map(|t| window(&format!("sprout:target={t}")));
    assert!(
        windows.is_sorted() && 2 * windows[0] < windows[3],
        "{windows:?}"
    );
    // A link that wanders more is trusted less.
    assert!(window("sprout:volatility=20") > window("sprout:volatility=800"));
}

/// §3: an outage shows in the first ACK after it, and is believed at once.
#[test]
fn a_silence_shrinks_the_window() {
    let mut acks = Acks::new("sprout");
    acks.ack(1_000, 40_000, 0);
    let before = come(&mut acks, 400, 3_000_000, 100_000);
    acks.ack(300_000, 350_000, 0);
    let after = acks.ack(1_000, 350_000, 0);
    assert!(2 * after < before, "{before} to {after}");
    // And what comes then is believed again.
    let later = come(&mut acks, 400, 2_000_000, 100_000);
    assert!(10 * later > 8 * before, "{before} to {later}");
}

/// Where the RTT shows no queue, what comes is what was sent: the window grows until a queue stands.
#[test]
fn a_window_that_holds_the_flow_back_is_no_evidence_against_the_link() {
    for (per_s, rtt_us) in [(2_000, 40_000), (500, 150_000), (20_000, 20_000)] {
        let path = Path::new(per_s, rtt_us, 1 << 20);
        let samples = run(path, &mut Driver::new("sprout"), 8.0);
        let last = samples.last().unwrap();
        let queue_us = last.rtt_us - rtt_us;
        assert!(
            (5_000..100_000).contains(&queue_us),
            "{per_s}: {queue_us} µs"
        );
        let half = samples.iter().find(|s| s.now_us >= 4_000_000).unwrap();
        let delivered = last.delivered - half.delivered;
        assert!(delivered * 100 >= per_s * 4 * 97, "{per_s}: {delivered}");
    }
}

/// Losses of more than a twentieth bound the window; few, as of a radio, do not.
#[test]
fn only_many_losses_bound_the_window() {
    let window = |every: u64| {
        let mut acks = Acks::new("sprout");
        acks.ack(1_000, 40_000, 0);
        come(&mut acks, 400, 3_000_000, 60_000);
        for n in 0..800_u64 {
            acks.ack(2_500, 60_000, u64::from(n % every == 0));
        }
        acks.cwnd
    };
    let (none, few, many) = (window(10_000), window(50), window(8));
    assert!(few * 10 > none * 9, "{few} of {none}");
    assert!(many * 2 < none, "{many} of {none}");
}

#[test]
fn a_timeout_leaves_one_segment_until_an_ack() {
    let mut path = Path::new(1_000, 40_000, 1_000);
    path.lose = Box::new(|_, now| (2_000_000..3_000_000).contains(&now));
    let samples = run(path, &mut Driver::new("sprout"), 6.0);
    let timeout = samples.iter().position(|s| s.timeout).unwrap();
    assert_eq!(samples[timeout].cwnd, 1);
    let last = samples.last().unwrap();
    assert!(last.cwnd > 50, "{}", last.cwnd);
}

#[test]
fn what_is_out_of_range_is_refused() {
    let refused = |config: SproutConfig| {
        let mut plane = Plane::new();
        let error = plane
            .add(|programs| Sprout::new(programs, config))
            .unwrap_err();
        matches!(
            error,
            PlaneError::Algorithm(AlgorithmError::OutOfRange { .. })
        )
    };
    let usual = SproutConfig::default();
    for config in [
        SproutConfig {
            percentile: 0.0,
            ..usual
        },
        SproutConfig {
            percentile: f64::NAN,
            ..usual
        },
        SproutConfig {
            target_us: 0,
            ..usual
        },
        SproutConfig {
            volatility: 1e9,
            ..usual
        },
        SproutConfig {
            escape: 0.0,
            ..usual
        },
    ] {
        assert!(refused(config), "{config:?}");
    }
}
