//! The path's MTU changes in a flow's life, in a network namespace of the test's own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(
    unsafe_code,
    reason = "a thread enters a namespace of its own and changes it"
)]

mod support;

use std::os::fd::AsRawFd;

use fairwater_linux::Options;
use rustix::thread::UnshareFlags;
use support::{Connection, FlowEvent, Log, Running, eventually, machine_can, recorder};

const EACH_ACK: &[(&str, &str)] = &[("each", "(def (Report (acked 0))) (when true (report))")];

/// Brings the loopback of this thread's namespace up, with that MTU.
fn bring_up(mtu: i32) {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
    let up = libc::IFF_UP as libc::c_short;
    let changes = [
        (
            libc::SIOCSIFMTU,
            libc::__c_anonymous_ifr_ifru { ifru_mtu: mtu },
        ),
        (
            libc::SIOCSIFFLAGS,
            libc::__c_anonymous_ifr_ifru { ifru_flags: up },
        ),
    ];
    for (change, value) in changes {
        let mut request = libc::ifreq {
            ifr_name: [0; libc::IFNAMSIZ],
            ifr_ifru: value,
        };
        for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
            *to = (*from).cast_signed();
        }
        // SAFETY: both calls read an `ifreq`.
        let done = unsafe { libc::ioctl(socket.as_raw_fd(), change, &raw const request) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }
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
        bring_up(9_000);
        let mut connection = Connection::open("127.0.0.1:0", "fw_mtu");
        connection.transfer(200_000);
        eventually("the flow begins", || !sizes(&of_the_flow).is_empty());
        bring_up(1_500);
        connection.transfer(200_000);
        eventually("the size shrinks", || sizes(&of_the_flow).len() == 2);
    });
    inside.join().unwrap();
    drop(running);
    // Less the headers of IPv4 and of TCP with timestamps.
    assert_eq!(sizes(&log), [8_948, 1_448]);
}
