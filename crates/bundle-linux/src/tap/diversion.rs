//! The detour of a site's packets: programs at the site's ports send what belongs to bundles to devices of this process,
//! as long as the process shows that it lives (`bpf/divert.bpf.c`).

use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::Duration;

use fairwater_bundle::Prefix;
use fairwater_kernel::tcx::{self, Hook};
use fairwater_kernel::{Shared, now_ns};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags};

use super::device::Device;
use crate::BoxError;
use crate::prefixes::PrefixMaps;
use crate::skeleton::divert::DivertSkelBuilder;
use crate::skeleton::divert::types::diversion;

/// Bytes of the mapping.
const BYTES: usize = 4096;

/// The kernel's part of a sendbox. Packets pass when this is dropped, and the programs are gone.
#[derive(Debug)]
pub(crate) struct Diversion {
    page: Shared,
    /// Dropping them detaches the programs; the programs hold the maps.
    _links: Vec<OwnedFd>,
    stale: Duration,
    /// When the last heartbeat was, ns.
    beat_ns: u64,
}

impl Diversion {
    /// Diverts packets to these destinations from the port of each device to the device. Nothing is diverted before the
    /// first heartbeat. `mark` is a number that nobody can guess.
    pub(crate) fn start(
        devices: &[Device],
        destinations: impl IntoIterator<Item = Prefix>,
        message_port: u16,
        (stale, mark): (Duration, u32),
    ) -> Result<Self, BoxError> {
        let mut cell = MaybeUninit::uninit();
        let mut open = DivertSkelBuilder::default()
            .open(&mut cell)
            .map_err(BoxError::bpf("open the sendbox's programs"))?;
        if let Some(data) = open.maps.data_diversion_data.as_mut() {
            let diversion = &mut data.diversion;
            diversion.stale_ns = u64::try_from(stale.as_nanos()).unwrap_or(u64::MAX >> 1);
            diversion.mark = mark;
            diversion.message_port = message_port.to_be();
        }
        let skel = open
            .load()
            .map_err(BoxError::bpf("load the sendbox's programs"))?;
        let prefixes = PrefixMaps::new(&skel.maps.fw_v4, &skel.maps.fw_v6)?;
        for prefix in destinations {
            // Which bundle a packet is of the scheduler finds.
            prefixes.insert(prefix, None, 0)?;
        }
        let mut links = Vec::new();
        for device in devices {
            let pairs = [
                (device.port, device.interface),
                (device.interface, device.port),
            ];
            for (from, to) in pairs {
                let table = &skel.maps.fw_devices;
                let added = table.update(&from.to_ne_bytes(), &to.to_ne_bytes(), MapFlags::ANY);
                added.map_err(BoxError::bpf("add a device"))?;
            }
            let programs = [
                (skel.progs.fw_return.as_fd(), device.interface),
                (skel.progs.fw_divert.as_fd(), device.port),
            ];
            for (program, interface) in programs {
                let link = tcx::attach(program, interface, Hook::Ingress);
                links.push(link.map_err(BoxError::io("attach the sendbox to an interface"))?);
            }
        }
        let page = Shared::writable(skel.maps.data_diversion.as_fd(), BYTES);
        Ok(Self {
            page: page.map_err(BoxError::io("map the sendbox's page"))?,
            _links: links,
            stale,
            beat_ns: now_ns(),
        })
    }

    /// The longest time between two heartbeats.
    pub(crate) fn interval(&self) -> Duration {
        self.stale / 8
    }

    /// Shows that the process lives. Whether packets may have passed since the last time, as it was too long ago.
    pub(crate) fn beat(&mut self) -> bool {
        let before = self.beat_ns;
        self.beat_ns = now_ns();
        let beat = self.page.u64(offset_of!(diversion, beat_ns));
        beat.store(self.beat_ns, Release);
        // The kernel may have read the former beat until now.
        u128::from(now_ns().saturating_sub(before)) >= self.stale.as_nanos()
    }

    /// Packets pass from now on.
    pub(crate) fn end(&self) {
        self.page
            .u64(offset_of!(diversion, beat_ns))
            .store(0, Release);
    }

    /// Packets that passed as the process was late or gone.
    pub(crate) fn passed(&self) -> u64 {
        self.page.u64(offset_of!(diversion, passed)).load(Relaxed)
    }
}
