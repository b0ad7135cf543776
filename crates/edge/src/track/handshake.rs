//! Connections that are opening.

use fairwater_net::Time;
use fairwater_wire::{MAX_WINDOW_SCALE, Seq, TcpFlags};

use super::{EcnMode, Sender, SenderConfig};
use crate::{Direction, Segment};

/// What an end without an MSS option takes (RFC 9293 §3.7.1): of IPv4, and of IPv6.
const DEFAULT_MSS: [u32; 2] = [536, 1220];

/// Bytes of the timestamps option in each segment, as hosts align it (RFC 7323 appendix A).
const TIMESTAMPS_BYTES: u32 = 12;

/// What an end says by its SYN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Syn {
    /// The initial sequence number.
    pub iss: Seq,
    /// The number after the SYN and its data (RFC 7413).
    pub end: Seq,
    /// The flags, ECN's among them.
    pub flags: TcpFlags,
    /// The receive window, not scaled (RFC 7323 §2.2).
    pub window: u16,
    /// Maximum segment size, bytes without options.
    pub mss: Option<u16>,
    /// Shift of the receive window, as sent.
    pub scale: Option<u8>,
    /// Selective acknowledgements may be sent to it.
    pub sack: bool,
    /// It has sent timestamps.
    pub timestamps: bool,
    /// The segment is signed (RFC 2385, RFC 5925).
    pub is_signed: bool,
    /// The connection is to be one of multipath TCP.
    pub mptcp: bool,
    /// How many times the same SYN was seen before.
    pub repeats: u32,
}

impl Syn {
    fn of(segment: &Segment) -> Self {
        Self {
            iss: segment.seq,
            end: segment.end(),
            flags: segment.flags,
            window: segment.window,
            mss: segment.options.mss,
            scale: segment.options.window_scale,
            sack: segment.options.sack_permitted,
            timestamps: segment.options.timestamps.is_some(),
            is_signed: segment.options.is_signed,
            mptcp: segment.options.mptcp,
            repeats: 0,
        }
    }

    /// Whether the SYN offers ECN (RFC 3168 §6.1.1, RFC 9768 §3.1.1).
    #[must_use]
    pub fn offers_ecn(&self) -> bool {
        self.flags.contains(TcpFlags::ECE | TcpFlags::CWR)
    }
}

/// What a box has changed in the SYNs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Translated {
    /// ECN was offered to the peer for the guest.
    pub(crate) ecn: bool,
    /// ECN that the peer offers was hidden from the guest, and is agreed to in its place.
    pub(crate) answers: bool,
    /// The shift that the guest was told instead of the peer's.
    pub(crate) scale: Option<u8>,
}

impl Translated {
    /// Whether anything was changed.
    pub(crate) fn is_any(self) -> bool {
        self != Self::default()
    }
}

/// A connection of which one SYN at least was seen, and no third packet.
#[derive(Debug, Clone)]
pub struct HalfOpen {
    pub(crate) from_guest: Option<Syn>,
    pub(crate) from_peer: Option<Syn>,
    /// Who sent a SYN without an ACK first.
    initiator: Direction,
    is_v6: bool,
    pub(crate) translated: Translated,
    /// When its first SYN was seen.
    began: Time,
}

impl HalfOpen {
    /// Opened by a SYN without ACK.
    pub(super) fn new(now: Time, direction: Direction, segment: &Segment, is_v6: bool) -> Self {
        let syn = Some(Syn::of(segment));
        let (from_guest, from_peer) = match direction {
            Direction::FromGuest => (syn, None),
            Direction::ToGuest => (None, syn),
        };
        Self {
            from_guest,
            from_peer,
            initiator: direction,
            is_v6,
            translated: Translated::default(),
            began: now,
        }
    }

    /// The guest's SYN.
    #[must_use]
    pub const fn from_guest(&self) -> Option<&Syn> {
        self.from_guest.as_ref()
    }

    /// The peer's SYN.
    #[must_use]
    pub const fn from_peer(&self) -> Option<&Syn> {
        self.from_peer.as_ref()
    }

    /// When its first SYN was seen.
    pub(crate) const fn began(&self) -> Time {
        self.began
    }

    /// Whether the guest opened the connection.
    #[must_use]
    pub fn is_from_guest(&self) -> bool {
        self.initiator == Direction::FromGuest
    }

    fn syns(&mut self, direction: Direction) -> (&mut Option<Syn>, Option<Syn>) {
        match direction {
            Direction::FromGuest => (&mut self.from_guest, self.from_peer),
            Direction::ToGuest => (&mut self.from_peer, self.from_guest),
        }
    }

    /// Takes another SYN; whether it belongs to this connection.
    pub(super) fn on_syn(&mut self, direction: Direction, segment: &Segment) -> bool {
        let (own, other) = self.syns(direction);
        if segment.has(TcpFlags::ACK) {
            // RFC 9293 §3.10.7.3: it must acknowledge the other's SYN; its data is optional (RFC 7413 §4.2).
            let is_answer = |syn: &Syn| {
                segment
                    .ack
                    .is_within(syn.iss.plus(1), syn.end.bytes_since(syn.iss))
            };
            if !other.as_ref().is_some_and(is_answer) {
                return false;
            }
        }
        if own.is_some_and(|syn| syn.iss != segment.seq) {
            return false;
        }
        let repeats = own.map_or(0, |syn| syn.repeats.saturating_add(1));
        // ECN's flags and TFO's data may be left out of later ones: what counts is what was offered.
        let first = own.unwrap_or_else(|| Syn::of(segment));
        *own = Some(Syn { repeats, ..first });
        true
    }

    /// Whether this is the third packet: from the initiator, in order, acknowledging the other's SYN.
    pub(super) fn is_completed_by(&self, direction: Direction, segment: &Segment) -> bool {
        let (Some(guest), Some(peer)) = (self.from_guest, self.from_peer) else {
            return false;
        };
        let (from, to) = match direction {
            Direction::FromGuest => (guest, peer),
            Direction::ToGuest => (peer, guest),
        };
        direction == self.initiator
            && segment.has(TcpFlags::ACK)
            && !segment.has(TcpFlags::RST)
            && segment
                .seq
                .is_within(from.iss.plus(1), from.end.bytes_since(from.iss))
            && segment
                .ack
                .is_within(to.iss.plus(1), to.end.bytes_since(to.iss))
    }

    /// The shifts of the windows that the guest and the peer advertise; neither is scaled unless both
    /// SYNs say so (RFC 7323 §2.2).
    #[must_use]
    pub fn scales(&self) -> (u8, u8) {
        let scale = |syn: &Option<Syn>| syn.as_ref().and_then(|syn| syn.scale);
        match (scale(&self.from_guest), scale(&self.from_peer)) {
            (Some(guest), Some(peer)) => (guest.min(MAX_WINDOW_SCALE), peer.min(MAX_WINDOW_SCALE)),
            _ => (0, 0),
        }
    }

    /// Maximum segment size of the guest's data, bytes of payload.
    #[must_use]
    pub fn mss(&self) -> u32 {
        let own = self.from_guest.and_then(|syn| syn.mss);
        let other = self.from_peer.and_then(|syn| syn.mss);
        // The guest's own option tells its link's MTU.
        let default = DEFAULT_MSS[usize::from(self.is_v6)];
        let mss = other.map_or(default, u32::from);
        let mss = mss.min(own.map_or(u32::MAX, u32::from));
        let has = |syn: &Option<Syn>| syn.as_ref().is_some_and(|syn| syn.timestamps);
        let options = if has(&self.from_guest) && has(&self.from_peer) {
            TIMESTAMPS_BYTES
        } else {
            0
        };
        mss.saturating_sub(options).max(1)
    }

    /// What the two ends agreed upon about ECN.
    #[must_use]
    pub fn ecn(&self) -> EcnMode {
        let (Some(guest), Some(peer)) = (self.from_guest, self.from_peer) else {
            return EcnMode::Off;
        };
        let (offer, answer) = if self.is_from_guest() {
            (guest, peer)
        } else {
            (peer, guest)
        };
        if !offer.offers_ecn() || answer.flags.ace() == offer.flags.ace() {
            // RFC 3168 §6.1.1.1: an answer that mirrors the offer is a broken peer's.
            return EcnMode::Off;
        }
        // RFC 9768 §3.1.2, table 2: AE, CWR and ECE of the answer.
        match (offer.flags.ace(), answer.flags.ace()) {
            (0b111, 0b010 | 0b011 | 0b100 | 0b110) => EcnMode::Accurate,
            (_, 0b001 | 0b101) => EcnMode::Classic,
            _ => EcnMode::Off,
        }
    }

    /// Whether box and peer agreed to ECN (RFC 3168 §6.1.1): the box has offered it, or agreed to it, for the guest.
    #[must_use]
    pub fn has_agreed_to_translation(&self) -> bool {
        if self.translated.answers {
            return true;
        }
        let answer = self.from_peer.map(|syn| syn.flags.ace());
        self.translated.ecn && matches!(answer, Some(0b001 | 0b101))
    }

    /// The guest's data as it begins; `None` before both SYNs were seen.
    pub(super) fn sender(&self, now: Time, ecn: EcnMode) -> Option<Sender> {
        let (guest, peer) = (self.from_guest?, self.from_peer?);
        let config = SenderConfig {
            mss: self.mss(),
            sack: guest.sack && peer.sack,
            ecn,
        };
        Some(Sender::new(config, guest.iss.plus(1), guest.end, now))
    }
}
