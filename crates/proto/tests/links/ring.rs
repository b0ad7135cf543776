//! Packets through shared memory, and within one process.

use std::io::ErrorKind;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use fairwater_proto::link::ring::{DEFAULT_CAPACITY, Listener, Ring};
use fairwater_proto::link::{Link, LinkError, Listener as _, MAX_PACKET, Poller};
use fairwater_proto::link::{in_process, seqpacket, spin};
use tempfile::tempdir;

use crate::support::{LONG, behaves, packet, wait_for};

/// Both ends, the plane's second.
fn join(path: &Path) -> (Ring, Ring) {
    let mut listener = Listener::bind(path, DEFAULT_CAPACITY).unwrap();
    assert_eq!(listener.path(), path);
    let connecting = {
        let path = path.to_owned();
        thread::spawn(move || Ring::connect(path, LONG).unwrap())
    };
    let mut poller = Poller::new().unwrap();
    poller.add(&listener, 0).unwrap();
    let plane = loop {
        if let Some(plane) = listener.accept().unwrap() {
            break plane;
        }
        assert_eq!(poller.wait(Some(LONG)).unwrap().count(), 1);
    };
    (connecting.join().unwrap(), plane)
}

#[test]
fn a_ring_is_a_link() {
    let directory = tempdir().unwrap();
    let (mut datapath, mut plane) = join(&directory.path().join("plane"));
    let credentials = plane.credentials().unwrap();
    assert_eq!(u32::try_from(credentials.pid), Ok(std::process::id()));
    behaves(&mut datapath, &mut plane);
    behaves(&mut plane, &mut datapath);
}

#[test]
fn a_pair_in_one_process_is_a_link() {
    let (mut a, mut b) = in_process::pair().unwrap();
    behaves(&mut a, &mut b);
    a.send(b"last words").unwrap();
    drop(a);
    assert_eq!(wait_for(&mut b), b"last words");
    assert!(b.is_pending());
    assert!(!b.prepare_to_wait());
    assert_eq!(b.receive(&mut [0; 64]), Err(LinkError::Gone));
    assert_eq!(b.send(b"hello?"), Err(LinkError::Gone));
}

#[test]
fn who_waits_in_process_is_woken_by_the_end_too() {
    let (a, mut b) = in_process::pair().unwrap();
    let waiting = thread::spawn(move || {
        let mut poller = Poller::new().unwrap();
        poller.add(&b, 0).unwrap();
        loop {
            match b.receive(&mut [0; 64]) {
                Err(LinkError::WouldBlock) => {}
                received => break received,
            }
            if b.prepare_to_wait() {
                assert_eq!(poller.wait(Some(LONG)).unwrap().count(), 1);
            }
        }
    });
    thread::sleep(Duration::from_millis(5));
    drop(a);
    assert_eq!(waiting.join().unwrap(), Err(LinkError::Gone));
}

#[test]
fn what_was_sent_arrives_before_the_end_is_seen() {
    let directory = tempdir().unwrap();
    let (mut datapath, mut plane) = join(&directory.path().join("plane"));
    for i in 0..100 {
        datapath.send(&packet(i, 96)).unwrap();
    }
    drop(datapath);
    for i in 0..100 {
        assert_eq!(wait_for(&mut plane), packet(i, 96));
    }
    let mut poller = Poller::new().unwrap();
    poller.add(&plane, 0).unwrap();
    let end = loop {
        match plane.receive(&mut [0; 64]) {
            Err(LinkError::WouldBlock) => {}
            end => break end,
        }
        assert!(plane.prepare_to_wait());
        assert!(poller.wait(Some(LONG)).unwrap().count() > 0);
    };
    assert_eq!(end, Err(LinkError::Gone));
    let end = loop {
        if let Err(why) = plane.send(&packet(0, 1024)) {
            break why;
        }
    };
    assert_eq!(end, LinkError::Gone);
}

#[test]
fn the_bell_rings_for_who_waits_alone() {
    let directory = tempdir().unwrap();
    let (mut datapath, mut plane) = join(&directory.path().join("plane"));
    let mut poller = Poller::new().unwrap();
    poller.add(&plane, 5).unwrap();
    // The first edge is that it was added.
    assert_eq!(poller.wait(Some(Duration::ZERO)).unwrap().count(), 1);
    let mut rung = || poller.wait(Some(Duration::ZERO)).unwrap().count();
    datapath.send(b"not waited for").unwrap();
    assert_eq!(rung(), 0);
    assert!(plane.is_pending());
    assert!(!plane.prepare_to_wait());
    plane.receive(&mut [0; 64]).unwrap();
    assert!(!plane.is_pending());
    assert!(plane.prepare_to_wait());
    datapath.send(b"waited for").unwrap();
    datapath.send(b"again").unwrap();
    assert_eq!(rung(), 1);
    assert_eq!(rung(), 0);
    assert!(spin(Duration::ZERO, || plane.is_pending()));
    poller.remove(&plane).unwrap();
    plane.receive(&mut [0; 64]).unwrap();
    plane.receive(&mut [0; 64]).unwrap();
    assert!(!spin(Duration::from_micros(20), || plane.is_pending()));
}

#[test]
fn who_connects_to_something_else_learns_it() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("plane");
    assert!(Ring::connect(&path, LONG).is_err());

    // Nobody answers.
    let mut listener = seqpacket::Listener::bind(&path).unwrap();
    let short = Duration::from_millis(10);
    let late = Ring::connect(&path, short).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::TimedOut);

    // Something else answers.
    let client = {
        let path = path.clone();
        thread::spawn(move || Ring::connect(path, LONG).unwrap_err())
    };
    let _late = loop {
        // The first is the one that gave up.
        let Some(mut connection) = listener.accept().unwrap() else {
            continue;
        };
        if connection.send(&[0; 16]).is_ok() {
            break connection;
        }
    };
    assert_eq!(client.join().unwrap().kind(), ErrorKind::InvalidData);

    for capacity in [0, 4096, DEFAULT_CAPACITY + 1, 1 << 40] {
        let path = directory.path().join(format!("ring{capacity}"));
        let mut listener = Listener::bind(&path, capacity).unwrap();
        let _client = seqpacket::Connection::connect(&path).unwrap();
        let refused = listener.accept().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput, "{capacity}");
    }
}

#[test]
fn a_peer_that_talks_beside_the_rings_is_cut_off() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("plane");
    let mut listener = Listener::bind(&path, DEFAULT_CAPACITY).unwrap();
    let mut client = seqpacket::Connection::connect(&path).unwrap();
    let mut plane = listener.accept().unwrap().unwrap();
    client.send(b"psst").unwrap();
    assert_eq!(plane.receive(&mut [0; 64]), Err(LinkError::WouldBlock));
    assert!(plane.prepare_to_wait());
    assert_eq!(plane.receive(&mut [0; 64]), Err(LinkError::Broken));
}

const ROUNDS: usize = 30_000;
const PATH: &str = "FAIRWATER_TEST_RING";

/// The length of a packet: mostly small, some long enough that the ring is full at times.
fn length(i: usize) -> usize {
    if i % 500 == 499 {
        MAX_PACKET / 2
    } else {
        1 + i * 7 % 300
    }
}

/// What the process does that [`two_processes`] starts: sends everything back.
#[test]
fn echo() {
    let Some(path) = std::env::var_os(PATH) else {
        return;
    };
    let mut ring = Ring::connect(path, LONG).unwrap();
    for _ in 0..ROUNDS {
        let packet = wait_for_packet(&mut ring);
        while ring.send(&packet) == Err(LinkError::WouldBlock) {
            thread::yield_now();
        }
    }
    // Until the parent has seen everything.
    while ring.receive(&mut [0; 8]) != Err(LinkError::Gone) {
        let _ = ring.prepare_to_wait();
        thread::yield_now();
    }
}

fn wait_for_packet(ring: &mut Ring) -> Vec<u8> {
    if spin(Duration::from_micros(2), || ring.is_pending()) {
        let mut buffer = vec![0; MAX_PACKET];
        let length = ring.receive(&mut buffer).unwrap();
        buffer.truncate(length);
        return buffer;
    }
    wait_for(ring)
}

struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn child(path: &Path) -> Killed {
    let this = std::env::current_exe().unwrap();
    let child = Command::new(this)
        .args(["--exact", "ring::echo"])
        .env(PATH, path)
        .spawn();
    Killed(child.unwrap())
}

fn accepted(listener: &mut Listener) -> Ring {
    let mut poller = Poller::new().unwrap();
    poller.add(&*listener, 0).unwrap();
    assert_eq!(poller.wait(Some(LONG)).unwrap().count(), 1);
    listener.accept().unwrap().unwrap()
}

#[test]
fn two_processes() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("plane");
    let mut listener = Listener::bind(&path, DEFAULT_CAPACITY).unwrap();
    let mut child = child(&path);
    let mut ring = accepted(&mut listener);
    let credentials = ring.credentials().unwrap();
    assert_eq!(u32::try_from(credentials.pid), Ok(child.0.id()));
    let mut received = 0;
    let mut buffer = vec![0; MAX_PACKET];
    for i in 0..ROUNDS {
        while ring.send(&packet(i, length(i))) == Err(LinkError::WouldBlock) {
            if let Ok(got) = ring.receive(&mut buffer) {
                assert_eq!(buffer[..got], packet(received, length(received)));
                received += 1;
            }
        }
        // Let the other end fall asleep now and then.
        if i % 1000 == 0 {
            while received <= i {
                assert_eq!(wait_for(&mut ring), packet(received, length(received)));
                received += 1;
            }
        }
    }
    while received < ROUNDS {
        assert_eq!(wait_for(&mut ring), packet(received, length(received)));
        received += 1;
    }
    drop(ring);
    assert!(child.0.wait().unwrap().success());
}

#[test]
fn a_peer_that_is_killed_is_gone() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("plane");
    let mut listener = Listener::bind(&path, DEFAULT_CAPACITY).unwrap();
    let mut child = child(&path);
    let mut ring = accepted(&mut listener);
    ring.send(b"alive?").unwrap();
    assert_eq!(wait_for(&mut ring), b"alive?");
    child.0.kill().unwrap();
    assert_eq!(child.0.wait().unwrap().signal(), Some(9));
    let mut poller = Poller::new().unwrap();
    poller.add(&ring, 0).unwrap();
    let end = loop {
        match ring.receive(&mut buffer()) {
            Err(LinkError::WouldBlock) => {}
            end => break end,
        }
        if ring.prepare_to_wait() {
            assert!(poller.wait(Some(LONG)).unwrap().count() > 0);
        }
    };
    assert_eq!(end, Err(LinkError::Gone));
}

fn buffer() -> Vec<u8> {
    vec![0; MAX_PACKET]
}
