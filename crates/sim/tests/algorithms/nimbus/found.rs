//! Nimbus where μ is not set: it finds what the link carries, though others were there before.

use std::env;

use fairwater_algorithms::NimbusConfig;
use fairwater_net::{Limit, Time};
use fairwater_sim::Native;

use super::{at_once, mean, watched};
use crate::support::{BOTTLENECK, Dumbbell, INTERVAL, series};

/// A bulk flow from the start, Nimbus 10 s later; the other leaves at 100 s.
#[derive(Debug, Clone, Copy)]
struct Late {
    native: Native,
    mbit: u64,
    rtt_ms: u64,
    /// Of the buffer.
    bdp: u64,
    seed: u64,
}

/// What came of it.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    /// The share of the link that Nimbus had from 60 s to 100 s, in percent.
    beside: f64,
    /// And alone, from 120 s to 140 s.
    alone: f64,
    /// The queueing delay then, ms.
    waits_ms: f64,
}

impl Late {
    fn came(&self) -> Outcome {
        let mut network = Dumbbell::new(self.mbit, self.rtt_ms, 140.0)
            .plane("nimbus")
            .native(self.native);
        network.limit = Limit::Bytes(self.bdp * self.rtt_ms * self.mbit * 1_000 / 8);
        let mut config = network.config(self.seed);
        config.flows[0].start = Time::from_millis(10_000 + self.seed * 7_919 % 1_000);
        config.flows[1].stop = Some(Time::from_millis(100_000));
        config.measure.interval = Some(INTERVAL);
        let (outcome, _) = watched(&config, NimbusConfig::default());
        assert_eq!(outcome.fallbacks, 0);
        let rates = series::throughput(&outcome.flows[0], 0.5);
        let had = |from, to| {
            let within = series::between(&rates, from, to);
            100.0 * series::mean(&within) / self.mbit as f64
        };
        let waits = series::queueing(&outcome.edges[BOTTLENECK]);
        Outcome {
            beside: had(60.0, 100.0),
            alone: had(120.0, 140.0),
            waits_ms: series::mean(&series::between(&waits, 120.0, 140.0)),
        }
    }
}

/// A flow that was there before and fills the buffer leaves Nimbus a part of the link, and when it
/// goes, Nimbus learns what the link carries and holds a short queue. Over more links and seeds
/// with `FAIRWATER_WHOLE_GRID=1`.
#[test]
fn a_full_buffer_does_not_starve_it() {
    let whole = env::var_os("FAIRWATER_WHOLE_GRID").is_some_and(|v| v == "1");
    let (rates, rtts, seeds): (&[u64], &[u64], _) = if whole {
        (&[12, 24, 48], &[20, 50, 100], 1..=3)
    } else {
        (&[12, 48], &[50], 1..=1)
    };
    let mut cases = Vec::new();
    for native in [Native::Cubic, Native::Reno] {
        for &mbit in rates {
            for &rtt_ms in rtts {
                for bdp in [1, 2] {
                    cases.extend(seeds.clone().map(|seed| Late {
                        native,
                        mbit,
                        rtt_ms,
                        bdp,
                        seed,
                    }));
                }
            }
        }
    }
    let came = at_once(&cases, Late::came);
    for (case, came) in cases.iter().zip(&came) {
        println!("{case:?}: {came:.1?}");
    }
    let beside = mean(came.iter().map(|c| c.beside));
    println!("beside the other {beside:.1} % of the link");
    assert!(beside > 25.0, "{beside}");
    for (case, came) in cases.iter().zip(&came) {
        assert!(came.beside > 10.0, "{case:?}: {came:?}");
        assert!(came.alone > 90.0, "{case:?}: {came:?}");
        assert!(came.waits_ms < 25.0, "{case:?}: {came:?}");
    }
}

/// RTTmin is remembered for a minute, in which delay control alone never empties the queue of
/// itself: it is seen anew, and the queue stays as short as it was.
#[test]
fn the_queue_stays_short_for_minutes() {
    for capacity in [None, Some(1_500_000)] {
        for rtt_ms in [20, 100] {
            let mut network = Dumbbell::new(12, rtt_ms, 200.0).plane("nimbus");
            network.limit = Limit::Bytes(150 * 12_000 / 8);
            let mut config = network.config(1);
            config.measure.interval = Some(INTERVAL);
            let nimbus = NimbusConfig {
                capacity,
                ..NimbusConfig::default()
            };
            let (outcome, _) = watched(&config, nimbus);
            let waits = series::queueing(&outcome.edges[BOTTLENECK]);
            let waited_ms = series::mean(&series::between(&waits, 150.0, 200.0));
            let rates = series::throughput(&outcome.flows[0], 0.5);
            let had = series::mean(&series::between(&rates, 150.0, 200.0)) / 12.0;
            assert!(
                (5.0..20.0).contains(&waited_ms),
                "{rtt_ms} ms, {capacity:?}: {waited_ms}"
            );
            assert!(had > 0.93, "{rtt_ms} ms, {capacity:?}: {had}");
        }
    }
}

/// On a lossy path there is hardly a round trip without a hole, and the link is found nevertheless.
#[test]
fn random_loss_does_not_hide_the_link() {
    for per_mille in [1, 10] {
        let mut network = Dumbbell::new(48, 40, 40.0).plane("nimbus");
        network.loss_per_mille = per_mille;
        let mut config = network.config(1);
        config.measure.interval = Some(INTERVAL);
        let (outcome, _) = watched(&config, NimbusConfig::default());
        let rates = series::throughput(&outcome.flows[0], 0.5);
        let had = series::mean(&series::between(&rates, 10.0, 40.0)) / 48.0;
        assert!(had > 0.8, "{per_mille} per mille lost: {had}");
    }
}
