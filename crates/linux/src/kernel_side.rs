//! The kernel side of a datapath: maps and programs that all algorithms share, and a congestion
//! control for each algorithm.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::{io, process};

use fairwater_exec::frame::FrameLayout;
use fairwater_kernel::{
    Frames, Memory, PAGE_BYTES, PlanePage, ProgramMaps, ProgramSet, Shared, now_us,
};
use fairwater_lang::SignalSet;
use fairwater_plane::{Ecn, HostedAlgorithm};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapHandle, OpenObject};

use crate::compiled::{Callback, Entry};
use crate::congestion_controls::{kernel_name, unique_name};
use crate::kernel_types::KernelTypes;
use crate::skeleton::datapath::{FairwaterSkel, FairwaterSkelBuilder, OpenFairwaterSkel};
use crate::{LinuxError, Options, layout, observe};

/// What fails when the kernel does not take the programs.
const LOAD: &str = "load the kernel side";

/// Attempts to find a unique name that nobody has registered.
const NAME_ATTEMPTS: u32 = 64;

/// The maps that all algorithms of a datapath share.
#[derive(Debug)]
struct Maps {
    frames: MapHandle,
    free: MapHandle,
    events: MapHandle,
    origins: MapHandle,
    page: MapHandle,
    /// Programs by callback: at an ACK, at a timeout. The kernel empties a program array when its
    /// last descriptor is closed, so a plane that is killed leaves its flows to the fallback at
    /// once.
    programs: [MapHandle; 2],
}

impl Maps {
    /// Loads the programs into the arrays of both callbacks.
    fn install(
        &self,
        programs: &ProgramSet<'_>,
        layout: FrameLayout,
        types: &KernelTypes,
    ) -> Result<(), LinuxError> {
        let maps = ProgramMaps {
            frames: self.frames.as_fd(),
            events: self.events.as_fd(),
            page: self.page.as_fd(),
        };
        let callbacks = [Callback::Ack, Callback::Timeout];
        for (callback, array) in callbacks.into_iter().zip(&self.programs) {
            programs.install(layout, array, |index| {
                let entry = Entry {
                    types,
                    maps,
                    callback,
                    index,
                };
                entry.target()
            })?;
        }
        Ok(())
    }
}

/// An algorithm that is registered as a congestion control.
#[derive(Debug)]
pub(crate) struct Registered {
    /// Index of the algorithm in the plane.
    pub(crate) algorithm: usize,
    /// The kernel's name for it.
    pub(crate) name: String,
    /// What it needs of ECN.
    pub(crate) ecn: Ecn,
    /// Dropping it unregisters the name. Connections that still have the congestion control go on
    /// under the fallback.
    _link: Link,
}

/// The kernel side of a datapath.
#[derive(Debug)]
pub(crate) struct KernelSide {
    memory: Memory,
    maps: Maps,
    registered: Vec<Registered>,
}

impl KernelSide {
    /// Loads the programs of these algorithms, by their index in the plane, and registers each
    /// under a name, one of this run alone if the options say so.
    pub(crate) fn load(
        algorithms: &[(usize, &HostedAlgorithm)],
        options: &Options,
        types: &KernelTypes,
    ) -> Result<Self, LinuxError> {
        let programs = ProgramSet::new(algorithms)?;
        let (layout, read) = (programs.layout(), programs.signals());
        let mut side: Option<Self> = None;
        for (index, (algorithm, hosted)) in algorithms.iter().enumerate() {
            let setup = Setup {
                index,
                algorithm: *algorithm,
                hosted,
                layout,
                signals: read,
                options,
            };
            match &mut side {
                Some(side) => {
                    let registered = setup.register(&side.maps, &side.memory.page)?;
                    side.registered.push(registered);
                }
                None => side = Some(setup.create(&programs, types)?),
            }
        }
        side.ok_or(LinuxError::NoAlgorithm)
    }

    /// The algorithms, by the index in their flows' frames.
    pub(crate) fn registered(&self) -> &[Registered] {
        &self.registered
    }

    /// The algorithm of that index in the plane, if it is registered, and its index in frames.
    pub(crate) fn registered_as(&self, algorithm: usize) -> Option<(usize, &Registered)> {
        let mut registered = self.registered.iter().enumerate();
        registered.find(|(_, registered)| registered.algorithm == algorithm)
    }

    /// What the plane shares with it.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The ring of created, report, closed and fault events.
    pub(crate) fn events(&self) -> &MapHandle {
        &self.maps.events
    }
}

/// How the kernel side is to be loaded for one algorithm.
#[derive(Debug, Clone, Copy)]
struct Setup<'a> {
    /// Index of the algorithm in frames.
    index: usize,
    /// Index of the algorithm in the plane.
    algorithm: usize,
    hosted: &'a HostedAlgorithm,
    layout: FrameLayout,
    /// Signals that some program reads.
    signals: SignalSet,
    options: &'a Options,
}

impl Setup<'_> {
    /// Creates the maps that all algorithms share, installs all programs, and registers the
    /// algorithm.
    fn create(
        &self,
        programs: &ProgramSet<'_>,
        types: &KernelTypes,
    ) -> Result<KernelSide, LinuxError> {
        let name = self.name(0)?;
        let mut cell = MaybeUninit::uninit();
        let mut open = self.open(&mut cell, &name)?;
        self.size(&mut open, programs)
            .map_err(LinuxError::bpf("size the kernel side's maps"))?;
        let mut skel = open.load().map_err(LinuxError::bpf(LOAD))?;
        let own = |map| MapHandle::try_from(map).map_err(LinuxError::bpf("keep a map"));
        let maps = Maps {
            frames: own(&skel.maps.fw_frames)?,
            free: own(&skel.maps.fw_free)?,
            events: own(&skel.maps.fw_events)?,
            origins: own(&skel.maps.fw_origin_names)?,
            page: own(&skel.maps.data_plane)?,
            programs: [own(&skel.maps.fw_on_ack)?, own(&skel.maps.fw_on_timeout)?],
        };
        let map = |handle: &MapHandle, len| {
            Shared::writable(handle.as_fd(), len).map_err(LinuxError::io("map the flows' memory"))
        };
        let max_flows = usize::try_from(self.options.max_flows).unwrap_or(usize::MAX);
        let frame_size = self.layout.size();
        let frames = Frames::new(map(&maps.frames, frame_size * max_flows)?, frame_size);
        let page = PlanePage::new(map(&maps.page, PAGE_BYTES)?);
        let info = maps
            .frames
            .info()
            .map_err(LinuxError::bpf("find the frames' map"))?;
        page.frames_id().store(info.info.id, Relaxed);
        maps.install(programs, self.layout, types)?;
        page.heartbeat_us().store(now_us(), Release);
        let registered = match self.attach(&mut skel, name, &page) {
            Err(LinuxError::NameTaken { .. }) if self.options.unique_names => {
                self.register(&maps, &page)?
            }
            result => result?,
        };
        Ok(KernelSide {
            memory: Memory {
                layout: self.layout,
                frames,
                page,
                programs: programs.table().clone(),
            },
            maps,
            registered: vec![registered],
        })
    }

    /// The name under which the algorithm is to be registered: `attempt` distinguishes those of this
    /// run alone.
    fn name(&self, attempt: u32) -> Result<String, LinuxError> {
        let algorithm = self.hosted.name();
        if self.options.unique_names {
            unique_name(algorithm, process::id().wrapping_add(attempt))
        } else {
            kernel_name(algorithm)
        }
    }

    /// Registers the algorithm as a congestion control over these maps.
    fn register(&self, maps: &Maps, page: &PlanePage) -> Result<Registered, LinuxError> {
        let mut attempt = 0;
        loop {
            match self.register_as(self.name(attempt)?, maps, page) {
                Err(LinuxError::NameTaken { .. })
                    if self.options.unique_names && attempt < NAME_ATTEMPTS =>
                {
                    attempt += 1;
                }
                result => return result,
            }
        }
    }

    fn register_as(
        &self,
        name: String,
        maps: &Maps,
        page: &PlanePage,
    ) -> Result<Registered, LinuxError> {
        let mut cell = MaybeUninit::uninit();
        let mut open = self.open(&mut cell, &name)?;
        reuse(&mut open, maps).map_err(LinuxError::bpf("share the kernel side's maps"))?;
        let mut skel = open.load().map_err(LinuxError::bpf(LOAD))?;
        self.attach(&mut skel, name, page)
    }

    /// Opens the programs for this algorithm, to be registered under this name.
    fn open<'s>(
        &self,
        cell: &'s mut MaybeUninit<OpenObject>,
        name: &str,
    ) -> Result<OpenFairwaterSkel<'s>, LinuxError> {
        let mut open = FairwaterSkelBuilder::default()
            .open(cell)
            .map_err(LinuxError::bpf(LOAD))?;
        self.specialise(&mut open).map_err(LinuxError::bpf(LOAD))?;
        let operations = open.struct_ops.fw_ops_mut();
        if self.hosted.requirements().ecn == Ecn::Required {
            operations.flags |= layout::NEEDS_ECN;
        }
        operations.name = [0; 16];
        copy(&mut operations.name, name);
        Ok(open)
    }

    /// Registers what is loaded.
    fn attach(
        &self,
        skel: &mut FairwaterSkel<'_>,
        name: String,
        page: &PlanePage,
    ) -> Result<Registered, LinuxError> {
        let attached = skel.maps.fw_ops.attach_struct_ops();
        let link = attached.map_err(|error| match error.kind() {
            libbpf_rs::ErrorKind::AlreadyExists => LinuxError::NameTaken {
                holder: observe::holder(&name),
                name: name.clone(),
            },
            _ => LinuxError::bpf("register the congestion control")(error),
        })?;
        // Not before: whoever looks for the holder of a name that is taken would find this plane.
        page.set_algorithm(self.index, &name);
        Ok(Registered {
            algorithm: self.algorithm,
            name,
            ecn: self.hosted.requirements().ecn,
            _link: link,
        })
    }

    /// Sets the constants of the programs for this algorithm.
    fn specialise(&self, open: &mut OpenFairwaterSkel<'_>) -> libbpf_rs::Result<()> {
        if let Some(constants) = open.maps.rodata_data.as_mut() {
            constants.needed_signals = self.signals.bits();
            constants.algorithm = u16::try_from(self.index).map_err(|_| out_of_memory())?;
            constants.needs_ecn = self.hosted.requirements().ecn == Ecn::Required;
        }
        Ok(())
    }

    /// Sets the sizes of the maps, and fills the plane's page.
    fn size(
        &self,
        open: &mut OpenFairwaterSkel<'_>,
        programs: &ProgramSet<'_>,
    ) -> libbpf_rs::Result<()> {
        let options = self.options;
        let frame_size = u32::try_from(self.layout.size()).map_err(|_| out_of_memory())?;
        open.maps.fw_frames.set_value_size(frame_size)?;
        open.maps.fw_frames.set_max_entries(options.max_flows)?;
        open.maps.fw_free.set_max_entries(options.max_flows)?;
        open.maps.fw_events.set_max_entries(options.ring_bytes)?;
        if let Some(data) = open.maps.data_plane_data.as_mut() {
            let plane = &mut data.plane;
            plane.silent_after_us =
                u64::try_from(options.silent_after.as_micros()).unwrap_or(u64::MAX >> 1);
            plane.pid = process::id();
            plane.frame_size = frame_size;
            plane.max_flows = options.max_flows;
            for (index, from) in programs.programs().iter().enumerate() {
                copy(&mut plane.programs[index], from.name);
                plane.idle_restart[index / 32] |= u32::from(from.idle_restart) << (index % 32);
            }
        }
        Ok(())
    }
}

/// Replaces the maps that the programs would create by the maps that exist.
fn reuse(open: &mut OpenFairwaterSkel<'_>, maps: &Maps) -> libbpf_rs::Result<()> {
    let to = &mut open.maps;
    to.fw_frames.reuse_fd(maps.frames.as_fd())?;
    to.fw_free.reuse_fd(maps.free.as_fd())?;
    to.fw_events.reuse_fd(maps.events.as_fd())?;
    to.fw_origin_names.reuse_fd(maps.origins.as_fd())?;
    to.data_plane.reuse_fd(maps.page.as_fd())?;
    to.fw_on_ack.reuse_fd(maps.programs[0].as_fd())?;
    to.fw_on_timeout.reuse_fd(maps.programs[1].as_fd())
}

fn out_of_memory() -> libbpf_rs::Error {
    libbpf_rs::Error::from(io::Error::from(io::ErrorKind::OutOfMemory))
}

/// Copies a name, cut to leave room for a NUL.
fn copy(to: &mut [i8], from: &str) {
    let room = to.len() - 1;
    for (to, from) in to[..room].iter_mut().zip(from.bytes()) {
        *to = from.cast_signed();
    }
}
