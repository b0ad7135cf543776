//! One connection that is open.

use fairwater_lang::Signals;
use fairwater_net::Time;
use fairwater_wire::{Seq, TcpFlags};

use super::{Acked, EcnMode, HalfOpen, Ignored, Sender, SenderConfig, Sent};
use crate::{Direction, Segment};

/// How a connection came into the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// Both SYNs and the third packet were seen.
    Handshake,
    /// It was met midway: its window's scale is unknown, so it is measured only.
    Midway,
}

/// One connection that is open.
#[derive(Debug, Clone)]
pub struct Flow {
    origin: Origin,
    sender: Sender,
    /// Shifts of the windows of guest and peer.
    scales: (u8, u8),
    /// What the guest has acknowledged of the peer's data, and how far its window reaches.
    guest_ack: Seq,
    guest_edge: Seq,
    /// The right edge of the window that the peer advertised last, and the field of that ACK.
    peer_edge: Seq,
    peer_field: u16,
    /// Both ends have said that they have no more, or one has reset the connection.
    fins: [bool; 2],
    is_reset: bool,
    seen: Time,
}

/// What a packet of an open connection was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// From the guest.
    Sent(Sent),
    /// To the guest, with an ACK.
    Acked(Acked),
    /// Nothing that the connection's state depends on.
    Other,
}

impl Flow {
    /// Of a handshake that the third packet has completed.
    pub(super) fn opened(now: Time, half_open: &HalfOpen, ecn: EcnMode) -> Option<Self> {
        let (guest, peer) = (half_open.from_guest?, half_open.from_peer?);
        let peer_edge = guest.iss.plus(1).plus(u32::from(peer.window));
        Some(Self {
            origin: Origin::Handshake,
            sender: half_open.sender(now, ecn)?,
            scales: half_open.scales(),
            guest_ack: peer.iss.plus(1),
            guest_edge: peer.iss.plus(1).plus(u32::from(guest.window)),
            peer_edge,
            peer_field: peer.window,
            fins: [false; 2],
            is_reset: false,
            seen: now,
        })
    }

    /// Of a connection that both ends have used before the box saw it: `sent` is from the guest.
    pub(super) fn midway(now: Time, sent: &Segment, mss: u32) -> Self {
        let config = SenderConfig {
            mss,
            sack: true,
            ecn: EcnMode::Off,
        };
        Self {
            origin: Origin::Midway,
            sender: Sender::new(config, sent.seq, sent.seq, now),
            scales: (0, 0),
            guest_ack: sent.ack,
            guest_edge: sent.ack.plus(u32::from(sent.window)),
            peer_edge: sent.seq,
            peer_field: 0,
            fins: [false; 2],
            is_reset: false,
            seen: now,
        }
    }

    /// The signals of an invocation now; `edge` is the right edge of the window that the guest was told.
    /// What happened since the last one is in them once.
    pub fn take_signals(&mut self, now: Time, edge: Seq, is_timeout: bool) -> Signals {
        self.sender.take_signals(now, edge, is_timeout)
    }

    /// How the connection came into the table.
    #[must_use]
    pub const fn origin(&self) -> Origin {
        self.origin
    }

    /// What the guest has in flight.
    #[must_use]
    pub const fn sender(&self) -> &Sender {
        &self.sender
    }

    /// What the guest has acknowledged of the peer's data.
    #[must_use]
    pub const fn guest_ack(&self) -> Seq {
        self.guest_ack
    }

    /// The right edge of the window that the peer advertised last.
    #[must_use]
    pub const fn peer_edge(&self) -> Seq {
        self.peer_edge
    }

    /// Shift of the guest's window.
    #[must_use]
    pub const fn guest_scale(&self) -> u8 {
        self.scales.0
    }

    /// Shift of the peer's window.
    #[must_use]
    pub const fn peer_scale(&self) -> u8 {
        self.scales.1
    }

    /// Whether the connection ends: a reset that may have been believed, or the FINs of both ends.
    #[must_use]
    pub const fn is_closing(&self) -> bool {
        self.is_reset || (self.fins[0] && self.fins[1])
    }

    /// When a packet of it passed last.
    #[must_use]
    pub const fn last_seen(&self) -> Time {
        self.seen
    }

    /// A packet passes. `edge` is the right edge of the window that the guest was told.
    pub(super) fn on_packet(
        &mut self,
        now: Time,
        direction: Direction,
        segment: &Segment,
        edge: Seq,
    ) -> Result<Event, Ignored> {
        match direction {
            Direction::FromGuest => self.on_sent(now, segment, edge),
            Direction::ToGuest => self.on_received(now, segment),
        }
    }

    fn on_sent(&mut self, now: Time, segment: &Segment, edge: Seq) -> Result<Event, Ignored> {
        if segment.has(TcpFlags::RST) {
            // A reset that the peer will not believe ends nothing (RFC 5961 §3.2).
            let from = self.sender.una();
            let length = self.sender.nxt().max(self.peer_edge).bytes_since(from);
            if !segment.seq.is_within(from, length.saturating_add(1)) {
                return Err(Ignored::ResetOutOfWindow);
            }
            self.is_reset = true;
            self.seen = now;
            return Ok(Event::Other);
        }
        let span = self.sender.nxt().distance_from(segment.seq).unsigned_abs();
        if span > MAX_WINDOW {
            return Err(Ignored::OutOfWindow);
        }
        if segment.has(TcpFlags::ACK) {
            // The window of an old segment is out of date (RFC 9293 §3.10.7.4, SND.WL1 and SND.WL2).
            let is_current = !segment.ack.is_before(self.guest_ack);
            let jump = segment.ack.bytes_since(self.guest_ack);
            if is_current && jump <= MAX_WINDOW {
                self.guest_ack = segment.ack;
                let window = u32::from(segment.window) << self.scales.0;
                self.guest_edge = self.guest_edge.max(segment.ack.plus(window));
            }
        }
        self.fins[0] |= segment.has(TcpFlags::FIN);
        self.seen = now;
        Ok(Event::Sent(self.sender.on_sent(now, segment, edge)))
    }

    fn on_received(&mut self, now: Time, segment: &Segment) -> Result<Event, Ignored> {
        if segment.has(TcpFlags::RST) {
            // RFC 5961 §3.2: a guest believes a reset at RCV.NXT at once, and challenges one elsewhere in
            // the window.
            if segment.seq != self.guest_ack {
                return Err(Ignored::ResetOutOfWindow);
            }
            self.is_reset = true;
            self.seen = now;
            return Ok(Event::Other);
        }
        // RFC 9293 §3.10.7.4: of a segment outside the window nothing counts, its ACK neither. What is a
        // window old may still be a late packet.
        let window = self.guest_edge.bytes_since(self.guest_ack).max(1);
        let from = self.guest_ack.minus(window.max(u32::from(u16::MAX)));
        let span = self.guest_edge.bytes_since(from).max(1);
        if self.origin == Origin::Handshake && !segment.seq.is_within(from, span.saturating_add(1))
        {
            return Err(Ignored::OutOfWindow);
        }
        self.fins[1] |= segment.has(TcpFlags::FIN);
        self.seen = now;
        if !segment.has(TcpFlags::ACK) {
            return Ok(Event::Other);
        }
        let has_same_window = segment.window == self.peer_field;
        let una = self.sender.una();
        let acked = self.sender.on_ack(now, segment, has_same_window);
        match acked {
            Acked::Beyond => return Err(Ignored::AckBeyond),
            Acked::Old => return Err(Ignored::AckOld),
            Acked::New | Acked::Duplicate | Acked::Same => {}
        }
        if self.sender.una() != una {
            // Whoever acknowledges new data was not reset: the reset was forged, or not believed.
            self.is_reset = false;
        }
        self.peer_field = segment.window;
        let window = u32::from(segment.window) << self.scales.1;
        self.peer_edge = segment.ack.plus(window);
        Ok(Event::Acked(acked))
    }
}

/// The greatest window that there can be (RFC 7323 §2.3).
const MAX_WINDOW: u32 = 1 << 30;
