//! What became of each packet at the bottleneck.

use fairwater_net::{DropReason, PacketTimes, Time};

/// The flow of a packet that belongs to none that is measured.
pub const NO_FLOW: u8 = u8::MAX;

/// One packet at the bottleneck. Times are virtual, since the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketRecord {
    /// It arrived at the queue, or was dropped.
    pub enqueued: Time,
    /// It left the queue; when dropped, `enqueued`.
    pub served: Time,
    /// Its last bit left the bottleneck; when dropped, `enqueued`.
    pub departed: Time,
    /// IP bytes.
    pub size_bytes: u32,
    /// The index of its flow, if it is of one that is measured.
    pub flow: u8,
    /// It left the queue with a mark (ECN CE).
    pub marked: bool,
    /// Why it was dropped, if it was.
    pub dropped: Option<DropReason>,
}

impl PacketRecord {
    /// A packet that left the bottleneck.
    pub fn delivered(flow: u8, times: &PacketTimes) -> Self {
        PacketRecord {
            enqueued: times.enqueued,
            served: times.served,
            departed: times.departed,
            size_bytes: times.size_bytes,
            flow,
            marked: times.marked,
            dropped: None,
        }
    }

    /// A packet that was dropped.
    pub fn dropped(flow: u8, now: Time, size_bytes: u32, reason: DropReason) -> Self {
        PacketRecord {
            enqueued: now,
            served: now,
            departed: now,
            size_bytes,
            flow,
            marked: false,
            dropped: Some(reason),
        }
    }
}

/// Packets' records, in chunks: appending never moves what is there, which would hold up the
/// packets that are due meanwhile.
#[derive(Debug, Default)]
pub struct PacketLog {
    chunks: Vec<Vec<PacketRecord>>,
}

const CHUNK: usize = 8192;

impl PacketLog {
    /// Adds a record.
    pub fn push(&mut self, record: PacketRecord) {
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK => chunk.push(record),
            _ => {
                let mut chunk = Vec::with_capacity(CHUNK);
                chunk.push(record);
                self.chunks.push(chunk);
            }
        }
    }

    /// The records: delivered packets in order of departure, drops where they happened.
    pub fn iter(&self) -> impl Iterator<Item = &PacketRecord> {
        self.chunks.iter().flatten()
    }

    /// When the first data of flow 0 to `flows` arrived at the bottleneck.
    #[must_use]
    pub fn first_data(&self, flows: usize) -> Time {
        self.iter()
            .filter(|record| usize::from(record.flow) < flows && record.size_bytes >= DATA_BYTES)
            .map(|record| record.enqueued)
            .min()
            .unwrap_or(Time::ZERO)
    }
}

/// A packet of this size carries data; one that sets up a connection is smaller, and so is the
/// name that iperf3 gives its test.
const DATA_BYTES: u32 = 500;
