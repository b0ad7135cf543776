//! The toys under the real plane and its Reno: the one by our own encoding over a seqpacket
//! socket, the other by libccp's over datagrams.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use fairwater_algorithms::{Reno, RenoConfig};
use fairwater_plane::Plane;
use fairwater_service::{Config, Endpoints, Server, ServiceStatistics};
use support::{compile, run};

/// What a toy says while a plane serves at `endpoints`, and what the plane counts.
fn under_a_plane(toy: &Path, at: &Path, endpoints: Endpoints) -> (String, ServiceStatistics) {
    let (ready, served) = mpsc::channel();
    thread::scope(|scope| {
        let plane = scope.spawn(move || {
            let mut plane = Plane::new();
            plane
                .add(|programs| Reno::new(programs, RenoConfig::default()))
                .unwrap();
            let mut server = Server::bind(plane, Config::default(), &endpoints).unwrap();
            ready.send(server.stopper()).unwrap();
            server.run().unwrap();
            server.service().statistics()
        });
        let stopper = served.recv().unwrap();
        let said = run(Command::new(toy).arg(at), "");
        stopper.stop();
        (said, plane.join().unwrap())
    })
}

#[test]
fn the_toy_runs_under_reno_of_the_real_plane() {
    let folder = tempfile::tempdir().unwrap();
    let (toy, path) = (folder.path().join("toy"), folder.path().join("plane"));
    compile("examples/toy.c", &toy);
    let endpoints = Endpoints {
        seqpacket: Some(path.clone()),
        ..Endpoints::default()
    };
    let (said, counts) = under_a_plane(&toy, &path, endpoints);
    assert!(said.ends_with("under the plane's program\n"), "{said}");
    assert_eq!(counts.flows_total, 1);
    assert!(counts.reports > 1, "{counts:?}");
}

#[test]
fn the_toy_for_libccp_runs_under_reno_of_the_real_plane() {
    let folder = tempfile::tempdir().unwrap();
    let (toy, path) = (folder.path().join("ccp_toy"), folder.path().join("agent"));
    compile("examples/ccp_toy.c", &toy);
    let endpoints = Endpoints {
        datagram: Some(path.clone()),
        ..Endpoints::default()
    };
    let (said, counts) = under_a_plane(&toy, &path, endpoints);
    assert!(said.starts_with("acknowledged "), "{said}");
    assert_eq!(counts.flows_total, 1);
    assert!(counts.reports > 1, "{counts:?}");
}
