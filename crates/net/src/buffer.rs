//! Sizes of buffers, as users state them.

use std::fmt;
use std::time::Duration;

use crate::decimal::Decimal;
use crate::{Limit, Rate, quantity};

/// The size of a bottleneck's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Buffer {
    /// A number of packets.
    Packets(u64),
    /// A number of bytes.
    Bytes(u64),
    /// Thousandths of the bandwidth-delay product.
    MilliBdp(u64),
    /// What the link carries in `time`, and no more than `bytes`: a queue that never delays a
    /// packet longer, whatever the link's rate.
    Time {
        /// The longest queueing delay.
        time: Duration,
        /// The most bytes; `u64::MAX` for no such bound.
        bytes: u64,
    },
}

/// One bandwidth-delay product: the buffer of a link whose description states none.
impl Default for Buffer {
    fn default() -> Self {
        Buffer::MilliBdp(1000)
    }
}

/// Smallest buffer that a bandwidth-delay product comes to, bytes: one packet of the usual size. A
/// packet that meets an idle bottleneck passes through the queue too.
pub const MIN_BUFFER_BYTES: u64 = 1500;

impl Buffer {
    /// The limit of the queue before a link of this rate, for flows of this round-trip time; at
    /// least [`MIN_BUFFER_BYTES`] where it follows from the link.
    pub fn limit(self, rate: Rate, rtt: Duration) -> Limit {
        match self {
            Buffer::Packets(packets) => Limit::Packets(packets),
            Buffer::Bytes(bytes) => Limit::Bytes(bytes),
            Buffer::MilliBdp(milli) => {
                Limit::Bytes(bdp_bytes(milli, rate, rtt).max(MIN_BUFFER_BYTES))
            }
            Buffer::Time { time, bytes } => {
                Limit::Bytes(rate.bytes_in(time).min(bytes).max(MIN_BUFFER_BYTES))
            }
        }
    }

    /// Bytes of a buffer that is stated in bandwidth-delay products or time and comes to less than
    /// one packet; `None` for every other buffer.
    pub fn less_than_a_packet(self, rate: Rate, rtt: Duration) -> Option<u64> {
        let bytes = match self {
            Buffer::MilliBdp(milli) => bdp_bytes(milli, rate, rtt),
            Buffer::Time { time, .. } => rate.bytes_in(time),
            Buffer::Packets(_) | Buffer::Bytes(_) => return None,
        };
        Some(bytes).filter(|bytes| *bytes < MIN_BUFFER_BYTES)
    }
}

/// Bytes of thousandths of the bandwidth-delay product.
fn bdp_bytes(milli: u64, rate: Rate, rtt: Duration) -> u64 {
    let bytes = u128::from(rate.bytes_in(rtt)) * u128::from(milli) / 1000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Buffer::Packets(packets) => write!(f, "{packets}pkt"),
            Buffer::Bytes(bytes) if bytes > 0 && bytes.is_multiple_of(1000) => {
                write!(f, "{}kB", bytes / 1000)
            }
            Buffer::Bytes(bytes) => write!(f, "{bytes}B"),
            Buffer::MilliBdp(milli) => write!(f, "{}bdp", Decimal(milli, 3)),
            Buffer::Time { time, bytes } => {
                if bytes < u64::MAX {
                    write!(f, "{},", Buffer::Bytes(bytes))?;
                }
                quantity::write_duration(f, time)
            }
        }
    }
}
