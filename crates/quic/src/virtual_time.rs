//! noq connections over an emulated path in virtual time.
//!
//! noq's core is sans-IO, and so are [`fairwater_net`]'s links: this is the loop between them. It
//! asks connections for one datagram at a time and spaces the datagrams by the controller's rate
//! itself, so that no token bucket makes bursts. A run depends on nothing but its configuration and
//! its seed: TLS has randomness of its own, but nothing has another size or time for that.

mod ends;

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fairwater_net::{Capacity, DropReason, Ecn, Link, LinkSpec, Packet, PacketTimes, Time};
use noq_proto::congestion::ControllerFactory;
use thiserror::Error;

use ends::{Client, Ends, Server};

/// Bytes of IPv4 and UDP headers on each datagram.
const HEADERS: u32 = 28;

/// One connection that sends towards the server.
#[derive(Clone)]
pub struct VirtualFlow {
    /// Makes its controller.
    pub controllers: Arc<dyn ControllerFactory + Send + Sync>,
    /// When it connects.
    pub start: Duration,
    /// How many bytes it sends; `None` for as many as it can.
    pub bytes: Option<u64>,
}

/// What is run.
#[derive(Clone)]
pub struct VirtualRun {
    /// The path.
    pub link: LinkSpec,
    /// Virtual time.
    pub duration: Duration,
    /// Seed of the endpoints, and of the link's losses.
    pub seed: u64,
    /// Time 0: the same as that of [`crate::Options::lockstep`].
    pub start: Instant,
    /// Who sends.
    pub flows: Vec<VirtualFlow>,
}

/// Why nothing was run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum VirtualError {
    /// The link is a delivery trace, which only [`VirtualRun::run_over`] takes.
    #[error("a delivery trace is to be read first")]
    Trace,
    /// The observer ended it.
    #[error("stopped")]
    Stopped,
    /// TLS or its certificate.
    #[error("TLS: {0}")]
    Tls(String),
    /// A connection could not be made.
    #[error(transparent)]
    Connect(#[from] noq_proto::ConnectError),
}

/// A datagram that the link dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DroppedDatagram {
    /// When.
    pub at: Time,
    /// Bytes with headers.
    pub size_bytes: u32,
    /// Why.
    pub reason: DropReason,
}

/// What one connection did.
#[derive(Debug, Clone, Default)]
pub struct FlowOutcome {
    /// Bytes that the server's application read.
    pub read: u64,
    /// When the server had read all of [`VirtualFlow::bytes`].
    pub finished: Option<Time>,
    /// Packets that left the bottleneck: sizes with headers.
    pub packets: Vec<PacketTimes>,
    /// When datagrams were handed to the link, and their sizes without headers.
    pub sent: Vec<(Time, u32)>,
    /// Window in bytes, and pacing rate in bytes/s (0 for none), after each datagram from the server.
    pub controls: Vec<(Time, u64, u64)>,
    /// Datagrams that the link dropped.
    pub dropped: Vec<DroppedDatagram>,
    /// Why the connection was lost.
    pub lost: Option<String>,
    /// Path MTU at the end, bytes of UDP payload.
    pub mtu: u16,
}

impl FlowOutcome {
    /// Bits that left the bottleneck between these times, per second.
    #[must_use]
    pub fn throughput_bps(&self, from: Time, to: Time) -> f64 {
        let within = |packet: &&PacketTimes| (from..to).contains(&packet.departed);
        let packets = self.packets.iter().filter(within);
        let bytes: u64 = packets.map(|packet| u64::from(packet.size_bytes)).sum();
        8.0 * bytes as f64 / to.since(from).as_secs_f64()
    }

    /// Mean window between these times, bytes.
    #[must_use]
    pub fn mean_window(&self, from: Time, to: Time) -> f64 {
        let within: Vec<_> = self
            .controls
            .iter()
            .filter(|(at, ..)| (from..to).contains(at))
            .collect();
        let sum: u64 = within.iter().map(|(_, window, _)| window).sum();
        sum as f64 / within.len().max(1) as f64
    }

    /// The longest wait in the bottleneck's queue between these times.
    #[must_use]
    pub fn longest_queue(&self, from: Time, to: Time) -> Duration {
        let within = |packet: &&PacketTimes| (from..to).contains(&packet.departed);
        let delays = self.packets.iter().filter(within);
        let longest = delays.map(PacketTimes::queueing_delay).max();
        longest.unwrap_or_default()
    }
}

/// A UDP datagram on a link.
struct Datagram {
    flow: usize,
    bytes: Vec<u8>,
    ecn: Ecn,
}

impl Packet for Datagram {
    fn size_bytes(&self) -> u32 {
        HEADERS + u32::try_from(self.bytes.len()).unwrap_or(0)
    }

    fn flow(&self) -> u64 {
        self.flow as u64
    }

    fn ecn(&self) -> Ecn {
        self.ecn
    }

    fn mark_ce(&mut self) {
        self.ecn = Ecn::Ce;
    }
}

/// The server's address.
fn server_address() -> SocketAddr {
    (Ipv4Addr::new(192, 0, 2, 1), 443).into()
}

/// Each client has a port of its own.
fn client_address(flow: usize) -> SocketAddr {
    let port = 10_000 + u16::try_from(flow).unwrap_or(u16::MAX - 10_000);
    (Ipv4Addr::new(198, 51, 100, 1), port).into()
}

impl VirtualRun {
    /// Runs it over a link with a rate.
    ///
    /// # Errors
    /// See [`VirtualError`].
    pub fn run(&self) -> Result<Vec<FlowOutcome>, VirtualError> {
        let capacity: Capacity = self.link.capacity.load(|_| Err(VirtualError::Trace))?;
        self.run_over(&capacity, &mut |_| ControlFlow::Continue(()))
    }

    /// Runs it over a link of this capacity. `observe` hears the time at each event, and may end it.
    ///
    /// # Errors
    /// See [`VirtualError`].
    pub fn run_over(
        &self,
        capacity: &Capacity,
        observe: &mut dyn FnMut(Time) -> ControlFlow<()>,
    ) -> Result<Vec<FlowOutcome>, VirtualError> {
        let link = LinkSpec {
            seed: self.seed,
            ..self.link.clone()
        };
        let ends = Ends::new(self.seed, self.start)?;
        let mut network = Network {
            forward: link.forward(capacity),
            reverse: link.reverse(),
            outcomes: vec![FlowOutcome::default(); self.flows.len()],
        };
        let mut server = ends.server();
        let mut clients: Vec<_> = (0..self.flows.len())
            .map(|flow| ends.client(flow, &self.flows[flow]))
            .collect();
        let mut now = Time::ZERO;
        let end = Time::ZERO + self.duration;
        loop {
            if observe(now).is_break() {
                return Err(VirtualError::Stopped);
            }
            network.deliver(now, &mut clients, &mut server);
            for client in &mut clients {
                client.turn(now, &mut network)?;
            }
            server.turn(now, &mut network);
            let next = network
                .next()
                .into_iter()
                .chain(clients.iter().filter_map(Client::next))
                .chain(server.next())
                .min();
            match next {
                Some(next) if next < end => now = next.max(now.plus_nanos(1)),
                _ => break,
            }
        }
        for (client, outcome) in clients.iter().zip(&mut network.outcomes) {
            outcome.mtu = client.mtu();
        }
        Ok(network.outcomes)
    }
}

/// The two links, and what is written down.
struct Network {
    forward: Link<Datagram>,
    reverse: Link<Datagram>,
    outcomes: Vec<FlowOutcome>,
}

impl Network {
    fn next(&self) -> Option<Time> {
        let both = [self.forward.next_departure(), self.reverse.next_departure()];
        both.into_iter().flatten().min()
    }

    fn deliver(&mut self, now: Time, clients: &mut [Client], server: &mut Server) {
        while let Some(delivered) = self.forward.poll(now) {
            let Datagram { flow, bytes, ecn } = delivered.packet;
            self.outcomes[flow].packets.push(delivered.times);
            server.receive(now, flow, &bytes, ecn, self);
        }
        for dropped in self.forward.drain_dropped() {
            let datagram = DroppedDatagram {
                at: dropped.at,
                size_bytes: dropped.packet.size_bytes(),
                reason: dropped.reason,
            };
            self.outcomes[dropped.packet.flow].dropped.push(datagram);
        }
        while let Some(delivered) = self.reverse.poll(now) {
            let Datagram { flow, bytes, ecn } = delivered.packet;
            if let Some((window, rate)) = clients[flow].receive(now, &bytes, ecn) {
                self.outcomes[flow].controls.push((now, window, rate));
            }
        }
    }
}
