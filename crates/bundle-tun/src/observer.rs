//! What a receivebox sees: a program at the port from the network counts packets, and tells of boundary packets
//! (`bpf/observe.bpf.c`).

use std::cell::RefCell;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use fairwater_bundle::{Boundary, EpochSize, ReceiveBundleConfig, ReceiveCounters};
use fairwater_kernel::Shared;
use fairwater_kernel::tcx::{self, Hook};
use fairwater_net::Time;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapCore, MapFlags, MapHandle, RingBuffer, RingBufferBuilder};

use crate::skeleton::observe::ObserveSkelBuilder;
use crate::skeleton::observe::types::{boundary, bundle, observation};
use crate::{BoxError, prefixes};

/// Most bundles.
const MAX_BUNDLES: usize = 4096;
/// Bytes of the mapping of a page of data.
const PAGE: usize = 4096;
/// No boundary is told: of 64 bits of a hash none is 1 once in 10¹⁹ packets.
const NO_BOUNDARY: u64 = u64::MAX;

/// A boundary packet that was received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObservedBoundary {
    /// Index of the bundle among the configurations.
    pub bundle: usize,
    /// Its hash.
    pub boundary: Boundary,
    /// When it was received.
    pub received_at: Time,
    /// The counters of its bundle, the packet included.
    pub counters: ReceiveCounters,
}

/// The program, loaded, with its tables. Where it is attached it counts until this is dropped.
#[derive(Debug)]
pub struct Observer {
    /// The program, for the ingress of an interface.
    pub program: OwnedFd,
    bundles: Shared,
    page: Shared,
    boundaries: MapHandle,
    links: Vec<OwnedFd>,
}

impl Observer {
    /// Loads the program for these bundles. Packets between boxes have `message_port` at one end.
    ///
    /// # Errors
    /// The kernel does not take it.
    pub fn load(configs: &[ReceiveBundleConfig], message_port: u16) -> Result<Self, BoxError> {
        let mut cell = MaybeUninit::uninit();
        let mut open = ObserveSkelBuilder::default()
            .open(&mut cell)
            .map_err(BoxError::bpf("open the receivebox's program"))?;
        if let Some(data) = open.maps.data_observation_data.as_mut() {
            data.observation.message_port = message_port.to_be();
        }
        let skel = open
            .load()
            .map_err(BoxError::bpf("load the receivebox's program"))?;
        let maps = &skel.maps;
        let bytes = MAX_BUNDLES * size_of::<bundle>();
        let bundles = Shared::writable(maps.fw_bundles.as_fd(), bytes)
            .map_err(BoxError::io("map the receivebox's bundles"))?;
        for (index, config) in configs.iter().enumerate().take(MAX_BUNDLES) {
            let number = u32::try_from(index).unwrap_or(u32::MAX).to_ne_bytes();
            let [first, second] = config.channel.secret.boundary_key().words();
            let word = |offset: usize| bundles.u64(index * size_of::<bundle>() + offset);
            word(offset_of!(bundle, key)).store(first, Relaxed);
            word(offset_of!(bundle, key) + 8).store(second, Relaxed);
            word(offset_of!(bundle, mask)).store(NO_BOUNDARY, Relaxed);
            bundles
                .u32(index * size_of::<bundle>() + offset_of!(bundle, any_destination))
                .store(u32::from(config.destinations.is_empty()), Relaxed);
            for prefix in &config.sources {
                let added = maps
                    .fw_sources
                    .update(&prefixes::key(prefix), &number, MapFlags::ANY);
                added.map_err(BoxError::bpf("add a source"))?;
            }
            for prefix in &config.destinations {
                let (length, address) = prefixes::parts(prefix);
                let length = (length + u32::BITS).to_ne_bytes();
                let key = [&length[..], &number, &address].concat();
                let added = maps.fw_destinations.update(&key, &[1], MapFlags::ANY);
                added.map_err(BoxError::bpf("add a destination"))?;
            }
        }
        let program = skel.progs.fw_observe.as_fd().try_clone_to_owned();
        let page = Shared::writable(maps.data_observation.as_fd(), PAGE);
        Ok(Self {
            program: program.map_err(BoxError::io("keep a program"))?,
            page: page.map_err(BoxError::io("map the receivebox's page"))?,
            boundaries: MapHandle::try_from(&maps.fw_boundaries)
                .map_err(BoxError::bpf("keep a map"))?,
            bundles,
            links: Vec::new(),
        })
    }

    /// Observes what comes in at an interface, by its number.
    ///
    /// # Errors
    /// The interface is gone, or the process lacks rights.
    pub fn attach(&mut self, interface: u32) -> Result<(), BoxError> {
        let link = tcx::attach(self.program.as_fd(), interface, Hook::Ingress);
        self.links
            .push(link.map_err(BoxError::io("attach the receivebox to an interface"))?);
        Ok(())
    }

    fn word(&self, index: usize, offset: usize) -> u64 {
        let at = index * size_of::<bundle>() + offset;
        self.bundles.u64(at).load(Relaxed)
    }

    /// Tells from now on of packets that begin epochs of this size.
    pub fn set_epoch(&self, index: usize, epoch: EpochSize) {
        let at = index * size_of::<bundle>() + offset_of!(bundle, mask);
        self.bundles.u64(at).store(epoch.packets() - 1, Relaxed);
    }

    /// What was counted of a bundle so far.
    #[must_use]
    pub fn counters(&self, index: usize) -> ReceiveCounters {
        ReceiveCounters {
            bytes: self.word(index, offset_of!(bundle, bytes)),
            packets: self.word(index, offset_of!(bundle, packets)),
            ce_bytes: self.word(index, offset_of!(bundle, ce_bytes)),
            ce_packets: self.word(index, offset_of!(bundle, ce_packets)),
        }
    }

    /// Boundary packets that could not be told, as too many waited.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.page.u64(offset_of!(observation, lost)).load(Relaxed)
    }

    /// The boundary packets, as they come.
    ///
    /// # Errors
    /// Of the system.
    pub fn boundaries(&self) -> Result<Boundaries, BoxError> {
        let found = Rc::<RefCell<Vec<ObservedBoundary>>>::default();
        let into = Rc::clone(&found);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&self.boundaries, move |bytes| {
                into.borrow_mut().extend(decode(bytes));
                0
            })
            .map_err(BoxError::bpf("read the receivebox's ring"))?;
        Ok(Boundaries {
            ring: builder
                .build()
                .map_err(BoxError::bpf("read the receivebox's ring"))?,
            found,
            map: MapHandle::try_from(&self.boundaries).map_err(BoxError::bpf("keep a map"))?,
        })
    }
}

fn decode(bytes: &[u8]) -> Option<ObservedBoundary> {
    let word = |offset: usize| {
        let word = bytes.get(offset..)?.first_chunk()?;
        Some(u64::from_ne_bytes(*word))
    };
    let index = bytes.get(offset_of!(boundary, bundle)..)?.first_chunk()?;
    Some(ObservedBoundary {
        bundle: u32::from_ne_bytes(*index) as usize,
        boundary: Boundary(word(offset_of!(boundary, hash))?),
        received_at: Time::from_nanos(word(offset_of!(boundary, received_ns))?),
        counters: ReceiveCounters {
            bytes: word(offset_of!(boundary, bytes))?,
            packets: word(offset_of!(boundary, packets))?,
            ce_bytes: word(offset_of!(boundary, ce_bytes))?,
            ce_packets: word(offset_of!(boundary, ce_packets))?,
        },
    })
}

/// The reader of the program's ring.
pub struct Boundaries {
    ring: RingBuffer<'static>,
    found: Rc<RefCell<Vec<ObservedBoundary>>>,
    map: MapHandle,
}

impl Boundaries {
    /// The boundary packets since the last call, the oldest first.
    pub fn take(&mut self) -> Vec<ObservedBoundary> {
        // Reading what is mapped does not fail.
        let _ = self.ring.consume();
        self.found.take()
    }
}

impl AsFd for Boundaries {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.map.as_fd()
    }
}

impl std::fmt::Debug for Boundaries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Boundaries").field(&self.map).finish()
    }
}
