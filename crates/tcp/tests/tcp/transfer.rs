//! Whatever the network does, every byte arrives in order, and everything comes to an end.

use std::time::Duration;

use fairwater_net::Time;
use fairwater_sim::Native;
use fairwater_tcp::{Ecn, TcpConfig};
use proptest::prelude::*;

use crate::wire::{Impairment, Wire};

#[test]
fn a_clean_wire_carries_everything_without_retransmission() {
    for native in [Native::Reno, Native::Cubic, Native::Constant(40 * 1448)] {
        let mut wire = Wire::new(&TcpConfig::default(), native);
        wire.sender.write(3_000_001);
        wire.sender.close();
        wire.run_to_completion(Time::from_millis(10_000));
        assert_eq!(wire.receiver.delivered(), 3_000_001);
        assert_eq!(wire.sender.counters().retransmissions, 0);
    }
}

fn impairment() -> impl Strategy<Value = Impairment> {
    let late = prop_oneof![
        4 => Just(0u64),
        2 => 0u64..3_000,
        1 => 0u64..60_000,
    ];
    (
        prop::bool::weighted(0.12),
        late,
        prop::option::weighted(0.05, 0u64..40_000),
        prop::bool::weighted(0.1),
    )
        .prop_map(|(drop, late, again, mark)| Impairment {
            drop,
            late: Duration::from_micros(late),
            again: again.map(Duration::from_micros),
            mark,
        })
}

fn config() -> impl Strategy<Value = TcpConfig> {
    (
        (
            (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>()),
            any::<[bool; 2]>(),
        ),
        prop_oneof![
            Just(Ecn::Off),
            Just(Ecn::Classic),
            Just(Ecn::Dctcp),
            Just(Ecn::Accurate)
        ],
        prop_oneof![Just(100u32), Just(1448)],
        1u32..20,
        prop_oneof![Just(16u64 << 20), 50u64..20_000],
        prop_oneof![Just([0u64, 0]), Just([40, 0]), Just([40, 1])],
        prop_oneof![Just(1u64), Just(200)],
    )
        .prop_map(
            |(options, ecn, mss, initial_window, receive_window, ack, rto)| {
                let ((sack, prr, pace, handshake), [timestamps, nagle]) = options;
                TcpConfig {
                    mss,
                    initial_window,
                    receive_window,
                    sack,
                    prr,
                    min_rto: Duration::from_millis(rto),
                    delayed_ack: Duration::from_millis(ack[0]),
                    sack_delay: Duration::from_millis(ack[1]),
                    ecn,
                    pace,
                    idle_restart: true,
                    handshake,
                    timestamps,
                    nagle,
                }
            },
        )
}

fn native() -> impl Strategy<Value = Native> {
    prop_oneof![
        Just(Native::Reno),
        Just(Native::Cubic),
        (1u64..100_000).prop_map(Native::Constant)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_byte_arrives_whatever_the_network_does(
        config in config(),
        native in native(),
        forward in prop::collection::vec(impairment(), 0..300),
        reverse in prop::collection::vec(impairment(), 0..300),
        writes in prop::collection::vec((1u64..60_000, 0u64..400), 1..6),
        serialisation_us in 0u64..500,
        pause in prop::option::weighted(0.2, (0u64..200, 0u64..2_000)),
    ) {
        let mut wire = Wire::new(&config, native);
        wire.serialisation = Duration::from_micros(serialisation_us);
        let drops = forward.iter().chain(&reverse).filter(|f| f.drop).count() as u64;
        let bytes: u64 = writes.iter().map(|(bytes, _)| bytes).sum();
        wire.forward = Box::new(move |n, _| forward.get(n as usize).copied().unwrap_or_default());
        wire.reverse = Box::new(move |n, _| reverse.get(n as usize).copied().unwrap_or_default());
        wire.pause = pause.map(|(from, len)| (
            Time::from_millis(from),
            Time::from_millis(from + len + 1),
        ));
        // Each loss may cost one timeout, the longest; each round trip carries one segment.
        let limit = Time::from_millis(
            120_000 * (drops + 1) + (bytes / 50 + 1) * 250 + 10_000_000,
        );
        let mut due = writes.into_iter();
        let mut next_write = due.next().map(|(bytes, wait)| (Time::from_millis(wait), bytes));
        let mut delivered = 0;
        while !wire.sender.is_finished() {
            prop_assert!(wire.now < limit, "late: {:?}", wire.sender);
            if let Some((at, bytes)) = next_write && wire.now >= at {
                wire.sender.write(bytes);
                next_write = due
                    .next()
                    .map(|(bytes, wait)| (wire.now + Duration::from_millis(wait), bytes));
                if next_write.is_none() {
                    wire.sender.close();
                }
            }
            let moved = wire.step();
            if !moved {
                match next_write {
                    Some((at, _)) => wire.now = wire.now.max(at),
                    None => prop_assert!(false, "stalled: {:#?}", wire.sender),
                }
            }
            prop_assert!(wire.receiver.delivered() >= delivered);
            delivered = wire.receiver.delivered();
            prop_assert_eq!(wire.sender.in_flight(), wire.sender.recount_in_flight());
            prop_assert!(wire.sender.acked() <= delivered);
        }
        prop_assert_eq!(wire.receiver.delivered(), bytes);
        prop_assert!(wire.receiver.is_finished());
        prop_assert_eq!(wire.sender.in_flight(), 0);
        let counters = wire.sender.counters();
        prop_assert!(counters.bytes >= bytes);
        if drops == 0 && counters.retransmissions == 0 {
            prop_assert_eq!(counters.bytes, bytes);
        }
    }
}
