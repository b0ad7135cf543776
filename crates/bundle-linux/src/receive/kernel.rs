//! The receivebox in the kernel: a program that counts and finds boundary packets at the site's port, and what carries
//! them to the sans-IO [`Receivebox`], which makes the feedback.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use fairwater_bundle::{EpochSize, ReceiveBundleConfig, ReceiveCounters, Receivebox};
use fairwater_kernel::KernelError;
use fairwater_kernel::tcx::{self, Hook};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};

use crate::layout::settings;
use crate::prefixes::PrefixMaps;
use crate::ring::Ring;
use crate::settings::{Counters, Framing, Settings, processors};
use crate::skeleton::receive::{OpenReceiveSkel, ReceiveSkelBuilder};
use crate::{BoxError, MESSAGE_PORT, ObservedBoundary};

/// How the program of a receivebox is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ReceiveOptions {
    /// What packets at the port begin with.
    pub framing: Framing,
    /// Messages between boxes have this port at one end, and are not counted.
    pub message_port: u16,
    /// Bytes of the ring of boundary packets, a power of two and a multiple of the page's size.
    pub ring_bytes: u32,
    /// For runs without an interface: the socket buffer's mark says the kind of segmentation, and equal boundaries
    /// are told however often they come.
    pub test_run: bool,
}

impl Default for ReceiveOptions {
    fn default() -> Self {
        Self {
            framing: Framing::Ethernet,
            message_port: MESSAGE_PORT,
            ring_bytes: 1 << 20,
            test_run: false,
        }
    }
}

/// The receivebox's program, loaded. Dropping this detaches the program and removes all of it.
#[derive(Debug)]
pub struct KernelReceivebox {
    program: OwnedFd,
    links: Vec<OwnedFd>,
    settings: Settings,
    /// N that the program knows, per bundle.
    epochs: Vec<EpochSize>,
    counters: Counters,
    ring: Ring,
}

impl KernelReceivebox {
    /// Loads the program for these bundles, in the order in which the sans-IO box has them.
    ///
    /// # Errors
    /// The kernel does not take it.
    pub fn load(
        configs: &[ReceiveBundleConfig],
        options: &ReceiveOptions,
    ) -> Result<Self, BoxError> {
        let mut cell = MaybeUninit::uninit();
        let mut open = ReceiveSkelBuilder::default()
            .open(&mut cell)
            .map_err(KernelError::bpf("open the receivebox's program"))?;
        size(&mut open, configs.len(), options)
            .map_err(KernelError::bpf("size the receivebox's maps"))?;
        let skel = open
            .load()
            .map_err(KernelError::bpf("load the receivebox's program"))?;
        let maps = &skel.maps;
        let sources = PrefixMaps::new(&maps.fw_v4, &maps.fw_v6)?;
        let destinations = PrefixMaps::new(&maps.fw_to_v4, &maps.fw_to_v6)?;
        let program = skel.progs.fw_receive.as_fd();
        let this = Self {
            program: program
                .try_clone_to_owned()
                .map_err(KernelError::io("keep a program"))?,
            links: Vec::new(),
            settings: Settings::map(maps.fw_settings.as_fd(), configs.len().max(1))?,
            epochs: vec![EpochSize::INITIAL; configs.len()],
            counters: Counters::map(maps.fw_counters.as_fd(), configs.len().max(1), processors())?,
            ring: Ring::new(&maps.fw_events)?,
        };
        for (index, config) in (0u32..).zip(configs) {
            this.configure(index, config, &sources, &destinations)?;
        }
        Ok(this)
    }

    fn configure(
        &self,
        index: u32,
        config: &ReceiveBundleConfig,
        sources: &PrefixMaps,
        destinations: &PrefixMaps,
    ) -> Result<(), KernelError> {
        let bundle = index as usize;
        self.settings
            .set_key(bundle, config.channel.secret.boundary_key());
        self.settings.set_epoch(bundle, EpochSize::INITIAL);
        let is_any = u32::from(config.destinations.is_empty());
        self.settings
            .set_u32(bundle, settings::ANY_DESTINATION, is_any);
        for prefix in &config.destinations {
            destinations.insert(*prefix, Some(index), index)?;
        }
        // Last: now packets are counted.
        for prefix in &config.sources {
            sources.insert(*prefix, None, index)?;
        }
        Ok(())
    }

    /// Attaches the program to an interface, at the side where the bundles' packets come from the network: the ingress
    /// of the port to the network, or the egress of the port to the site. The program may be at several interfaces.
    ///
    /// # Errors
    /// The interface is gone, or the kernel has no tcx (Linux 6.6).
    pub fn attach(&mut self, interface: u32, hook: Hook) -> Result<(), BoxError> {
        let link = tcx::attach(self.program.as_fd(), interface, hook)
            .map_err(BoxError::io("attach the receivebox to an interface"))?;
        self.links.push(link);
        Ok(())
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }

    /// A descriptor that is readable when boundary packets wait.
    #[must_use]
    pub fn readable(&self) -> BorrowedFd<'_> {
        self.ring.readable()
    }

    /// Takes the boundary packets that wait.
    ///
    /// # Errors
    /// The ring cannot be read.
    pub fn drain(&self) -> Result<Vec<ObservedBoundary>, BoxError> {
        Ok(self.ring.drain()?)
    }

    /// Carries the boundary packets that wait to the sans-IO box, whose messages are then to be sent, and its N to the
    /// program. Call when [`KernelReceivebox::readable`] is, and after messages came.
    ///
    /// # Errors
    /// The ring cannot be read.
    pub fn turn(&mut self, receivebox: &mut Receivebox) -> Result<(), BoxError> {
        for boundary in self.ring.drain()? {
            let ObservedBoundary {
                at, hash, counters, ..
            } = boundary;
            let hash = fairwater_bundle::Boundary(hash);
            receivebox.on_boundary(at, boundary.bundle as usize, hash, counters);
        }
        for (bundle, known) in self.epochs.iter_mut().enumerate() {
            let Some((_, epoch)) = receivebox.boundaries(bundle) else {
                continue;
            };
            if epoch != *known {
                *known = epoch;
                self.settings.set_epoch(bundle, epoch);
            }
        }
        Ok(())
    }

    /// Sets the N of a bundle that the program knows.
    pub fn set_epoch(&mut self, bundle: usize, epoch: EpochSize) {
        if let Some(known) = self.epochs.get_mut(bundle) {
            *known = epoch;
            self.settings.set_epoch(bundle, epoch);
        }
    }

    /// What was counted of a bundle so far; of a place beyond the bundles nothing.
    #[must_use]
    pub fn counters(&self, bundle: usize) -> ReceiveCounters {
        if bundle < self.epochs.len() {
            self.counters.of(bundle)
        } else {
            ReceiveCounters::default()
        }
    }

    /// Boundary packets that the ring had no room for.
    #[must_use]
    pub fn lost_boundaries(&self) -> u64 {
        (0..self.epochs.len())
            .map(|bundle| self.counters.lost(bundle))
            .sum()
    }
}

/// Sets the sizes of the maps and the constants of the program.
fn size(
    open: &mut OpenReceiveSkel<'_>,
    bundles: usize,
    options: &ReceiveOptions,
) -> libbpf_rs::Result<()> {
    let bundles = u32::try_from(bundles).unwrap_or(u32::MAX).max(1);
    let maps = &mut open.maps;
    maps.fw_settings.set_max_entries(bundles)?;
    let processors = processors();
    maps.fw_counters
        .set_max_entries(bundles.saturating_mul(processors))?;
    maps.fw_events.set_max_entries(options.ring_bytes)?;
    if let Some(constants) = maps.rodata_data.as_mut() {
        constants.link_header = options.framing.header_bytes();
        constants.message_port = options.message_port.to_be();
        constants.processors = processors;
        constants.test_run = options.test_run;
    }
    Ok(())
}
