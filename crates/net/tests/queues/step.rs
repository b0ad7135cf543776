//! The step mark of RFC 8257.

use fairwater_net::{DropReason, Ecn, Limit, QueueConfig, StepConfig, Time};
use proptest::prelude::*;

use super::support::{Bench, markable, of_flow};

proptest! {
    #[test]
    fn marks_exactly_what_finds_more_than_k_waiting(
        k in 0..30u64,
        steps in prop::collection::vec((any::<bool>(), any::<bool>()), 1..300),
    ) {
        let (threshold, limit) = (Limit::Packets(k), Limit::Packets(50));
        let mut bench = Bench::new(QueueConfig::Step(StepConfig { limit, threshold }));
        for (arrives, capable) in steps {
            if !arrives {
                bench.take(Time::ZERO);
                continue;
            }
            let waiting = bench.queue.len() as u64;
            let packet = if capable { markable(1000) } else { of_flow(0, 1000) };
            let expected = (waiting < 50).then_some(waiting > k && capable);
            prop_assert_eq!(bench.marks(Time::ZERO, packet), expected);
        }
    }
}

#[test]
fn a_threshold_in_bytes_counts_what_waits() {
    let threshold = Limit::Bytes(3_000);
    let limit = Limit::Bytes(6_000);
    let mut bench = Bench::new(QueueConfig::Step(StepConfig { limit, threshold }));
    let fates: Vec<_> = (0..5)
        .map(|_| bench.marks(Time::ZERO, markable(1500)))
        .collect();
    let expected = [Some(false), Some(false), Some(false), Some(true), None];
    assert_eq!(fates, expected);
    assert_eq!(bench.dropped()[0].reason, DropReason::QueueFull);
    let marked: Vec<bool> = std::iter::from_fn(|| bench.take(Time::ZERO))
        .map(|held| held.packet.ecn == Ecn::Ce)
        .collect();
    assert_eq!(marked, [false, false, false, true]);
}
