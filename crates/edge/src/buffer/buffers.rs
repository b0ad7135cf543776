//! All connections whose data a box holds: memory, timers, and who has packets to send.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fairwater_net::Time;

use super::{BufferConfig, BufferedFlow, ReturnReason};
use crate::Direction;

/// A packet that leaves the box, other than one that passes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    /// The guest's port, by the number that the caller gave it.
    pub interface: u32,
    /// Which way the packet goes.
    pub direction: Direction,
    /// Whether it begins with an Ethernet header, else with IP's.
    pub is_ethernet: bool,
    /// The packet. Its checksums are complete, unless it came from the caller with another.
    pub bytes: Vec<u8>,
}

/// What buffering has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BufferStatistics {
    /// Connections that were held, each time that one began.
    pub begun: u64,
    /// Connections that were given back, by [`ReturnReason::index`].
    pub returned: [u64; ReturnReason::COUNT],
    /// Packets with data of the guest that were taken.
    pub taken: u64,
    /// Packets of the guest with nothing but what is held already.
    pub repeated: u64,
    /// Packets of the guest beyond data that never came.
    pub gaps: u64,
    /// Packets of the guest that were dropped: the connection holds all that it may.
    pub full: u64,
    /// Packets that passed untouched because of a wrong checksum.
    pub corrupt: u64,
    /// ACKs that were dropped: they acknowledge what the box has not sent.
    pub acks_of_unsent: u64,
    /// ACKs that the guest did not get to see.
    pub hidden: u64,
    /// ACKs that the box sent the guest.
    pub duplicates: u64,
    /// Segments that the box sent again.
    pub retransmissions: u64,
    /// Retransmission timeouts of the box.
    pub timeouts: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Buffers {
    pub(crate) config: BufferConfig,
    /// Places in the table by serial number, so that the first has been held longest.
    ids: BTreeMap<u64, usize>,
    next_serial: u64,
    timers: BTreeSet<(Time, u64)>,
    ready: VecDeque<u64>,
    outgoing: VecDeque<Outgoing>,
    outgoing_bytes: usize,
    memory: usize,
    pub(crate) statistics: BufferStatistics,
}

impl Buffers {
    pub(crate) fn new(config: BufferConfig) -> Self {
        Self {
            config,
            ids: BTreeMap::new(),
            next_serial: 0,
            timers: BTreeSet::new(),
            ready: VecDeque::new(),
            outgoing: VecDeque::new(),
            outgoing_bytes: 0,
            memory: 0,
            statistics: BufferStatistics::default(),
        }
    }

    /// Whether no connection is held.
    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Connections that are held.
    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Memory that they take, with the packets that wait to be polled, bytes.
    pub(crate) const fn memory(&self) -> usize {
        self.memory + self.outgoing_bytes
    }

    /// The number of the next connection, and its place in the table.
    pub(super) fn begin(&mut self, id: usize) -> u64 {
        let serial = self.next_serial;
        self.next_serial += 1;
        self.ids.insert(serial, id);
        self.statistics.begun += 1;
        serial
    }

    /// The connection of that number is not held after all.
    pub(super) fn abandon(&mut self, serial: u64) {
        self.ids.remove(&serial);
    }

    /// The place in the table of a connection.
    pub(super) fn id(&self, serial: u64) -> Option<usize> {
        self.ids.get(&serial).copied()
    }

    /// The connection to give back, if they take too much memory.
    pub(super) fn to_evict(&self) -> Option<usize> {
        let is_over = self.memory > self.config.max_bytes;
        let (_, &id) = self.ids.first_key_value().filter(|_| is_over)?;
        Some(id)
    }

    /// Something of the connection has changed.
    pub(super) fn update(&mut self, flow: &mut BufferedFlow) {
        self.memory = self.memory + flow.memory() - flow.counted;
        flow.counted = flow.memory();
        let counters = flow.sender.counters();
        let repairs = (counters.retransmissions, counters.timeouts);
        self.statistics.retransmissions += repairs.0 - flow.counted_repairs.0;
        self.statistics.timeouts += repairs.1 - flow.counted_repairs.1;
        flow.counted_repairs = repairs;
        if !flow.is_ready {
            flow.is_ready = true;
            self.ready.push_back(flow.serial);
        }
    }

    /// The connection has nothing to send now.
    pub(super) fn rest(&mut self, flow: &mut BufferedFlow) {
        flow.is_ready = true;
        self.update(flow);
        flow.is_ready = false;
        self.set_timer(flow, flow.sender.next_timer());
    }

    fn set_timer(&mut self, flow: &mut BufferedFlow, at: Option<Time>) {
        if flow.timer == at {
            return;
        }
        if let Some(before) = std::mem::replace(&mut flow.timer, at) {
            self.timers.remove(&(before, flow.serial));
        }
        if let Some(at) = at {
            self.timers.insert((at, flow.serial));
        }
    }

    /// The next connection that may have packets to send.
    pub(super) fn next_ready(&mut self) -> Option<u64> {
        self.ready.pop_front()
    }

    /// A connection has perhaps more to send; others come first.
    pub(super) fn requeue(&mut self, serial: u64) {
        self.ready.push_back(serial);
    }

    /// When the next timer is due.
    pub(crate) fn next_timer(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// A connection whose timer is due.
    pub(super) fn next_due(&mut self, now: Time) -> Option<u64> {
        let (at, serial) = self.timers.first().copied()?;
        if at > now {
            return None;
        }
        self.timers.pop_first();
        Some(serial)
    }

    /// A connection is not held any more.
    pub(crate) fn forget(&mut self, flow: &mut BufferedFlow) {
        self.set_timer(flow, None);
        self.memory -= flow.counted;
        flow.counted = 0;
        self.ids.remove(&flow.serial);
        if self.ids.is_empty() {
            self.ready.clear();
        }
    }

    /// A packet is to leave, if there is room for it.
    pub(super) fn push(&mut self, outgoing: Outgoing) {
        let bytes = outgoing.bytes.len() + size_of::<Outgoing>();
        if self.memory() + bytes <= 2 * self.config.max_bytes {
            self.outgoing_bytes += bytes;
            self.outgoing.push_back(outgoing);
        }
    }

    pub(super) fn pop(&mut self) -> Option<Outgoing> {
        let outgoing = self.outgoing.pop_front()?;
        self.outgoing_bytes -= outgoing.bytes.len() + size_of::<Outgoing>();
        Some(outgoing)
    }
}
