//! Peers that died without a word, and newcomers when there is no place.

use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::{Duration, Instant};

use fairwater_datapath::Connection;
use fairwater_proto::link::{Link, LinkError, MAX_PACKET, datagram, ring, seqpacket};
use fairwater_proto::{Dialect, RefusalReason, ToDatapath, own};
use fairwater_service::{Config, Server};

use crate::server::{Sender, config, endpoints, plane};
use crate::support::{bytes, created, hello, id};

const MAX_PEERS: u32 = 20;

fn server(directory: &Path) -> Server {
    let config = Config {
        alive_us: 5_000,
        max_peers: MAX_PEERS,
        ..Config::default()
    };
    Server::bind(plane(), config, &endpoints(directory)).unwrap()
}

/// Turns the server until it is as it should be.
fn until(server: &mut Server, mut done: impl FnMut(&mut Server) -> bool) {
    let start = Instant::now();
    while !done(server) {
        let statistics = server.service().statistics();
        assert!(start.elapsed() < Duration::from_secs(30), "{statistics:?}");
        server.turn(Duration::from_millis(5)).unwrap();
    }
}

/// A peer with a flow, which is served, and then dies. The path is left behind, as it is when a
/// process is killed.
fn crash(server: &mut Server, directory: &Path, name: &str, dialect: Dialect, connects: bool) {
    let plane = directory.join("ccp");
    let socket = UnixDatagram::bind(directory.join(name)).unwrap();
    if connects {
        socket.connect(&plane).unwrap();
    }
    let before = server.service().statistics().flows_total;
    until(server, |server| {
        for message in [hello(1), created(id(0, 1), "echo")] {
            let mut packet = Vec::new();
            dialect.encode_to_plane(&message, &mut packet).unwrap();
            match connects {
                true => socket.send(&packet),
                false => socket.send_to(&packet, &plane),
            }
            .unwrap();
            server.turn(Duration::ZERO).unwrap();
        }
        server.service().statistics().flows_total > before
    });
}

#[test]
fn crashed_datagram_peers_are_dropped_though_nothing_is_sent_to_them() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let mut server = server(directory);
    for (index, dialect) in [Dialect::Own, Dialect::Ccp].into_iter().enumerate() {
        for connects in [false, true] {
            let name = format!("crashed{index}{connects}");
            crash(&mut server, directory, &name, dialect, connects);
        }
    }
    until(&mut server, |server| {
        let statistics = server.service().statistics();
        (statistics.peers, statistics.flows) == (0, 0)
    });
}

#[test]
fn a_peer_that_is_there_is_kept_though_it_says_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let mut server = server(directory);
    let own = directory.join("quiet");
    let quiet = UnixDatagram::bind(&own).unwrap();
    for message in [hello(1), created(id(0, 1), "echo")] {
        quiet
            .send_to(&bytes(&message), directory.join("ccp"))
            .unwrap();
    }
    let start = Instant::now();
    until(&mut server, |_| start.elapsed() > Duration::from_secs(3));
    assert_eq!(server.service().statistics().flows, 1);
}

/// More than the limit die, with a flow each, and faster than they would be found in turn.
#[test]
fn crashed_peers_keep_no_place_from_a_newcomer() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let mut server = server(directory);
    for round in 0..5 * MAX_PEERS {
        let dialect = [Dialect::Own, Dialect::Ccp][round as usize % 2];
        let name = format!("crashed{round}");
        crash(&mut server, directory, &name, dialect, round % 3 == 0);
    }
    let connections = [
        Connection::seqpacket(config("seqpacket"), directory.join("seqpacket"), 0),
        Connection::ccp(
            config("ccp"),
            directory.join("own"),
            directory.join("ccp"),
            0,
        ),
    ];
    for connection in connections {
        let start = Instant::now();
        let mut newcomer = Sender::new(connection, 30_011);
        until(&mut server, |_| {
            newcomer.step(u64::try_from(start.elapsed().as_micros()).unwrap());
            newcomer.is_controlled()
        });
    }
}

/// A peer that is there, with a flow.
fn occupy(directory: &Path, server: &mut Server) -> Box<dyn Link> {
    let mut link = seqpacket::Connection::connect(directory.join("seqpacket")).unwrap();
    let before = server.service().statistics().flows_total;
    let messages = [bytes(&hello(1)), bytes(&created(id(0, 1), "echo"))].concat();
    link.send(&messages).unwrap();
    until(server, |server| {
        server.service().statistics().flows_total > before
    });
    Box::new(link)
}

#[test]
fn a_newcomer_is_told_that_the_plane_is_full_whatever_its_link() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let mut server = server(directory);
    let mut links: Vec<_> = (0..MAX_PEERS)
        .map(|_| occupy(directory, &mut server))
        .collect();
    let path = directory.join("ring");
    let connecting = std::thread::spawn(move || ring::Ring::connect(path, Duration::from_secs(10)));
    until(&mut server, |_| connecting.is_finished());
    let newcomers: [Box<dyn Link>; 3] = [
        Box::new(seqpacket::Connection::connect(directory.join("seqpacket")).unwrap()),
        Box::new(datagram::Datapath::bind(directory.join("own"), directory.join("ccp")).unwrap()),
        Box::new(connecting.join().unwrap().unwrap()),
    ];
    for mut newcomer in newcomers {
        newcomer.send(&bytes(&hello(7))).unwrap();
        let mut buffer = vec![0; MAX_PACKET];
        let mut length = 0;
        until(&mut server, |_| match newcomer.receive(&mut buffer) {
            Ok(received) => {
                length = received;
                true
            }
            Err(error) => {
                assert_eq!(error, LinkError::WouldBlock);
                false
            }
        });
        let told: Vec<_> = Dialect::Own.to_datapath(&buffer[..length]).collect();
        assert!(
            matches!(told[..], [Ok(ToDatapath::Refused(refusal))]
                if refusal.reason == RefusalReason::Full && refusal.message == own::HELLO),
            "{told:?}"
        );
    }
    let notices: Vec<_> = server
        .service_mut()
        .drain_notices()
        .map(|notice| notice.to_string())
        .filter(|notice| notice.contains("20 datapaths are connected"))
        .collect();
    assert_eq!(notices.len(), 1, "one in a while: {notices:?}");
    assert_eq!(server.service().statistics().flows, u64::from(MAX_PEERS));

    // A place that comes free is the newcomer's, which had gone on asking.
    let mut newcomer = Sender::new(
        Connection::seqpacket(config("newcomer"), directory.join("seqpacket"), 0),
        30_011,
    );
    let start = Instant::now();
    let step = |newcomer: &mut Sender| {
        newcomer.step(u64::try_from(start.elapsed().as_micros()).unwrap());
    };
    until(&mut server, |_| {
        step(&mut newcomer);
        newcomer.is_refused()
    });
    links.pop();
    until(&mut server, |_| {
        step(&mut newcomer);
        newcomer.is_controlled()
    });
    assert!(!newcomer.is_refused());
}
