//! No signal that a datapath may ever give, however absurd, loses a flow.

use fairwater_algorithms::all;
use proptest::prelude::*;

use crate::support::driver::Driver;
use crate::support::path::{Ack, Controller, MSS};

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0_u64..50,
        4 => (0_u64..400).prop_map(|n| n * MSS),
        2 => 0_u64..10_000_000,
        1 => Just(u64::MAX),
        1 => any::<u64>(),
    ]
}

fn ack() -> impl Strategy<Value = Ack> {
    let counts = (
        number(),
        number(),
        prop_oneof![6 => Just(0), 2 => 1_u64..20, 1 => number()],
        prop_oneof![6 => Just(0), 2 => 1_u64..20, 1 => number()],
    );
    (
        counts,
        (number(), number(), number()),
        (number(), number()),
        0_u64..100_000,
        prop::bool::weighted(0.05),
    )
        .prop_map(
            |(
                (acked, misordered, lost_packets, marked_packets),
                (in_flight, pending, rtt_us),
                (rate_incoming, rate_outgoing),
                now_us,
                timeout,
            )| {
                Ack {
                    now_us,
                    acked,
                    acked_packets: acked / MSS,
                    misordered,
                    lost_packets,
                    marked_packets,
                    in_flight,
                    pending,
                    rtt_us,
                    rate_incoming,
                    rate_outgoing,
                    timeout,
                    ..Ack::default()
                }
            },
        )
}

/// Every algorithm as it comes, and those with a choice of slow starts in each of their shapes.
fn spec() -> impl Strategy<Value = String> {
    let names: Vec<_> = all().iter().map(|entry| entry.name.to_owned()).collect();
    prop_oneof![prop::sample::select(names), shaped()]
}

fn shaped() -> impl Strategy<Value = String> {
    let algorithm = prop_oneof![Just("reno"), Just("cubic")];
    let slow_start = prop_oneof![Just("plane"), Just("program-cwnd"), Just("program-rate")];
    let hystart = prop_oneof![Just("off"), Just("classic"), Just("plusplus")];
    let report = prop_oneof![Just("ack"), Just("rtt"), Just("1ms"), Just("10s")];
    (algorithm, slow_start, hystart, report)
        .prop_map(|(a, s, h, r)| format!("{a}:slow_start={s},hystart={h},report={r}"))
}

proptest! {
    /// The driver fails the test when the program faults or the plane withdraws the flow.
    #[test]
    fn absurd_signals_are_survived(
        spec in spec(),
        acks in prop::collection::vec((ack(), prop::option::weighted(0.1, 1_u64..1_000)), 1..200),
    ) {
        let mut driver = Driver::new(&spec);
        let (mut cwnd, mut now_us) = (10, 0);
        for (ack, moved) in acks {
            now_us += ack.now_us;
            // Sometimes the datapath moves cwnd by itself.
            cwnd = moved.unwrap_or(cwnd);
            let (next, rate) = driver.invoke(&Ack { now_us, ..ack }, cwnd);
            prop_assert!(next >= 1);
            prop_assert!(rate <= fairwater_plane::MAX_RATE);
            cwnd = next;
        }
    }
}
