//! ECN towards the network for a guest that has none (vCC figure 3, appendix A.7).

use fairwater_wire::{EcnCodepoint, Seq, TcpFlags};

use crate::Segment;
use crate::track::Sent;

/// What a box does for one guest's connection, whose peer believes that it speaks with an ECN-capable end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EcnTranslation {
    /// The next new data tells that the window was reduced.
    is_cwr_due: bool,
    /// What was out at the last reduction; until una is above it there is no other (RFC 3168 §6.1.2).
    recover: Option<Seq>,
    /// Marks of the peer's data are echoed until it has reduced its window (RFC 3168 §6.1.3).
    is_echoing: bool,
}

/// Changes of one packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EcnChanges {
    /// The flags to set.
    pub set: TcpFlags,
    /// The flags to clear.
    pub clear: TcpFlags,
    /// The ECN field to write.
    pub field: Option<EcnCodepoint>,
}

impl EcnTranslation {
    /// A packet from the guest. Data is marked as ECN-capable if `may_mark`: only while an algorithm answers
    /// to marks.
    pub fn on_sent(&mut self, segment: &Segment, sent: Sent, may_mark: bool) -> EcnChanges {
        let mut changes = EcnChanges::default();
        if self.is_echoing && segment.has(TcpFlags::ACK) {
            changes.set = changes.set | TcpFlags::ECE;
        }
        // RFC 3168 §6.1.4, §6.1.5, §6.1.6: no pure ACK, nothing that is sent again, no window probe.
        if sent == Sent::New && segment.payload > 0 {
            if self.is_cwr_due {
                self.is_cwr_due = false;
                changes.set = changes.set | TcpFlags::CWR;
            }
            if may_mark {
                changes.field = Some(EcnCodepoint::Ect0);
            }
        }
        changes
    }

    /// Whether marks of the peer's data are to be echoed now.
    #[must_use]
    pub const fn is_echoing(&self) -> bool {
        self.is_echoing
    }

    /// A packet to the guest, which arrived with the ECN field `field`; una and nxt are the guest's after it.
    pub fn on_received(
        &mut self,
        segment: &Segment,
        field: EcnCodepoint,
        una: Seq,
        nxt: Seq,
    ) -> EcnChanges {
        if segment.has(TcpFlags::CWR) {
            self.is_echoing = false;
        }
        // The guest takes it as if no queue had marked it.
        let is_marked = field == EcnCodepoint::Ce;
        self.is_echoing |= is_marked;
        let is_over = self.recover.is_none_or(|recover| una.is_after(recover));
        if segment.has(TcpFlags::ECE) && is_over {
            self.is_cwr_due = true;
            self.recover = Some(nxt);
        }
        EcnChanges {
            set: TcpFlags::NONE,
            clear: TcpFlags::ECE | TcpFlags::CWR,
            field: is_marked.then_some(EcnCodepoint::NotEct),
        }
    }
}
