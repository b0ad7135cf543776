//! Packets at a node, and those who look on.

use std::ops::ControlFlow;

use fairwater_net::Time;
use fairwater_sim::{Captured, Native, NodeId, Observer, SimulationError, run};

use crate::support::{Dumbbell, outcome, plane};

#[derive(Default)]
struct Counting {
    last: Time,
    data_out: u64,
    payload_out: u64,
    acks_in: u64,
    syns: u64,
}

impl Observer for Counting {
    fn packet(&mut self, packet: &Captured<'_>) {
        assert!(packet.at >= self.last, "time goes back");
        self.last = packet.at;
        assert_eq!(packet.flow, 0);
        assert_eq!(packet.leaves, packet.to_receiver, "node 2 only sends data");
        assert!(packet.size_bytes >= packet.segment.len + 52);
        self.syns += u64::from(packet.segment.syn);
        if packet.segment.syn {
        } else if packet.leaves {
            self.data_out += 1;
            self.payload_out += u64::from(packet.segment.len);
        } else {
            self.acks_in += 1;
        }
    }
}

#[test]
fn a_capture_at_the_sender_has_all_that_it_sent() {
    let network = Dumbbell::new(10, 20, 3.0)
        .native(Native::Reno)
        .native(Native::Cubic);
    let mut config = network.config(1);
    config.measure.capture = Some(NodeId(2));
    let mut counting = Counting::default();
    let captured = run(&config, plane(&[]), &mut counting).unwrap();
    let flow = &captured.flows[0];
    assert_eq!(counting.syns, 2);
    assert_eq!(
        (counting.data_out, counting.payload_out),
        (flow.segments, flow.sent_bytes)
    );
    assert!(counting.acks_in > 100 && counting.acks_in < counting.data_out);
    // Looking on changes nothing.
    config.measure.capture = None;
    assert_eq!(captured, outcome(&config));
}

struct Stopping(u32);

impl Observer for Stopping {
    fn progress(&mut self, _: Time) -> ControlFlow<()> {
        self.0 -= 1;
        if self.0 == 0 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

#[test]
fn an_observer_can_end_it() {
    let network = Dumbbell::new(1_000, 20, 1e6).native(Native::Cubic);
    let ended = run(&network.config(1), plane(&[]), &mut Stopping(3));
    assert_eq!(ended, Err(SimulationError::Stopped));
}
