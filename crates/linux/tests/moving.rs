//! Existing connections: moved onto an algorithm and given back.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use fairwater_linux::{FlowState, Options, observe};
use support::{Connection, Log, Running, Seen, eventually, machine_can, recorder};

const COUNT: &[(&str, &str)] = &[(
    "count",
    "(def (Report (acked 0))) (when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (report))",
)];

#[test]
fn existing_connections_move_over_and_come_back_to_where_they_were() {
    if !machine_can() {
        return;
    }
    let mut reno = Connection::open("127.0.0.1:0", "reno");
    let cubic = Connection::open("[::1]:0", "cubic");
    reno.transfer(1_000_000);
    let log = Log::default();
    let running = Running::start_and(
        recorder("t_move", COUNT, &["acked"], &log, |_| {}),
        Options::default(),
        |session| {
            let moved = session.move_existing().unwrap();
            assert!(moved.moved >= 2, "{moved:?}");
        },
    )
    .unwrap();
    assert_eq!(reno.congestion_control(), "fw_t_move");
    assert_eq!(cubic.congestion_control(), "fw_t_move");
    let local = reno.local();
    // It comes back at an ACK from the fallback that a busy machine may have put it under.
    eventually("the moved flow runs", || {
        reno.transfer(1_000_000);
        let planes = observe::planes();
        let plane = planes.iter().find(|p| p.name == "fw_t_move").unwrap();
        plane
            .flows
            .iter()
            .any(|f| f.local == local && f.state == FlowState::Running)
    });
    // A connection that began under the algorithm has nowhere to go back to.
    let mut born = Connection::open("127.0.0.1:0", "fw_t_move");
    born.transfer(100_000);
    eventually("all flows are met", || {
        log.lock()
            .unwrap()
            .iter()
            .filter(|s| matches!(s, Seen::New(_)))
            .count()
            >= 3
    });
    running.stop();

    assert_eq!(reno.congestion_control(), "reno");
    assert_eq!(cubic.congestion_control(), "cubic");
    assert!(
        !born.congestion_control().starts_with("fw_"),
        "{}",
        born.congestion_control()
    );
    reno.transfer(1_000_000);
    born.transfer(1_000_000);
    eventually("nothing is left loaded", || {
        observe::planes().iter().all(|p| p.name != "fw_t_move")
    });
}
