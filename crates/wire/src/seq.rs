//! Sequence numbers.

use core::fmt;

/// A sequence number: 32 bits, modulo 2³² (RFC 9293 §3.4).
///
/// There is no order among all of them: [`Seq::is_before`] and its kin compare two that are less than
/// 2³¹ apart, as those of one connection's window are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Seq(pub u32);

impl Seq {
    /// `bytes` further on.
    #[must_use]
    #[inline]
    pub const fn plus(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }

    /// `bytes` further back.
    #[must_use]
    #[inline]
    pub const fn minus(self, bytes: u32) -> Self {
        Self(self.0.wrapping_sub(bytes))
    }

    /// Signed distance from `earlier` to this, bytes; negative when this is before `earlier`.
    #[must_use]
    #[inline]
    pub const fn distance_from(self, earlier: Self) -> i32 {
        self.0.wrapping_sub(earlier.0).cast_signed()
    }

    /// Bytes from `earlier` to this; 0 when this is not after `earlier`.
    #[must_use]
    #[inline]
    pub const fn bytes_since(self, earlier: Self) -> u32 {
        let distance = self.distance_from(earlier);
        if distance > 0 {
            distance.cast_unsigned()
        } else {
            0
        }
    }

    /// Whether this is before `other`: `self < other` of RFC 9293 §3.4.
    #[must_use]
    #[inline]
    pub const fn is_before(self, other: Self) -> bool {
        self.distance_from(other) < 0
    }

    /// Whether this is after `other`.
    #[must_use]
    #[inline]
    pub const fn is_after(self, other: Self) -> bool {
        other.is_before(self)
    }

    /// The later of the two.
    #[must_use]
    #[inline]
    pub const fn max(self, other: Self) -> Self {
        if self.is_before(other) { other } else { self }
    }

    /// The earlier of the two.
    #[must_use]
    #[inline]
    pub const fn min(self, other: Self) -> Self {
        if other.is_before(self) { other } else { self }
    }

    /// Whether this is in `[start, start + length)` (RFC 9293 §3.4).
    #[must_use]
    #[inline]
    pub const fn is_within(self, start: Self, length: u32) -> bool {
        self.0.wrapping_sub(start.0) < length
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seq({})", self.0)
    }
}
