//! How bundles are queued at a sendbox's port.

use std::time::Duration;

use super::KernelScheduler;
use crate::{BoxError, MESSAGE_PORT};

/// Most bundles at one interface: classes have numbers of 16 bits, of which each bundle needs some.
pub const MAX_BUNDLES: usize = 2_000;
/// Leaves of a bundle's band: flows that are apart.
const MAX_LEAVES: u32 = 64;
/// Leaves of all bundles, unless there are more bundles: the kernel finds an interface's queues by lists of a sixteenth
/// of them, so that the time to make all grows with the square of their number, and that of each change with it.
const MAX_ALL_LEAVES: u32 = 8_192;
/// Most bands: HTB has eight priorities.
pub const MAX_BANDS: u8 = 8;

/// What shares a bundle's rate among flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LeafScheduler {
    /// Classes that a program hands out to flows: in every kernel with HTB.
    FlowMap,
    /// The kernel's own.
    Kernel(KernelScheduler),
}

impl LeafScheduler {
    /// `fq_codel` where the kernel has it, else classes that are handed out.
    ///
    /// # Errors
    /// The kernel could not be asked.
    pub fn best() -> Result<Self, BoxError> {
        let fair = KernelScheduler::FqCodel;
        let is_available = fair
            .is_available()
            .map_err(BoxError::io("find out which schedulers this kernel has"))?;
        Ok(if is_available {
            Self::Kernel(fair)
        } else {
            Self::FlowMap
        })
    }
}

/// How bundles are queued at a sendbox's port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HtbOptions {
    /// What shares a bundle's rate among flows.
    pub leaves: LeafScheduler,
    /// Bands of each bundle, 1 to [`MAX_BANDS`]: while a packet waits in one, none of a later one leaves.
    pub bands: u8,
    /// Band of each DSCP; a number beyond the bands is the last one. ICMP is always in the first.
    pub band_of_dscp: [u8; 64],
    /// Age of the heartbeat from which on nothing is shaped. [`HtbSendbox::turn`](super::HtbSendbox::turn) has to be
    /// called more often.
    pub stale_after: Duration,
    /// Most segments of the super-packets that this machine's own TCP hands to the interface, on connections that begin
    /// later: one of 64 kB keeps a link of 96 Mbit/s busy for 5.5 ms. Forwarded super-packets are those that GRO makes at the interface where they come
    /// in (`ip link set dev … gro_max_size`), which is not touched.
    pub max_segments: Option<u32>,
    /// Messages between boxes have this port at one end: they go before all else, and are not counted.
    pub message_port: u16,
    /// Bytes of the ring of boundary packets, a power of two and a multiple of the page's size.
    pub ring_bytes: u32,
}

impl Default for HtbOptions {
    fn default() -> Self {
        Self {
            leaves: LeafScheduler::FlowMap,
            bands: 1,
            band_of_dscp: [0; 64],
            stale_after: Duration::from_millis(30),
            max_segments: None,
            message_port: MESSAGE_PORT,
            ring_bytes: 1 << 20,
        }
    }
}

/// Which classes bundles have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) bundles: u32,
    pub(super) bands: u32,
    /// Of each band.
    pub(super) leaves: u32,
}

impl Plan {
    pub(super) fn new(bundles: usize, options: &HtbOptions) -> Result<Self, BoxError> {
        let count = u32::try_from(bundles).unwrap_or(u32::MAX);
        if bundles > MAX_BUNDLES {
            return Err(BoxError::TooManyBundles(bundles));
        }
        let bands = u32::from(options.bands.clamp(1, MAX_BANDS));
        let leaves = match options.leaves {
            LeafScheduler::Kernel(_) => 1,
            LeafScheduler::FlowMap => {
                (MAX_ALL_LEAVES / (count.max(1) * bands)).clamp(1, MAX_LEAVES)
            }
        };
        Ok(Self {
            bundles: count,
            bands,
            leaves,
        })
    }

    /// Leaves of a bundle.
    pub(super) const fn all_leaves(&self) -> u32 {
        self.bands * self.leaves
    }

    /// Minor number of a bundle's class; its leaves follow.
    pub(super) const fn class_of(&self, bundle: u32) -> u32 {
        1 + bundle * (1 + self.all_leaves())
    }

    /// Minor numbers of a bundle's leaves, and their bands.
    pub(super) fn leaves_of(self, bundle: u32) -> impl Iterator<Item = (u32, u32)> {
        let first = self.class_of(bundle) + 1;
        (0..self.all_leaves()).map(move |leaf| (first + leaf, leaf / self.leaves))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_do_not_overlap_and_have_numbers() {
        for bundles in [1, 2, 100, 1_000, MAX_BUNDLES] {
            for bands in [1, 3, 8] {
                let options = HtbOptions {
                    bands,
                    ..HtbOptions::default()
                };
                let plan = Plan::new(bundles, &options).unwrap();
                let last = plan.bundles - 1;
                let end = plan.class_of(last) + plan.all_leaves();
                assert!(end < crate::htb::tc::KEEPER, "{bundles} {bands}: {end}");
                // The kernel gives each queue a handle, of which there are so many.
                assert!(plan.bundles * plan.all_leaves() < 32_767);
                let next = plan.class_of(1);
                assert!(plan.leaves_of(0).all(|(minor, _)| minor < next));
                let (_, band) = plan.leaves_of(0).last().unwrap();
                assert_eq!(band, u32::from(bands) - 1);
            }
        }
        assert!(Plan::new(MAX_BUNDLES + 1, &HtbOptions::default()).is_err());
    }
}
