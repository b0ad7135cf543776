//! A process that hangs or is killed does not leave the site limited.

use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use fairwater_bundle::Mode;
use fairwater_bundle_linux::{HtbOptions, remove_leftovers};
use fairwater_net::Time;
use rustix::process::{Pid, Signal, kill_process};

use crate::site::{Boxes, PORT, RECEIVER, SENDER, Sites, now};

/// Names the namespaces to a process that is to be the boxes.
const CHILD: &str = "FAIRWATER_HTB_TEST_SITES";
/// 8 Mbit/s, of which four times as much is sent.
const RATE: u64 = 1_000_000;
const PACKET: usize = 1_000;
/// A packet that took less did not wait.
const PROMPT: Duration = Duration::from_millis(10);

/// The boxes in a process of their own; no test otherwise.
#[test]
fn boxes_of_another_process() {
    let Ok(paths) = std::env::var(CHILD) else {
        return;
    };
    let (sender, receiver) = paths.split_once(' ').unwrap();
    let paths = [sender.to_owned(), receiver.to_owned()];
    let mut boxes = Boxes::new(&paths, RATE, &HtbOptions::default()).unwrap();
    loop {
        boxes.run_until(now() + Duration::from_millis(100));
        if boxes.status().mode == Mode::Control {
            println!("in control");
        }
    }
}

fn start(sites: &Sites) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "hung::boxes_of_another_process", "--nocapture"])
        .env(CHILD, sites.paths().join(" "))
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// Sends at four times the rate until told to stop; each packet says when it was sent.
fn flood(stop: &AtomicBool, socket: &UdpSocket) {
    let mut number = 0u64;
    while !stop.load(Relaxed) {
        for _ in 0..4 {
            number += 1;
            let mut packet = [0; PACKET];
            packet[..8].copy_from_slice(&now().as_nanos().to_be_bytes());
            packet[8..16].copy_from_slice(&number.to_be_bytes());
            let _ = socket.send(&packet);
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Times of sending and receiving up to now.
fn receive(socket: &UdpSocket, time: Duration) -> Vec<(Time, Time)> {
    let end = now() + time;
    let mut buffer = [0; 2_000];
    let mut found = Vec::new();
    while now() < end {
        if socket.recv(&mut buffer).is_ok() {
            let sent = u64::from_be_bytes(*buffer.first_chunk().unwrap());
            found.push((Time::from_nanos(sent), now()));
        }
    }
    found
}

/// Whether packets wait.
fn is_shaped(packets: &[(Time, Time)]) -> bool {
    let slow = packets
        .iter()
        .filter(|(sent, received)| received.since(*sent) > PROMPT);
    !packets.is_empty() && slow.count() * 10 > packets.len() * 9
}

/// Time from `at` until packets no longer wait.
fn freed(packets: &[(Time, Time)], at: Time) -> Option<Duration> {
    let is_prompt = |(sent, received): &&(Time, Time)| *sent > at && received.since(*sent) < PROMPT;
    packets
        .iter()
        .find(is_prompt)
        .map(|(sent, _)| sent.since(at))
}

#[test]
fn a_hung_or_killed_process_limits_nothing() {
    if std::env::var_os(CHILD).is_some() {
        return;
    }
    let Some(sites) = Sites::new() else {
        return;
    };
    let sink = sites
        .receiver
        .inside(|| UdpSocket::bind((RECEIVER, 4_002)).unwrap())
        .unwrap();
    sink.set_read_timeout(Some(Duration::from_millis(20)))
        .unwrap();
    let source = sites.sender.inside(|| {
        let socket = UdpSocket::bind((SENDER, 0)).unwrap();
        socket.connect((RECEIVER, 4_002)).unwrap();
        socket
    });
    let source = source.unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| flood(&stop, &source));
        let mut child = start(&sites);
        let pid = Pid::from_child(&child);
        let signal = |signal| kill_process(pid, signal).unwrap();
        let wait_until_shaped = || {
            for _ in 0..50 {
                if is_shaped(&receive(&sink, Duration::from_millis(200))) {
                    return true;
                }
            }
            false
        };
        let mut gaps = Vec::new();
        let mut was_shaped = wait_until_shaped();
        for _ in 0..3 {
            signal(Signal::STOP);
            let at = now();
            let packets = receive(&sink, Duration::from_millis(300));
            gaps.push(freed(&packets, at));
            signal(Signal::CONT);
            was_shaped &= wait_until_shaped();
        }
        signal(Signal::KILL);
        let at = now();
        let killed = freed(&receive(&sink, Duration::from_millis(300)), at);
        child.wait().unwrap();
        let mut next = start(&sites);
        was_shaped &= wait_until_shaped();
        let _ = next.kill();
        let _ = next.wait();
        stop.store(true, Relaxed);
        println!("limited after SIGSTOP for {gaps:?}, after SIGKILL for {killed:?}");
        assert!(was_shaped, "never shaped");
        // Other work on the machine delays all of this, so the best of three counts.
        let best = gaps.iter().flatten().min().unwrap();
        assert!(*best < Duration::from_millis(60), "{gaps:?}");
        assert!(gaps.iter().flatten().count() == 3, "{gaps:?}");
        assert!(killed.unwrap() < Duration::from_millis(150), "{killed:?}");
    });
    let removed = sites
        .sender
        .inside(|| remove_leftovers(PORT))
        .unwrap()
        .unwrap();
    assert!(
        removed,
        "the killed process's queueing discipline was there"
    );
}
