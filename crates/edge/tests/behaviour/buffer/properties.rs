//! What holds whatever the path does.

use fairwater_edge::buffer::BufferConfig;
use proptest::prelude::*;

use super::model::Model;
use super::setup::{Fate, Outcome, Path, Setup};
use crate::plane::{Box, constant};

/// A window that is about the path's bandwidth-delay product.
fn run(setup: &Setup, cwnd: u64) -> Outcome {
    Model::new(setup, move || {
        Box::buffering(&constant(cwnd), BufferConfig::default())
    })
    .run()
}

fn whole(setup: &Setup, outcome: &Outcome) {
    assert!(outcome.finished_ms.is_some(), "not finished: {outcome:#?}");
    assert_eq!(outcome.delivered, setup.total);
    assert!(outcome.is_fin_delivered);
}

#[test]
fn all_arrives_without_a_loss() {
    let setup = Setup::default();
    let outcome = run(&setup, 250_000);
    whole(&setup, &outcome);
    assert_eq!(outcome.guest.retransmissions, 0, "{outcome:#?}");
    assert_eq!(outcome.statistics.retransmissions, 0);
    assert_eq!(outcome.duplicates_seen, 0);
}

fn lossy(loss: u64) -> Path {
    Path {
        loss,
        ..Path::default()
    }
}

/// The guest sees nothing of what the box repairs (Mystique §3.3): no duplicate ACK and no selective acknowledgement.
/// With SACK it never sends again; without it the box repairs a loss each round trip (RFC 6582), and may be too slow
/// for the guest's timer.
#[test]
fn losses_that_the_box_repairs_are_hidden() {
    for (sack, timestamps) in [(true, true), (true, false), (false, true), (false, false)] {
        for seed in 0..4 {
            let setup = Setup {
                seed,
                sack,
                timestamps,
                path: lossy(10),
                ..Setup::default()
            };
            let outcome = run(&setup, 250_000);
            whole(&setup, &outcome);
            assert_eq!(outcome.duplicates_seen, 0, "{outcome:#?}");
            assert_eq!((outcome.sacks_seen, outcome.paws_drops), (0, 0));
            assert!(outcome.statistics.retransmissions > 0);
            assert!(outcome.guest.retransmissions == 0 || !sack, "{outcome:#?}");
        }
    }
}

/// At 1 % loss a box with a constant window carries far more than the guest's Reno alone.
#[test]
fn a_lossy_path_is_used() {
    let setup = Setup {
        total: 4_000_000,
        path: lossy(10),
        ..Setup::default()
    };
    let alone = Setup {
        fate: Fate::Dies(0),
        ..setup.clone()
    };
    let [with, without] = [&setup, &alone].map(|setup| {
        let outcome = run(setup, 250_000);
        whole(setup, &outcome);
        outcome
    });
    let rate = |outcome: &Outcome| {
        let ms = outcome.finished_ms.unwrap();
        setup.total as f64 * 8e-3 / ms as f64
    };
    let (with, without) = (rate(&with), rate(&without));
    println!("{with:.1} Mbit/s with the box, {without:.1} Mbit/s under the guest's Reno");
    assert!(with > 5.0 * without);
}

/// Marks are answered by the box (RFC 3168 §6.1.2), and the guest hears of none.
#[test]
fn marks_are_hidden() {
    let setup = Setup {
        path: Path {
            bytes_per_second: 2_000_000,
            mark_above: 20_000,
            ..Path::default()
        },
        ..Setup::default()
    };
    let outcome = run(&setup, 100_000);
    whole(&setup, &outcome);
    assert!(outcome.marked > 0);
    assert_eq!((outcome.echoes_seen, outcome.duplicates_seen), (0, 0));
    assert_eq!(outcome.guest.retransmissions, 0);
}

fn path() -> impl Strategy<Value = Path> {
    (
        prop_oneof![Just(12_500_000u64), Just(1_250_000), Just(125_000)],
        prop_oneof![Just(1_000u64), Just(10_000), Just(100_000)],
        prop_oneof![Just(20_000u64), Just(500_000)],
        (0u64..100, 0u64..100, 0u64..100, 0u64..50),
        0u64..50_000,
        prop_oneof![Just(u64::MAX), Just(5_000u64)],
    )
        .prop_map(
            |(bytes_per_second, one_way_us, queue_bytes, chances, late_us, mark)| Path {
                bytes_per_second,
                one_way_us,
                queue_bytes,
                mark_above: mark,
                loss: chances.0,
                ack_loss: chances.1,
                late: chances.2,
                twice: chances.3,
                late_us,
            },
        )
}

fn setup() -> impl Strategy<Value = Setup> {
    (
        any::<u64>(),
        path(),
        prop_oneof![any::<u32>(), (u32::MAX - 100_000)..=u32::MAX],
        any::<[bool; 3]>(),
        prop_oneof![3 => Just(0u64), 1 => 1u64..50],
        prop_oneof![
            2 => Just(Fate::Lives),
            1 => (0u64..3_000).prop_map(Fate::Dies),
            1 => (0u64..3_000).prop_map(Fate::Restarts),
        ],
    )
        .prop_map(
            |(seed, path, first, [sack, timestamps, gso], guest_loss, fate)| Setup {
                seed,
                path,
                first,
                sack,
                timestamps,
                gso,
                guest_loss,
                fate,
                total: 200_000,
                limit_ms: 3_000_000,
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Each byte arrives, once and in its place, and the FIN behind them, whatever the path does and whatever becomes
    /// of the box; and what the box repairs stays hidden.
    #[test]
    fn the_stream_is_whole(setup in setup(), cwnd in 1_000u64..300_000) {
        let outcome = run(&setup, cwnd);
        whole(&setup, &outcome);
        let is_held = outcome.statistics.returned == [0; 4];
        if setup.fate == Fate::Lives && setup.guest_loss == 0 && is_held {
            prop_assert_eq!(outcome.sacks_seen, 0);
            prop_assert_eq!(outcome.echoes_seen, 0);
            prop_assert_eq!(outcome.paws_drops, 0);
        }
    }
}
