//! How well Nimbus tells elastic from inelastic cross traffic where that is hard: not told μ, beside
//! requests whose handshakes pass the bottleneck, and with several pulsing flows on one link.

use std::fmt::Write;

use fairwater_algorithms::{NimbusConfig, NimbusConfirm};
use fairwater_net::{Limit, Time};

use super::{Case, Cross, at_once, mean, watched};
use crate::support::{BOTTLENECK, Dumbbell, series};

const KINDS: [(Cross, u64); 9] = [
    (Cross::CubicBulk, 50),
    (Cross::CubicBulk, 75),
    (Cross::RenoBulk, 50),
    (Cross::Mixed, 50),
    (Cross::ConstantRate, 50),
    (Cross::PoissonRequests, 50),
    (Cross::Handshakes, 25),
    (Cross::Handshakes, 50),
    (Cross::LimitedByApplication, 50),
];

fn table(links: &[(u64, u64)], told: bool) -> (String, f64, f64) {
    let mut cases = Vec::new();
    for (cross, percent) in KINDS {
        for &(mbit, rtt_ms) in links {
            for seed in 1..=2 {
                cases.push(Case {
                    cross,
                    percent,
                    mbit,
                    rtt_ms,
                    seed,
                    told,
                });
            }
        }
    }
    let accuracies = at_once(&cases, Case::accuracy);
    let of = |choose: &dyn Fn(&Case) -> bool| {
        let chosen = cases.iter().zip(&accuracies);
        100.0 * mean(chosen.filter(|(c, _)| choose(c)).map(|(_, a)| *a))
    };
    let mut table = String::new();
    for (cross, percent) in KINDS {
        write!(table, "| {cross:?}, {percent} % |").unwrap();
        for &link in links {
            let share = of(&|c| (c.cross, c.percent, (c.mbit, c.rtt_ms)) == (cross, percent, link));
            write!(table, " {share:.0} |").unwrap();
        }
        table.push('\n');
    }
    let elastic = of(&|c| c.cross.is_elastic());
    let inelastic = of(&|c| !c.cross.is_elastic());
    writeln!(
        table,
        "told {told}: elastic {elastic:.1} %, inelastic {inelastic:.1} %"
    )
    .unwrap();
    (table, elastic, inelastic)
}

#[test]
#[ignore = "prints a table from 216 runs"]
fn the_grid() {
    let links = [24, 96]
        .map(|mbit| [20, 50, 100].map(|rtt_ms| (mbit, rtt_ms)))
        .concat();
    for told in [true, false] {
        println!("{}", table(&links, told).0);
    }
}

/// Several flows of Nimbus on one link, told μ or not: the share of the time in which they compete,
/// and the mean queue, from 20 s to 60 s.
#[test]
#[ignore = "prints a table"]
fn several_pulse_on_one_link() {
    for told in [true, false] {
        for flows in [2, 4, 12] {
            let mut network = Dumbbell::new(96, 50, 60.0);
            for _ in 0..flows {
                network = network.plane("nimbus");
            }
            network.limit = Limit::Bytes(96 * 125 * 100);
            let mut config = network.config(1);
            for (index, flow) in config.flows.iter_mut().enumerate() {
                flow.start = Time::from_millis(700 * index as u64);
            }
            config.measure.interval = Some(crate::support::INTERVAL);
            let nimbus = NimbusConfig {
                capacity: told.then_some(12_000_000),
                confirm: NimbusConfirm::Always,
                least_share: 0.02,
                ..NimbusConfig::default()
            };
            let (outcome, beliefs) = watched(&config, nimbus);
            let late = beliefs.iter().filter(|b| b.at_s >= 20.0);
            let competes = mean(late.map(|b| f64::from(u8::from(b.competitive))));
            let waits = series::queueing(&outcome.edges[BOTTLENECK]);
            let waits = series::mean(&series::between(&waits, 20.0, 60.0));
            let used = outcome.edges[BOTTLENECK].utilisation;
            println!(
                "told {told}, {flows} flows: compete {:.0} %, queue {waits:.1} ms, used {used:.3}, Jain {:.3}",
                100.0 * competes,
                crate::support::jain(&outcome)
            );
        }
    }
}

/// The share of the time in which Nimbus is right, beside requests with handshakes that take half of
/// a fast link, and beside a constant rate without being told μ. Both looked elastic when the
/// spectrum alone decided: less than half of the time was right.
#[test]
fn what_answers_to_pulses_but_leaves_the_queue_short_is_inelastic() {
    let case = |cross, mbit, rtt_ms, told| Case {
        cross,
        percent: 50,
        mbit,
        rtt_ms,
        seed: 1,
        told,
    };
    let cases = [
        case(Cross::Handshakes, 96, 20, true),
        case(Cross::Handshakes, 96, 100, true),
        case(Cross::ConstantRate, 24, 20, false),
        case(Cross::ConstantRate, 96, 50, false),
    ];
    for (case, accuracy) in cases.iter().zip(at_once(&cases, Case::accuracy)) {
        println!("{case:?}: {accuracy:.3}");
        assert!(accuracy > 0.9, "{case:?}: {accuracy}");
    }
}
