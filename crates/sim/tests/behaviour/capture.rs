//! Packets at a node and on an edge, and those who look on.

use std::ops::ControlFlow;

use fairwater_net::Time;
use fairwater_sim::{
    Captured, EdgeId, Native, NodeId, Observer, PacketOutcome, SimulationError, run,
};

use crate::support::{BOTTLENECK, Dumbbell, outcome, plane};

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
    config.measure.capture = vec![NodeId(2)];
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
    config.measure.capture = Vec::new();
    assert_eq!(captured, outcome(&config));
}

/// By flow: bytes that passed, packets dropped; of all, the times in the queue, ns.
#[derive(Default)]
struct Fates {
    flows: [(u64, u64); 2],
    packets: u64,
    queued_ns: u128,
}

impl Observer for Fates {
    fn packet_outcome(&mut self, flow: usize, outcome: &PacketOutcome) {
        match outcome {
            PacketOutcome::Delivered(times) => {
                self.flows[flow].0 += u64::from(times.size_bytes);
                self.packets += 1;
                self.queued_ns += times.queueing_delay().as_nanos();
            }
            PacketOutcome::Dropped { size_bytes, .. } => {
                assert!(*size_bytes >= 52);
                self.flows[flow].1 += 1;
            }
        }
    }
}

#[test]
fn what_becomes_of_packets_on_an_edge_adds_up_to_its_outcome() {
    let mut network = Dumbbell::new(10, 20, 5.0)
        .native(Native::Reno)
        .native(Native::Cubic);
    network.loss_per_mille = 1;
    let mut config = network.config(1);
    // What is under way in the end left the bottleneck, and did not come out.
    config.flows[0].stop = Some(Time::from_millis(4_000));
    config.flows[1].stop = Some(Time::from_millis(4_000));
    config.measure.watch = Some(EdgeId(BOTTLENECK as u32));
    let mut outcomes = Fates::default();
    let watched = run(&config, plane(&[]), &mut outcomes).unwrap();
    let edge = &watched.edges[BOTTLENECK];
    let [reno, cubic] = outcomes.flows;
    assert!(
        reno.0 > 1_000_000 && cubic.0 > 1_000_000,
        "{reno:?} {cubic:?}"
    );
    assert_eq!(
        (reno.0 + cubic.0, outcomes.packets),
        (edge.bytes, edge.packets)
    );
    assert!(edge.lost > 0 && edge.dropped > 0, "{edge:?}");
    assert_eq!(reno.1 + cubic.1, edge.lost + edge.dropped);
    let mean_us = outcomes.queued_ns as f64 / 1e3 / outcomes.packets as f64;
    assert!((mean_us - edge.queueing_us.unwrap().mean).abs() < 1e-3);
    config.measure.watch = None;
    assert_eq!(watched, outcome(&config));
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
