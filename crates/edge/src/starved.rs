//! Flows that need help: those that starve beside marked traffic (vCC §3.1, §5).
//!
//! Beside flows with ECN, a queue that marks drops the packets of a flow without it, and such a flow gets a tenth to
//! less than half of what the others get (vCC figures 1 and 4). Sans-IO: a [`Detector`] is told at intervals what each
//! connection did, and names the guests whose connections a policy could control.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use fairwater_lang::{Signal, Signals};
use fairwater_net::Time;
use ipnet::IpNet;

use crate::track::{EcnMode, Origin};
use crate::{Edge, Fate, FlowKey};

/// Intervals in a row for which a flow starves before it is named.
const PERSISTENT: u32 = 5;
/// One of so many packets is lost at least.
const LOSS: u64 = 100;
/// The flow gets less than one part of so many of what flows with ECN get on average.
const PART: u64 = 2;
/// Most flows that are watched, and most guests that are remembered.
const MAX_WATCHED: usize = 1_024;
/// Prefix of peers that count as one path: of IPv4, and of IPv6.
const PATH: [u8; 2] = [24, 64];

/// What a connection did since the last interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Bytes that were acknowledged.
    pub acked_bytes: u64,
    /// Packets that were acknowledged.
    pub acked_packets: u64,
    /// Packets that were lost.
    pub lost_packets: u64,
    /// Packets that were marked with CE.
    pub marked_packets: u64,
}

impl Tally {
    /// Of the signals of one invocation.
    pub(crate) fn of(signals: &Signals) -> Self {
        Self {
            acked_bytes: signals[Signal::BytesAcked],
            acked_packets: signals[Signal::PacketsAcked],
            lost_packets: signals[Signal::LostPkts],
            marked_packets: signals[Signal::EcnPackets],
        }
    }

    /// Adds what was done since.
    pub(crate) fn add(&mut self, other: &Self) {
        self.acked_bytes = self.acked_bytes.saturating_add(other.acked_bytes);
        self.acked_packets = self.acked_packets.saturating_add(other.acked_packets);
        self.lost_packets = self.lost_packets.saturating_add(other.lost_packets);
        self.marked_packets = self.marked_packets.saturating_add(other.marked_packets);
    }
}

/// A connection in an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observation {
    /// The connection.
    pub key: FlowKey,
    /// Whether it passes, without ECN, and could be controlled.
    pub is_passed: bool,
    /// What it did.
    pub tally: Tally,
}

/// A guest and peers between which connections should be controlled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// The connection that starves.
    pub key: FlowKey,
    /// The peers that count as one path.
    pub peers: IpNet,
    /// For how long it has starved.
    pub lasted: Duration,
    /// What it did in that time.
    pub tally: Tally,
    /// What flows with ECN to the same peers had acknowledged in that time, on average, bytes.
    pub others_bytes: u64,
}

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |part: u64, all: u64| 100.0 * part as f64 / all.max(1) as f64;
        let sent = self.tally.acked_packets + self.tally.lost_packets;
        write!(
            f,
            "guest {} to {}: for {:?} it lost {:.1}% of {sent} packets, and got {:.0}% of what flows with ECN to {} get \
             on average: control it with `ecn = true`",
            self.key.guest,
            self.key.peer,
            self.lasted,
            part(self.tally.lost_packets, sent),
            part(self.tally.acked_bytes, self.others_bytes),
            self.peers,
        )
    }
}

/// A flow that has starved so far.
#[derive(Debug, Clone, Copy)]
struct Watched {
    intervals: u32,
    since: Time,
    tally: Tally,
    others_bytes: u64,
}

/// A guest at its port, and peers.
type Found = (u32, IpAddr, IpNet);

/// Finds flows that starve beside marked traffic, in bounded memory.
#[derive(Debug, Default)]
pub struct Detector {
    watched: HashMap<FlowKey, Watched>,
    found: VecDeque<Found>,
    last: Option<Time>,
}

impl Detector {
    /// Takes what all connections did since the last interval. Each guest is named once for the same peers, until
    /// many others were found.
    pub fn on_interval(&mut self, now: Time, observations: &[Observation]) -> Vec<Proposal> {
        let begun = self.last.replace(now).unwrap_or(now);
        let mut means: HashMap<IpNet, (u64, u64)> = HashMap::new();
        let marked = observations
            .iter()
            .filter(|each| each.tally.marked_packets > 0);
        for each in marked {
            let (bytes, flows) = means.entry(path(each.key.peer.ip())).or_default();
            *bytes = bytes.saturating_add(each.tally.acked_bytes);
            *flows += 1;
        }
        let mut watched = HashMap::new();
        let mut proposals = Vec::new();
        for each in observations.iter().filter(|each| each.is_passed) {
            let peers = path(each.key.peer.ip());
            let mean = means.get(&peers).map(|(bytes, flows)| bytes / flows);
            let Some(others) = mean.filter(|mean| is_starving(&each.tally, *mean)) else {
                continue;
            };
            if watched.len() == MAX_WATCHED {
                break;
            }
            let before = self.watched.get(&each.key).copied();
            let mut flow = before.unwrap_or(Watched {
                intervals: 0,
                since: begun,
                tally: Tally::default(),
                others_bytes: 0,
            });
            flow.intervals = flow.intervals.saturating_add(1);
            flow.tally.add(&each.tally);
            flow.others_bytes = flow.others_bytes.saturating_add(others);
            watched.insert(each.key, flow);
            let found = (each.key.interface, each.key.guest.ip(), peers);
            if flow.intervals >= PERSISTENT && !self.found.contains(&found) {
                if self.found.len() == MAX_WATCHED {
                    self.found.pop_front();
                }
                self.found.push_back(found);
                proposals.push(Proposal {
                    key: each.key,
                    peers,
                    lasted: now.since(flow.since),
                    tally: flow.tally,
                    others_bytes: flow.others_bytes,
                });
            }
        }
        self.watched = watched;
        proposals
    }

    /// Whether a connection of the same guest to the same peers was found starving.
    #[must_use]
    pub fn has_found(&self, key: &FlowKey) -> bool {
        let found = (key.interface, key.guest.ip(), path(key.peer.ip()));
        self.found.contains(&found)
    }
}

/// Whether a flow loses packets and gets little, beside marked flows that get `others` bytes on average.
fn is_starving(tally: &Tally, others: u64) -> bool {
    let sent = tally.acked_packets.saturating_add(tally.lost_packets);
    tally.lost_packets > 0
        && tally.lost_packets.saturating_mul(LOSS) >= sent
        && tally.acked_bytes.saturating_mul(PART) < others
}

/// The peers that count as one path.
fn path(peer: IpAddr) -> IpNet {
    let prefix = PATH[usize::from(peer.is_ipv6())];
    let net = IpNet::new(peer, prefix).unwrap_or_else(|_| IpNet::from(peer));
    net.trunc()
}

impl Edge {
    /// Looks for connections that pass and starve beside marked traffic, among all since the last time. It is to
    /// be called each second or so; connections that the policy controls only when they starve
    /// ([`Treatment::only_starved`](crate::Treatment::only_starved)) need it. Takes time in the number of connections.
    pub fn find_starved(&mut self, now: Time) -> Vec<Proposal> {
        let ids: Vec<usize> = self.table.iter().map(|(id, ..)| id).collect();
        let observations = ids.into_iter().filter_map(|id| {
            let (key, flow, fate) = self.table.get_mut(id)?;
            let is_without =
                flow.sender().ecn() == EcnMode::Off && flow.origin() == Origin::Handshake;
            let tally = match fate {
                Fate::Controlled(controlled) => std::mem::take(&mut controlled.tally),
                Fate::Passed | Fate::Exempt(_) => {
                    let edge = flow.peer_edge();
                    Tally::of(&flow.take_signals(now, edge, false))
                }
            };
            Some(Observation {
                key: *key,
                is_passed: matches!(fate, Fate::Passed) && is_without,
                tally,
            })
        });
        let observations: Vec<_> = observations.collect();
        self.flows.starved.on_interval(now, &observations)
    }
}
