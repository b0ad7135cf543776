//! A host: connections by address, listening ports, and the datapath whose flows they are.

mod hosted;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::hash::Hasher;
use std::net::SocketAddr;

use fairwater_datapath::{Datapath, PeerId};
use fairwater_net::Time;
use fairwater_proto::FlowId;
use fairwater_wire::{Packet, Seq, Tcp, TcpFlags};
use siphasher::sip::SipHasher13;
use slab::Slab;

use crate::icmp::TooBig;
use crate::{
    ConnectError, Connection, EndpointConfig, Numbers, State, Statistics, StreamError, reset,
};
use hosted::Hosted;

/// Most resets and accepted connections that wait.
const MAX_RESETS: usize = 256;

/// Bytes of a reset with the headers of IPv6.
const RESET_BYTES: usize = 60;

/// Names a connection of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnectionId {
    slot: usize,
    /// Tells it from those that had its slot before.
    generation: u64,
}

/// A host in user space. Packets of all its connections go in and come out; each connection is a flow of a
/// [`Datapath`], which the calls are given: the caller carries its messages to and from the plane.
///
/// A connection that is closed stays until [`Endpoint::release`], so that its state and what arrived can be read; one
/// that was released goes when it is closed.
#[derive(Debug)]
pub struct Endpoint {
    config: EndpointConfig,
    peer: PeerId,
    hosted: Slab<Hosted>,
    by_ends: HashMap<(SocketAddr, SocketAddr), usize>,
    begun: u64,
    listeners: BTreeMap<SocketAddr, String>,
    half_open: usize,
    accepted: VecDeque<ConnectionId>,
    timers: BTreeSet<(Time, usize)>,
    /// Connections that may have something to send, each once.
    ready: VecDeque<usize>,
    resets: VecDeque<([u8; RESET_BYTES], usize)>,
    statistics: Statistics,
}

impl Endpoint {
    /// A host without connections, whose flows are the plane's that the datapath knows as `peer`.
    #[must_use]
    pub fn new(config: EndpointConfig, peer: PeerId) -> Self {
        Self {
            config,
            peer,
            hosted: Slab::new(),
            by_ends: HashMap::new(),
            begun: 0,
            listeners: BTreeMap::new(),
            half_open: 0,
            accepted: VecDeque::new(),
            timers: BTreeSet::new(),
            ready: VecDeque::new(),
            resets: VecDeque::new(),
            statistics: Statistics::default(),
        }
    }

    /// Accepts connections to an address and port; an unspecified address stands for all. They ask for `algorithm`.
    pub fn listen(&mut self, local: SocketAddr, algorithm: &str) {
        self.listeners.insert(local, algorithm.to_owned());
    }

    /// Accepts no more there. Connections go on.
    pub fn stop_listening(&mut self, local: SocketAddr) {
        self.listeners.remove(&local);
    }

    /// The next connection that a peer has begun and whose handshake is done.
    pub fn accept(&mut self) -> Option<ConnectionId> {
        self.accepted.pop_front()
    }

    /// Begins a connection that asks for `algorithm`; empty for the plane's first.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect(
        &mut self,
        now: Time,
        local: SocketAddr,
        remote: SocketAddr,
        algorithm: &str,
    ) -> Result<ConnectionId, ConnectError> {
        if local.is_ipv4() != remote.is_ipv4() {
            return Err(ConnectError::Families);
        }
        if self.by_ends.contains_key(&(local, remote)) {
            return Err(ConnectError::InUse);
        }
        if self.hosted.len() >= self.config.max_connections {
            return Err(ConnectError::Full);
        }
        let numbers = self.numbers(now, local, remote);
        let config = self.config.connection.clone();
        let connection = Connection::connect(config, (local, remote), numbers);
        let slot = self.host(connection, algorithm, false);
        Ok(self.name(slot))
    }

    fn host(&mut self, connection: Connection, algorithm: &str, is_half_open: bool) -> usize {
        let ends = (connection.local(), connection.remote());
        self.begun += 1;
        let slot = self.hosted.insert(Hosted {
            connection,
            generation: self.begun,
            algorithm: algorithm.to_owned(),
            flow: None,
            timer: None,
            is_ready: false,
            is_half_open,
            is_released: false,
            progress: None,
            ends_at: None,
        });
        self.half_open += usize::from(is_half_open);
        self.by_ends.insert(ends, slot);
        self.wake(slot);
        slot
    }

    /// RFC 6528 §3: a clock of 4 µs and a keyed hash of the addresses.
    fn numbers(&self, now: Time, local: SocketAddr, remote: SocketAddr) -> Numbers {
        let mut hasher = SipHasher13::new_with_key(&self.config.key);
        for end in [local, remote] {
            match end.ip() {
                std::net::IpAddr::V4(address) => hasher.write(&address.octets()),
                std::net::IpAddr::V6(address) => hasher.write(&address.octets()),
            }
            hasher.write_u16(end.port());
        }
        let hash = hasher.finish();
        let (high, low) = ((hash >> 32) as u32, hash as u32);
        let clock = (now.as_nanos() >> 12) as u32;
        Numbers {
            isn: Seq(high.wrapping_add(clock)),
            timestamp_offset: low,
        }
    }

    fn name(&self, slot: usize) -> ConnectionId {
        let generation = self.hosted.get(slot).map_or(0, |hosted| hosted.generation);
        ConnectionId { slot, generation }
    }

    fn slot_of(&self, id: ConnectionId) -> Option<usize> {
        let hosted = self.hosted.get(id.slot)?;
        (hosted.generation == id.generation).then_some(id.slot)
    }

    /// A connection; `None` if it is gone.
    #[must_use]
    pub fn connection(&self, id: ConnectionId) -> Option<&Connection> {
        let slot = self.slot_of(id)?;
        self.hosted.get(slot).map(|hosted| &hosted.connection)
    }

    /// The flow of a connection in the datapath, while data can flow.
    #[must_use]
    pub fn flow(&self, id: ConnectionId) -> Option<FlowId> {
        let slot = self.slot_of(id)?;
        self.hosted.get(slot)?.flow.map(|flow| flow.id)
    }

    /// All connections.
    pub fn connections(&self) -> impl Iterator<Item = (ConnectionId, &Connection)> {
        self.hosted
            .iter()
            .map(|(slot, hosted)| (self.name(slot), &hosted.connection))
    }

    /// What was counted so far.
    #[must_use]
    pub const fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// [`Connection::write`].
    ///
    /// # Errors
    /// See [`StreamError`].
    pub fn write(&mut self, id: ConnectionId, bytes: &[u8]) -> Result<usize, StreamError> {
        self.change(id, |connection| connection.write(bytes))?
    }

    /// [`Connection::read`].
    ///
    /// # Errors
    /// There is no such connection.
    pub fn read(&mut self, id: ConnectionId, out: &mut [u8]) -> Result<usize, StreamError> {
        self.change(id, |connection| connection.read(out))
    }

    /// [`Connection::shutdown`].
    ///
    /// # Errors
    /// There is no such connection.
    pub fn shutdown(&mut self, id: ConnectionId) -> Result<(), StreamError> {
        self.change(id, Connection::shutdown)
    }

    /// [`Connection::abort`]; the connection is released too.
    ///
    /// # Errors
    /// There is no such connection.
    pub fn abort(&mut self, datapath: &mut Datapath, id: ConnectionId) -> Result<(), StreamError> {
        self.change(id, Connection::abort)?;
        if let Some(hosted) = self.hosted.get_mut(id.slot) {
            hosted.is_released = true;
            hosted.end_flow(datapath);
        }
        Ok(())
    }

    /// The application has no more use for a connection. What was written still goes to the peer, with a FIN behind;
    /// then the connection is gone. Data that comes, or was not read, is answered by a reset: nobody would read it
    /// (RFC 9293 §3.6.1). The peer has [`crate::Config::time_wait`] to end its side, and as long to acknowledge more of
    /// what was written: a peer that says for ever that its window is closed holds nothing here.
    ///
    /// # Errors
    /// There is no such connection.
    pub fn release(
        &mut self,
        datapath: &mut Datapath,
        id: ConnectionId,
    ) -> Result<(), StreamError> {
        self.change(id, |connection| {
            connection.shutdown();
            if connection.readable() > 0 {
                connection.abort();
            }
        })?;
        if let Some(hosted) = self.hosted.get_mut(id.slot) {
            hosted.is_released = true;
            // What was reset has no packet or timer to come that would end its flow.
            if hosted.connection.state() == State::Closed {
                hosted.end_flow(datapath);
            }
        }
        Ok(())
    }

    fn change<T>(
        &mut self,
        id: ConnectionId,
        change: impl FnOnce(&mut Connection) -> T,
    ) -> Result<T, StreamError> {
        let slot = self.slot_of(id).ok_or(StreamError::Unknown)?;
        let hosted = self.hosted.get_mut(slot).ok_or(StreamError::Unknown)?;
        let changed = change(&mut hosted.connection);
        self.wake(slot);
        Ok(changed)
    }

    /// The connection may have something to send.
    fn wake(&mut self, slot: usize) {
        if let Some(hosted) = self.hosted.get_mut(slot)
            && !std::mem::replace(&mut hosted.is_ready, true)
        {
            self.ready.push_back(slot);
        }
    }

    /// An IP packet arrived.
    pub fn on_packet(&mut self, now: Time, datapath: &mut Datapath, bytes: &[u8]) {
        self.statistics.received += 1;
        let Ok(packet) = Packet::parse_ip(bytes) else {
            self.statistics.malformed += 1;
            return;
        };
        let Some(tcp) = packet.tcp() else {
            self.on_message(datapath, &packet);
            return;
        };
        if !packet.has_valid_checksums() {
            self.statistics.bad_checksums += 1;
            return;
        }
        if tcp.option_summary().is_err() {
            self.statistics.malformed += 1;
            return;
        }
        let local = SocketAddr::new(packet.destination(), tcp.destination_port());
        let remote = SocketAddr::new(packet.source(), tcp.source_port());
        match self.by_ends.get(&(local, remote)).copied() {
            Some(slot) if self.is_reopened(slot, &tcp) => {
                self.remove(slot, datapath);
                self.on_stranger(now, &packet, &tcp, local, remote);
            }
            Some(slot) => {
                if let Some(hosted) = self.hosted.get_mut(slot) {
                    hosted.connection.on_segment(now, &packet);
                    if hosted.is_released && hosted.connection.readable() > 0 {
                        hosted.connection.abort();
                    }
                }
                self.run_flow(now, datapath, slot);
                self.wake(slot);
            }
            None => self.on_stranger(now, &packet, &tcp, local, remote),
        }
    }

    /// RFC 9293 §3.10.7.4 and RFC 6191 §2: a SYN beyond all that a connection in TIME-WAIT has seen opens another. So
    /// does one for a connection that is closed and kept for its application alone.
    fn is_reopened(&self, slot: usize, tcp: &Tcp<'_>) -> bool {
        let Some(hosted) = self.hosted.get(slot) else {
            return false;
        };
        let flags = tcp.flags();
        if !flags.contains(TcpFlags::SYN) || flags.intersects(TcpFlags::ACK | TcpFlags::RST) {
            return false;
        }
        match hosted.connection.state() {
            State::TimeWait => hosted.is_released && hosted.connection.is_beyond(tcp.seq()),
            _ => false,
        }
    }

    /// A segment of no connection: a SYN to a listening port, or a mistake.
    fn on_stranger(
        &mut self,
        now: Time,
        packet: &Packet<'_>,
        tcp: &Tcp<'_>,
        local: SocketAddr,
        remote: SocketAddr,
    ) {
        let others = TcpFlags::ACK | TcpFlags::RST | TcpFlags::FIN;
        let is_syn = tcp.flags().contains(TcpFlags::SYN) && !tcp.flags().intersects(others);
        let algorithm = self.listener(local).filter(|_| is_syn).cloned();
        let Some(algorithm) = algorithm else {
            self.statistics.stray += 1;
            self.reset(packet, tcp);
            return;
        };
        let is_full = self.hosted.len() >= self.config.max_connections
            || self.half_open >= self.config.max_half_open;
        if is_full {
            self.statistics.refused += 1;
            return;
        }
        let numbers = self.numbers(now, local, remote);
        let config = self.config.connection.clone();
        if let Some(connection) = Connection::accept(config, packet, numbers) {
            self.host(connection, &algorithm, true);
        }
    }

    fn listener(&self, local: SocketAddr) -> Option<&String> {
        let any: SocketAddr = match local {
            SocketAddr::V4(_) => (std::net::Ipv4Addr::UNSPECIFIED, local.port()).into(),
            SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, local.port()).into(),
        };
        self.listeners
            .get(&local)
            .or_else(|| self.listeners.get(&any))
    }

    fn reset(&mut self, packet: &Packet<'_>, tcp: &Tcp<'_>) {
        let mut bytes = [0; RESET_BYTES];
        if self.resets.len() < MAX_RESETS
            && let Some(length) = reset::answer(packet, tcp, &mut bytes)
        {
            self.resets.push_back((bytes, length));
        }
    }

    /// A packet that is no TCP segment: perhaps a message about one that was too big.
    fn on_message(&mut self, datapath: &mut Datapath, packet: &Packet<'_>) {
        let Some(report) = TooBig::parse(packet) else {
            self.statistics.malformed += 1;
            return;
        };
        let ends = (report.local, report.remote);
        let Some(&slot) = self.by_ends.get(&ends) else {
            return;
        };
        let Some(hosted) = self.hosted.get_mut(slot) else {
            return;
        };
        if let Some(mss) = hosted.connection.on_path_mtu(report.mtu, report.seq)
            && let Some(flow) = hosted.flow
        {
            // A flow of this endpoint, and a size above 0.
            let _ = datapath.set_mss(flow.id, mss);
        }
    }

    /// When [`Self::on_timer`] is to be called next.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Time> {
        self.timers.first().map(|&(at, _)| at)
    }

    /// Does what is due by `now`.
    pub fn on_timer(&mut self, now: Time, datapath: &mut Datapath) {
        while let Some(&(at, slot)) = self.timers.first()
            && at <= now
        {
            self.timers.pop_first();
            let Some(hosted) = self.hosted.get_mut(slot) else {
                continue;
            };
            hosted.timer = None;
            hosted.connection.on_timer(now);
            if hosted.ends_at.is_some_and(|at| at <= now) {
                hosted.ends_at = None;
                if hosted.connection.state() != State::TimeWait {
                    hosted.connection.abort();
                }
            }
            self.run_flow(now, datapath, slot);
            self.wake(slot);
        }
    }

    /// Writes the next IP packet to send at the beginning of `out`, which has room for the MTU, and returns its length,
    /// bytes; call it until there is none. Connections take turns.
    pub fn poll_transmit(&mut self, now: Time, out: &mut [u8]) -> Option<usize> {
        if let Some((bytes, length)) = self.resets.pop_front() {
            let packet = bytes.get(..length)?;
            out.get_mut(..length)?.copy_from_slice(packet);
            self.statistics.sent += 1;
            return Some(length);
        }
        while let Some(slot) = self.ready.pop_front() {
            let Some(hosted) = self.hosted.get_mut(slot) else {
                continue;
            };
            if let Some(length) = hosted.connection.poll_transmit(now, out) {
                self.ready.push_back(slot);
                self.statistics.sent += 1;
                return Some(length);
            }
            hosted.is_ready = false;
            self.settle(now, slot);
        }
        None
    }

    /// A connection has nothing to send now: sets its timer, and forgets one that has ended.
    fn settle(&mut self, now: Time, slot: usize) {
        let time_wait = self.config.connection.time_wait;
        let Some(hosted) = self.hosted.get_mut(slot) else {
            return;
        };
        let state = hosted.connection.state();
        hosted.limit_orphan(now, time_wait);
        let next = hosted.connection.next_timeout();
        let next = next.into_iter().chain(hosted.ends_at).min();
        if next != hosted.timer {
            if let Some(at) = std::mem::replace(&mut hosted.timer, next) {
                self.timers.remove(&(at, slot));
            }
            self.timers.extend(next.map(|at| (at, slot)));
        }
        let is_over = state == State::Closed && hosted.flow.is_none();
        if is_over && (hosted.is_released || hosted.is_half_open) {
            self.forget(slot);
        }
    }

    /// Takes a connection's event to its flow.
    fn run_flow(&mut self, now: Time, datapath: &mut Datapath, slot: usize) {
        let peer = self.peer;
        let id = self.name(slot);
        let Some(hosted) = self.hosted.get_mut(slot) else {
            return;
        };
        let state = hosted.connection.state();
        if hosted.is_half_open && state != State::SynReceived && state != State::Closed {
            hosted.is_half_open = false;
            self.half_open -= 1;
            self.accepted.push_back(id);
        }
        if state.is_synchronized() {
            hosted.start_flow(now, datapath, peer);
            hosted.invoke(datapath);
        } else {
            hosted.end_flow(datapath);
        }
    }

    fn remove(&mut self, slot: usize, datapath: &mut Datapath) {
        if let Some(hosted) = self.hosted.get_mut(slot) {
            hosted.end_flow(datapath);
        }
        self.forget(slot);
    }

    fn forget(&mut self, slot: usize) {
        let Some(hosted) = self.hosted.try_remove(slot) else {
            return;
        };
        if let Some(at) = hosted.timer {
            self.timers.remove(&(at, slot));
        }
        if hosted.is_ready {
            self.ready.retain(|&other| other != slot);
        }
        self.half_open -= usize::from(hosted.is_half_open);
        let ends = (hosted.connection.local(), hosted.connection.remote());
        self.by_ends.remove(&ends);
    }
}
