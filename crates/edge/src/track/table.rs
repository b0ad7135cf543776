//! The flow table: who is in it, who gets in, who goes.

use std::collections::HashMap;
use std::time::Duration;

use fairwater_net::Time;
use fairwater_wire::{Seq, TcpFlags};
use slab::Slab;

use super::candidates::{Candidate, Candidates, Keyed};
use super::{EcnMode, Event, Flow, HalfOpen};
use crate::{Direction, FlowKey, Segment};

/// How much a table keeps, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableConfig {
    /// Most open connections.
    pub max_flows: usize,
    /// Most open connections of one guest's port, so that no guest can take the places of others.
    pub max_flows_per_interface: usize,
    /// Most connections of one guest's port that are opening, or were met midway and not yet seen in both
    /// directions. A guest that opens more displaces its own.
    pub max_half_open: usize,
    /// Open connections without a packet for so long are forgotten (RFC 5382 §5: 2 h 4 min at least).
    pub idle: Duration,
    /// Connections that end are forgotten after so long without a packet.
    pub closing: Duration,
    /// Connections that are opening are forgotten after so long.
    pub half_open: Duration,
    /// Key of the hash, so that nobody can choose connections that collide: a random number.
    pub hash_key: u64,
}

impl Default for TableConfig {
    fn default() -> Self {
        Self {
            max_flows: 1 << 17,
            max_flows_per_interface: 1 << 16,
            max_half_open: 1 << 12,
            idle: Duration::from_secs(124 * 60),
            closing: Duration::from_secs(10),
            half_open: Duration::from_secs(30),
            hash_key: 0,
        }
    }
}

/// Why a packet changed nothing in the table. It passes untouched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ignored {
    /// Its sequence number is outside the receiver's window.
    OutOfWindow,
    /// It acknowledges what was never sent.
    AckBeyond,
    /// It is older than another.
    AckOld,
    /// A reset that its receiver would not believe.
    ResetOutOfWindow,
    /// A SYN's answer, or a reset, of no connection that is known.
    Unknown,
    /// The connection is open, and there is no room for it.
    Full,
}

/// What a packet was to the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// Nothing.
    Ignored(Ignored),
    /// It belongs to a connection that opens.
    Opening,
    /// The first packet of a connection that is open now, by its number. It may have data.
    Opened(usize, Event),
    /// Of an open connection, by its number.
    Open(usize, Event),
}

/// An entry of the table: the connection, and what the table's owner keeps of it.
#[derive(Debug)]
struct Entry<T> {
    key: FlowKey,
    flow: Flow,
    data: T,
}

/// Connections by key, and for each what the owner keeps of it.
///
/// A connection gets a place of its own when its third packet comes, from the end that opened it and with
/// the right numbers. Until then it is a candidate, and candidates displace only older candidates of the same port: a
/// flood of SYNs costs no open connection its place, and no other guest anything. A SYN on the ports of an open connection is a candidate like
/// any other, and replaces the connection when it is completed.
#[derive(Debug)]
pub struct Table<T> {
    config: TableConfig,
    flows: Slab<Entry<T>>,
    by_key: HashMap<FlowKey, usize, Keyed>,
    per_interface: HashMap<u32, usize>,
    candidates: Candidates,
}

impl<T: Default> Table<T> {
    /// An empty one.
    #[must_use]
    pub fn new(config: TableConfig) -> Self {
        let keyed = Keyed(config.hash_key);
        Self {
            config,
            flows: Slab::new(),
            by_key: HashMap::with_hasher(keyed),
            per_interface: HashMap::new(),
            candidates: Candidates::new(config.max_half_open, keyed),
        }
    }

    /// How much the table keeps, and for how long.
    pub(crate) const fn config(&self) -> &TableConfig {
        &self.config
    }

    /// Open connections.
    #[must_use]
    pub fn len(&self) -> usize {
        self.flows.len()
    }

    /// Whether there is no open connection.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Connections that are opening, or were met midway and seen in one direction.
    #[must_use]
    pub fn candidates(&self) -> usize {
        self.candidates.len()
    }

    /// Candidates that were displaced by later ones.
    #[must_use]
    pub const fn evicted(&self) -> u64 {
        self.candidates.evicted()
    }

    /// The number of an open connection.
    #[must_use]
    pub fn find(&self, key: &FlowKey) -> Option<usize> {
        self.by_key.get(key).copied()
    }

    /// The connection of that key that is opening.
    #[must_use]
    pub fn half_open(&self, key: &FlowKey) -> Option<&HalfOpen> {
        match self.candidates.get(key)? {
            Candidate::Opening(half_open) => Some(half_open),
            Candidate::Midway(..) => None,
        }
    }

    pub(crate) fn half_open_mut(&mut self, key: &FlowKey) -> Option<&mut HalfOpen> {
        match self.candidates.get_mut(key)? {
            Candidate::Opening(half_open) => Some(half_open),
            Candidate::Midway(..) => None,
        }
    }

    /// An open connection, and what the owner keeps of it.
    #[must_use]
    pub fn get(&self, id: usize) -> Option<(&FlowKey, &Flow, &T)> {
        let entry = self.flows.get(id)?;
        Some((&entry.key, &entry.flow, &entry.data))
    }

    /// An open connection, and what the owner keeps of it.
    pub fn get_mut(&mut self, id: usize) -> Option<(&FlowKey, &mut Flow, &mut T)> {
        let entry = self.flows.get_mut(id)?;
        Some((&entry.key, &mut entry.flow, &mut entry.data))
    }

    /// The open connections.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &FlowKey, &Flow, &T)> {
        let entries = self.flows.iter();
        entries.map(|(id, entry)| (id, &entry.key, &entry.flow, &entry.data))
    }

    /// A packet passes.
    pub fn on_packet(
        &mut self,
        now: Time,
        key: &FlowKey,
        direction: Direction,
        segment: &Segment,
        owner: &mut impl Owner<T>,
    ) -> Seen {
        if segment.has(TcpFlags::SYN) {
            return self.on_syn(now, key, direction, segment, owner);
        }
        if let Some(seen) = self.promote(now, key, direction, segment, owner) {
            return seen;
        }
        let Some(id) = self.find(key) else {
            return self.on_unknown(now, key, direction, segment);
        };
        match self.observe(id, now, direction, segment, owner) {
            Ok(event) => Seen::Open(id, event),
            Err(ignored) => Seen::Ignored(ignored),
        }
    }

    fn observe(
        &mut self,
        id: usize,
        now: Time,
        direction: Direction,
        segment: &Segment,
        owner: &mut impl Owner<T>,
    ) -> Result<Event, Ignored> {
        let entry = self.flows.get_mut(id).ok_or(Ignored::Unknown)?;
        let edge = owner.edge(&entry.flow, &entry.data);
        entry.flow.on_packet(now, direction, segment, edge)
    }

    fn on_syn(
        &mut self,
        now: Time,
        key: &FlowKey,
        direction: Direction,
        segment: &Segment,
        owner: &mut impl Owner<T>,
    ) -> Seen {
        if let Some(Candidate::Opening(half_open)) = self.candidates.get_mut(key)
            && half_open.on_syn(direction, segment)
        {
            return Seen::Opening;
        }
        if segment.has(TcpFlags::ACK) {
            // A SYN's answer that comes once more, after the third packet.
            return match self.find(key) {
                Some(id) => match self.observe(id, now, direction, segment, owner) {
                    Ok(_) => Seen::Opening,
                    Err(ignored) => Seen::Ignored(ignored),
                },
                None => Seen::Ignored(Ignored::Unknown),
            };
        }
        let half_open = HalfOpen::new(now, direction, segment, key.guest.is_ipv6());
        self.candidates.add(now, key, Candidate::Opening(half_open));
        Seen::Opening
    }

    /// Gives a candidate a place of its own if this packet proves that both ends are there.
    fn promote(
        &mut self,
        now: Time,
        key: &FlowKey,
        direction: Direction,
        segment: &Segment,
        owner: &mut impl Owner<T>,
    ) -> Option<Seen> {
        if self.candidates.is_empty() {
            return None;
        }
        let flow = match self.candidates.get(key)? {
            Candidate::Opening(half_open) => {
                if !half_open.is_completed_by(direction, segment) {
                    return None;
                }
                Flow::opened(now, half_open, owner.ecn(key, half_open))?
            }
            Candidate::Midway(sent, _) => {
                // The peer acknowledges what the guest has sent: both are there.
                let is_answer = direction == Direction::ToGuest
                    && segment.has(TcpFlags::ACK)
                    && !segment.has(TcpFlags::RST)
                    && segment
                        .ack
                        .is_within(sent.seq, sent.length().saturating_add(1))
                    && segment.seq.bytes_since(sent.ack) <= u32::from(u16::MAX);
                if !is_answer {
                    return None;
                }
                Flow::midway(now, sent, MIDWAY_MSS)
            }
        };
        let taken = self.candidates.remove(key)?;
        if let Some(id) = self.find(key) {
            self.remove(id, owner);
        }
        let of_interface = self.per_interface.entry(key.interface).or_insert(0);
        if self.flows.len() >= self.config.max_flows
            || *of_interface >= self.config.max_flows_per_interface
        {
            return Some(Seen::Ignored(Ignored::Full));
        }
        *of_interface += 1;
        let id = self.flows.insert(Entry {
            key: *key,
            flow,
            data: T::default(),
        });
        self.by_key.insert(*key, id);
        let half_open = match &taken {
            Candidate::Opening(half_open) => Some(half_open),
            Candidate::Midway(..) => None,
        };
        if let Some(entry) = self.flows.get_mut(id) {
            owner.opened(now, &entry.key, &entry.flow, half_open, &mut entry.data);
            if let Candidate::Midway(sent, at) = &taken {
                let edge = sent.end();
                let _ = entry.flow.on_packet(*at, Direction::FromGuest, sent, edge);
            }
        }
        let event = self.observe(id, now, direction, segment, owner);
        Some(match event {
            Ok(event) => Seen::Opened(id, event),
            Err(_) => Seen::Opened(id, Event::Other),
        })
    }

    /// A packet of a connection that is not known: perhaps one met midway.
    fn on_unknown(
        &mut self,
        now: Time,
        key: &FlowKey,
        direction: Direction,
        segment: &Segment,
    ) -> Seen {
        let is_closing = segment.has(TcpFlags::RST) || segment.has(TcpFlags::FIN);
        let is_opening = matches!(self.candidates.get(key), Some(Candidate::Opening(_)));
        if is_closing || is_opening || !segment.has(TcpFlags::ACK) {
            return Seen::Ignored(Ignored::Unknown);
        }
        if direction == Direction::FromGuest && segment.payload > 0 {
            self.candidates
                .add(now, key, Candidate::Midway(*segment, now));
        }
        Seen::Ignored(Ignored::Unknown)
    }

    /// Forgets what has been silent for too long. Takes time in the number of connections.
    pub fn expire(&mut self, now: Time, owner: &mut impl Owner<T>) {
        self.candidates.expire(now, self.config.half_open);
        let is_over = |flow: &Flow| {
            let limit = if flow.is_closing() {
                self.config.closing
            } else {
                self.config.idle
            };
            now.since(flow.last_seen()) >= limit
        };
        let over = self.flows.iter().filter(|(_, entry)| is_over(&entry.flow));
        let over: Vec<_> = over.map(|(id, _)| id).collect();
        for id in over {
            self.remove(id, owner);
        }
    }

    /// Forgets the open connections that `is_gone` says. Takes time in the number of connections.
    pub(crate) fn forget(&mut self, is_gone: impl Fn(&FlowKey) -> bool, owner: &mut impl Owner<T>) {
        let gone = self.flows.iter().filter(|(_, entry)| is_gone(&entry.key));
        let gone: Vec<_> = gone.map(|(id, _)| id).collect();
        for id in gone {
            self.remove(id, owner);
        }
    }

    fn remove(&mut self, id: usize, owner: &mut impl Owner<T>) {
        if let Some(entry) = self.flows.try_remove(id) {
            self.by_key.remove(&entry.key);
            if let Some(count) = self.per_interface.get_mut(&entry.key.interface) {
                *count -= 1;
                if *count == 0 {
                    self.per_interface.remove(&entry.key.interface);
                }
            }
            owner.ended(&entry.key, entry.data);
        }
    }
}

/// What a table asks its owner, and tells.
pub trait Owner<T> {
    /// The right edge of the window that the guest was told.
    fn edge(&self, flow: &Flow, data: &T) -> Seq;

    /// What is agreed about ECN between the box and the peer.
    fn ecn(&self, key: &FlowKey, half_open: &HalfOpen) -> EcnMode;

    /// A connection is open; `None` for one that was met midway.
    fn opened(
        &mut self,
        now: Time,
        key: &FlowKey,
        flow: &Flow,
        half_open: Option<&HalfOpen>,
        data: &mut T,
    );

    /// A connection is forgotten.
    fn ended(&mut self, key: &FlowKey, data: T);
}

/// An owner that keeps nothing: the connections are measured only.
impl Owner<()> for () {
    fn edge(&self, flow: &Flow, (): &()) -> Seq {
        flow.peer_edge()
    }

    fn ecn(&self, _: &FlowKey, half_open: &HalfOpen) -> EcnMode {
        half_open.ecn()
    }

    fn opened(&mut self, _: Time, _: &FlowKey, _: &Flow, _: Option<&HalfOpen>, (): &mut ()) {}

    fn ended(&mut self, _: &FlowKey, (): ()) {}
}

/// Segment size of connections whose SYNs were not seen: that of Ethernet with timestamps.
const MIDWAY_MSS: u32 = 1448;
