//! The loop at real sockets, with the datapath library at the other end.

use std::path::Path;
use std::time::{Duration, Instant};

use fairwater_datapath::{Config as DatapathConfig, Connection, Controls};
use fairwater_plane::{FlowId, FlowInfo, Plane, Signal, Signals};
use fairwater_proto::Dialect;
use fairwater_proto::link::{Link, datagram, ring};
use fairwater_service::{Config, Endpoints, Server};

use crate::support::{Echo, info};

pub(crate) fn plane() -> Plane {
    let mut plane = Plane::new();
    plane.add(Echo::build("echo")).unwrap();
    plane
}

pub(crate) fn endpoints(directory: &Path) -> Endpoints {
    Endpoints {
        datagram: Some(directory.join("ccp")),
        seqpacket: Some(directory.join("seqpacket")),
        ring: Some(directory.join("ring")),
        ..Endpoints::default()
    }
}

pub(crate) fn server(directory: &Path, instance: u64) -> Server {
    let config = Config {
        instance,
        alive_us: 5_000,
        ..Config::default()
    };
    Server::bind(plane(), config, &endpoints(directory)).unwrap()
}

/// A datapath whose flows acknowledge so many bytes at each invocation.
pub(crate) struct Sender {
    connection: Connection,
    flow: FlowId,
    acked: u64,
    controls: Option<Controls>,
}

impl Sender {
    pub(crate) fn new(mut connection: Connection, acked: u64) -> Self {
        let flow = connection.start("echo", &info(10_000)).unwrap();
        Self {
            connection,
            flow,
            acked,
            controls: None,
        }
    }

    /// Another flow in the place of the present one.
    pub(crate) fn begin_again(&mut self, acked: u64, now_us: u64) {
        self.connection.close(self.flow).unwrap();
        let info = FlowInfo {
            now_us,
            tag: 0,
            ..info(10_000)
        };
        self.flow = self.connection.start("echo", &info).unwrap();
        self.acked = acked;
        self.controls = None;
    }

    /// The flow's congestion control, once.
    pub(crate) fn step(&mut self, now_us: u64) {
        self.connection.service(now_us);
        let mut signals = Signals::default();
        signals[Signal::Now] = now_us;
        signals[Signal::BytesAcked] = self.acked;
        if let Some(controls) = self.connection.invoke(self.flow, &signals).unwrap() {
            self.controls = Some(controls);
        }
        self.connection.service(now_us);
    }

    /// Whether the plane said that it takes no more datapaths.
    pub(crate) fn is_refused(&self) -> bool {
        self.connection.is_refused()
    }

    /// Whether the algorithm has answered a report: its window is a multiple of the bytes.
    pub(crate) fn is_controlled(&self) -> bool {
        self.controls
            .is_some_and(|c| c.cwnd != 10_000 && c.cwnd % self.acked == 0)
    }
}

pub(crate) fn config(name: &str) -> DatapathConfig {
    DatapathConfig {
        name: name.to_owned(),
        instance: 1,
        silence_us: 40_000,
        ..DatapathConfig::default()
    }
}

/// Turns the server and the senders until all is as it should be.
fn until(
    server: &mut Server,
    start: Instant,
    senders: &mut [&mut Sender],
    done: impl Fn(&[&mut Sender]) -> bool,
) {
    let begin = Instant::now();
    while !done(senders) {
        assert!(
            begin.elapsed() < Duration::from_secs(30),
            "{:?}",
            server.service().statistics()
        );
        for sender in senders.iter_mut() {
            sender.step(u64::try_from(start.elapsed().as_micros()).unwrap());
        }
        server.turn(Duration::ZERO).unwrap();
    }
}

fn controlled(senders: &[&mut Sender]) -> bool {
    senders.iter().all(|sender| sender.is_controlled())
}

#[test]
fn datapaths_at_seqpacket_and_datagram_sockets_are_controlled_together() {
    let directory = tempfile::tempdir().unwrap();
    let start = Instant::now();
    let mut server = server(directory.path(), 1);
    let mut one = Sender::new(
        Connection::seqpacket(config("one"), directory.path().join("seqpacket"), 0),
        30_011,
    );
    let (own, agent) = (directory.path().join("two"), directory.path().join("ccp"));
    let datagrams = Connection::new(config("two"), Dialect::Own, 0, move || {
        let link: Box<dyn Link> = Box::new(datagram::Datapath::bind(&own, &agent)?);
        Ok(link)
    });
    let mut two = Sender::new(datagrams, 40_009);
    until(&mut server, start, &mut [&mut one, &mut two], controlled);
    assert_eq!(server.service().statistics().peers, 2);
    drop(one);
    until(&mut server, start, &mut [&mut two], |_| true);
    let begin = Instant::now();
    while server.service().statistics().flows > 1 {
        assert!(begin.elapsed() < Duration::from_secs(30));
        server.turn(Duration::ZERO).unwrap();
    }
}

#[test]
fn running_flows_are_found_again_after_a_restart_of_the_plane() {
    let directory = tempfile::tempdir().unwrap();
    let start = Instant::now();
    let mut former = server(directory.path(), 1);
    let mut sender = Sender::new(
        Connection::seqpacket(config("one"), directory.path().join("seqpacket"), 0),
        30_011,
    );
    until(&mut former, start, &mut [&mut sender], controlled);
    drop(former);
    assert!(!directory.path().join("seqpacket").exists());
    assert!(!directory.path().join("ccp").exists());
    assert!(!directory.path().join("ring").exists());

    let mut next = server(directory.path(), 2);
    sender.acked = 50_021;
    until(&mut next, start, &mut [&mut sender], controlled);
    let statistics = next.service().statistics();
    assert_eq!(
        (statistics.flows, statistics.refused_total()),
        (1, 0),
        "{statistics:?}"
    );
}

#[test]
fn a_server_in_a_thread_serves_rings_until_it_is_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ring");
    let mut server = server(directory.path(), 1);
    let stopper = server.stopper();
    let thread = std::thread::spawn(move || {
        server.run().unwrap();
        server.service().statistics()
    });
    let start = Instant::now();
    let connect = path.clone();
    let connection = Connection::new(config("ring"), Dialect::Own, 0, move || {
        let link: Box<dyn Link> = Box::new(ring::Ring::connect(&connect, Duration::from_secs(10))?);
        Ok(link)
    });
    let mut sender = Sender::new(connection, 30_011);
    while !sender.is_controlled() {
        assert!(start.elapsed() < Duration::from_secs(30));
        sender.step(u64::try_from(start.elapsed().as_micros()).unwrap());
        std::thread::yield_now();
    }
    stopper.stop();
    let statistics = thread.join().unwrap();
    assert!(statistics.reports > 0, "{statistics:?}");
    assert!(!path.exists());
}

#[test]
fn a_path_that_cannot_be_bound_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    let endpoints = Endpoints {
        seqpacket: Some(file.clone()),
        ..Endpoints::default()
    };
    let error = Server::bind(plane(), Config::default(), &endpoints).unwrap_err();
    assert!(
        error.to_string().contains(file.to_str().unwrap()),
        "{error}"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
}
