//! Segments that no honest peer sends do no harm.

use std::time::Duration;

use fairwater_net::Time;
use fairwater_sim::Native;
use fairwater_sim::native::NativeController;
use fairwater_tcp::{Block, Ecn, Receiver, Segment, Sender, TcpConfig};
use proptest::prelude::*;

fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![
        6 => (0u64..60).prop_map(|n| n * 100),
        2 => 0u64..10_000,
        1 => any::<u64>(),
    ]
}

fn segment() -> impl Strategy<Value = Segment> {
    let flags = (
        prop::bool::weighted(0.02),
        prop::bool::weighted(0.05),
        any::<bool>(),
        any::<bool>(),
    );
    let blocks = prop::collection::vec((offset(), offset()), 0..4);
    let numbers = (offset(), 0u32..2_000, offset(), offset());
    (flags, blocks, numbers, offset(), any::<u64>()).prop_map(
        |((syn, fin, ece, cwr), blocks, (seq, len, ack, window), timestamp, marks)| Segment {
            syn,
            fin,
            seq,
            len,
            ack,
            sack: blocks
                .into_iter()
                .map(|(start, end)| Block { start, end })
                .collect(),
            window,
            timestamp: Time::from_nanos(timestamp),
            ece,
            cwr,
            ce_packets: marks,
            ce_bytes: marks,
            ..Segment::default()
        },
    )
}

proptest! {
    #[test]
    fn nonsense_does_no_harm(
        segments in prop::collection::vec((segment(), 0u64..300), 1..120),
        sack in any::<bool>(),
        ecn in prop_oneof![Just(Ecn::Off), Just(Ecn::Classic), Just(Ecn::Dctcp), Just(Ecn::Accurate)],
        native in prop_oneof![Just(Native::Reno), Just(Native::Cubic)],
    ) {
        let config = TcpConfig { mss: 100, sack, ecn, handshake: false, ..TcpConfig::default() };
        let mut sender = Sender::new(&config, Time::ZERO);
        let mut receiver = Receiver::new(&config, Time::ZERO);
        let mut controller = NativeController::new(native, &config);
        sender.write(1_000_000);
        let mut now = Time::ZERO;
        let (mut acked, mut delivered) = (0, 0);
        for (segment, wait_ms) in segments {
            now = now + Duration::from_millis(wait_ms);
            sender.on_timer(now);
            sender.on_segment(now, &segment);
            if let Some(invocation) = sender.poll_invocation() {
                sender.set_controls(controller.on_invocation(&invocation));
            }
            // What comes out is bounded, or this would not end.
            while let Some(sent) = sender.poll_transmit(now) {
                prop_assert!(sent.end() <= 1_000_000);
            }
            receiver.on_segment(now, &segment, segment.ece);
            receiver.on_timer(now);
            while receiver.poll_transmit(now).is_some() {}
            prop_assert_eq!(sender.in_flight(), sender.recount_in_flight());
            prop_assert!(sender.acked() >= acked);
            prop_assert!(receiver.delivered() >= delivered);
            acked = sender.acked();
            delivered = receiver.delivered();
        }
    }
}
