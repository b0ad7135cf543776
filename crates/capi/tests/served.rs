//! The toys under the real plane and its Reno: the one by our own encoding over a seqpacket
//! socket, the other by libccp's over datagrams.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use fairwater_algorithms::by_spec;
use fairwater_plane::Plane;
use fairwater_proto::Dialect;
use fairwater_service::{Config, Endpoints, Server, ServiceNotice, ServiceStatistics};
use support::{compile, run};

/// What a toy said under a plane, and what the plane counted and told its operator.
struct Served {
    said: String,
    counts: ServiceStatistics,
    notices: Vec<ServiceNotice>,
}

/// Runs a toy while a plane serves the algorithm at `endpoints`.
fn under_a_plane(algorithm: &str, toy: &Path, at: &Path, endpoints: Endpoints) -> Served {
    let (ready, served) = mpsc::channel();
    thread::scope(|scope| {
        let plane = scope.spawn(move || {
            let mut plane = Plane::new();
            let choice = by_spec(algorithm).unwrap();
            plane.add(|programs| choice.build(programs)).unwrap();
            let mut server = Server::bind(plane, Config::default(), &endpoints).unwrap();
            ready.send(server.stopper()).unwrap();
            server.run().unwrap();
            let notices: Vec<_> = server.service_mut().drain_notices().collect();
            (server.service().statistics(), notices)
        });
        let stopper = served.recv().unwrap();
        let said = run(Command::new(toy).arg(at), "");
        stopper.stop();
        let (counts, notices) = plane.join().unwrap();
        Served {
            said,
            counts,
            notices,
        }
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
    let Served { said, counts, .. } = under_a_plane("reno", &toy, &path, endpoints);
    assert!(said.ends_with("under the plane's program\n"), "{said}");
    assert_eq!(counts.flows_total, 1);
    assert!(counts.reports > 1, "{counts:?}");
}

/// Whatever the length of its program: the library speaks our dialect with this plane, which has no
/// bound of libccp's.
#[test]
fn the_toy_for_libccp_runs_under_algorithms_of_the_real_plane() {
    let folder = tempfile::tempdir().unwrap();
    let toy = folder.path().join("ccp_toy");
    compile("examples/ccp_toy.c", &toy);
    // The last takes more instructions than libccp runs.
    for algorithm in ["vegas", "cubic", "cubic:slow_start=program-rate"] {
        let path = folder.path().join("agent");
        let endpoints = Endpoints {
            datagram: Some(path.clone()),
            ..Endpoints::default()
        };
        let served = under_a_plane(algorithm, &toy, &path, endpoints);
        let (said, counts) = (&served.said, &served.counts);
        assert!(said.starts_with("acknowledged "), "{said}");
        assert_eq!(counts.flows_total, 1, "{algorithm}");
        assert!(counts.reports > 1, "{algorithm}: {counts:?}");
        assert_eq!(counts.refused_total(), 0, "{algorithm}");
        let connected = served.notices.iter().find_map(|notice| match notice {
            ServiceNotice::Connected { dialect, .. } => Some(*dialect),
            _ => None,
        });
        assert_eq!(connected, Some(Dialect::Own), "{algorithm}");
        let refused =
            |notice: &&ServiceNotice| matches!(notice, ServiceNotice::ProgramRefused { .. });
        assert_eq!(served.notices.iter().find(refused), None, "{algorithm}");
    }
}
