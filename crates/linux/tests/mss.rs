//! The path's MTU changes in a flow's life, in a network namespace of the test's own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(unsafe_code, reason = "a thread enters a namespace of its own")]

mod support;

use std::process::Command;

use fairwater_linux::Options;
use rustix::thread::UnshareFlags;
use support::{Connection, FlowEvent, Log, Running, eventually, machine_can, recorder};

const EACH_ACK: &[(&str, &str)] = &[("each", "(def (Report (acked 0))) (when true (report))")];

fn ip(arguments: &[&str]) {
    let done = Command::new("ip").args(arguments).status().unwrap();
    assert!(done.success(), "ip {arguments:?}");
}

/// Sizes in the order in which the algorithm heard of them, that of the start first.
fn sizes(log: &Log) -> Vec<u32> {
    let log = log.lock().unwrap();
    let sizes = log.iter().filter_map(|event| match event {
        FlowEvent::New(info) => Some(info.mss),
        FlowEvent::Mss(mss) => Some(*mss),
        FlowEvent::Report { .. } | FlowEvent::Closed => None,
    });
    sizes.collect()
}

#[test]
fn an_algorithm_hears_of_the_new_segment_size() {
    if !machine_can() {
        return;
    }
    let log = Log::default();
    let running = Running::start(
        recorder("mtu", EACH_ACK, &[], &log, |_| {}),
        Options::default(),
    );
    let running = running.unwrap();
    let of_the_flow = Log::clone(&log);
    let inside = std::thread::spawn(move || {
        // SAFETY: the namespace is this thread's alone, and ends with it and its sockets.
        unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
        ip(&["link", "set", "lo", "up", "mtu", "9000"]);
        let mut connection = Connection::open("127.0.0.1:0", "fw_mtu");
        connection.transfer(200_000);
        eventually("the flow begins", || !sizes(&of_the_flow).is_empty());
        ip(&["link", "set", "lo", "mtu", "1500"]);
        connection.transfer(200_000);
        eventually("the size shrinks", || sizes(&of_the_flow).len() == 2);
    });
    inside.join().unwrap();
    drop(running);
    // Less the headers of IPv4 and of TCP with timestamps.
    assert_eq!(sizes(&log), [8_948, 1_448]);
}
