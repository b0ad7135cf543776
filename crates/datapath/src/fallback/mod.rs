//! What controls a flow while no program does: before the first one arrives, while the plane is
//! silent or gone, and for good after a fault or a withdrawal.

mod cubic;
mod cubic_curve;
mod episode;
mod path;
mod reno;
mod takeover;

pub use cubic::Cubic;
pub use path::Path;
pub use reno::Reno;
pub use takeover::Takeover;

use fairwater_proto::Fallback;

/// The state of a flow's fallback.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    /// CUBIC.
    Cubic(Cubic),
    /// Reno.
    Reno(Reno),
    /// None: no window is enforced.
    Released,
}

impl Controller {
    /// For a connection that begins with this slow start threshold, bytes. Without one, slow start goes
    /// on up to the first loss (RFC 5681 §3.1, an initial ssthresh that is arbitrarily high).
    #[must_use]
    pub fn new(fallback: Fallback, ssthresh: Option<u64>) -> Self {
        Self::with_ssthresh(fallback, ssthresh.unwrap_or(u64::MAX))
    }

    const fn with_ssthresh(fallback: Fallback, ssthresh: u64) -> Self {
        match fallback {
            Fallback::Cubic => Self::Cubic(Cubic::with_ssthresh(ssthresh)),
            Fallback::Reno => Self::Reno(Reno::with_ssthresh(ssthresh)),
            Fallback::Release => Self::Released,
        }
    }

    /// For a flow that ran under a program until now. Returns the state and the cwnd to go on
    /// with, bytes.
    #[must_use]
    pub fn take_over(fallback: Fallback, takeover: &Takeover, path: &Path<'_>) -> (Self, u64) {
        let (cwnd, ssthresh) = takeover.controls(path);
        (Self::with_ssthresh(fallback, ssthresh), cwnd)
    }

    /// Slow start threshold, bytes; `None` before the first loss, and for a flow that is released.
    #[must_use]
    pub fn ssthresh(&self) -> Option<u64> {
        let ssthresh = match self {
            Self::Cubic(cubic) => cubic.ssthresh(),
            Self::Reno(reno) => reno.ssthresh(),
            Self::Released => u64::MAX,
        };
        (ssthresh != u64::MAX).then_some(ssthresh)
    }

    /// The new cwnd after an ACK or a retransmission timeout, bytes.
    #[must_use]
    pub fn on_signals(&mut self, cwnd: u64, path: &Path<'_>) -> u64 {
        match self {
            Self::Cubic(cubic) => cubic.on_signals(cwnd, path),
            Self::Reno(reno) => reno.on_signals(cwnd, path),
            Self::Released => cwnd,
        }
    }
}
