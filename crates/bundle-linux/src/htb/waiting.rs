//! What waits in a bundle's leaves. The kernel sums nothing over the leaves of a class, and reading all of them each
//! 10 ms would cost too much: what went in less what came out tells in between.

use std::time::Duration;

/// Leaves that were used in this time may hold packets.
pub(super) const MEMORY: Duration = Duration::from_secs(2);
/// Bytes of an Ethernet header, which the kernel counts.
const LINK_HEADER: u64 = 14;
/// Less than this is no queue: a packet that is on its way through.
const SMALLEST: u64 = 1_500;

/// What waits, bytes of IP packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Waiting {
    enqueued: u64,
    sent: u64,
    /// What went in less what came out when nothing waited: packets that were dropped, or passed by the classes.
    offset: i64,
}

impl Waiting {
    /// So many bytes went in and came out so far; whether that has changed.
    pub(super) const fn update(&mut self, enqueued: u64, sent: u64) -> bool {
        let has_changed = self.enqueued != enqueued || self.sent != sent;
        self.enqueued = enqueued;
        self.sent = sent;
        has_changed
    }

    /// The kernel said what waits now, with link headers.
    pub(super) const fn set(&mut self, bytes: u64, packets: u64) {
        let waiting = bytes.saturating_sub(LINK_HEADER * packets);
        self.offset = self.difference() - waiting.cast_signed();
    }

    const fn difference(&self) -> i64 {
        self.enqueued.wrapping_sub(self.sent).cast_signed()
    }

    /// Bytes that wait.
    pub(super) fn bytes(&self) -> u64 {
        u64::try_from(self.difference() - self.offset).unwrap_or(0)
    }

    /// Whether hardly anything waits.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes() < SMALLEST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_and_passing_packets_are_no_queue() {
        let mut waiting = Waiting::default();
        assert!(waiting.update(100_000, 40_000));
        assert_eq!(waiting.bytes(), 60_000);
        // 30 packets wait, so that the others were dropped.
        waiting.set(30 * 1_014, 30);
        assert_eq!(waiting.bytes(), 30_000);
        assert!(waiting.update(101_000, 41_000));
        assert_eq!(waiting.bytes(), 30_000);
        // Packets passed by the classes.
        assert!(waiting.update(101_000, 501_000));
        assert_eq!(waiting.bytes(), 0);
        waiting.set(0, 0);
        assert!(waiting.is_empty() && !waiting.update(101_000, 501_000));
    }
}
