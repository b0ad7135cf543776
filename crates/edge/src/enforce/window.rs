//! The receive window that a guest is told.

use fairwater_wire::Seq;

/// Least window that is enforced, segments: with one, a receiver that delays its ACKs stalls the guest.
const MIN_SEGMENTS: u64 = 2;

/// What limits a guest now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Its peer's window alone.
    Released,
    /// At most so many bytes in flight.
    Target(u64),
}

/// An ACK that passes, as far as its window is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowUpdate {
    /// The acknowledgement number.
    pub ack: Seq,
    /// The window's field as the peer has it.
    pub field: u16,
    /// The segment carries data, SYN or FIN, so that it is no duplicate ACK.
    pub has_data: bool,
    /// What the guest has in flight, after the ACK.
    pub una: Seq,
    /// See `una`.
    pub nxt: Seq,
}

/// The receive window that a guest is told (vCC §2, "Throttle the receive window").
///
/// The right edge is max(nxt, una + target). It is never above the peer's own edge. Below that it never moves
/// behind what the guest has sent, and never back, with two exceptions: less than one unit of the window scale,
/// as rounding makes it (RFC 7323 §2.4), and once when an algorithm takes a guest that was released and knows of
/// all of the peer's window.
#[derive(Debug, Clone)]
pub struct Window {
    mss: u64,
    /// Shift of the peer's window, and of the window as the guest takes it.
    peer_scale: u8,
    guest_scale: u8,
    limit: Limit,
    /// The right edge before rounding.
    edge: Seq,
    /// The furthest right edge that the guest was told.
    told: Seq,
    /// The last ACK: its number, the peer's field, and the field that the guest was told.
    last: Option<(Seq, u16, u16)>,
}

impl Window {
    /// Of a guest that was told of the window up to `told`. The scales are the shift of the peer's window, and the
    /// one that the guest knows of, which is at most that.
    #[must_use]
    pub fn new(mss: u32, (peer_scale, guest_scale): (u8, u8), told: Seq, una: Seq) -> Self {
        Self {
            mss: u64::from(mss.max(1)),
            peer_scale,
            guest_scale: guest_scale.min(peer_scale),
            limit: Limit::Released,
            edge: una,
            told,
            last: None,
        }
    }

    /// What limits the guest from its next ACK on.
    pub fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
    }

    /// What limits the guest.
    #[must_use]
    pub const fn limit(&self) -> Limit {
        self.limit
    }

    /// The furthest right edge that the guest was told.
    #[must_use]
    pub const fn told(&self) -> Seq {
        self.told
    }

    /// Bytes that are enforced: whole segments, two at least; `None` while the guest is released.
    #[must_use]
    pub fn target(&self) -> Option<u64> {
        match self.limit {
            Limit::Released => None,
            Limit::Target(bytes) => Some((bytes / self.mss).max(MIN_SEGMENTS) * self.mss),
        }
    }

    /// The window's field for an ACK to the guest.
    #[must_use]
    pub fn field(&mut self, update: &WindowUpdate) -> u16 {
        let peer_window = u32::from(update.field) << self.peer_scale;
        let peer_field = u16::try_from(peer_window >> self.guest_scale).unwrap_or(u16::MAX);
        let field = match self.target() {
            None => peer_field,
            Some(target) => self.limited(update, peer_field, target),
        };
        self.last = Some((update.ack, update.field, field));
        let window = u32::from(field) << self.guest_scale;
        self.told = self.told.max(update.ack.plus(window));
        field
    }

    fn limited(&mut self, update: &WindowUpdate, peer_field: u16, target: u64) -> u16 {
        let is_out = update.nxt != update.una;
        // RFC 5681 §2: an ACK is a duplicate only if its window is that of the last one.
        if let Some((ack, field, told)) = self.last
            && !update.has_data
            && is_out
            && (ack, field) == (update.ack, update.field)
        {
            return told.min(peer_field);
        }
        let target = u32::try_from(target).unwrap_or(u32::MAX).min(MAX_WINDOW);
        let edge = update.una.plus(target).max(update.nxt);
        self.edge = self.edge.max(edge);
        let window = self.edge.bytes_since(update.ack);
        let field = window.div_ceil(1 << self.guest_scale);
        u16::try_from(field).unwrap_or(u16::MAX).min(peer_field)
    }

    /// Whether data that begins at `start` is beyond the window that the guest was told. One byte at the edge
    /// is a probe (RFC 9293 §3.8.6.1).
    #[must_use]
    pub fn is_beyond(&self, start: Seq, length: u32) -> bool {
        match start.distance_from(self.told) {
            0 => length > 1,
            distance => distance > 0 && length > 0,
        }
    }
}

/// The greatest window that there can be (RFC 7323 §2.3).
const MAX_WINDOW: u32 = 1 << 30;
