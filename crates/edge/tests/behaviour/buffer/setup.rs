//! What a run of the model is given, and what comes of it.

use fairwater_edge::buffer::BufferStatistics;
use fairwater_tcp::Counters;

/// What happens between the box and the peer.
#[derive(Debug, Clone)]
pub(crate) struct Path {
    pub(crate) bytes_per_second: u64,
    pub(crate) one_way_us: u64,
    pub(crate) queue_bytes: u64,
    /// ECN-capable packets are marked above so many bytes in the queue.
    pub(crate) mark_above: u64,
    /// Probabilities, in thousandths.
    pub(crate) loss: u64,
    pub(crate) ack_loss: u64,
    pub(crate) late: u64,
    pub(crate) twice: u64,
    /// How much later a late packet is, µs.
    pub(crate) late_us: u64,
}

impl Default for Path {
    fn default() -> Self {
        Self {
            bytes_per_second: 12_500_000,
            one_way_us: 10_000,
            queue_bytes: 500_000,
            mark_above: u64::MAX,
            loss: 0,
            ack_loss: 0,
            late: 0,
            twice: 0,
            late_us: 2_000,
        }
    }
}

/// What becomes of the box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Lives,
    /// It is gone from then on, ms: packets pass.
    Dies(u64),
    /// Another takes its place that knows of nothing.
    Restarts(u64),
}

#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) seed: u64,
    pub(crate) path: Path,
    pub(crate) total: u64,
    pub(crate) first: u32,
    pub(crate) sack: bool,
    pub(crate) timestamps: bool,
    /// The guest's segments leave it together.
    pub(crate) gso: bool,
    /// Packets that are lost between the guest and the box, in thousandths.
    pub(crate) guest_loss: u64,
    pub(crate) fate: Fate,
    pub(crate) limit_ms: u64,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            seed: 1,
            path: Path::default(),
            total: 1_000_000,
            first: 1,
            sack: true,
            timestamps: true,
            gso: false,
            guest_loss: 0,
            fate: Fate::Lives,
            limit_ms: 300_000,
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Outcome {
    /// When all was acknowledged, FIN included, ms.
    pub(crate) finished_ms: Option<u64>,
    pub(crate) delivered: u64,
    pub(crate) is_fin_delivered: bool,
    pub(crate) guest: Counters,
    pub(crate) duplicates_seen: u64,
    pub(crate) sacks_seen: u64,
    pub(crate) echoes_seen: u64,
    /// Data that the peer did not have and refused for its clock (RFC 7323 §5.3).
    pub(crate) paws_drops: u64,
    pub(crate) lost: u64,
    pub(crate) marked: u64,
    pub(crate) longest: usize,
    pub(crate) most_held: usize,
    pub(crate) statistics: BufferStatistics,
}
