//! Packets between the bottleneck and the other end.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use crate::{Delivered, Time};

/// Packets in the order they are due; of equals, the first to leave first.
#[derive(Debug)]
pub(crate) struct Flight<P> {
    /// Those that no packet due later has left before.
    in_order: VecDeque<Numbered<P>>,
    /// Those that overtake: few or none.
    overtaking: BinaryHeap<Reverse<Numbered<P>>>,
    departures: u64,
}

#[derive(Debug)]
struct Numbered<P> {
    number: u64,
    delivered: Delivered<P>,
}

impl<P> Numbered<P> {
    fn key(&self) -> (Time, u64) {
        (self.delivered.times.due, self.number)
    }
}

impl<P> PartialEq for Numbered<P> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<P> Eq for Numbered<P> {}

impl<P> PartialOrd for Numbered<P> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> Ord for Numbered<P> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl<P> Flight<P> {
    pub(crate) const fn new() -> Self {
        Flight {
            in_order: VecDeque::new(),
            overtaking: BinaryHeap::new(),
            departures: 0,
        }
    }

    /// A packet leaves the bottleneck.
    #[inline]
    pub(crate) fn take_off(&mut self, delivered: Delivered<P>) {
        let packet = Numbered {
            number: self.departures,
            delivered,
        };
        self.departures += 1;
        match self.in_order.back() {
            Some(last) if *last > packet => self.overtaking.push(Reverse(packet)),
            _ => self.in_order.push_back(packet),
        }
    }

    /// The packet that left the bottleneck last leaves it at another time, and is due as much
    /// earlier or later. Where packets may not overtake, it stays behind the packet before it. Returns
    /// when it is due.
    pub(crate) fn move_last(&mut self, departed: Time, reorders: bool) -> Option<Time> {
        let last = self.departures.checked_sub(1);
        let is_last = |packet: &Numbered<P>| Some(packet.number) == last;
        let packet = if self.in_order.back().is_some_and(is_last) {
            self.in_order.pop_back()
        } else {
            let overtaking = std::mem::take(&mut self.overtaking).into_vec();
            let (mut found, rest) = overtaking
                .into_iter()
                .partition::<Vec<_>, _>(|Reverse(packet)| is_last(packet));
            self.overtaking = rest.into();
            found.pop().map(|Reverse(packet)| packet)
        };
        let mut delivered = packet?.delivered;
        let times = &mut delivered.times;
        times.due = departed + times.due.since(times.departed);
        times.departed = departed;
        if let Some(before) = self.in_order.back().filter(|_| !reorders) {
            times.due = times.due.max(before.delivered.times.due);
        }
        let due = times.due;
        self.departures -= 1;
        self.take_off(delivered);
        Some(due)
    }

    /// Takes the next packet, if it is due by `now`.
    #[inline]
    pub(crate) fn land(&mut self, now: Time) -> Option<Delivered<P>> {
        if self.next_due()? > now {
            return None;
        }
        let overtakes = match (self.in_order.front(), self.overtaking.peek()) {
            (Some(first), Some(Reverse(other))) => other < first,
            (first, _) => first.is_none(),
        };
        if overtakes {
            self.overtaking
                .pop()
                .map(|Reverse(packet)| packet.delivered)
        } else {
            self.in_order.pop_front().map(|packet| packet.delivered)
        }
    }

    /// When the next packet is due.
    #[inline]
    pub(crate) fn next_due(&self) -> Option<Time> {
        let first = self.in_order.front().map(|packet| packet.key().0);
        match self.overtaking.peek() {
            None => first,
            Some(Reverse(other)) => Some(first.map_or(other.key().0, |due| due.min(other.key().0))),
        }
    }

    /// The packets on their way, in no order.
    pub(crate) fn packets(&self) -> impl Iterator<Item = &Delivered<P>> {
        let overtaking = self.overtaking.iter().map(|Reverse(packet)| packet);
        let packets = self.in_order.iter().chain(overtaking);
        packets.map(|packet| &packet.delivered)
    }

    /// Packets on their way.
    pub(crate) fn len(&self) -> usize {
        self.in_order.len() + self.overtaking.len()
    }
}
