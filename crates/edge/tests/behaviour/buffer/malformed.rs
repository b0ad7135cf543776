//! Packets that make no sense.

use fairwater_edge::buffer::BufferConfig;
use fairwater_edge::{Direction, Verdict};
use fairwater_wire::{TcpFlags, TcpOption};
use proptest::prelude::*;

use crate::plane::{Box, HALVE_AT_MARKS};
use crate::support::{Fields, MSS, ms};

/// Bytes of the guest's stream and of the acknowledgements around which the packets lie.
const SPAN: u32 = 40 * MSS;

#[derive(Debug, Clone)]
struct Step {
    later_ms: u64,
    direction: Direction,
    fields: Fields,
    /// Bytes that are changed: place, and by what.
    errors: Vec<(usize, u8)>,
    cut: Option<usize>,
}

fn number() -> impl Strategy<Value = u32> {
    prop_oneof![
        6 => 0u32..SPAN,
        2 => (0u32..40).prop_map(|n| 1 + n * MSS),
        1 => any::<u32>(),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let fields = (
        number(),
        number(),
        prop_oneof![4 => Just(TcpFlags::ACK.bits()), 1 => any::<u16>()],
        any::<u16>(),
        prop_oneof![Just(0usize), Just(MSS as usize), 0usize..20_000],
        prop::collection::vec((number(), number()), 0..3),
        any::<u16>(),
        prop::option::of(any::<(u32, u32)>()),
    )
        .prop_map(
            |(seq, ack, flags, window, payload, sack, urgent, clock)| Fields {
                seq,
                ack,
                flags: TcpFlags::from_bits(flags),
                window,
                payload,
                sack,
                urgent,
                options: clock
                    .map(|(value, echo)| TcpOption::Timestamps { value, echo })
                    .into_iter()
                    .collect(),
                ..Fields::default()
            },
        );
    let direction = prop_oneof![Just(Direction::FromGuest), Just(Direction::ToGuest)];
    let errors = prop_oneof![
        4 => Just(Vec::new()),
        1 => prop::collection::vec((0usize..80, any::<u8>()), 1..4),
    ];
    let cut = prop_oneof![9 => Just(None), 1 => (0usize..80).prop_map(Some)];
    (0u64..300, direction, fields, errors, cut).prop_map(
        |(later_ms, direction, fields, errors, cut)| Step {
            later_ms,
            direction,
            fields,
            errors,
            cut,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever comes, nothing panics, memory is bounded, what the box writes is sound, and what it holds of a
    /// connection is never more than it may be.
    #[test]
    fn nonsense_is_harmless(steps in prop::collection::vec(step(), 0..120)) {
        let config = BufferConfig {
            max_flow_bytes: 30_000,
            max_bytes: 60_000,
            ..BufferConfig::default()
        };
        let mut it = Box::buffering(HALVE_AT_MARKS, config);
        it.open();
        let mut now_ms = 1;
        for step in steps {
            now_ms += step.later_ms;
            while let Some(at) = it.edge.next_timer().filter(|at| *at <= ms(now_ms)) {
                it.now = at;
                it.edge.on_timer(at);
                it.serve();
                it.poll();
            }
            it.now = ms(now_ms);
            let mut bytes = step.fields.packet(step.direction);
            for (place, error) in step.errors {
                if let Some(byte) = bytes.get_mut(place) {
                    *byte ^= error;
                }
            }
            bytes.truncate(step.cut.unwrap_or(bytes.len()));
            let (verdict, passed) = it.pass_any(step.direction, bytes.clone());
            prop_assert_eq!(passed.len(), bytes.len());
            prop_assert!(it.edge.held().1 <= 2 * config.max_bytes);
            it.poll();
            prop_assert!(it.edge.held().1 <= config.max_bytes);
            if verdict == Verdict::Taken {
                let statistics = it.edge.buffer_statistics();
                let counted = statistics.taken + statistics.hidden + statistics.acks_of_unsent;
                prop_assert!(counted + statistics.returned.iter().sum::<u64>() > 0);
            }
        }
    }
}
