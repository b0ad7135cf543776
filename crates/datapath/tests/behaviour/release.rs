//! A fallback that steps aside, and what whoever comes after a program is told.

use fairwater_datapath::{Config, Controls, Fallback, FlowState};
use fairwater_proto::{Dialect, ToDatapath, ToPlane};

use crate::harness::{COUNT, Harness, MSS, ack, config};

/// A datapath that releases its flows, and a program that counts.
fn releasing() -> Harness {
    let mut harness = Harness::new(Config {
        fallback: Fallback::Release,
        ..config()
    });
    harness.welcome(7);
    harness.install(1, COUNT);
    harness.drain();
    harness
}

#[test]
fn a_flow_that_no_program_controls_is_released_once() {
    let mut harness = releasing();
    let flow = harness.start();
    assert_eq!(harness.ack(flow, MSS), Some(Controls::RELEASED));
    assert_eq!(harness.ack(flow, MSS), None);
    let view = harness.datapath.flow(flow).unwrap();
    assert_eq!(
        (view.state, view.controls),
        (FlowState::Waiting, Controls::RELEASED)
    );
}

#[test]
fn a_program_takes_a_released_flow_with_the_window_before() {
    let mut harness = releasing();
    let flow = harness.start();
    harness.ack(flow, MSS);
    harness.drain();
    harness.command(flow, Some(1), &[]);
    // Nothing was acknowledged, so that the program leaves the window as it is: it is told all the same.
    let in_force = Controls {
        cwnd: 10 * MSS,
        rate: 0,
    };
    assert_eq!(harness.ack(flow, 0), Some(in_force));
    assert_eq!(harness.ack(flow, 0), None);
    assert_eq!(harness.datapath.flow(flow).unwrap().controls, in_force);
    // The plane falls silent.
    harness.now_us += 200_000;
    assert_eq!(harness.ack(flow, 0), Some(Controls::RELEASED));
    assert_eq!(harness.ack(flow, 0), None);
    assert_eq!(harness.datapath.statistics().fallbacks, 1);
    // It speaks again, and is told of the window before.
    harness.drain();
    harness.command(flow, Some(1), &[]);
    assert_eq!(harness.ack(flow, 0), None);
    assert_eq!(
        harness.drain(),
        ["refused OutOfOrder", "resumed 0.0 reno cwnd=10000"]
    );
}

#[test]
fn a_fault_and_a_withdrawal_release_for_good() {
    let mut harness = releasing();
    harness.install(2, "(def (Report (x 0))) (when true (:= Cwnd 0) (report))");
    let faulty = harness.running();
    harness.command(faulty, Some(2), &[]);
    assert_eq!(harness.ack(faulty, 0), Some(Controls::RELEASED));
    let withdrawn = harness.running();
    harness.send(&ToDatapath::Command {
        flow: withdrawn,
        switch: None,
        cwnd: None,
        rate: None,
        updates: (&[]).into(),
        withdraw: true,
    });
    assert_eq!(harness.ack(withdrawn, 0), Some(Controls::RELEASED));
    assert_eq!(harness.ack(withdrawn, 0), None);
}

#[test]
fn planes_are_told_which_fallback_there_is() {
    for fallback in [Fallback::Cubic, Fallback::Reno, Fallback::Release] {
        let mut harness = Harness::new(Config {
            fallback,
            ..config()
        });
        let (_, packet) = harness.datapath.poll_transmit(1400).unwrap();
        let Some(Ok(ToPlane::Hello(hello))) = Dialect::Own.to_plane(packet).next() else {
            panic!("no Hello");
        };
        assert_eq!(hello.capabilities.fallback, fallback);
    }
}

/// The threshold that the next algorithm is told of, after these invocations of the program.
fn threshold_after(prepare: impl FnOnce(&mut Harness, fairwater_proto::FlowId)) -> Option<u64> {
    let mut harness = Harness::with_program();
    let flow = harness.running();
    harness.drain();
    prepare(&mut harness, flow);
    harness.drain();
    harness.send(&ToDatapath::HandOver {
        flow,
        algorithm: "cubic",
    });
    let (_, packet) = harness.datapath.poll_transmit(1400).unwrap();
    let Some(Ok(ToPlane::Resumed { info, .. })) = Dialect::Own.to_plane(packet).next() else {
        panic!("not resumed");
    };
    info.ssthresh
}

#[test]
fn a_young_flow_is_handed_over_in_slow_start_and_any_other_is_not() {
    use fairwater_datapath::Signal;
    assert_eq!(threshold_after(|_, _| {}), None);
    assert_eq!(
        threshold_after(|harness, flow| {
            harness.ack(flow, 100 * MSS);
        }),
        Some(110 * MSS)
    );
    let invoke = |harness: &mut Harness, flow, signal, value| {
        let mut signals = ack(harness.now_us, 0);
        signals[signal] = value;
        harness.datapath.invoke(flow, &signals).unwrap();
    };
    assert_eq!(
        threshold_after(|harness, flow| invoke(harness, flow, Signal::LostPkts, 1)),
        Some(10 * MSS)
    );
    // A timeout: the window is of one segment, the threshold half of what it was.
    assert_eq!(
        threshold_after(|harness, flow| {
            let mut signals = ack(harness.now_us, 0);
            signals[Signal::WasTimeout] = 1;
            signals[Signal::LostPkts] = 10;
            harness.datapath.invoke(flow, &signals).unwrap();
            harness.controls(flow, Some(MSS), None);
            harness.ack(flow, 0);
        }),
        Some(5 * MSS)
    );
}
