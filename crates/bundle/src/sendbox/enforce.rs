//! What of an algorithm's window and rate is enforced on a bundle.

use std::time::Duration;

use fairwater_datapath::Controls;
use fairwater_net::Time;

use crate::EpochSize;
use crate::estimate::Estimates;

/// Share of the received rate that the enforced rate may reach.
const MAX_OF_RECEIVED: f64 = 1.25;

/// Bytes of a packet that windows are rounded up by.
const PACKET_BYTES: u64 = 1_500;

/// What limits a bundle's dequeues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Enforced {
    /// Bytes/s.
    pub rate: u64,
    /// Bytes in flight at which dequeues are held.
    pub hold_at: u64,
}

/// Bounds of the enforced rate, bytes/s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateBounds {
    /// Never less.
    pub min: u64,
    /// May be reached without that much having been received; 0 if the measured rate alone decides.
    pub assured: u64,
}

impl Enforced {
    /// The smaller of the algorithm's rate and cwnd / RTT: some algorithms set a rate well above cwnd / RTT and rely
    /// on the window. At most the greater of 1.25 × the rate that was received lately and the assured one, so that
    /// nothing that a forger or a fault could make of feedback floods the path. `None` before an RTT was measured.
    ///
    /// The hold: a rate limiter alone freezes algorithms that compare what is in flight with their window, since the
    /// RTT has to rise before the rate falls. An epoch more than the window is let out, because what is in flight is
    /// known once an epoch.
    #[must_use]
    pub fn of(
        controls: Controls,
        estimates: &Estimates,
        received_lately: f64,
        epoch: EpochSize,
        bounds: RateBounds,
    ) -> Option<Self> {
        let rtt = estimates.mean_rtt?.as_secs_f64();
        let window_rate = controls.cwnd as f64 / rtt.max(1e-6);
        let asked = match controls.rate {
            0 => window_rate,
            rate => window_rate.min(rate as f64),
        };
        let most = (MAX_OF_RECEIVED * received_lately).max(bounds.assured as f64);
        let rate = (asked.min(most) as u64).max(bounds.min).max(1);
        let epoch_bytes = epoch.packets().saturating_mul(PACKET_BYTES);
        Some(Self {
            rate,
            hold_at: controls.cwnd.saturating_add(epoch_bytes.max(PACKET_BYTES)),
        })
    }
}

/// Maximum of the last 5 to 10 s in which values came: a bundle that was idle is not held to what it received just
/// before it stopped.
#[derive(Debug, Clone, Default)]
pub struct RecentMax {
    halves: [f64; 2],
    /// Time of the present half.
    passed: Duration,
    last: Time,
}

impl RecentMax {
    const HALF: Duration = Duration::from_secs(5);
    /// A longer time without a value counts as this.
    const LONGEST_GAP: Duration = Duration::from_millis(100);

    /// Takes a value in.
    pub fn on_sample(&mut self, now: Time, value: f64) {
        self.passed += now.since(self.last).min(Self::LONGEST_GAP);
        self.last = self.last.max(now);
        if self.passed >= Self::HALF {
            let [present, _] = self.halves;
            self.halves = [0.0, present];
            self.passed = Duration::ZERO;
        }
        self.halves[0] = self.halves[0].max(value);
    }

    /// The maximum; 0 before the first value.
    #[must_use]
    pub fn get(&self) -> f64 {
        self.halves[0].max(self.halves[1])
    }
}
