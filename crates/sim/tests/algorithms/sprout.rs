//! A forecast like Sprout's: Winstein, Sivaraman & Balakrishnan, NSDI '13.

use std::fmt::Write;
use std::sync::Arc;

use fairwater_net::{Capacity, DeliveryTrace, DrrConfig, Limit, QueueConfig, Time};
use fairwater_sim::{EdgeOutcome, Experiment, Native};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::support::figure::{Figure, Panel};
use crate::support::{BOTTLENECK, Dumbbell, each_seed, jain, observed, series};

const SECONDS: u64 = 60;

/// The delivery trace of a link whose rate wanders and now and then fails, in mahimahi's format.
/// It is not the algorithm's model: the rate is drawn to its middle, and outages come at any rate.
fn cellular(seed: u64) -> DeliveryTrace {
    const MIDDLE: f64 = 500.0;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut uniform = move || random.random::<f64>();
    let (mut per_s, mut outage_ms, mut text) = (MIDDLE, 0.0, String::new());
    for ms in 1..SECONDS * 1_000 {
        // Nearly Gaussian, of variance 1.
        let step: f64 = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
        per_s += (MIDDLE - per_s) * 3e-4 + 7.0 * step;
        per_s = per_s.clamp(20.0, 950.0);
        if uniform() < 1e-4 {
            outage_ms = 100.0 + 600.0 * uniform();
        }
        outage_ms -= 1.0;
        let mut left = per_s / 1_000.0;
        while outage_ms <= 0.0 && uniform() < left {
            left -= 1.0;
            writeln!(text, "{ms}").unwrap();
        }
    }
    writeln!(text, "{}", SECONDS * 1_000).unwrap();
    DeliveryTrace::parse(&text).unwrap()
}

/// The network with that link, whose buffer is as deep as that of a cellular one; from 5 s on.
fn over(trace: &DeliveryTrace, network: Dumbbell, seed: u64) -> Experiment {
    let mut config = network.warm_config(seed, 1.0 / 12.0);
    let link = &mut config.edges[BOTTLENECK].link;
    link.capacity = Capacity::Trace(Arc::new(trace.clone()));
    link.queue = QueueConfig::DropTail(Limit::Bytes(3_000_000));
    config
}

fn alone(spec: &str, rtt_ms: u64, seed: u64) -> EdgeOutcome {
    let name = spec.split(':').next().unwrap();
    let network = Dumbbell::new(5, rtt_ms, SECONDS as f64);
    let (network, specs) = if name == "native-cubic" {
        (network.native(Native::Cubic), vec![])
    } else {
        (network.plane(name), vec![spec])
    };
    let config = over(&cellular(seed), network, seed);
    observed(&config, &specs).edges.swap_remove(BOTTLENECK)
}

fn p95_ms(edge: &EdgeOutcome) -> f64 {
    edge.queueing_us.unwrap().p95 / 1e3
}

/// The paper's ordering (§5): a delay far below CUBIC's, for little of the throughput. BBR
/// did not exist; it keeps a queue of a round trip.
#[test]
fn on_cellular_links_the_delay_is_far_below_cubics_and_below_bbrs() {
    for rtt_ms in [40, 100] {
        each_seed(1..=4, |seed| {
            let [sprout, cubic, bbr] =
                ["sprout", "native-cubic", "bbr"].map(|spec| alone(spec, rtt_ms, seed));
            for (name, edge) in [("sprout", &sprout), ("CUBIC", &cubic), ("bbr", &bbr)] {
                println!(
                    "{rtt_ms} ms, seed {seed}: {name} {:.3} used, 95 % below {:.0} ms",
                    edge.utilisation,
                    p95_ms(edge)
                );
            }
            let context = format!("{rtt_ms} ms");
            assert!(
                sprout.utilisation > 0.9,
                "{context}: {}",
                sprout.utilisation
            );
            let bound = 100.0 + 1.5 * rtt_ms as f64;
            assert!(p95_ms(&sprout) < bound, "{context}: {} ms", p95_ms(&sprout));
            assert!(
                p95_ms(&cubic) > 8.0 * p95_ms(&sprout),
                "{context}: {} and {} ms",
                p95_ms(&cubic),
                p95_ms(&sprout)
            );
            assert!(
                p95_ms(&bbr) > p95_ms(&sprout),
                "{context}: {} and {} ms",
                p95_ms(&bbr),
                p95_ms(&sprout)
            );
            assert_eq!(sprout.dropped, 0, "{context}");
        });
    }
}

/// §5: less confidence buys throughput with delay.
#[test]
fn caution_trades_throughput_for_delay() {
    for seed in [5, 6] {
        let runs = ["1", "5", "25", "50"]
            .map(|percentile| alone(&format!("sprout:percentile={percentile}"), 40, seed));
        for pair in runs.windows(2) {
            assert!(p95_ms(&pair[0]) < p95_ms(&pair[1]), "seed {seed}");
            assert!(
                pair[0].utilisation <= pair[1].utilisation + 0.002,
                "seed {seed}"
            );
        }
    }
}

/// The model knows a thousand packets a second; faster links are counted in larger quanta.
#[test]
fn steady_links_of_any_rate_are_used_and_their_queue_stays_within_the_target() {
    for (mbit, rtt_ms) in [(2, 40), (12, 40), (100, 20), (1_000, 10), (12, 200)] {
        let mut network = Dumbbell::new(mbit, rtt_ms, 12.0).plane("sprout");
        network.limit = Limit::Bytes(mbit * 125_000);
        let outcome = observed(&network.warm_config(1, 0.25), &["sprout"]);
        let edge = &outcome.edges[BOTTLENECK];
        assert!(edge.utilisation > 0.97, "{mbit} Mbit/s: {edge:?}");
        assert!(p95_ms(edge) < 100.0, "{mbit} Mbit/s: {edge:?}");
        assert_eq!(edge.dropped, 0, "{mbit} Mbit/s: {edge:?}");
    }
}

/// Sprout heeds no losses; here they bound the window where the buffer is shorter than the forecast.
#[test]
fn a_short_buffer_is_not_overfilled_for_long() {
    for (mbit, rtt_ms) in [(12, 40), (50, 20), (5, 100)] {
        let mut network = Dumbbell::new(mbit, rtt_ms, 20.0).plane("sprout");
        network.limit = Limit::Bytes(mbit * 125 * rtt_ms / 4);
        let outcome = observed(&network.warm_config(1, 0.25), &["sprout"]);
        let edge = &outcome.edges[BOTTLENECK];
        let lost = edge.dropped as f64 / (edge.dropped + edge.packets) as f64;
        assert!(lost < 0.06, "{mbit} Mbit/s: {lost}");
        assert!(edge.utilisation > 0.9, "{mbit} Mbit/s: {edge:?}");
    }
}

/// Jain's index of five flows over the cellular link, and the link, with this queue.
fn five(queue: QueueConfig, seed: u64) -> (f64, EdgeOutcome) {
    let mut network = Dumbbell::new(5, 40, SECONDS as f64);
    for _ in 0..5 {
        network = network.plane("sprout");
    }
    let mut config = over(&cellular(seed), network, seed);
    config.edges[BOTTLENECK].link.queue = queue;
    for (flow, i) in config.flows.iter_mut().zip(0..) {
        flow.start = Time::from_millis(1000 * i);
    }
    let mut outcome = observed(&config, &["sprout"]);
    (jain(&outcome), outcome.edges.swap_remove(BOTTLENECK))
}

/// §2 assumes a queue for each user, as cellular links have. In one queue for all, the first flow
/// keeps most: the model takes what others do for the link's.
#[test]
fn five_flows_share_fairly_where_each_has_its_own_queue() {
    each_seed(1..=2, |seed| {
        let own = QueueConfig::Drr(DrrConfig::default());
        let common = QueueConfig::DropTail(Limit::Bytes(3_000_000));
        let [own, common] = [own, common].map(|queue| five(queue, seed));
        for (queue, (fair, edge)) in [("own", &own), ("common", &common)] {
            let (used, p95_ms) = (edge.utilisation, p95_ms(edge));
            println!("seed {seed}, {queue}: {fair:.3}, {used:.3} used, {p95_ms:.0} ms");
        }
        assert!(
            own.0 > 0.95 && p95_ms(&own.1) < 150.0,
            "seed {seed}: {own:?}"
        );
        assert!(own.1.utilisation > 0.93, "seed {seed}: {own:?}");
        assert!(
            common.0 < 0.8,
            "seed {seed}: the page says otherwise: {common:?}"
        );
    });
}

/// ACKs that wait behind the other direction's data say nothing of the link that they acknowledge.
#[test]
fn two_directions_are_used_where_acks_have_their_own_queue() {
    each_seed(1..=2, |seed| {
        let own = QueueConfig::Drr(DrrConfig::default());
        let common = QueueConfig::DropTail(Limit::Bytes(3_000_000));
        let [own, common] = [own, common].map(|queue| {
            let network = Dumbbell::new(5, 40, SECONDS as f64);
            let network = network.plane("sprout").plane("sprout");
            let mut config = over(&cellular(seed), network, seed);
            let traces = [cellular(seed), cellular(seed + 10)];
            for (edge, trace) in config.edges.iter_mut().zip(traces) {
                edge.link.capacity = Capacity::Trace(Arc::new(trace));
                edge.link.queue = queue.clone();
            }
            let flow = &mut config.flows[1];
            std::mem::swap(&mut flow.from, &mut flow.to);
            let outcome = observed(&config, &["sprout"]);
            [0, 1].map(|edge| outcome.edges[edge].utilisation)
        });
        println!("seed {seed}: own {own:.3?}, common {common:.3?}");
        assert!(own.iter().all(|used| *used > 0.7), "seed {seed}: {own:?}");
    });
}

#[test]
fn the_figure_of_a_cellular_link() {
    let trace = cellular(1);
    let network = Dumbbell::new(5, 40, 30.0);
    let sprout = observed(
        &over(&trace, network.clone().plane("sprout"), 1),
        &["sprout"],
    );
    let bbr = observed(&over(&trace, network.clone().plane("bbr"), 1), &["bbr"]);
    let cubic = observed(&over(&trace, network.native(Native::Cubic), 1), &[]);
    let step = fairwater_net::Time::from_millis(500);
    let capacity = (0..60)
        .map(|i| {
            let (from, to) = (i * 500, (i + 1) * 500);
            let at = |ms| fairwater_net::Time::from_millis(ms);
            let bytes = trace.bytes_between(at(from), at(to));
            (to as f64 / 1e3, bytes as f64 * 8e-6 / step.as_secs_f64())
        })
        .collect();
    Figure::new(
        "sprout",
        "A link whose rate wanders, 40 ms, a deep buffer; each flow alone",
    )
    .panel(
        Panel::new("throughput", "Mbit/s")
            .line("sprout", series::throughput(&sprout.flows[0], 0.5))
            .line("the link", capacity),
    )
    .panel(
        Panel::new("queueing delay", "ms")
            .line("sprout", series::queueing(&sprout.edges[BOTTLENECK]))
            .line("bbr", series::queueing(&bbr.edges[BOTTLENECK]))
            .line("cubic", series::queueing(&cubic.edges[BOTTLENECK]))
            .up_to(600.0),
    )
    .check();
}
