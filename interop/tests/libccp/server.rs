//! A server at its sockets, with libccp at the other end of one.

use std::path::Path;
use std::time::{Duration, Instant};

use fairwater_datapath::{Config as DatapathConfig, Connection, FlowState};
use fairwater_lang::{Signal, Signals};
use fairwater_plane::{FlowInfo, Plane};
use fairwater_proto::Dialect;
use fairwater_service::{Config, Endpoints, Server, ServiceNotice};
use libccp::Primitives;

use crate::support::*;

/// How long to wait for what must come.
const TIMEOUT: Duration = Duration::from_secs(60);

fn serve(plane: Plane, directory: &Path, instance: u64) -> Server {
    let endpoints = Endpoints {
        datagram: Some(directory.join("portus")),
        seqpacket: Some(directory.join("seqpacket")),
        ..Endpoints::default()
    };
    let config = Config {
        instance,
        ..Config::default()
    };
    Server::bind(plane, config, &endpoints).unwrap()
}

fn count_to_a_hundred(join: fn(own: &Path, agent: &Path) -> OverDatagrams) {
    let directory = tempfile::tempdir().unwrap();
    let mut plane = Plane::new();
    let reports = Script::new(COUNT, &["acked"]).add(&mut plane);
    let mut server = serve(plane, directory.path(), 1);
    let datapath = join(
        &directory.path().join("datapath"),
        &directory.path().join("portus"),
    );
    let mut flow = start(&datapath.libccp, "one");
    // READY and CREATE came at once, and are answered at once.
    server.turn(Duration::ZERO).unwrap();
    datapath.receive();
    for _ in 0..20 {
        ack(&mut flow);
    }
    server.turn(Duration::ZERO).unwrap();
    assert_eq!(taken(&reports), [[100]]);
    drop(flow);
    server.turn(Duration::ZERO).unwrap();
    assert_eq!(server.service().statistics().flows, 0);
    assert_eq!(server.service().statistics().refused_total(), 0);
}

#[test]
fn libccp_is_governed_at_a_datagram_socket() {
    count_to_a_hundred(OverDatagrams::new);
}

/// Such a socket hears the agent's own socket alone.
#[test]
fn libccp_is_governed_at_a_socket_that_it_connected() {
    count_to_a_hundred(OverDatagrams::connected);
}

#[test]
fn running_flows_of_libccp_are_found_again_after_a_restart_of_the_plane() {
    let source = "(def (Report (acked 0)))
        (when true (:= Report.acked (+ Report.acked Ack.bytes_acked)) (report))";
    let planned = |cwnd: fn(&Handles, &mut fairwater_plane::Control)| {
        let mut plane = Plane::new();
        let script = Script {
            at_start: cwnd,
            ..Script::new(source, &["acked"])
        };
        let reports = script.add(&mut plane);
        (plane, reports)
    };
    let directory = tempfile::tempdir().unwrap();
    let agent = directory.path().join("portus");
    let (plane, _) = planned(|_, control| control.set_cwnd(30_011));
    let mut former = serve(plane, directory.path(), 1);
    let datapath = OverDatagrams::new(&directory.path().join("datapath"), &agent);
    let mut flows = [start(&datapath.libccp, "one"), start(&datapath.libccp, "")];
    former.turn(Duration::ZERO).unwrap();
    datapath.receive();
    flows.iter_mut().for_each(ack);
    assert!(flows.iter().all(|flow| flow.cwnd == 30_011));
    drop(former);
    assert!(!agent.exists());
    flows.iter_mut().for_each(ack);

    let (plane, reports) = planned(|_, control| control.set_cwnd(50_021));
    let mut next = serve(plane, directory.path(), 2);
    let begin = Instant::now();
    while flows.iter().any(|flow| flow.cwnd != 50_021) {
        assert!(
            begin.elapsed() < TIMEOUT,
            "{:?}",
            next.service().statistics()
        );
        flows.iter_mut().for_each(ack);
        next.turn(Duration::ZERO).unwrap();
        datapath.receive();
    }
    next.turn(Duration::ZERO).unwrap();
    let statistics = next.service().statistics();
    assert_eq!((statistics.found_again, statistics.flows), (2, 2));
    assert_eq!(statistics.refused_total(), 0);
    assert!(!taken(&reports).is_empty());
}

#[test]
fn what_does_not_fit_libccp_is_refused_there_and_runs_on_our_datapath_beside_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut plane = Plane::new();
    let cubic = fairwater_algorithms::by_spec("cubic:slow_start=program-rate").unwrap();
    plane.add(|programs| cubic.build(programs)).unwrap();
    let mut server = serve(plane, directory.path(), 1);

    let agent = directory.path().join("portus");
    let libccp = OverDatagrams::new(&directory.path().join("datapath"), &agent);
    let mut theirs = start(&libccp.libccp, "cubic");
    let config = DatapathConfig {
        name: "ours".to_owned(),
        ..DatapathConfig::default()
    };
    let seqpacket = directory.path().join("seqpacket");
    let mut ours = Connection::seqpacket(config, seqpacket, 0);
    let info = FlowInfo {
        local: "192.0.2.1:1".parse().unwrap(),
        remote: "192.0.2.2:3".parse().unwrap(),
        mss: 1460,
        cwnd: 14_600,
        srtt_us: 0,
        now_us: 0,
        tag: 0,
        ..FlowInfo::default()
    };
    let flow = ours.start("cubic", &info).unwrap();
    // libccp invokes nothing before it has a program.
    server.turn(Duration::ZERO).unwrap();
    libccp.receive();

    let reports = |server: &Server, dialect| {
        let mut peers = server.service().peers();
        let peer = peers.find(|peer| peer.dialect == Some(dialect));
        peer.map_or(0, |peer| peer.reports)
    };
    let begin = Instant::now();
    let mut now_us = 0;
    // Ours tells of a loss at last, to have something to report.
    while reports(&server, Dialect::Own) == 0 || theirs.cwnd == 14_600 {
        assert!(begin.elapsed() < TIMEOUT);
        now_us += 10_000;
        let mut signals = Signals::default();
        signals[Signal::Now] = now_us;
        signals[Signal::BytesAcked] = 1460;
        signals[Signal::PacketsAcked] = 1;
        signals[Signal::RttSampleUs] = 10_000;
        signals[Signal::LostPkts] = u64::from(now_us % 1_000_000 == 0);
        ours.service(now_us);
        ours.invoke(flow, &signals).unwrap();
        ours.flush(now_us);
        let acked = Primitives::default().with_bytes_acked(14_600);
        invoke(&mut theirs, acked.with_rtt_sample_us(10_000));
        server.turn(Duration::ZERO).unwrap();
        libccp.receive();
    }
    assert_eq!(
        ours.datapath().flow(flow).unwrap().state,
        FlowState::Running
    );
    assert_eq!(reports(&server, Dialect::Ccp), 0);
    let refused: Vec<_> = server
        .service_mut()
        .drain_notices()
        .filter_map(|notice| match notice {
            ServiceNotice::ProgramRefused { peer, why, .. } => Some((peer, why)),
            _ => None,
        })
        .collect();
    assert!(
        matches!(&refused[..], [(peer, why)] if peer == "libccp" && why.contains("instructions")),
        "{refused:?}"
    );
}
