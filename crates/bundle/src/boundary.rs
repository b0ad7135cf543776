//! Boundary packets and epochs (Bundler §4.5).

use std::hash::Hasher;
use std::time::Duration;

use siphasher::sip::SipHasher13;

use crate::Identity;

/// Hash of a packet's identity under a bundle's key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Boundary(pub u64);

/// The key of a bundle's boundary hash: whoever lacks it can neither craft nor predict boundary packets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BoundaryKey {
    /// The first and the second eight bytes of SipHash's key, as little-endian numbers.
    words: [u64; 2],
}

impl BoundaryKey {
    /// This key.
    #[must_use]
    pub fn new(key: [u8; 16]) -> Self {
        let number = u128::from_le_bytes(key);
        Self {
            words: [number as u64, (number >> 64) as u64],
        }
    }

    /// The two halves of SipHash's key, for data planes that hash by themselves.
    #[must_use]
    pub const fn words(&self) -> [u64; 2] {
        self.words
    }

    /// SipHash-1-3 of the identity's bytes: 64 bits.
    #[must_use]
    pub fn hash(&self, identity: &Identity) -> Boundary {
        let [first, second] = self.words;
        let mut hasher = SipHasher13::new_with_keys(first, second);
        hasher.write(identity.as_bytes());
        Boundary(hasher.finish())
    }
}

impl std::fmt::Debug for BoundaryKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BoundaryKey")
    }
}

/// Mean number of packets of an epoch, N = 2^k: a packet is a boundary if its hash is a multiple of N. The
/// boundaries under a greater N are boundaries under a smaller one, too, so boxes that disagree for a while see
/// surplus marks or longer epochs, and nothing worse (Bundler §4.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EpochSize(u8);

impl EpochSize {
    /// Before anything was measured.
    pub const INITIAL: Self = Self(4);
    /// The greatest: a million packets.
    pub const MAX_EXPONENT: u8 = 20;
    /// Epochs begin at most this far apart, on average: a detector of pulses at 10 Hz needs samples that often.
    pub const MAX_TIME: Duration = Duration::from_millis(10);
    /// And at least this far, so that short RTTs at high rates do not flood the path with feedback.
    pub const MIN_TIME: Duration = Duration::from_millis(1);

    /// N = 2^`exponent`; `None` above [`EpochSize::MAX_EXPONENT`].
    #[must_use]
    pub const fn from_exponent(exponent: u8) -> Option<Self> {
        if exponent <= Self::MAX_EXPONENT {
            Some(Self(exponent))
        } else {
            None
        }
    }

    /// k.
    #[must_use]
    pub const fn exponent(self) -> u8 {
        self.0
    }

    /// N, packets.
    #[must_use]
    pub const fn packets(self) -> u64 {
        1 << self.0
    }

    /// Whether a packet begins an epoch.
    #[must_use]
    pub const fn begins_at(self, boundary: Boundary) -> bool {
        boundary.0 & (self.packets() - 1) == 0
    }

    /// N for a bundle that sends `packets_per_s`: 0.25 · minRTT · rate (Bundler §4.5) between [`EpochSize::MIN_TIME`]
    /// and [`EpochSize::MAX_TIME`], rounded down to 2^k. `self` is the present N, which stays while the target is
    /// within 10 % of its range, so that N does not flap.
    #[must_use]
    pub fn adapted(self, min_rtt: Duration, packets_per_s: f64) -> Self {
        let time = (min_rtt / 4).clamp(Self::MIN_TIME, Self::MAX_TIME);
        let target = (time.as_secs_f64() * packets_per_s).max(1.0);
        let present = self.packets() as f64;
        if (present * 0.9..present * 2.2).contains(&target) {
            return self;
        }
        let exponent = target.log2().floor().min(f64::from(Self::MAX_EXPONENT));
        Self(exponent as u8)
    }
}
