//! The ends of a virtual path: a client a flow, and one server.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use fairwater_net::{Ecn, Time};
use noq_proto::congestion::ControllerFactory;
use noq_proto::rustls::RootCertStore;
use noq_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint,
    EndpointConfig, Event, FourTuple, HashedConnectionIdGenerator, PathId, ServerConfig,
    StreamEvent, StreamId, TransportConfig, VarInt,
};

use super::{Datagram, Network, VirtualError, VirtualFlow, client_address, server_address};
use crate::certificate::Certificate;

/// Receive windows and buffers: the path is to limit, not the ends.
const WINDOW: u32 = 64 << 20;

/// What is written at once.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// What all ends share.
pub(super) struct Ends {
    seed: u64,
    epoch: Instant,
    certificate: Certificate,
    server: Arc<ServerConfig>,
}

impl Ends {
    pub(super) fn new(seed: u64, epoch: Instant) -> Result<Self, VirtualError> {
        let tls = |error: &dyn std::fmt::Display| VirtualError::Tls(error.to_string());
        let certificate =
            Certificate::generate(["localhost".to_owned()]).map_err(|error| tls(&error))?;
        let chain = vec![certificate.certificate.clone()];
        let mut server = ServerConfig::with_single_cert(chain, certificate.key.clone_key())
            .map_err(|error| tls(&error))?;
        server.transport_config(Arc::new(transport(None)));
        Ok(Self {
            seed,
            epoch,
            certificate,
            server: Arc::new(server),
        })
    }

    /// An endpoint whose choices follow from the seed.
    fn endpoint(&self, number: u64, server: Option<Arc<ServerConfig>>) -> Endpoint {
        let seed = self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number;
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let mut config = EndpointConfig::default();
        config.rng_seed(Some(bytes));
        config.cid_generator(Arc::new(move || {
            Box::new(HashedConnectionIdGenerator::from_key(seed))
        }));
        Endpoint::new(Arc::new(config), server, true)
    }

    pub(super) fn server(&self) -> Server {
        Server {
            endpoint: self.endpoint(0, Some(Arc::clone(&self.server))),
            epoch: self.epoch,
            connections: BTreeMap::new(),
        }
    }

    pub(super) fn client(&self, number: usize, flow: &VirtualFlow) -> Client {
        Client {
            number,
            endpoint: self.endpoint(1 + number as u64, None),
            epoch: self.epoch,
            certificate: self.certificate.clone(),
            controllers: Arc::clone(&flow.controllers),
            start: Time::ZERO + flow.start,
            connection: None,
            stream: None,
            left: flow.bytes.unwrap_or(u64::MAX),
            is_writable: false,
            next_sent: Time::ZERO,
        }
    }
}

fn transport(controllers: Option<Arc<dyn ControllerFactory + Send + Sync>>) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .send_window(WINDOW.into())
        .enable_segmentation_offload(false);
    if let Some(controllers) = controllers {
        transport.congestion_controller_factory(controllers);
    }
    transport
}

/// A connection, and the timer that it asked for.
struct End {
    connection: Connection,
    handle: ConnectionHandle,
    epoch: Instant,
    /// What is to be sent may have changed.
    is_dirty: bool,
}

impl End {
    fn instant(&self, now: Time) -> Instant {
        self.epoch + now.since(Time::ZERO)
    }

    fn timeout(&mut self) -> Option<Time> {
        let at = self.connection.poll_timeout()?;
        Some(Time::ZERO + at.saturating_duration_since(self.epoch))
    }

    /// Lets timers expire.
    fn expire(&mut self, now: Time) {
        if self.timeout().is_some_and(|at| at <= now) {
            let instant = self.instant(now);
            self.connection.handle_timeout(instant);
            self.is_dirty = true;
        }
    }

    /// Passes on what connection and endpoint have for each other.
    fn settle(&mut self, endpoint: &mut Endpoint) {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
                self.is_dirty = true;
            }
        }
    }

    /// The next datagram.
    fn poll(&mut self, now: Time) -> Option<(Vec<u8>, Ecn)> {
        let instant = self.instant(now);
        let mut bytes = Vec::new();
        let transmit = self
            .connection
            .poll_transmit(instant, NonZeroUsize::MIN, &mut bytes);
        let Some(transmit) = transmit else {
            self.is_dirty = false;
            return None;
        };
        bytes.truncate(transmit.size);
        Some((bytes, from_codepoint(transmit.ecn)))
    }
}

fn from_codepoint(ecn: Option<EcnCodepoint>) -> Ecn {
    match ecn {
        None => Ecn::NotEct,
        Some(EcnCodepoint::Ect0) => Ecn::Ect0,
        Some(EcnCodepoint::Ect1) => Ecn::Ect1,
        Some(EcnCodepoint::Ce) => Ecn::Ce,
    }
}

fn to_codepoint(ecn: Ecn) -> Option<EcnCodepoint> {
    match ecn {
        Ecn::NotEct => None,
        Ecn::Ect0 => Some(EcnCodepoint::Ect0),
        Ecn::Ect1 => Some(EcnCodepoint::Ect1),
        Ecn::Ce => Some(EcnCodepoint::Ce),
    }
}

/// Who sends.
pub(super) struct Client {
    number: usize,
    endpoint: Endpoint,
    epoch: Instant,
    certificate: Certificate,
    controllers: Arc<dyn ControllerFactory + Send + Sync>,
    start: Time,
    connection: Option<End>,
    stream: Option<StreamId>,
    /// Bytes that are not written yet.
    left: u64,
    is_writable: bool,
    /// When the rate allows the next datagram.
    next_sent: Time,
}

impl Client {
    fn connect(&mut self, now: Time) -> Result<(), VirtualError> {
        let tls = |error: &dyn std::fmt::Display| VirtualError::Tls(error.to_string());
        let mut roots = RootCertStore::empty();
        roots
            .add(self.certificate.certificate.clone())
            .map_err(|error| tls(&error))?;
        let config = ClientConfig::with_root_certificates(Arc::new(roots));
        let mut config = config.map_err(|error| tls(&error))?;
        let controllers = Arc::clone(&self.controllers);
        config.transport_config(Arc::new(transport(Some(controllers))));
        let instant = self.epoch + now.since(Time::ZERO);
        let (handle, connection) =
            self.endpoint
                .connect(instant, config, server_address(), "localhost")?;
        self.connection = Some(End {
            connection,
            handle,
            epoch: self.epoch,
            is_dirty: true,
        });
        Ok(())
    }

    /// A datagram arrives; window and pacing rate after it.
    pub(super) fn receive(&mut self, now: Time, bytes: &[u8], ecn: Ecn) -> Option<(u64, u64)> {
        let end = self.connection.as_mut()?;
        let instant = end.instant(now);
        let path = FourTuple::new(server_address(), Some(client_address(self.number).ip()));
        let mut answer = Vec::new();
        let event =
            self.endpoint
                .handle(instant, path, to_codepoint(ecn), bytes.into(), &mut answer);
        if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
            end.connection.handle_event(event);
            end.is_dirty = true;
        }
        end.connection
            .congestion_state(PathId::ZERO)
            .map(|controller| {
                let metrics = controller.metrics();
                (metrics.congestion_window, metrics.pacing_rate.unwrap_or(0))
            })
    }

    /// Does what is due, and sends.
    pub(super) fn turn(&mut self, now: Time, network: &mut Network) -> Result<(), VirtualError> {
        if self.connection.is_none() && self.start <= now {
            self.connect(now)?;
        }
        let Some(end) = &mut self.connection else {
            return Ok(());
        };
        end.expire(now);
        end.settle(&mut self.endpoint);
        while let Some(event) = end.connection.poll() {
            match event {
                Event::Connected => {
                    self.stream = end.connection.streams().open(Dir::Uni);
                    self.is_writable = true;
                }
                Event::Stream(StreamEvent::Writable { .. }) => self.is_writable = true,
                Event::ConnectionLost { reason } => {
                    network.outcomes[self.number].lost = Some(reason.to_string());
                }
                _ => {}
            }
        }
        self.write();
        self.send(now, network);
        Ok(())
    }

    fn write(&mut self) {
        let (Some(end), Some(stream)) = (&mut self.connection, self.stream) else {
            return;
        };
        while self.is_writable {
            if self.left == 0 {
                // Told once; the stream may be gone.
                let _ = end.connection.send_stream(stream).finish();
                self.is_writable = false;
                end.is_dirty = true;
                return;
            }
            let chunk = usize::try_from(self.left).unwrap_or(usize::MAX);
            let chunk = &ZEROS[..chunk.min(ZEROS.len())];
            match end.connection.send_stream(stream).write(chunk) {
                Ok(written) => {
                    self.left -= written as u64;
                    end.is_dirty = true;
                }
                Err(_) => self.is_writable = false,
            }
        }
    }

    fn send(&mut self, now: Time, network: &mut Network) {
        let Some(end) = &mut self.connection else {
            return;
        };
        while end.is_dirty && self.next_sent <= now {
            let Some((bytes, ecn)) = end.poll(now) else {
                break;
            };
            let size = u32::try_from(bytes.len()).unwrap_or(0);
            network.outcomes[self.number].sent.push((now, size));
            let datagram = Datagram {
                flow: self.number,
                bytes,
                ecn,
            };
            network.forward.enqueue(now, datagram);
            let rate = end
                .connection
                .congestion_state(PathId::ZERO)
                .and_then(|controller| controller.metrics().pacing_rate);
            if let Some(rate) = rate.filter(|rate| *rate > 0) {
                let ns = u64::from(size).saturating_mul(1_000_000_000) / rate;
                self.next_sent = self.next_sent.max(now).plus_nanos(ns);
            }
        }
        end.settle(&mut self.endpoint);
    }

    pub(super) fn next(&self) -> Option<Time> {
        let Some(end) = &self.connection else {
            return Some(self.start);
        };
        let timeout = end.connection.poll_timeout();
        let timeout = timeout.map(|at| Time::ZERO + at.saturating_duration_since(end.epoch));
        let paced = end.is_dirty.then_some(self.next_sent);
        timeout.into_iter().chain(paced).min()
    }

    pub(super) fn mtu(&self) -> u16 {
        let end = self.connection.as_ref();
        end.map_or(0, |end| end.connection.current_mtu())
    }
}

/// Who receives.
pub(super) struct Server {
    endpoint: Endpoint,
    epoch: Instant,
    /// By flow.
    connections: BTreeMap<usize, End>,
}

impl Server {
    /// A datagram arrives.
    pub(super) fn receive(
        &mut self,
        now: Time,
        flow: usize,
        bytes: &[u8],
        ecn: Ecn,
        network: &mut Network,
    ) {
        let instant = self.epoch + now.since(Time::ZERO);
        let path = FourTuple::new(client_address(flow), Some(server_address().ip()));
        let mut answer = Vec::new();
        let event =
            self.endpoint
                .handle(instant, path, to_codepoint(ecn), bytes.into(), &mut answer);
        match event {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some(end) = self.connections.get_mut(&flow) {
                    end.connection.handle_event(event);
                    end.is_dirty = true;
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = self.endpoint.accept(incoming, instant, &mut answer, None);
                if let Ok((handle, connection)) = accepted {
                    let end = End {
                        connection,
                        handle,
                        epoch: self.epoch,
                        is_dirty: true,
                    };
                    self.connections.insert(flow, end);
                }
            }
            Some(DatagramEvent::Response(transmit)) => {
                answer.truncate(transmit.size);
                let ecn = from_codepoint(transmit.ecn);
                let bytes = answer;
                network.reverse.enqueue(now, Datagram { flow, bytes, ecn });
            }
            None => {}
        }
    }

    /// Does what is due, reads, and acknowledges.
    pub(super) fn turn(&mut self, now: Time, network: &mut Network) {
        for (flow, end) in &mut self.connections {
            end.expire(now);
            end.settle(&mut self.endpoint);
            while let Some(event) = end.connection.poll() {
                match event {
                    Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                        while let Some(stream) = end.connection.streams().accept(Dir::Uni) {
                            read(end, stream, now, &mut network.outcomes[*flow]);
                        }
                    }
                    Event::Stream(StreamEvent::Readable { id }) => {
                        read(end, id, now, &mut network.outcomes[*flow]);
                    }
                    _ => {}
                }
            }
            while end.is_dirty {
                let Some((bytes, ecn)) = end.poll(now) else {
                    break;
                };
                let flow = *flow;
                network.reverse.enqueue(now, Datagram { flow, bytes, ecn });
            }
            end.settle(&mut self.endpoint);
        }
    }

    pub(super) fn next(&self) -> Option<Time> {
        let timeouts = self
            .connections
            .values()
            .filter_map(|end| Some((end.connection.poll_timeout()?, end.epoch)));
        timeouts
            .map(|(at, epoch)| Time::ZERO + at.saturating_duration_since(epoch))
            .min()
    }
}

/// Reads what a stream has.
fn read(end: &mut End, stream: StreamId, now: Time, outcome: &mut super::FlowOutcome) {
    let mut receive = end.connection.recv_stream(stream);
    let Ok(mut chunks) = receive.read(true) else {
        return;
    };
    loop {
        match chunks.next(usize::MAX) {
            Ok(Some(chunk)) => outcome.read += chunk.bytes.len() as u64,
            Ok(None) => {
                outcome.finished.get_or_insert(now);
                break;
            }
            Err(_) => break,
        }
    }
    let _ = chunks.finalize();
    end.is_dirty = true;
}
