//! The programs of a sendbox's port, and their maps.

use std::hash::{BuildHasher, RandomState};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use fairwater_bundle::SendBundleConfig;
use fairwater_kernel::{KernelError, Shared};
use fairwater_net::Time;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};

use super::options::{HtbOptions, Plan};
use super::tc::ROOT;
use crate::layout::{page, settings};
use crate::prefixes::PrefixMaps;
use crate::ring::Ring;
use crate::settings::{Counters, Framing, Settings, processors};
use crate::skeleton::send::{SendSkel, SendSkelBuilder};
use crate::skeleton::sent::SentSkelBuilder;

/// Where a program counts packets that leave.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) interface: u32,
    /// Inode of its network namespace.
    pub(super) namespace: u32,
    pub(super) framing: Framing,
}

/// The programs, loaded.
#[derive(Debug)]
pub(super) struct Programs {
    /// The classifier.
    pub(super) classify: OwnedFd,
    pub(super) settings: Settings,
    page: Shared,
    /// When leaves were last used: words, by place.
    leaves: Shared,
    /// Counts of the classifier, and of the program behind the queue.
    pub(super) enqueued: Counters,
    pub(super) sent: Counters,
    pub(super) ring: Ring,
    /// The kernel empties it with this descriptor.
    _shaping: MapHandle,
    _sent_link: Link,
}

impl Programs {
    pub(super) fn load(
        configs: &[SendBundleConfig],
        plan: Plan,
        place: Place,
        options: &HtbOptions,
    ) -> Result<Self, KernelError> {
        let bundles = plan.bundles.max(1);
        let records = bundles.saturating_mul(processors());
        let mut cell = MaybeUninit::uninit();
        let mut open = SendSkelBuilder::default()
            .open(&mut cell)
            .map_err(KernelError::bpf("open the sendbox's classifier"))?;
        let sizes = [
            open.maps.fw_settings.set_max_entries(bundles),
            open.maps.fw_counters.set_max_entries(records),
            open.maps
                .fw_leaves
                .set_max_entries(bundles * plan.all_leaves()),
            open.maps
                .fw_flows
                .set_max_entries((bundles * plan.all_leaves() * 4).clamp(1 << 14, 1 << 20)),
            open.maps.fw_events.set_max_entries(1 << 12),
        ];
        sizes
            .into_iter()
            .collect::<Result<(), _>>()
            .map_err(KernelError::bpf("size the sendbox's maps"))?;
        if let Some(constants) = open.maps.rodata_data.as_mut() {
            constants.link_header = place.framing.header_bytes();
            constants.processors = processors();
            constants.message_port = options.message_port.to_be();
            constants.handle = ROOT;
            let random = RandomState::new();
            constants.flow_key = [random.hash_one(0), random.hash_one(1)];
        }
        let skel = open
            .load()
            .map_err(KernelError::bpf("load the sendbox's classifier"))?;
        let keep = |map| MapHandle::try_from(map).map_err(KernelError::bpf("keep a map"));
        let shaping = keep(&skel.maps.fw_shaping)?;
        let shape = skel.progs.fw_shape.as_fd().as_raw_fd();
        shaping
            .update(&0u32.to_ne_bytes(), &shape.to_ne_bytes(), MapFlags::ANY)
            .map_err(KernelError::bpf("install the sendbox's classifier"))?;
        let (sent_link, ring, sent) = trace(&skel, plan, place, options)?;
        let classify = skel.progs.fw_classify.as_fd();
        let maps = &skel.maps;
        let this = Self {
            classify: classify
                .try_clone_to_owned()
                .map_err(KernelError::io("keep a program"))?,
            settings: Settings::map(maps.fw_settings.as_fd(), bundles as usize)?,
            page: Shared::writable(maps.fw_page.as_fd(), page::BYTES)
                .map_err(KernelError::io("map the sendbox's page"))?,
            leaves: Shared::writable(
                maps.fw_leaves.as_fd(),
                8 * (bundles * plan.all_leaves()) as usize,
            )
            .map_err(KernelError::io("map the times of leaves"))?,
            enqueued: Counters::map(maps.fw_counters.as_fd(), bundles as usize, processors())?,
            sent,
            ring,
            _shaping: shaping,
            _sent_link: sent_link,
        };
        let prefixes = PrefixMaps::new(&maps.fw_v4, &maps.fw_v6)?;
        this.configure(configs, plan, options, &prefixes)?;
        Ok(this)
    }

    fn configure(
        &self,
        configs: &[SendBundleConfig],
        plan: Plan,
        options: &HtbOptions,
        prefixes: &PrefixMaps,
    ) -> Result<(), KernelError> {
        let stale = u64::try_from(options.stale_after.as_nanos()).unwrap_or(u64::MAX);
        self.page.u64(page::STALE_NS).store(stale, Relaxed);
        for (at, bands) in options.band_of_dscp.as_chunks::<4>().0.iter().enumerate() {
            let word = self.page.u32(page::BANDS + 4 * at);
            word.store(u32::from_ne_bytes(*bands), Relaxed);
        }
        for (index, config) in (0u32..).zip(configs) {
            let bundle = index as usize;
            let settings = &self.settings;
            settings.set_key(bundle, config.channel.secret.boundary_key());
            settings.set_epoch(bundle, fairwater_bundle::EpochSize::INITIAL);
            settings.set_u32(bundle, settings::FIRST_CLASS, plan.class_of(index) + 1);
            settings.set_u32(bundle, settings::LEAVES, plan.leaves);
            settings.set_u32(bundle, settings::BANDS, plan.bands);
            self.set_shaped(bundle, !config.observe);
            for prefix in &config.destinations {
                prefixes.insert(*prefix, None, index)?;
            }
        }
        Ok(())
    }

    /// Whether packets of a bundle go to its classes.
    pub(super) fn set_shaped(&self, bundle: usize, is_shaped: bool) {
        let is_shaped = u32::from(is_shaped);
        self.settings
            .set_u32(bundle, settings::IS_SHAPED, is_shaped);
    }

    /// This process lives.
    pub(super) fn beat(&self, now: Time) {
        self.page.u64(page::BEAT_NS).store(now.as_nanos(), Relaxed);
    }

    /// From now on nothing is shaped.
    pub(super) fn stop(&self) {
        self.page.u64(page::STALE_NS).store(0, Relaxed);
        self.page.u64(page::BEAT_NS).store(0, Relaxed);
    }

    /// Packets that were not shaped since the heartbeat was stale.
    pub(super) fn stale_packets(&self) -> u64 {
        self.page.u64(page::STALE_PACKETS).load(Relaxed)
    }

    /// Minor numbers of the bundle's leaves that were used in this time.
    pub(super) fn used_leaves(
        &self,
        plan: Plan,
        bundle: u32,
        now: Time,
        time: Duration,
    ) -> Vec<u32> {
        if plan.leaves == 1 {
            return plan.leaves_of(bundle).map(|(minor, _)| minor).collect();
        }
        let first = (bundle * plan.all_leaves()) as usize;
        let is_used = |at: &(usize, (u32, u32))| {
            let last = self.leaves.u64(8 * (first + at.0)).load(Relaxed);
            last != 0 && now.since(Time::from_nanos(last)) < time
        };
        let leaves = plan.leaves_of(bundle).enumerate().filter(is_used);
        leaves.map(|(_, (minor, _))| minor).collect()
    }
}

/// The program behind the queue, which shares the classifier's maps.
fn trace(
    of: &SendSkel<'_>,
    plan: Plan,
    place: Place,
    options: &HtbOptions,
) -> Result<(Link, Ring, Counters), KernelError> {
    let bundles = plan.bundles.max(1);
    let mut cell = MaybeUninit::uninit();
    let mut open = SentSkelBuilder::default()
        .open(&mut cell)
        .map_err(KernelError::bpf("open the program behind the queue"))?;
    let maps = &mut open.maps;
    let shared = [
        maps.fw_v4.reuse_fd(of.maps.fw_v4.as_fd()),
        maps.fw_v6.reuse_fd(of.maps.fw_v6.as_fd()),
        maps.fw_settings.reuse_fd(of.maps.fw_settings.as_fd()),
        maps.fw_counters
            .set_max_entries(bundles.saturating_mul(processors())),
        maps.fw_events.set_max_entries(options.ring_bytes),
    ];
    shared
        .into_iter()
        .collect::<Result<(), _>>()
        .map_err(KernelError::bpf(
            "share maps with the program behind the queue",
        ))?;
    if let Some(constants) = maps.rodata_data.as_mut() {
        constants.link_header = place.framing.header_bytes();
        constants.processors = processors();
        constants.message_port = options.message_port.to_be();
        constants.interface = place.interface;
        constants.namespace = place.namespace;
    }
    let skel = open
        .load()
        .map_err(KernelError::bpf("load the program behind the queue"))?;
    let link = skel
        .progs
        .fw_sent
        .attach()
        .map_err(KernelError::bpf("attach the program behind the queue"))?;
    let counters = Counters::map(
        skel.maps.fw_counters.as_fd(),
        bundles as usize,
        processors(),
    )?;
    Ok((link, Ring::new(&skel.maps.fw_events)?, counters))
}
