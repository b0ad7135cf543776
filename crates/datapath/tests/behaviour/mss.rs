//! Segments whose size changes in a flow's life.

use fairwater_datapath::{Datapath, MssError, Signal, UnknownFlow};
use fairwater_proto::{Dialect, ToPlane};

use crate::harness::{Harness, ack, config, info};

#[test]
fn the_plane_hears_of_the_new_size_once() {
    let mut harness = Harness::with_program();
    let flow = harness.running();
    harness.drain();
    harness.datapath.set_mss(flow, 1_400).unwrap();
    harness.datapath.set_mss(flow, 1_400).unwrap();
    assert_eq!(harness.drain(), ["mss 0.0 1400"]);
    assert_eq!(harness.drain(), [""; 0]);
    // Of two changes before a packet leaves, the last counts.
    harness.datapath.set_mss(flow, 1_300).unwrap();
    harness.datapath.set_mss(flow, 1_200).unwrap();
    assert_eq!(harness.drain(), ["mss 0.0 1200"]);
    assert_eq!(harness.datapath.flow(flow).unwrap().info.mss, 1_200);
}

/// The announcement of a flow says its size as it is by then.
#[test]
fn a_flow_that_is_not_announced_yet_is_announced_with_its_size() {
    let mut harness = Harness::new(config());
    let flow = harness.start();
    harness.datapath.set_mss(flow, 1_400).unwrap();
    let mut sizes = Vec::new();
    while let Some((_, packet)) = harness.datapath.poll_transmit(1400) {
        for message in Dialect::Own.to_plane(packet) {
            match message.unwrap() {
                ToPlane::Created { info, .. } => sizes.push(info.mss),
                ToPlane::Hello(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(sizes, [1_400]);
}

#[test]
fn no_size_and_no_flow_are_refused() {
    let mut harness = Harness::with_program();
    let flow = harness.running();
    harness.drain();
    assert_eq!(harness.datapath.set_mss(flow, 0), Err(MssError::Zero));
    harness.datapath.set_mss(flow, 1_300).unwrap();
    harness.datapath.close(flow).unwrap();
    let gone = Err(MssError::UnknownFlow(UnknownFlow(flow)));
    assert_eq!(harness.datapath.set_mss(flow, 1_400), gone);
    // What was still to be said of the flow is not said of a closed one.
    assert_eq!(harness.drain(), ["closed 0.0"]);
}

/// libccp's encoding has no word for it: nothing is sent, and nothing is counted as lost.
#[test]
fn an_agent_of_ccp_does_not_hear_of_it() {
    let mut datapath = Datapath::new(config());
    let peer = datapath.add_peer(Dialect::Ccp, 0);
    let flow = datapath.start(peer, "reno", &info(1)).unwrap();
    while datapath.poll_transmit(1400).is_some() {}
    datapath.set_mss(flow, 1_400).unwrap();
    assert!(datapath.poll_transmit(1400).is_none());
    assert_eq!(datapath.statistics().unsendable, 0);
    assert_eq!(datapath.flow(flow).unwrap().info.mss, 1_400);
}

/// In congestion avoidance the fallback adds a segment of the new size for each window.
#[test]
fn the_fallback_counts_in_the_new_size() {
    let growth = |mss| {
        let mut config = config();
        config.fallback = fairwater_datapath::Fallback::Reno;
        let mut harness = Harness::new(config);
        let flow = harness.start();
        harness.datapath.set_mss(flow, mss).unwrap();
        // A loss ends slow start.
        let mut lost = ack(10, 1_000);
        lost[Signal::LostPkts] = 1;
        let mut cwnd = harness.datapath.invoke(flow, &lost).unwrap().unwrap().cwnd;
        let mut now_us = 1_000_000;
        let mut steps = Vec::new();
        for _ in 0..400 {
            now_us += 100_000;
            if let Some(controls) = harness.datapath.invoke(flow, &ack(now_us, 1_000)).unwrap() {
                steps.push(controls.cwnd - cwnd);
                cwnd = controls.cwnd;
            }
        }
        steps.last().copied()
    };
    assert_eq!((growth(500), growth(2_000)), (Some(500), Some(2_000)));
}
