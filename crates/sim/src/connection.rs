//! One TCP connection: its two ends, and who governs the sender.

use std::time::Duration;

use fairwater_net::Time;
use fairwater_proto::FlowId;

use crate::events::Alarm;
use crate::native;
use crate::plane_link::Host;
use crate::tcp::{Controls, Receiver, Sender};

/// A connection that is open.
#[derive(Debug)]
pub(crate) struct Connection {
    /// Index of its flow.
    pub(crate) flow: u32,
    /// Tells it from those that had its place before.
    pub(crate) generation: u32,
    /// Over all connections, in the order they began.
    pub(crate) number: u64,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    pub(crate) governing: Governing,
    pub(crate) alarm: Alarm,
    pub(crate) request: Option<Asked>,
    /// Data segments that arrived marked.
    pub(crate) marked: u64,
    /// Which of its flow's ways the next packet takes, there and back.
    pub(crate) turns: [u32; 2],
}

/// Who decides the sender's cwnd and rate.
#[derive(Debug)]
pub(crate) enum Governing {
    /// The handshake is not done, and nobody does yet.
    Opening,
    Native(native::NativeGovernor),
    Plane {
        host: Host,
        flow: FlowId,
        /// What the datapath takes to be in force.
        known: Controls,
    },
}

/// A request under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
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
        match (self.sender.next_timer(), self.receiver.next_timer()) {
            (Some(sender), Some(receiver)) => Some(sender.min(receiver)),
            (sender, receiver) => sender.or(receiver),
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

/// The open connections. Places are given out again, generations tell their holders apart.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    places: Vec<Option<Box<Connection>>>,
    free: Vec<u32>,
    begun: u64,
}

impl Connections {
    /// Takes in the connection that `make` makes of its generation and number.
    pub(crate) fn open(&mut self, make: impl FnOnce(u32, u64) -> Connection) -> u32 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)
        });
        let number = self.begun;
        self.begun += 1;
        // One per connection begun, the same for no two that could meet in the network.
        let generation = number as u32;
        self.places[place as usize] = Some(Box::new(make(generation, number)));
        place
    }

    #[inline]
    pub(crate) fn get(&mut self, place: u32) -> Option<&mut Connection> {
        self.places[place as usize].as_deref_mut()
    }

    /// The connection, unless another has taken its place.
    #[inline]
    pub(crate) fn named(&mut self, place: u32, generation: u32) -> Option<&mut Connection> {
        self.get(place)
            .filter(|connection| connection.generation == generation)
    }

    pub(crate) fn close(&mut self, place: u32) -> Option<Box<Connection>> {
        let closed = self.places[place as usize].take();
        if closed.is_some() {
            self.free.push(place);
        }
        closed
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.places.iter().flatten().map(|boxed| &**boxed)
    }
}
