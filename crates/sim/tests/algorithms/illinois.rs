//! Illinois: Liu, Başar and Srikant, 2008.

use crate::support::figure::{Figure, Panel};
use crate::support::{BOTTLENECK, Dumbbell, each_seed, observed, series};

const MSS: u32 = 1448;

/// The window rises fast while nothing queues and ever slower as the queue grows: a concave
/// sawtooth. Reno's is nearly straight, as round trips grow with the queue. A full queue costs
/// half.
#[test]
fn the_sawtooth_is_concave() {
    for (mbit, rtt_ms) in [(24, 50), (12, 80), (40, 30)] {
        let bends = |algorithm: &str| -> Vec<f64> {
            let network = Dumbbell::new(mbit, rtt_ms, 80.0).plane(algorithm);
            let outcome = observed(&network.config(1), &[algorithm]);
            let utilisation = outcome.edges[BOTTLENECK].utilisation;
            assert!(utilisation > 0.98, "{algorithm}: {utilisation}");
            let cwnd = series::cwnd(&outcome.flows[0], MSS);
            let mut falls = series::falls(&cwnd, 0.9);
            falls.retain(|fall| fall.at_s > 10.0);
            let teeth = falls.iter().zip(&falls[1..]);
            let bend = |(fall, next): (&series::Fall, &series::Fall)| {
                let left = fall.to / fall.from;
                assert!((0.47..0.53).contains(&left), "{algorithm}: {fall:?}");
                let at = |share: f64| {
                    let s = fall.at_s + (next.at_s - fall.at_s - 0.2) * share;
                    series::mean(&series::between(&cwnd, s - 0.05, s + 0.05))
                };
                (at(0.5) - at(0.05)) / (at(0.95) - at(0.5))
            };
            teeth.map(bend).collect()
        };
        let (illinois, reno) = (bends("illinois"), bends("reno"));
        assert!(illinois.len() >= 2 && reno.len() >= 2);
        assert!(illinois.iter().all(|bend| *bend > 1.7), "{illinois:?}");
        assert!(reno.iter().all(|bend| *bend < 1.5), "{reno:?}");
    }
}

/// Over a long and fat path with random losses, which no queue goes before, it keeps
/// seven eighths where Reno keeps half, and grows by ten.
#[test]
fn random_losses_cost_it_little() {
    for (mbit, rtt_ms, per_mille) in [(50, 60, 1), (100, 100, 1)] {
        let shares = each_seed(1..=4, |seed| {
            let of = |algorithm: &str| {
                let mut network = Dumbbell::new(mbit, rtt_ms, 40.0).plane(algorithm);
                network.loss_per_mille = per_mille;
                observed(&network.config(seed), &[algorithm]).edges[BOTTLENECK].utilisation
            };
            (of("illinois"), of("reno"))
        });
        for (illinois, reno) in &shares {
            assert!(
                *illinois > 3.0 * reno,
                "{mbit} Mbit/s, {rtt_ms} ms: {shares:?}"
            );
        }
    }
}

#[test]
fn the_figure_of_the_sawtooth() {
    let network = Dumbbell::new(24, 50, 60.0);
    let illinois = observed(&network.clone().plane("illinois").config(1), &["illinois"]);
    let reno = observed(&network.plane("reno").config(1), &["reno"]);
    Figure::new(
        "illinois",
        "Illinois alone, and Reno: 24 Mbit/s, 50 ms, a buffer of one BDP",
    )
    .panel(
        Panel::new("cwnd", "segments")
            .line("illinois", series::cwnd(&illinois.flows[0], MSS))
            .line("reno", series::cwnd(&reno.flows[0], MSS)),
    )
    .panel(
        Panel::new("queueing delay", "ms")
            .line("illinois", series::queueing(&illinois.edges[BOTTLENECK]))
            .line("reno", series::queueing(&reno.edges[BOTTLENECK])),
    )
    .check();
}
