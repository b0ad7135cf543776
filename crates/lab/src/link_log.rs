//! What became of each packet at the bottleneck.

use fairwater_net::{DropReason, Passage, Time};

/// The flow of a packet that belongs to none that is measured.
pub(crate) const NO_FLOW: u8 = u8::MAX;

/// One packet at the bottleneck. Times are virtual, since the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PacketRecord {
    /// It arrived at the queue, or was dropped.
    pub(crate) enqueued: Time,
    /// It left the queue; when dropped, `enqueued`.
    pub(crate) served: Time,
    /// Its last bit left the bottleneck; when dropped, `enqueued`.
    pub(crate) departed: Time,
    /// IP bytes.
    pub(crate) size_bytes: u32,
    /// The index of its flow, if it is of one that is measured.
    pub(crate) flow: u8,
    /// It left the queue with a mark (ECN CE).
    pub(crate) marked: bool,
    /// Why it was dropped, if it was.
    pub(crate) dropped: Option<DropReason>,
}

impl PacketRecord {
    pub(crate) fn delivered(flow: u8, passage: &Passage) -> Self {
        PacketRecord {
            enqueued: passage.enqueued,
            served: passage.served,
            departed: passage.departed,
            size_bytes: passage.size_bytes,
            flow,
            marked: passage.marked,
            dropped: None,
        }
    }

    pub(crate) fn dropped(flow: u8, now: Time, size_bytes: u32, reason: DropReason) -> Self {
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
pub(crate) struct LinkLog {
    chunks: Vec<Vec<PacketRecord>>,
}

const CHUNK: usize = 8192;

impl LinkLog {
    pub(crate) fn push(&mut self, record: PacketRecord) {
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
    pub(crate) fn iter(&self) -> impl Iterator<Item = &PacketRecord> {
        self.chunks.iter().flatten()
    }
}
