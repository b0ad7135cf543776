//! What the programs are told of bundles.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering::Relaxed;

use fairwater_bundle::{BoundaryKey, EpochSize, ReceiveCounters};
use fairwater_kernel::{KernelError, Shared};
use libbpf_rs::num_possible_cpus;

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

/// `fw_counters`, mapped.
#[derive(Debug)]
pub(crate) struct Counters {
    memory: Shared,
    processors: usize,
}

impl Counters {
    pub(crate) fn map(
        map: BorrowedFd<'_>,
        bundles: usize,
        processors: u32,
    ) -> Result<Self, KernelError> {
        let processors = processors as usize;
        let memory = Shared::writable(map, bundles * processors * counters::BYTES);
        Ok(Self {
            memory: memory.map_err(KernelError::io("map the counters of bundles"))?,
            processors,
        })
    }

    /// What was counted of a bundle on all processors.
    pub(crate) fn of(&self, bundle: usize) -> ReceiveCounters {
        let sum = |word: usize| self.sum(bundle, word);
        ReceiveCounters {
            bytes: sum(0),
            packets: sum(1),
            ce_bytes: sum(2),
            ce_packets: sum(3),
        }
    }

    /// Boundaries of a bundle that the ring had no room for.
    pub(crate) fn lost(&self, bundle: usize) -> u64 {
        self.sum(bundle, counters::LOST)
    }

    fn sum(&self, bundle: usize, word: usize) -> u64 {
        let of_one = |processor: usize| {
            let record = bundle * self.processors + processor;
            let value = self.memory.u64(record * counters::BYTES + 8 * word);
            value.load(Relaxed)
        };
        (0..self.processors).map(of_one).sum()
    }
}

/// Processors that there may be.
pub(crate) fn processors() -> u32 {
    num_possible_cpus().map_or(1, |count| u32::try_from(count).unwrap_or(u32::MAX))
}
