//! What the programs at guests' ports read of the process that buffers: see `bpf/redirect.h`.

use std::mem::offset_of;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::Duration;

use fairwater_edge::FlowKey;
use fairwater_kernel::{Shared, now_ns};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::TcError;
use crate::skeleton::types::{self, redirection};
use crate::state::{from_kernel, read};

/// Bytes of the mapping.
const BYTES: usize = 4096;
/// Connections of which the kernel tells in one call.
const BATCH: u32 = 1024;

/// The process's side of redirection.
#[derive(Debug)]
pub(crate) struct Redirection {
    page: Shared,
    redirected: MapHandle,
    stale: Duration,
    /// When the last heartbeat was, ns.
    beat_ns: u64,
}

impl Redirection {
    pub(crate) fn new(
        page: &MapHandle,
        redirected: &MapHandle,
        stale: Duration,
    ) -> Result<Self, TcError> {
        let again = MapHandle::try_from(redirected);
        Ok(Self {
            page: Shared::writable(page.as_fd(), BYTES)
                .map_err(TcError::io("map the redirection"))?,
            redirected: again.map_err(TcError::bpf("keep a map"))?,
            stale,
            beat_ns: now_ns(),
        })
    }

    /// The longest time between two heartbeats.
    pub(crate) fn interval(&self) -> Duration {
        self.stale / 8
    }

    /// Begins to redirect packets to the device.
    pub(crate) fn begin(&mut self, device: u32, mark: u32) {
        let stale = u64::try_from(self.stale.as_nanos()).unwrap_or(u64::MAX >> 1);
        self.page
            .u64(offset_of!(redirection, stale_ns))
            .store(stale, Relaxed);
        self.page
            .u32(offset_of!(redirection, mark))
            .store(mark, Relaxed);
        self.bump();
        self.beat();
        self.page
            .u32(offset_of!(redirection, device))
            .store(device, Release);
    }

    /// Ends redirection: packets pass.
    pub(crate) fn end(&self) {
        self.page
            .u32(offset_of!(redirection, device))
            .store(0, Release);
    }

    /// Shows that the process lives. Whether packets may have passed since the last time, as it was too long ago.
    pub(crate) fn beat(&mut self) -> bool {
        let before = self.beat_ns;
        self.beat_ns = now_ns();
        self.page
            .u64(offset_of!(redirection, beat_ns))
            .store(self.beat_ns, Release);
        // The kernel may have read the former beat until now.
        let read_until = now_ns();
        u128::from(read_until - before) >= self.stale.as_nanos()
    }

    /// The connections that are redirected now pass from here on: the process has missed packets of theirs.
    pub(crate) fn bump(&self) {
        let generation = self.page.u32(offset_of!(redirection, generation));
        generation.store(generation.load(Relaxed).wrapping_add(1), Release);
    }

    /// Ends the redirection of connections that are `over`; the number of the others.
    ///
    /// # Errors
    /// The kernel's table cannot be read.
    pub(crate) fn sweep(
        &self,
        mut over: impl FnMut(&FlowKey, Duration) -> bool,
    ) -> Result<usize, TcError> {
        let generation = self
            .page
            .u32(offset_of!(redirection, generation))
            .load(Relaxed);
        let now_ns = now_ns();
        let all = self
            .redirected
            .lookup_batch(BATCH, MapFlags::ANY, MapFlags::ANY)
            .map_err(TcError::bpf("read the redirected connections"))?;
        let mut gone = Vec::new();
        let mut left = 0;
        for (key, value) in all {
            let known = read::<types::key>(&key).zip(read::<types::redirected>(&value));
            let Some((parsed, redirected)) = known else {
                continue;
            };
            let age = Duration::from_nanos(now_ns.saturating_sub(redirected.since_ns));
            if redirected.generation != generation || over(&from_kernel(&parsed), age) {
                gone.push(key);
            } else {
                left += 1;
            }
        }
        for key in gone {
            // It may have gone by itself.
            let _ = self.redirected.delete(&key);
        }
        Ok(left)
    }
}
