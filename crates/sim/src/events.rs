//! The event queue of the simulation.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use fairwater_net::Time;

/// An event, by its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// A packet comes out of an edge.
    Edge(u32),
    /// A connection's timer.
    Connection(u32),
    /// A flow's application acts.
    Flow(u32),
    /// Boxes of a bundle: messages arrive, or the sendbox has something to do.
    Sendbox(u32),
    /// The plane processes the packets that have arrived.
    Plane,
    /// The timer of a box that holds guests' data.
    Box(u32),
    /// Packets of the plane arrive at the datapaths.
    Datapaths,
    /// Heartbeats of the plane and the silence timers of datapaths.
    Heartbeat,
    /// An interval of measuring ends.
    Sample,
    /// Summaries begin.
    Summaries,
}

/// Events by time; events of one nanosecond in the order in which they were pushed.
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
    /// The earliest entry is the greatest, because a `BinaryHeap` pops the greatest first.
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

/// A deadline of which at most one event in the queue counts. Moving the deadline away, as an ACK
/// does to a retransmission timer, costs nothing: the pushed event comes early, and is pushed again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Alarm {
    /// Time of the earliest event in the queue.
    pushed: Time,
}

/// Later than every event.
const NEVER: Time = Time::from_nanos(u64::MAX);

impl Default for Alarm {
    fn default() -> Self {
        Self { pushed: NEVER }
    }
}

impl Alarm {
    /// Sets the deadline; `None` leaves it.
    #[inline]
    pub(crate) fn set(&mut self, at: Option<Time>, event: Event, events: &mut Events) {
        if let Some(at) = at
            && at < self.pushed
        {
            self.pushed = at;
            events.push(at, event);
        }
    }

    /// Whether the event at `now` is the one that counts; clears the alarm if so.
    #[inline]
    pub(crate) fn rings(&mut self, now: Time) -> bool {
        let rings = self.pushed == now;
        if rings {
            self.pushed = NEVER;
        }
        rings
    }
}
