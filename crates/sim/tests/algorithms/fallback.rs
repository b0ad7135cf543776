//! Flows whose plane is killed: CUBIC in the datapath goes on from where the program was.

use std::time::Duration;

use fairwater_net::Time;
use fairwater_plane::Plane;
use fairwater_sim::{Experiment, Native, Outcome, run};

use crate::support::{Dumbbell, plane};

/// When the plane is killed, and how long is measured from then on, s.
const KILLED: u64 = 10;
const AFTER: u64 = 30;

/// A buffer of one BDP; what is delivered after the plane's end is counted.
fn killed(network: Dumbbell) -> Experiment {
    let mut config = network.config(1);
    config.plane.outages = vec![(
        Time::from_millis(KILLED * 1000),
        Time::from_millis(1_000_000),
    )];
    config.measure.from = Time::ZERO + Duration::from_secs(KILLED);
    config.measure.interval = Some(Duration::from_secs(1));
    config
}

fn after(algorithm: &str) -> Outcome {
    let network = Dumbbell::new(200, 100, (KILLED + AFTER) as f64).plane(algorithm);
    run(&killed(network), plane(&[algorithm]), &mut ()).unwrap()
}

#[test]
fn the_fallback_carries_what_cubic_carries() {
    let network = Dumbbell::new(200, 100, (KILLED + AFTER) as f64).native(Native::Cubic);
    let native = run(&killed(network), Plane::new(), &mut ()).unwrap();
    let native = native.flows[0].delivered_bytes as f64;
    for algorithm in ["cubic", "reno", "bbr"] {
        let outcome = after(algorithm);
        assert_eq!(outcome.fallbacks, 1, "{algorithm}");
        let flow = &outcome.flows[0];
        let ratio = flow.delivered_bytes as f64 / native;
        assert!(ratio >= 0.97, "{algorithm}: {ratio} of Cubic's");
        assert_eq!(flow.timeouts, 0, "{algorithm}");
        // No second stands still.
        let least = flow
            .samples
            .iter()
            .filter(|s| s.at > Time::from_millis(KILLED * 1000));
        let least = least.map(|s| s.delivered_bytes).min().unwrap();
        assert!(least > 0, "{algorithm}");
    }
}
