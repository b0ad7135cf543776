//! Unix seqpacket.

use std::os::unix::net::UnixListener;

use fairwater_proto::link::seqpacket::{Connection, Listener};
use fairwater_proto::link::{Link, LinkError, Listener as _, Poller};
use tempfile::tempdir;

use crate::support::{LONG, behaves, wait_for};

#[test]
fn a_connection_is_a_link() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("made/for/it/plane");
    let mut listener = Listener::bind(&path).unwrap();
    assert_eq!(listener.path(), path);
    assert!(listener.accept().unwrap().is_none());
    let mut datapath = Connection::connect(&path).unwrap();
    let mut plane = listener.accept().unwrap().unwrap();
    behaves(&mut datapath, &mut plane);
}

#[test]
fn the_listener_is_woken_and_peers_are_known() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("plane");
    let mut listener = Listener::bind(&path).unwrap();
    let mut poller = Poller::new().unwrap();
    poller.add(&listener, 1).unwrap();
    let _datapath = Connection::connect(&path).unwrap();
    assert_eq!(poller.wait(Some(LONG)).unwrap().collect::<Vec<_>>(), [1]);
    let plane = listener.accept().unwrap().unwrap();
    let credentials = plane.credentials().unwrap();
    assert_eq!(u32::try_from(credentials.pid), Ok(std::process::id()));
}

#[test]
fn what_was_sent_arrives_before_the_end_is_seen() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("plane");
    let mut listener = Listener::bind(&path).unwrap();
    let mut datapath = Connection::connect(&path).unwrap();
    let mut plane = listener.accept().unwrap().unwrap();
    datapath.send(b"last words").unwrap();
    drop(datapath);
    assert_eq!(wait_for(&mut plane), b"last words");
    let mut poller = Poller::new().unwrap();
    poller.add(&plane, 1).unwrap();
    assert_eq!(poller.wait(Some(LONG)).unwrap().count(), 1);
    assert_eq!(plane.receive(&mut [0; 64]), Err(LinkError::Gone));
    assert_eq!(plane.send(b"hello?"), Err(LinkError::Gone));
}

#[test]
fn who_does_not_accept_blocks_nobody() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("plane");
    let _listener = Listener::bind(&path).unwrap();
    let mut connections = Vec::new();
    let refused = loop {
        match Connection::connect(&path) {
            Ok(connection) => connections.push(connection),
            Err(why) => break why,
        }
    };
    assert_eq!(refused.kind(), std::io::ErrorKind::WouldBlock);
}

#[test]
fn a_path_left_behind_is_replaced_and_one_in_use_is_not() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("plane");
    let first = Listener::bind(&path).unwrap();
    let in_use = Listener::bind(&path).unwrap_err();
    assert_eq!(in_use.kind(), std::io::ErrorKind::AddrInUse);
    Connection::connect(&path).unwrap();
    drop(first);
    assert!(!path.exists(), "the path goes with its listener");

    // The standard library's listener leaves its path behind, as a killed process does.
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let other_kind = Listener::bind(&path);
    drop(other_kind);
    std::fs::write(&path, "not a socket").unwrap();
    let in_use = Listener::bind(&path).unwrap_err();
    assert_eq!(in_use.kind(), std::io::ErrorKind::AddrInUse);
    assert_eq!(std::fs::read(&path).unwrap(), b"not a socket");
}
