//! noq under an algorithm on a wire that changes: the client's port is another, the MTU shrinks. The
//! server sends, and a second connection goes on beside it as if nothing had happened.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairwater_quic::certificate::Certificate;
use fairwater_quic::{Factory, Options};
use noq_proto::rustls::RootCertStore;
use noq_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig,
    Event, FourTuple, HashedConnectionIdGenerator, PathId, ServerConfig, StreamId, TransportConfig,
};

/// One way, without a queue: connections do not share a bottleneck.
const DELAY: Duration = Duration::from_millis(20);
const STEP: Duration = Duration::from_millis(1);
const BYTES: usize = 3_000_000;

/// What happens to the first client.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Change {
    Nothing,
    /// Its port changes, so often, each 300 ms.
    Rebinds(u16),
    /// Larger datagrams are lost from 300 ms on.
    Shrinks(usize),
}

struct InFlight {
    at: Instant,
    client: usize,
    /// The client's port as the datagram was sent.
    port: u16,
    to_server: bool,
    bytes: Vec<u8>,
}

struct End {
    connection: Connection,
    handle: ConnectionHandle,
}

/// What a client came to.
#[derive(Debug, Default)]
struct Came {
    received: usize,
    lost: Option<String>,
    /// The server's window after each step.
    windows: Vec<u64>,
    mtu: u16,
}

struct Wire {
    start: Instant,
    now: Instant,
    change: Change,
    flying: VecDeque<InFlight>,
    server: Endpoint,
    clients: Vec<Endpoint>,
    /// By client: its connection, and the server's.
    ends: Vec<(End, Option<End>)>,
    streams: Vec<Option<(StreamId, usize)>>,
    came: Vec<Came>,
    most_flows: u32,
}

fn server_address() -> SocketAddr {
    "192.0.2.1:443".parse().unwrap()
}

fn endpoint(number: u64, server: Option<Arc<ServerConfig>>) -> Endpoint {
    let mut config = EndpointConfig::default();
    let mut seed = [7; 32];
    seed[0] = number as u8;
    config.rng_seed(Some(seed));
    config.cid_generator(Arc::new(move || {
        Box::new(HashedConnectionIdGenerator::from_key(number))
    }));
    Endpoint::new(Arc::new(config), server, true)
}

impl Wire {
    fn new(change: Change, start: Instant, factory: &Arc<Factory>) -> Self {
        let certificate = Certificate::generate(["localhost".to_owned()]).unwrap();
        let chain = vec![certificate.certificate.clone()];
        let mut config =
            ServerConfig::with_single_cert(chain, certificate.key.clone_key()).unwrap();
        let mut transport = TransportConfig::default();
        transport
            .enable_segmentation_offload(false)
            .congestion_controller_factory(Arc::clone(factory) as Arc<_>);
        config.transport_config(Arc::new(transport));
        let mut roots = RootCertStore::empty();
        roots.add(certificate.certificate).unwrap();
        let trust = ClientConfig::with_root_certificates(Arc::new(roots)).unwrap();
        let mut clients: Vec<_> = (1..=2).map(|number| endpoint(number, None)).collect();
        let ends = clients.iter_mut().map(|client| {
            let (handle, connection) = client
                .connect(start, trust.clone(), server_address(), "localhost")
                .unwrap();
            (End { connection, handle }, None)
        });
        Self {
            ends: ends.collect(),
            start,
            now: start,
            change,
            flying: VecDeque::new(),
            server: endpoint(9, Some(Arc::new(config))),
            clients,
            streams: vec![None, None],
            came: vec![Came::default(), Came::default()],
            most_flows: 0,
        }
    }

    fn port(&self, client: usize) -> u16 {
        let own = 10_000 * (client as u16 + 1);
        let elapsed = self.now.duration_since(self.start).as_millis() as u16;
        match (client, self.change) {
            (0, Change::Rebinds(times)) => own + (elapsed / 300).min(times),
            _ => own,
        }
    }

    fn fits(&self, client: usize, bytes: usize) -> bool {
        let is_late = self.now.duration_since(self.start) > Duration::from_millis(300);
        !matches!((client, self.change), (0, Change::Shrinks(most)) if is_late && bytes > most)
    }

    fn client_address(&self, client: usize, port: u16) -> SocketAddr {
        SocketAddr::from(([198, 51, 100, client as u8 + 1], port))
    }

    fn fly(&mut self, client: usize, to_server: bool, bytes: Vec<u8>) {
        if self.fits(client, bytes.len()) {
            self.flying.push_back(InFlight {
                at: self.now + DELAY,
                client,
                port: self.port(client),
                to_server,
                bytes,
            });
        }
    }

    fn arrive(&mut self) {
        while self
            .flying
            .front()
            .is_some_and(|first| first.at <= self.now)
        {
            let datagram = self.flying.pop_front().unwrap();
            let (client, mut answer) = (datagram.client, Vec::new());
            let address = self.client_address(client, datagram.port);
            if datagram.to_server {
                let path = FourTuple::new(address, Some(server_address().ip()));
                let bytes = datagram.bytes.as_slice().into();
                match self.server.handle(self.now, path, None, bytes, &mut answer) {
                    Some(DatagramEvent::ConnectionEvent(_, event)) => {
                        if let Some(end) = &mut self.ends[client].1 {
                            end.connection.handle_event(event);
                        }
                    }
                    Some(DatagramEvent::NewConnection(incoming)) => {
                        let accepted = self.server.accept(incoming, self.now, &mut answer, None);
                        let Ok((handle, connection)) = accepted else {
                            panic!("not accepted");
                        };
                        self.ends[client].1 = Some(End { connection, handle });
                    }
                    _ => {}
                }
            } else if datagram.port == self.port(client) {
                // What was sent to a former port finds nobody.
                let path = FourTuple::new(server_address(), Some(address.ip()));
                let bytes = datagram.bytes.as_slice().into();
                let event = self.clients[client].handle(self.now, path, None, bytes, &mut answer);
                if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                    self.ends[client].0.connection.handle_event(event);
                }
            }
        }
    }

    fn turn(&mut self, factory: &Factory) {
        self.arrive();
        for client in 0..2 {
            self.turn_client(client);
            self.turn_server(client);
        }
        self.most_flows = self.most_flows.max(factory.status().flows);
        self.now += STEP;
    }

    fn turn_client(&mut self, client: usize) {
        let now = self.now;
        let (end, _) = &mut self.ends[client];
        expire(end, now);
        while let Some(event) = end.connection.poll() {
            if let Event::ConnectionLost { reason } = event {
                self.came[client].lost = Some(reason.to_string());
            }
        }
        while end.connection.streams().accept(Dir::Uni).is_some() {}
        // The one stream of the server's has number 0.
        let stream = StreamId::new(noq_proto::Side::Server, Dir::Uni, 0);
        if let Ok(mut chunks) = end.connection.recv_stream(stream).read(true) {
            while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
                self.came[client].received += chunk.bytes.len();
            }
            let _ = chunks.finalize();
        }
        let datagrams = transmit(end, now, &mut self.clients[client]);
        for bytes in datagrams {
            self.fly(client, true, bytes);
        }
    }

    fn turn_server(&mut self, client: usize) {
        let now = self.now;
        let Some(end) = &mut self.ends[client].1 else {
            return;
        };
        expire(end, now);
        while let Some(event) = end.connection.poll() {
            match event {
                Event::Connected => {
                    let stream = end.connection.streams().open(Dir::Uni).unwrap();
                    self.streams[client] = Some((stream, BYTES));
                }
                Event::ConnectionLost { reason } => {
                    self.came[client].lost = Some(reason.to_string());
                }
                _ => {}
            }
        }
        if let Some((stream, left)) = &mut self.streams[client] {
            static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
            while *left > 0 {
                let chunk = &ZEROS[..(*left).min(ZEROS.len())];
                let Ok(written) = end.connection.send_stream(*stream).write(chunk) else {
                    break;
                };
                *left -= written;
                if *left == 0 {
                    let _ = end.connection.send_stream(*stream).finish();
                }
            }
        }
        let datagrams = transmit(end, now, &mut self.server);
        if let Some(controller) = end.connection.congestion_state(PathId::ZERO) {
            self.came[client].windows.push(controller.window());
        }
        self.came[client].mtu = end.connection.current_mtu();
        for bytes in datagrams {
            self.fly(client, false, bytes);
        }
    }
}

fn expire(end: &mut End, now: Instant) {
    if end.connection.poll_timeout().is_some_and(|at| at <= now) {
        end.connection.handle_timeout(now);
    }
}

fn transmit(end: &mut End, now: Instant, endpoint: &mut Endpoint) -> Vec<Vec<u8>> {
    let mut datagrams = Vec::new();
    // What a step takes at most: a paced sender sends in the next.
    for _ in 0..200 {
        let mut bytes = Vec::new();
        let transmit = end
            .connection
            .poll_transmit(now, NonZeroUsize::MIN, &mut bytes);
        let Some(transmit) = transmit else {
            break;
        };
        bytes.truncate(transmit.size);
        datagrams.push(bytes);
    }
    while let Some(event) = end.connection.poll_endpoint_events() {
        if let Some(event) = endpoint.handle_event(end.handle, event) {
            end.connection.handle_event(event);
        }
    }
    datagrams
}

/// Runs for ten seconds at most; what both clients came to, and the most flows that there were.
fn run(change: Change) -> (Vec<Came>, u32) {
    let start = Instant::now();
    let factory = Options::default().lockstep(start).noq("copa").unwrap();
    let mut wire = Wire::new(change, start, &factory);
    while wire.now.duration_since(start) < Duration::from_secs(10) {
        wire.turn(&factory);
        if wire
            .came
            .iter()
            .all(|came| came.received == BYTES || came.lost.is_some())
        {
            break;
        }
    }
    let (came, most_flows) = (std::mem::take(&mut wire.came), wire.most_flows);
    drop(wire);
    assert_eq!(factory.status().flows, 0, "a flow outlives its connection");
    assert_eq!(factory.status().fallbacks, 0);
    (came, most_flows)
}

fn assert_whole(came: &[Came]) {
    for each in came {
        assert_eq!((each.received, &each.lost), (BYTES, &None));
    }
}

#[test]
fn a_client_that_rebinds_its_port_goes_on_and_no_other_connection_moves() {
    let (plain, flows) = run(Change::Nothing);
    assert_whole(&plain);
    assert_eq!(flows, 2);
    let (moved, flows) = run(Change::Rebinds(3));
    assert_whole(&moved);
    // The former path's controller stays until noq gives it up.
    assert!((2..=4).contains(&flows), "{flows}");
    let windows = |came: &[Came]| came[1].windows.clone();
    let both = windows(&plain).len().min(windows(&moved).len());
    assert!(both > 100);
    assert_eq!(windows(&plain)[..both], windows(&moved)[..both]);
    assert_ne!(plain[0].windows, moved[0].windows, "it begins anew");
}

#[test]
fn a_path_whose_mtu_shrinks_is_found_and_no_other_connection_moves() {
    let (plain, _) = run(Change::Nothing);
    let (shrunk, flows) = run(Change::Shrinks(1_300));
    assert_whole(&shrunk);
    assert_eq!(flows, 2);
    assert!(
        plain[0].mtu > 1_300 && shrunk[0].mtu <= 1_300,
        "{}",
        shrunk[0].mtu
    );
    let both = plain[1].windows.len().min(shrunk[1].windows.len());
    assert_eq!(plain[1].windows[..both], shrunk[1].windows[..both]);
}
