//! What happens next.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use fairwater_net::Time;

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A packet comes out of an edge.
    Edge(u32),
    /// A connection's timer.
    Connection(u32),
    /// A flow's traffic goes on.
    Flow(u32),
    /// The plane takes up what has arrived.
    Plane,
    /// What the plane sent arrives at the datapaths.
    Datapaths,
    /// Signs of life and silence.
    Heartbeat,
    /// An interval of measuring ends.
    Sample,
    /// Summaries begin.
    Summaries,
}

/// Events by time; those of one moment in the order in which they were asked for.
#[derive(Debug, Default)]
pub(crate) struct Events {
    heap: BinaryHeap<Entry>,
    asked: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entry {
    at: Time,
    turn: u64,
    event: Event,
}

impl Ord for Entry {
    /// The earliest is the greatest: a `BinaryHeap` gives that out first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.turn).cmp(&(self.at, self.turn))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Events {
    pub(crate) fn push(&mut self, at: Time, event: Event) {
        let turn = self.asked;
        self.asked += 1;
        self.heap.push(Entry { at, turn, event });
    }

    /// The next, if it is not after `until`.
    #[inline]
    pub(crate) fn pop_by(&mut self, until: Time) -> Option<(Time, Event)> {
        let next = self.heap.peek_mut()?;
        (next.at <= until).then(|| {
            let entry = PeekMut::pop(next);
            (entry.at, entry.event)
        })
    }
}

/// When somebody's turn is, of whom one event at most matters. A deadline that moves away, as a
/// retransmission timer does at each ACK, costs nothing: the event that was pushed finds out when
/// it comes, and is put off.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Alarm {
    /// The earliest event that is in the queue.
    pushed: Time,
}

/// No event is this late.
const NEVER: Time = Time::from_nanos(u64::MAX);

impl Default for Alarm {
    fn default() -> Self {
        Self { pushed: NEVER }
    }
}

impl Alarm {
    /// The turn is at `at`, if at all.
    #[inline]
    pub(crate) fn set(&mut self, at: Option<Time>, event: Event, events: &mut Events) {
        if let Some(at) = at
            && at < self.pushed
        {
            self.pushed = at;
            events.push(at, event);
        }
    }

    /// An event has come at `now`; whether it was the one that counts.
    #[inline]
    pub(crate) fn rings(&mut self, now: Time) -> bool {
        let rings = self.pushed == now;
        if rings {
            self.pushed = NEVER;
        }
        rings
    }
}
