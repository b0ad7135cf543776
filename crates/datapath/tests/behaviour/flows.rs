//! The life of a flow, under a plane that does what it should.

use fairwater_datapath::FlowState;

use crate::harness::{COUNT, Harness, MSS, cwnd};

#[test]
fn a_flow_is_announced_behind_the_greeting() {
    let mut harness = Harness::with_program();
    harness.start();
    assert_eq!(harness.drain(), ["hello fairwater", "created 0.0 reno"]);
    assert_eq!(harness.drain(), [""; 0]);
}

#[test]
fn the_fallback_controls_a_flow_until_a_program_is_chosen() {
    let mut harness = Harness::with_program();
    let flow = harness.start();
    // Slow start.
    assert_eq!(cwnd(harness.ack(flow, MSS)), Some(11 * MSS));
    harness.drain();
    harness.command(flow, Some(1), &[]);
    let view = harness.datapath.flow(flow).unwrap();
    assert_eq!(view.state, FlowState::Waiting);
    assert!(view.is_staged);
    assert_eq!(cwnd(harness.ack(flow, 5)), Some(11 * MSS + 5));
    assert_eq!(
        harness.datapath.flow(flow).unwrap().state,
        FlowState::Running
    );
}

#[test]
fn controls_are_returned_when_they_change_and_reports_reset_what_is_volatile() {
    let mut harness = Harness::with_program();
    let flow = harness.running();
    assert_eq!(harness.ack(flow, 0), None);
    for _ in 0..8 {
        harness.ack(flow, 3);
    }
    assert_eq!(harness.drain(), ["reported 0.0 1 [24, 10] cwnd=10024"]);
    for _ in 0..10 {
        harness.ack(flow, 1);
    }
    assert_eq!(harness.drain(), ["reported 0.0 1 [10, 10] cwnd=10034"]);
}

#[test]
fn commands_before_an_invocation_merge() {
    let mut harness = Harness::with_program();
    let flow = harness.running();
    harness.command(flow, None, &[(2, 5)]);
    harness.controls(flow, Some(70_000), Some(9));
    harness.controls(flow, Some(80_000), None);
    harness.command(flow, None, &[(2, 10)]);
    let controls = harness.ack(flow, 0).unwrap();
    assert_eq!((controls.cwnd, controls.rate), (80_000, 9));
    // 1 of the first invocation and 10 of the second: the tenth step was passed over.
    assert_eq!(harness.datapath.flow(flow).unwrap().variables, [0, 11, 10]);
}

#[test]
fn a_switch_drops_the_updates_before_it_and_keeps_the_controls() {
    let mut harness = Harness::with_program();
    let flow = harness.running();
    harness.command(flow, None, &[(2, 5)]);
    harness.controls(flow, Some(70_000), None);
    harness.command(flow, Some(1), &[]);
    assert_eq!(cwnd(harness.ack(flow, 1)), Some(70_001));
    assert_eq!(harness.datapath.flow(flow).unwrap().variables, [1, 1, 1]);
}

#[test]
fn a_program_lives_as_long_as_it_is_installed_or_run() {
    let mut harness = Harness::with_program();
    let flow = harness.running();
    harness.send(&fairwater_proto::ToDatapath::Uninstall { program: 1 });
    assert_eq!(harness.datapath.statistics().programs, 0);
    assert_eq!(cwnd(harness.ack(flow, 1)), Some(10_001));
    harness.install(1, &COUNT.replace("Ack.bytes_acked", "1"));
    assert_eq!(cwnd(harness.ack(flow, 5)), Some(10_006));
    harness.command(flow, Some(1), &[]);
    assert_eq!(cwnd(harness.ack(flow, 5)), Some(10_007));
}

#[test]
fn the_end_of_a_flow_is_told_behind_its_reports() {
    let mut harness = Harness::with_program();
    let flow = harness.running();
    for _ in 0..9 {
        harness.ack(flow, 0);
    }
    harness.datapath.close(flow).unwrap();
    assert!(harness.datapath.close(flow).is_err());
    let next = harness.start();
    assert_eq!((next.slot, next.generation), (0, 1));
    assert_eq!(
        harness.drain(),
        [
            "reported 0.0 1 [0, 10] cwnd=10000",
            "closed 0.0",
            "created 0.1 reno"
        ]
    );
}

#[test]
fn a_flow_that_nobody_heard_of_ends_in_silence() {
    let mut harness = Harness::with_program();
    let flow = harness.start();
    harness.datapath.close(flow).unwrap();
    assert_eq!(harness.drain(), ["hello fairwater"]);
}

#[test]
fn a_fault_puts_the_flow_under_the_fallback_for_good() {
    let mut harness = Harness::with_program();
    harness.install(2, "(def (Report (x 0))) (when true (:= Cwnd 0) (report))");
    let flow = harness.running();
    harness.controls(flow, None, Some(5_000));
    assert_eq!(harness.ack(flow, 0).unwrap().rate, 5_000);
    harness.command(flow, Some(2), &[]);
    let controls = harness.ack(flow, 0).unwrap();
    assert_eq!((controls.cwnd, controls.rate), (10_000, 0));
    assert_eq!(harness.drain(), ["faulted 0.0 1"]);
    harness.command(flow, Some(1), &[]);
    harness.ack(flow, 0);
    let state = harness.datapath.flow(flow).unwrap().state;
    assert!(matches!(state, FlowState::Faulted(_)), "{state:?}");
    assert_eq!(harness.drain(), ["refused OutOfOrder"]);
}

#[test]
fn a_silent_plane_loses_its_flows_and_gets_them_back() {
    let mut harness = Harness::with_program();
    let flow = harness.running();
    harness.now_us += 200_000;
    harness.ack(flow, 0);
    let state = |harness: &Harness| harness.datapath.flow(flow).unwrap().state;
    assert_eq!(state(&harness), FlowState::Silent);
    assert_eq!(harness.drain(), ["hello fairwater"]);
    // Nothing that was meant before counts.
    harness.command(flow, Some(1), &[]);
    harness.ack(flow, 0);
    assert_eq!(state(&harness), FlowState::Waiting);
    assert_eq!(
        harness.drain(),
        ["refused OutOfOrder", "resumed 0.0 reno cwnd=10000"]
    );
    harness.command(flow, Some(1), &[]);
    harness.ack(flow, 0);
    assert_eq!(state(&harness), FlowState::Running);
    assert_eq!(harness.datapath.statistics().fallbacks, 1);
}

#[test]
fn a_new_plane_is_told_of_every_flow() {
    let mut harness = Harness::with_program();
    let flow = harness.running();
    let other = harness.running();
    harness.welcome(8);
    assert_eq!(
        harness.drain(),
        ["resumed 0.0 reno cwnd=10000", "resumed 1.0 reno cwnd=10000"]
    );
    assert_eq!(harness.datapath.statistics().programs, 0);
    harness.install(1, COUNT);
    harness.command(other, Some(1), &[]);
    harness.ack(other, 0);
    harness.ack(flow, 0);
    let state = |flow| harness.datapath.flow(flow).unwrap().state;
    assert_eq!(state(flow), FlowState::Waiting);
    assert_eq!(state(other), FlowState::Running);
}

#[test]
fn a_peer_that_is_removed_orphans_its_flows() {
    let mut harness = Harness::with_program();
    let flow = harness.running();
    harness.datapath.remove_peer(harness.peer);
    // It has lost nothing and its window is small: slow start goes on.
    assert_eq!(cwnd(harness.ack(flow, 1_000)), Some(11_000));
    assert_eq!(
        harness.datapath.flow(flow).unwrap().state,
        FlowState::Orphaned
    );
    harness.datapath.close(flow).unwrap();
    assert_eq!(harness.drain(), [""; 0]);
}
