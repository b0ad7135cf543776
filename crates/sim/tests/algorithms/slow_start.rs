//! Slow start on the *drop* path of the reproduction (§3.1): 96 Mbit/s, 20 ms, 1 of 10,000 packets
//! lost, a buffer without end. CCP's Cubic left slow start long after the kernel's.

use std::time::Duration;

use fairwater_net::{Limit, LossConfig, Probability};
use fairwater_plane::Plane;
use fairwater_sim::{Controller, Experiment, Native, Outcome, Traffic, run};

use crate::support::each_seed;
use crate::support::figure::{Figure, Panel};
use crate::support::{BOTTLENECK, Dumbbell, observed, plane, series};

const SEEDS: std::ops::RangeInclusive<u64> = 1..=4;
const MSS: u32 = 1448;

fn path(network: Dumbbell, seed: u64) -> Experiment {
    let mut config = network.config(seed);
    config.edges[BOTTLENECK].link.loss =
        LossConfig::Random(Probability::from_ppb(100_000).unwrap());
    config
}

fn drop_path() -> Dumbbell {
    let mut network = Dumbbell::new(96, 20, 30.0);
    network.limit = Limit::Packets(100_000);
    network
}

fn of_plane(spec: &str, name: &str, seed: u64) -> Outcome {
    let config = path(drop_path().plane(name), seed);
    run(&config, plane(&[spec]), &mut ()).unwrap()
}

fn native(kind: Native, seed: u64) -> Outcome {
    let config = path(drop_path().native(kind), seed);
    run(&config, Plane::new(), &mut ()).unwrap()
}

/// Over the seeds: mean throughput, Mbit/s, and mean of the 95th percentile of queueing delay, ms.
fn means(outcome: impl Fn(u64) -> Outcome + Sync) -> (f64, f64) {
    let each = each_seed(SEEDS, |seed| {
        let outcome = outcome(seed);
        (
            outcome.flows[0].delivered_bytes as f64 * 8.0 / 30.0 / 1e6,
            outcome.edges[BOTTLENECK].queueing_us.unwrap().p95 / 1e3,
        )
    });
    let count = each.len() as f64;
    let (rates, delays): (Vec<f64>, Vec<f64>) = each.into_iter().unzip();
    (
        rates.iter().sum::<f64>() / count,
        delays.iter().sum::<f64>() / count,
    )
}

/// By the program, and by the plane at each round trip's report, as in CCP.
#[test]
fn cubic_leaves_slow_start_when_the_native_one_does() {
    let (rate, delay) = means(|seed| native(Native::Cubic, seed));
    for spec in ["cubic", "cubic:slow_start=plane"] {
        let (ours, queue) = means(|seed| of_plane(spec, "cubic", seed));
        let ratio = ours / rate;
        assert!(
            (0.95..1.05).contains(&ratio),
            "{spec}: {ours} to {rate} Mbit/s"
        );
        assert!(queue < 1.3 * delay, "{spec}: {queue} to {delay} ms");
    }
    // The delay that a late exit costs: this path tells the two apart.
    let (_, late) = means(|seed| of_plane("cubic:hystart=off", "cubic", seed));
    assert!(late > 5.0 * delay, "{late} to {delay} ms");
}

#[test]
fn reno_fills_this_path_as_the_native_one_does() {
    let (rate, delay) = means(|seed| native(Native::Reno, seed));
    let (ours, queue) = means(|seed| of_plane("reno", "reno", seed));
    assert!(
        (0.95..1.05).contains(&(ours / rate)),
        "{ours} to {rate} Mbit/s"
    );
    assert!(
        (0.8..1.25).contains(&(queue / delay)),
        "{queue} to {delay} ms"
    );
    // RFC 9406: what a buffer without end asks for.
    let (_, calm) = means(|seed| of_plane("reno:hystart=plusplus", "reno", seed));
    assert!(calm < 0.5 * delay, "{calm} to {delay} ms");
}

/// Twenty round trips, on paths that lose nothing: what ends slow start is the delay, and growth
/// after it has not filled the buffer yet.
#[test]
fn each_hystart_leaves_before_the_buffer_is_full() {
    for (mbit, rtt_ms) in [(20, 40), (50, 60), (96, 20), (200, 100)] {
        let peak = |spec: &str, bdps: u64| {
            let mut network = Dumbbell::new(mbit, rtt_ms, 0.02 * rtt_ms as f64).plane("cubic");
            network.limit = Limit::Bytes(bdps * mbit * 1000 * rtt_ms / 8);
            let outcome = run(&network.config(1), plane(&[spec]), &mut ()).unwrap();
            let edge = &outcome.edges[BOTTLENECK];
            (
                edge.queueing_us.unwrap().p99 / 1e3,
                outcome.flows[0].retransmissions,
            )
        };
        let (off, lost) = peak("cubic:hystart=off", 4);
        assert!(lost > 0, "{mbit} Mbit/s, {rtt_ms} ms: {off} ms");
        // RFC 9406 §4.2: five round trips of slower growth may still treble a window of two BDP.
        for (kind, bdps) in [("classic", 4), ("plusplus", 6)] {
            let (delay, lost) = peak(&format!("cubic:hystart={kind}"), bdps);
            assert_eq!(lost, 0, "{kind}, {mbit} Mbit/s, {rtt_ms} ms");
            if kind == "classic" {
                assert!(delay < 0.8 * off, "{mbit} Mbit/s: {delay} to {off} ms");
            }
        }
    }
}

/// Long paths with small buffers, where the bursts of slow start queue long before the path is
/// full: who takes them for a queue that stays finds the rest of the path by congestion avoidance.
#[test]
fn bursts_of_slow_start_do_not_end_it() {
    for (mbit, rtt_ms) in [(24, 200), (48, 150), (12, 300), (96, 100)] {
        let used = |network: Dumbbell, specs: &[&str]| {
            let mut network = network;
            network.limit = Limit::Bytes(mbit * 1000 * rtt_ms / 8 * 3 / 10);
            let outcome = run(&network.config(1), plane(specs), &mut ()).unwrap();
            outcome.edges[BOTTLENECK].utilisation
        };
        let path = || Dumbbell::new(mbit, rtt_ms, 30.0);
        let native = used(path().native(Native::Cubic), &[]);
        let ours = used(path().plane("cubic"), &["cubic"]);
        assert!(
            ours > 0.97 * native,
            "{mbit} Mbit/s, {rtt_ms} ms: {ours} to {native}"
        );
    }
}

#[test]
fn the_figure_of_the_ends_of_slow_start() {
    let mut cwnd = Panel::new("cwnd", "segments");
    let mut queue = Panel::new("queueing delay", "ms").up_to(200.0);
    let first = |network: Dumbbell| {
        let mut config = path(network, 1);
        config.duration = Duration::from_secs(4);
        config
    };
    for kind in ["off", "classic", "plusplus"] {
        let spec = format!("cubic:hystart={kind}");
        let config = first(drop_path().plane("cubic"));
        let outcome = observed(&config, &[&spec]);
        cwnd = cwnd.line(&spec, series::cwnd(&outcome.flows[0], MSS));
        queue = queue.line(&spec, series::queueing(&outcome.edges[BOTTLENECK]));
    }
    Figure::new(
        "slow-start",
        "The drop path: 96 Mbit/s, 20 ms, loss of 0.01 %",
    )
    .panel(cwnd.up_to(1200.0))
    .panel(queue)
    .check();
}

/// Traffic with pauses, short segments and little to send.
fn interrupted_traffic() -> [Traffic; 4] {
    let pause = Duration::from_millis(2_500);
    let ping_pong = |bytes, think_ms| Traffic::PingPong {
        bytes,
        think: Duration::from_millis(think_ms),
        count: None,
    };
    [
        Traffic::OnOff {
            on: pause,
            off: pause,
        },
        ping_pong(1_500_037, 1_500),
        ping_pong(37, 150),
        Traffic::Limited { rate: 400_000 },
    ]
}

/// A burst that ends in a loss or in a short segment must not make the next burst lose more than
/// the native sender's, and segments lost while a recovery lasts must reduce cwnd again.
#[test]
fn cubic_retransmits_as_little_as_the_native_one_after_pauses() {
    for (mbit, rtt_ms, bdps) in [(18, 65, 0.7), (24, 80, 1.0), (10, 100, 1.0), (50, 30, 0.5)] {
        for traffic in interrupted_traffic() {
            let measured = |controller: Controller, specs: &[&str]| {
                let mut network =
                    Dumbbell::new(mbit, rtt_ms, 12.0).flow(controller, traffic.clone());
                let bdp = (mbit * 1_000 * rtt_ms / 8) as f64;
                network.limit = Limit::Bytes((bdps * bdp) as u64);
                let outcome = run(&network.config(1), plane(specs), &mut ()).unwrap();
                let flow = &outcome.flows[0];
                (flow.retransmissions, flow.delivered_bytes as f64)
            };
            let (native_lost, native) = measured(Controller::Native(Native::Cubic), &[]);
            let (lost, delivered) = measured(Controller::Plane("cubic".to_owned()), &["cubic"]);
            let case = format!(
                "{traffic:?}, {mbit} Mbit/s, {rtt_ms} ms: {lost} retransmissions and {delivered} \
                 bytes, native {native_lost} and {native}"
            );
            assert!(lost <= native_lost + 8, "{case}");
            assert!(delivered > 0.95 * native, "{case}");
        }
    }
}
