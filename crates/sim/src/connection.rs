//! One TCP connection: its two ends, and who controls the sender.

use std::collections::VecDeque;
use std::time::Duration;

use fairwater_net::Time;
use fairwater_proto::FlowId;
use slab::Slab;

use crate::events::Alarm;
use crate::guest::Guest;
use crate::native;
use crate::packet::DATAGRAM;
use crate::plane_link::Host;
use fairwater_tcp::{Controls, Receiver, Sender};

/// A connection that is open.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Index of its flow.
    pub(crate) flow: u32,
    /// Tells it from those that had its slot before.
    pub(crate) generation: u32,
    /// Over all connections, in the order they began.
    pub(crate) number: u64,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    pub(crate) controller: ConnectionController,
    /// Whether the sender has died: it takes nothing and sends nothing.
    pub(crate) is_dead: bool,
    /// What it is on the wire, if its sender is behind a box.
    pub(crate) guest: Option<Box<Guest>>,
    pub(crate) alarm: Alarm,
    /// Requests under way, the first asked first.
    pub(crate) requests: VecDeque<PendingRequest>,
    /// Data segments that arrived marked.
    pub(crate) marked: u64,
    /// Which of its flow's paths the next packet takes, forward and reverse.
    pub(crate) turns: [u32; 2],
}

/// Who decides the sender's cwnd and rate.
#[derive(Debug)]
pub(crate) enum ConnectionController {
    /// The handshake is not done, and nobody does yet.
    Opening,
    Native(native::NativeController),
    Plane {
        host: Host,
        flow: FlowId,
        /// What the datapath takes to be in force.
        known: Controls,
    },
}

/// A request under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PendingRequest {
    pub(crate) start: Time,
    /// It is done when the receiver has all before this offset.
    pub(crate) end: u64,
    pub(crate) bytes: u64,
    pub(crate) ideal: Duration,
}

/// Counts of a connection, or of all of a flow's.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Totals {
    pub(crate) delivered_bytes: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) segments: u64,
    pub(crate) retransmissions: u64,
    pub(crate) timeouts: u64,
    pub(crate) marked: u64,
}

impl Totals {
    pub(crate) const NONE: Totals = Totals {
        delivered_bytes: 0,
        sent_bytes: 0,
        segments: 0,
        retransmissions: 0,
        timeouts: 0,
        marked: 0,
    };

    pub(crate) fn add(&mut self, other: &Self) {
        self.delivered_bytes += other.delivered_bytes;
        self.sent_bytes += other.sent_bytes;
        self.segments += other.segments;
        self.retransmissions += other.retransmissions;
        self.timeouts += other.timeouts;
        self.marked += other.marked;
    }
}

impl Connection {
    /// When one of its timers is due.
    #[inline]
    pub(crate) fn next_timer(&self) -> Option<Time> {
        let sender = match self.is_dead {
            true => None,
            false => self.sender.next_timer(),
        };
        match (sender, self.receiver.next_timer()) {
            (Some(sender), Some(receiver)) => Some(sender.min(receiver)),
            (sender, receiver) => sender.or(receiver),
        }
    }

    /// The slow-start threshold, bytes, if there is one; a program of the plane keeps its own.
    pub(crate) fn ssthresh(&self) -> Option<u64> {
        match &self.controller {
            ConnectionController::Native(controller) => {
                let segments = controller.ssthresh()?;
                Some(segments.saturating_mul(self.sender.mss()))
            }
            ConnectionController::Opening | ConnectionController::Plane { .. } => None,
        }
    }

    pub(crate) fn totals(&self) -> Totals {
        let sent = self.sender.counters();
        Totals {
            delivered_bytes: self.receiver.delivered(),
            sent_bytes: sent.bytes,
            segments: sent.segments,
            retransmissions: sent.retransmissions,
            timeouts: sent.timeouts,
            marked: self.marked,
        }
    }
}

/// The open connections, by slot. Slots are used again; generations tell their holders apart.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    slots: Slab<Box<Connection>>,
    begun: u64,
}

impl Connections {
    /// Takes in the connection that `make` makes of its generation and number.
    pub(crate) fn open(&mut self, make: impl FnOnce(u32, u64) -> Connection) -> u32 {
        let number = self.begun;
        self.begun += 1;
        // One per connection begun, the same for no two that could meet in the network.
        let generation = number as u32 % DATAGRAM;
        let slot = self.slots.insert(Box::new(make(generation, number)));
        u32::try_from(slot).unwrap_or(u32::MAX)
    }

    #[inline]
    pub(crate) fn get(&mut self, slot: u32) -> Option<&mut Connection> {
        self.slots.get_mut(slot as usize).map(|boxed| &mut **boxed)
    }

    /// The connection, unless another has taken its slot.
    #[inline]
    pub(crate) fn named(&mut self, slot: u32, generation: u32) -> Option<&mut Connection> {
        self.get(slot)
            .filter(|connection| connection.generation == generation)
    }

    pub(crate) fn close(&mut self, slot: u32) -> Option<Box<Connection>> {
        self.slots.try_remove(slot as usize)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.slots.iter().map(|(_, boxed)| &**boxed)
    }
}
