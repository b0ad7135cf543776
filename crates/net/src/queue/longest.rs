//! Which of many queues is the longest, in O(log n) a change and O(1) a question.

use std::cmp::Reverse;

use super::Limit;

/// Not in the heap.
const ABSENT: u32 = u32::MAX;

/// The queues that hold packets, the longest first: a binary heap whose entries know their places.
///
/// The longest queue has the most bytes, and of such the most packets; among equals it is the one
/// with the lowest number. Packets without bytes are packets too.
#[derive(Debug, Default)]
pub(super) struct Longest {
    heap: Vec<Entry>,
    /// By number of the queue: its index in `heap`, or [`ABSENT`].
    places: Vec<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    bytes: u64,
    packets: usize,
    queue: u32,
}

impl Entry {
    fn key(&self) -> (u64, usize, Reverse<u32>) {
        (self.bytes, self.packets, Reverse(self.queue))
    }
}

impl Longest {
    /// The longest queue; `None` if no queue holds a packet.
    #[inline]
    pub(super) fn first(&self) -> Option<u32> {
        self.heap.first().map(|entry| entry.queue)
    }

    /// A queue holds this much now.
    pub(super) fn set(&mut self, queue: u32, packets: usize, bytes: u64) {
        if self.places.len() <= queue as usize {
            self.places.resize(queue as usize + 1, ABSENT);
        }
        let place = self.places[queue as usize];
        let entry = Entry {
            bytes,
            packets,
            queue,
        };
        match (place, packets) {
            (ABSENT, 0) => {}
            (ABSENT, _) => {
                self.heap.push(entry);
                self.rise(self.heap.len() - 1);
            }
            (place, 0) => self.remove(place as usize),
            (place, _) => {
                self.heap[place as usize] = entry;
                let place = self.rise(place as usize);
                self.sink(place);
            }
        }
    }

    /// No queue holds a packet.
    pub(super) fn clear(&mut self) {
        self.heap.clear();
        self.places.fill(ABSENT);
    }

    fn remove(&mut self, place: usize) {
        let removed = self.heap.swap_remove(place);
        self.places[removed.queue as usize] = ABSENT;
        if place < self.heap.len() {
            let place = self.rise(place);
            self.sink(place);
        }
    }

    /// Moves an entry up to its place, which is returned.
    fn rise(&mut self, mut place: usize) -> usize {
        let entry = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.heap[parent].key() >= entry.key() {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
        place
    }

    /// Moves an entry down to its place.
    fn sink(&mut self, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let left = 2 * place + 1;
            let Some(mut child) = self.heap.get(left).map(|_| left) else {
                break;
            };
            let right = self.heap.get(left + 1);
            if right.is_some_and(|right| right.key() > self.heap[left].key()) {
                child = left + 1;
            }
            if self.heap[child].key() <= entry.key() {
                break;
            }
            self.put(place, self.heap[child]);
            place = child;
        }
        self.put(place, entry);
    }

    #[inline]
    fn put(&mut self, place: usize, entry: Entry) {
        self.heap[place] = entry;
        // There are no more entries than queues, whose numbers are of 32 bits.
        self.places[entry.queue as usize] = place as u32;
    }
}

/// A limit that several queues share, such as all queues of one box. The owner of the queues tells
/// each change of length, and drops from the longest queue while the limit is exceeded:
///
/// ```
/// use fairwater_net::{JointLimit, Limit};
///
/// let mut joint = JointLimit::new(Limit::Bytes(4000));
/// joint.set(7, 2, 3000);
/// joint.set(9, 1, 1500);
/// assert_eq!(joint.excess(), Some(7));
/// joint.set(7, 1, 1500);
/// assert_eq!(joint.excess(), None);
/// ```
///
/// [`JointLimit::set`] takes O(log n) for n queues, [`JointLimit::excess`] O(1).
#[derive(Debug)]
pub struct JointLimit {
    limit: Limit,
    /// By number of the queue: the packets and bytes that it holds.
    held: Vec<(usize, u64)>,
    packets: usize,
    bytes: u64,
    longest: Longest,
}

impl JointLimit {
    /// A limit on queues that are all empty.
    pub fn new(limit: Limit) -> Self {
        JointLimit {
            limit,
            held: Vec::new(),
            packets: 0,
            bytes: 0,
            longest: Longest::default(),
        }
    }

    /// Changes the limit. A lower limit may leave an excess at once.
    pub fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    /// The queue of this number holds this many packets and bytes now. Numbers are indices: the
    /// greatest one decides how much memory is taken.
    pub fn set(&mut self, queue: u32, packets: usize, bytes: u64) {
        let index = queue as usize;
        if self.held.len() <= index {
            self.held.resize(index + 1, (0, 0));
        }
        let before = std::mem::replace(&mut self.held[index], (packets, bytes));
        self.packets = self.packets - before.0 + packets;
        self.bytes = self.bytes - before.1 + bytes;
        self.longest.set(queue, packets, bytes);
    }

    /// The longest queue, while all queues together exceed the limit. The longest queue has the
    /// most bytes; among equals, the most packets, then the lowest number.
    pub fn excess(&self) -> Option<u32> {
        let holds = self.limit.holds(self.packets, self.bytes);
        self.longest.first().filter(|_| !holds)
    }

    /// Packets in all queues.
    pub fn packets(&self) -> usize {
        self.packets
    }

    /// Bytes in all queues.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The longest queue, by looking at each.
    fn linear(queues: &[(usize, u64)]) -> Option<u32> {
        let held = (0u32..).zip(queues).filter(|(_, queue)| queue.0 > 0);
        held.max_by_key(|(queue, (packets, bytes))| (*bytes, *packets, Reverse(*queue)))
            .map(|(queue, _)| queue)
    }

    proptest! {
        #[test]
        fn the_heap_names_the_queue_that_a_linear_search_finds(
            changes in prop::collection::vec((0..40u32, 0..4usize, 0..6u64), 1..500),
        ) {
            let mut longest = Longest::default();
            let mut queues = vec![(0, 0); 40];
            for (queue, packets, bytes) in changes {
                let bytes = if packets == 0 { 0 } else { bytes };
                queues[queue as usize] = (packets, bytes);
                longest.set(queue, packets, bytes);
                prop_assert_eq!(longest.first(), linear(&queues));
            }
            // In the end, emptied one after another from the longest on.
            while let Some(first) = longest.first() {
                prop_assert_eq!(Some(first), linear(&queues));
                queues[first as usize] = (0, 0);
                longest.set(first, 0, 0);
            }
            prop_assert_eq!(linear(&queues), None);
        }

        #[test]
        fn a_joint_limit_is_exceeded_exactly_when_the_sum_is(
            changes in prop::collection::vec((0..8u32, 0..4usize, 0..2_000u64), 1..200),
            limit in 0..10_000u64,
        ) {
            let mut joint = JointLimit::new(Limit::Bytes(limit));
            let mut queues = vec![(0, 0); 8];
            for (queue, packets, bytes) in changes {
                let bytes = if packets == 0 { 0 } else { bytes };
                queues[queue as usize] = (packets, bytes);
                joint.set(queue, packets, bytes);
                let sum: u64 = queues.iter().map(|(_, bytes)| bytes).sum();
                prop_assert_eq!(joint.bytes(), sum);
                prop_assert_eq!(joint.excess().is_some(), sum > limit);
                prop_assert!(joint.excess().is_none() || joint.excess() == linear(&queues));
            }
        }
    }
}
