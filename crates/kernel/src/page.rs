//! Typed access to the plane's page, which the kernel side shares (`bpf/flow.h`).

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};

use crate::layout::{MAX_ALGORITHMS, MAX_PROGRAMS, plane};
use crate::shared::Shared;

/// The page that a plane shares with the kernel side: `struct plane` of `bpf/flow.h`.
#[derive(Debug)]
pub struct PlanePage(Shared);

impl PlanePage {
    /// The page in this memory, [`PAGE_BYTES`](crate::PAGE_BYTES) long.
    #[must_use]
    pub const fn new(memory: Shared) -> Self {
        Self(memory)
    }

    /// When the plane was heard of last, µs.
    pub fn heartbeat_us(&self) -> &AtomicU64 {
        self.0.u64(plane::HEARTBEAT_US)
    }

    /// Time up to which reports have used up their wake-ups, µs.
    pub fn wakeups_until_us(&self) -> u64 {
        self.0.u64(plane::WAKEUPS_UNTIL_US).load(Relaxed)
    }

    /// A heartbeat older than this, µs, puts flows under the fallback.
    pub fn silent_after_us(&self) -> u64 {
        self.0.u64(plane::SILENT_AFTER_US).load(Relaxed)
    }

    /// The plane's process.
    pub fn pid(&self) -> u32 {
        self.0.u32(plane::PID).load(Relaxed)
    }

    /// Bytes from one frame to the next.
    pub fn frame_size(&self) -> u32 {
        self.0.u32(plane::FRAME_SIZE).load(Relaxed)
    }

    /// The most flows at a time.
    pub fn max_flows(&self) -> u32 {
        self.0.u32(plane::MAX_FLOWS).load(Relaxed)
    }

    /// Slots from here on were never given out.
    pub fn slots_used(&self) -> u32 {
        self.0
            .u32(plane::NEXT_SLOT)
            .load(Relaxed)
            .min(self.max_flows())
    }

    /// Flows that found no free slot.
    pub fn without_slot(&self) -> u32 {
        self.0.u32(plane::NO_SLOT).load(Relaxed)
    }

    /// Events other than reports that the ring had no room for.
    pub fn lost_events(&self) -> u32 {
        self.0.u32(plane::LOST_EVENTS).load(Relaxed)
    }

    /// Times that a flow went under the fallback because the plane was silent.
    pub fn fallbacks(&self) -> u32 {
        self.0.u32(plane::FALLBACKS).load(Relaxed)
    }

    /// Id of the map of the frames.
    pub fn frames_id(&self) -> &AtomicU32 {
        self.0.u32(plane::FRAMES_ID)
    }

    /// Names of the congestion controls, by algorithm.
    pub fn algorithms(&self) -> Vec<String> {
        (0..MAX_ALGORITHMS)
            .map(|place| plane::ALGORITHMS + plane::NAME_BYTES * place)
            .map(|at| self.0.name::<{ plane::NAME_BYTES / 4 }>(at))
            .take_while(|name| !name.is_empty())
            .collect()
    }

    /// Writes the name of the congestion control of the algorithm at that place.
    pub fn set_algorithm(&self, place: usize, name: &str) {
        let mut bytes = [0; plane::NAME_BYTES];
        let length = name.len().min(plane::NAME_BYTES - 1);
        bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
        let at = plane::ALGORITHMS + plane::NAME_BYTES * place;
        for (at, word) in (at..).step_by(4).zip(bytes.as_chunks::<4>().0) {
            self.0.u32(at).store(u32::from_ne_bytes(*word), Relaxed);
        }
    }

    /// The name of the program of that index; empty when there is none.
    pub fn program_name(&self, index: u32) -> String {
        match usize::try_from(index) {
            Ok(index) if index < MAX_PROGRAMS => {
                let at = plane::PROGRAMS + plane::PROGRAM_NAME_BYTES * index;
                self.0.name::<{ plane::PROGRAM_NAME_BYTES / 4 }>(at)
            }
            _ => String::new(),
        }
    }
}
