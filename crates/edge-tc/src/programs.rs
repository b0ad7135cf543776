//! The programs at guests' ports and their maps.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::process;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use fairwater_edge::track::TableConfig;
use fairwater_exec::frame::FrameLayout;
use fairwater_kernel::{Shared, run};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle};

use crate::TcError;
use crate::layout::settings;
use crate::skeleton::{EdgeSkel, EdgeSkelBuilder, OpenEdgeSkel};

/// How large the maps are, and how the programs behave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Shape of flows' frames: that of the largest program.
    pub layout: FrameLayout,
    /// Most flows that algorithms control at a time.
    pub max_flows: u32,
    /// Most open connections, those that are measured only among them.
    pub max_connections: u32,
    /// Most connections that are opening; the oldest give way.
    pub max_candidates: u32,
    /// Bytes of the ring of events, a power of two.
    pub ring_bytes: u32,
    /// Age of the plane's heartbeat from which on flows are released.
    pub silent_after: Duration,
    /// How long a flow waits for its program before it is released.
    pub grace: Duration,
    /// The time is what [`Programs::set_clock`] says; for tests.
    pub test_clock: bool,
}

impl Options {
    /// For programs that fit the layout: 16,384 controlled flows, 131,072 connections.
    #[must_use]
    pub const fn new(layout: FrameLayout) -> Self {
        Self {
            layout,
            max_flows: 1 << 14,
            max_connections: 1 << 17,
            max_candidates: 1 << 16,
            ring_bytes: 1 << 22,
            silent_after: Duration::from_millis(500),
            grace: fairwater_edge::DEFAULT_GRACE,
            test_clock: false,
        }
    }
}

/// The programs, loaded, and their maps. Descriptors only: what is attached or pinned outlives it.
#[derive(Debug)]
pub struct Programs {
    /// Program for the ingress of the host's side of a guest's port: packets from the guest.
    pub from_guest: OwnedFd,
    /// Program for the egress of the host's side of a guest's port: packets to the guest.
    pub to_guest: OwnedFd,
    /// Program that forgets connections that have been silent for too long; see [`Programs::expire`].
    pub(crate) expire: OwnedFd,
    /// Program for the ingress of the device of the process that buffers.
    pub(crate) returning: OwnedFd,
    /// What the programs read of that process, mappable.
    pub(crate) redirection: MapHandle,
    /// Connections whose packets go to that process.
    pub(crate) redirected: MapHandle,
    pub(crate) settings_memory: Shared,
    /// Flows' frames by slot, mappable: an array of [`Options::max_flows`].
    pub frames: MapHandle,
    /// Slots that were given back.
    pub free: MapHandle,
    /// The ring of created, report, closed and fault events.
    pub events: MapHandle,
    /// The plane's page (`struct plane`), mappable.
    pub page: MapHandle,
    /// `struct settings`, mappable.
    pub settings: MapHandle,
    /// Flows' programs, by the index in the frame. The kernel empties it with its last descriptor in
    /// user space, and flows are released.
    pub programs: MapHandle,
    /// What flows' programs leave to: the program that rewrites the packet. Emptied likewise.
    pub enforcing: MapHandle,
    /// Rules, two halves of [`MAX_RULES`](crate::MAX_RULES).
    pub rules: MapHandle,
    /// Port sets of interfaces.
    pub ports: MapHandle,
    /// Open connections.
    pub connections: MapHandle,
    /// What controlled flows need more, by slot.
    pub controlled: MapHandle,
    /// Connections that are opening.
    pub candidates: MapHandle,
    /// Counters, per CPU.
    pub counters: MapHandle,
}

impl Programs {
    /// Loads the programs.
    ///
    /// # Errors
    /// The kernel does not take them.
    pub fn load(options: &Options) -> Result<Self, TcError> {
        let mut cell = MaybeUninit::uninit();
        let mut open = EdgeSkelBuilder::default()
            .open(&mut cell)
            .map_err(TcError::bpf("open the edge's programs"))?;
        size(&mut open, options).map_err(TcError::bpf("size the edge's maps"))?;
        let skel = open
            .load()
            .map_err(TcError::bpf("load the edge's programs"))?;
        let this = Self::own(&skel)?;
        let enforce = skel.progs.fw_enforce.as_fd().as_raw_fd();
        this.enforcing
            .update(&0u32.to_ne_bytes(), &enforce.to_ne_bytes(), MapFlags::ANY)
            .map_err(TcError::bpf("install the enforcing program"))?;
        Ok(this)
    }

    /// Descriptors that outlive the skeleton.
    fn own(skel: &EdgeSkel<'_>) -> Result<Self, TcError> {
        let map = |map| MapHandle::try_from(map).map_err(TcError::bpf("keep a map"));
        let program = |fd: BorrowedFd<'_>| {
            fd.try_clone_to_owned()
                .map_err(TcError::io("keep a program"))
        };
        let maps = &skel.maps;
        Ok(Self {
            from_guest: program(skel.progs.fw_from_guest.as_fd())?,
            to_guest: program(skel.progs.fw_to_guest.as_fd())?,
            expire: program(skel.progs.fw_expire.as_fd())?,
            returning: program(skel.progs.fw_return.as_fd())?,
            redirection: map(&maps.data_redirection)?,
            redirected: map(&maps.fw_redirected)?,
            frames: map(&maps.fw_frames)?,
            free: map(&maps.fw_free)?,
            events: map(&maps.fw_events)?,
            page: map(&maps.data_plane)?,
            settings_memory: Shared::writable(maps.data_settings.as_fd(), settings::BYTES)
                .map_err(TcError::io("map the settings"))?,
            settings: map(&maps.data_settings)?,
            programs: map(&maps.fw_programs)?,
            enforcing: map(&maps.fw_enforcing)?,
            rules: map(&maps.fw_rules)?,
            ports: map(&maps.fw_ports)?,
            connections: map(&maps.fw_connections)?,
            controlled: map(&maps.fw_controlled)?,
            candidates: map(&maps.fw_candidates)?,
            counters: map(&maps.fw_counters)?,
        })
    }
}

impl Programs {
    /// Sets the time of programs that were loaded with [`Options::test_clock`], ns.
    pub fn set_clock(&self, now_ns: u64) {
        self.settings_memory
            .u64(settings::CLOCK_NS)
            .store(now_ns, Relaxed);
    }

    /// Sets how long a flow waits for its program before it is released.
    pub fn set_grace(&self, grace: Duration) {
        self.settings_memory
            .u64(settings::GRACE_NS)
            .store(nanos(grace), Relaxed);
    }

    /// Forgets connections that have been silent for too long, and frees their slots; how many. Takes time
    /// in the number of connections.
    ///
    /// # Errors
    /// The kernel does not run the program.
    pub fn expire(&self, limits: &TableConfig) -> Result<u32, TcError> {
        for (at, limit) in [
            (settings::IDLE_NS, limits.idle),
            (settings::CLOSING_NS, limits.closing),
        ] {
            self.settings_memory.u64(at).store(nanos(limit), Relaxed);
        }
        let packet = [0; 14];
        let outcome = run(self.expire.as_fd(), &packet, &mut [0; 14], 1);
        let outcome = outcome.map_err(TcError::io("forget connections"))?;
        Ok(outcome.verdict.cast_unsigned())
    }

    /// Forgets the connections at an interface that is gone too: see [`Programs::expire`].
    ///
    /// # Errors
    /// The kernel does not run the program.
    pub fn forget_interface(&self, interface: u32, limits: &TableConfig) -> Result<u32, TcError> {
        let gone = self.settings_memory.u32(settings::GONE);
        gone.store(interface, Relaxed);
        let forgotten = self.expire(limits);
        gone.store(0, Relaxed);
        forgotten
    }
}

/// Sets the sizes of the maps and the constants of the programs.
fn size(open: &mut OpenEdgeSkel<'_>, options: &Options) -> libbpf_rs::Result<()> {
    let frame_size = u32::try_from(options.layout.size()).unwrap_or(u32::MAX);
    let maps = &mut open.maps;
    maps.fw_frames.set_value_size(frame_size)?;
    maps.fw_frames.set_max_entries(options.max_flows)?;
    maps.fw_free.set_max_entries(options.max_flows)?;
    maps.fw_controlled.set_max_entries(options.max_flows)?;
    maps.fw_events.set_max_entries(options.ring_bytes)?;
    maps.fw_connections
        .set_max_entries(options.max_connections)?;
    maps.fw_candidates.set_max_entries(options.max_candidates)?;
    maps.fw_redirected
        .set_max_entries(options.max_connections)?;
    if let Some(constants) = maps.rodata_data.as_mut() {
        constants.test_clock = options.test_clock;
    }
    if let Some(data) = maps.data_settings_data.as_mut() {
        data.settings.grace_ns = nanos(options.grace);
    }
    if let Some(data) = maps.data_plane_data.as_mut() {
        let plane = &mut data.plane;
        plane.silent_after_us = nanos(options.silent_after) / 1_000;
        plane.pid = process::id();
        plane.frame_size = frame_size;
        plane.max_flows = options.max_flows;
    }
    Ok(())
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX >> 1)
}
