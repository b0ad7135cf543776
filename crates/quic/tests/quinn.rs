//! quinn connections under an algorithm: quinn's core is sans-IO, and so is this wire.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairwater_quic::Options;
use fairwater_quic::certificate::Certificate;
use noq_proto::rustls::RootCertStore;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    Event, ServerConfig, Side, StreamId, TransportConfig,
};

const DELAY: Duration = Duration::from_millis(10);
const STEP: Duration = Duration::from_millis(1);
const BYTES: usize = 2_000_000;

/// A datagram, when it arrives, and whether at the server.
type Flying = VecDeque<(Instant, bool, Vec<u8>)>;

fn server_address() -> SocketAddr {
    "192.0.2.1:443".parse().unwrap()
}

fn client_address() -> SocketAddr {
    "198.51.100.1:10000".parse().unwrap()
}

/// What is due at one end, and its datagrams.
fn turn(
    connection: &mut Connection,
    handle: ConnectionHandle,
    endpoint: &mut Endpoint,
    now: Instant,
) -> Vec<Vec<u8>> {
    if connection.poll_timeout().is_some_and(|at| at <= now) {
        connection.handle_timeout(now);
    }
    let mut datagrams = Vec::new();
    for _ in 0..200 {
        let mut bytes = Vec::new();
        let Some(transmit) = connection.poll_transmit(now, 1, &mut bytes) else {
            break;
        };
        bytes.truncate(transmit.size);
        datagrams.push(bytes);
    }
    while let Some(event) = connection.poll_endpoint_events() {
        if let Some(event) = endpoint.handle_event(handle, event) {
            connection.handle_event(event);
        }
    }
    datagrams
}

#[test]
fn a_transfer_arrives_whole_and_the_plane_hears_of_it() {
    for algorithm in ["copa", "cubic", "bbr"] {
        let start = Instant::now();
        let options = Options::default().lockstep(start);
        let factory = options.quinn(algorithm).unwrap();
        let certificate = Certificate::generate(["localhost".to_owned()]).unwrap();
        let chain = vec![certificate.certificate.clone()];
        let mut config =
            ServerConfig::with_single_cert(chain, certificate.key.clone_key()).unwrap();
        let mut transport = TransportConfig::default();
        transport.congestion_controller_factory(factory.clone());
        config.transport_config(Arc::new(transport));
        let mut roots = RootCertStore::empty();
        roots.add(certificate.certificate).unwrap();
        let trust = ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
        let shared = Arc::new(EndpointConfig::default());
        let mut at_server = Endpoint::new(Arc::clone(&shared), Some(Arc::new(config)), true, None);
        let mut at_client = Endpoint::new(shared, None, true, None);
        let (client_handle, mut client) = at_client
            .connect(start, trust, server_address(), "localhost")
            .unwrap();
        let mut server: Option<(ConnectionHandle, Connection)> = None;
        let (mut left, mut received, mut most_flows) = (BYTES, 0, 0);
        let mut flying = Flying::new();
        let mut now = start;
        while received < BYTES {
            assert!(
                now.duration_since(start) < Duration::from_secs(20),
                "{algorithm}"
            );
            while flying.front().is_some_and(|(at, ..)| *at <= now) {
                let (_, to_server, bytes) = flying.pop_front().unwrap();
                let mut answer = Vec::new();
                let (endpoint, from) = match to_server {
                    true => (&mut at_server, client_address()),
                    false => (&mut at_client, server_address()),
                };
                let bytes = bytes.as_slice().into();
                match endpoint.handle(now, from, None, None, bytes, &mut answer) {
                    Some(DatagramEvent::ConnectionEvent(_, event)) => match to_server {
                        true => server.as_mut().unwrap().1.handle_event(event),
                        false => client.handle_event(event),
                    },
                    Some(DatagramEvent::NewConnection(incoming)) => {
                        let accepted = at_server.accept(incoming, now, &mut answer, None);
                        server = Some(accepted.map_err(|_| "not accepted").unwrap());
                    }
                    _ => {}
                }
            }
            while let Some(event) = client.poll() {
                assert!(!matches!(event, Event::ConnectionLost { .. }), "{event:?}");
            }
            let stream = StreamId::new(Side::Server, Dir::Uni, 0);
            if let Ok(mut chunks) = client.recv_stream(stream).read(true) {
                while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                    received += chunk.bytes.len();
                }
                let _ = chunks.finalize();
            }
            let sent = turn(&mut client, client_handle, &mut at_client, now);
            flying.extend(sent.into_iter().map(|bytes| (now + DELAY, true, bytes)));
            if let Some((handle, connection)) = &mut server {
                while let Some(event) = connection.poll() {
                    if matches!(event, Event::Connected) {
                        connection.streams().open(Dir::Uni).unwrap();
                    }
                }
                let zeros = [0; 1 << 14];
                while left > 0 {
                    let chunk = &zeros[..left.min(zeros.len())];
                    let Ok(written) = connection.send_stream(stream).write(chunk) else {
                        break;
                    };
                    left -= written;
                }
                let sent = turn(connection, *handle, &mut at_server, now);
                flying.extend(sent.into_iter().map(|bytes| (now + DELAY, false, bytes)));
            }
            most_flows = most_flows.max(factory.factory().status().flows);
            now += STEP;
        }
        let status = factory.factory().status();
        assert_eq!((most_flows, status.fallbacks), (1, 0), "{algorithm}");
        assert!(status.reports > 0, "{algorithm}: {status:?}");
        drop(server);
        assert_eq!(factory.factory().status().flows, 0, "{algorithm}");
    }
}
