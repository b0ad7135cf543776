//! What the programs are told of bundles.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::Relaxed;

use fairwater_bundle::{BoundaryKey, EpochSize, ReceiveCounters};
use fairwater_kernel::{KernelError, Shared};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::layout::{counters, settings};

/// What packets at an interface begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Framing {
    /// An Ethernet header.
    #[default]
    Ethernet,
    /// An IP header: TUN devices, IP tunnels, WireGuard.
    Ip,
}

impl Framing {
    /// Bytes of the link's header.
    pub(crate) const fn header_bytes(self) -> u32 {
        match self {
            Self::Ethernet => 14,
            Self::Ip => 0,
        }
    }
}

/// `fw_settings`, mapped.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) memory: Shared,
}

impl Settings {
    pub(crate) fn map(map: BorrowedFd<'_>, bundles: usize) -> Result<Self, KernelError> {
        let memory = Shared::writable(map, bundles * settings::BYTES);
        Ok(Self {
            memory: memory.map_err(KernelError::io("map the settings of bundles"))?,
        })
    }

    pub(crate) fn set_key(&self, bundle: usize, key: BoundaryKey) {
        for (offset, word) in settings::KEY.into_iter().zip(key.words()) {
            self.memory
                .u64(bundle * settings::BYTES + offset)
                .store(word, Relaxed);
        }
    }

    pub(crate) fn set_epoch(&self, bundle: usize, epoch: EpochSize) {
        let mask = self.memory.u64(bundle * settings::BYTES + settings::MASK);
        mask.store(epoch.packets() - 1, Relaxed);
    }

    pub(crate) fn set_u32(&self, bundle: usize, offset: usize, value: u32) {
        let word = self.memory.u32(bundle * settings::BYTES + offset);
        word.store(value, Relaxed);
    }
}

/// What was counted of a bundle on all processors, and boundaries that the ring had no room for.
pub(crate) fn counted(
    map: &MapHandle,
    bundle: usize,
) -> Result<(ReceiveCounters, u64), KernelError> {
    let key = u32::try_from(bundle).unwrap_or(u32::MAX).to_ne_bytes();
    let found = map
        .lookup_percpu(&key, MapFlags::ANY)
        .map_err(KernelError::bpf("read the counters of a bundle"))?;
    let mut sum = (ReceiveCounters::default(), 0);
    for of_one in found.unwrap_or_default() {
        let (words, _) = of_one.as_chunks::<8>();
        let Some(words) = words.first_chunk::<{ counters::BYTES / 8 }>() else {
            continue;
        };
        let [bytes, packets, ce_bytes, ce_packets, ..] = words.map(u64::from_ne_bytes);
        sum.0.bytes += bytes;
        sum.0.packets += packets;
        sum.0.ce_bytes += ce_bytes;
        sum.0.ce_packets += ce_packets;
        sum.1 += u64::from_ne_bytes(words[counters::LOST]);
    }
    Ok(sum)
}
