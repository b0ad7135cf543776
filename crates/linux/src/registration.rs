//! One algorithm as a Linux congestion control: loads its kernel side, installs its programs and
//! registers its name.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::{io, process};

use fairwater_exec::frame::FrameLayout;
use fairwater_lang::{Program, SignalSet};
use fairwater_plane::{Command, Ecn};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};

use crate::clock::now_us;
use crate::compiled::{Callback, Context, Entry, load};
use crate::congestion_controls::{kernel_name, unique_name};
use crate::flow::{Frame, Frames, PlanePage};
use crate::kernel_types::KernelTypes;
use crate::layout::{self, MAX_PROGRAMS};
use crate::shared::Shared;
use crate::skeleton::datapath::{FairwaterSkelBuilder, OpenFairwaterSkel};
use crate::staging;
use crate::{LinuxError, Options, observe};

/// An algorithm to register.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// The algorithm's name; the kernel's is `fw_` and this.
    pub(crate) algorithm: &'a str,
    /// Its programs with their names, by index.
    pub(crate) programs: &'a [(&'a str, &'a Program)],
    /// Whether an idle flow restarts from the initial window (RFC 5681 §4.1).
    pub(crate) idle_restart: bool,
    /// The ECN that its flows need.
    pub(crate) ecn: Ecn,
}

/// Attempts to find a unique name that nobody has registered.
const NAME_ATTEMPTS: u32 = 64;

/// A registered congestion control; dropping it unregisters the name. Connections that still
/// have it go on under the fallback.
#[derive(Debug)]
pub(crate) struct Registration {
    name: String,
    layout: FrameLayout,
    frames: Frames,
    page: PlanePage,
    events: MapHandle,
    /// The kernel empties a program array when its last descriptor is closed, so a plane that is
    /// killed leaves its flows to the fallback at once.
    _programs: [MapHandle; 2],
    _link: Link,
}

impl Registration {
    /// Loads and registers the algorithm, under a name of this run alone if the options say so.
    pub(crate) fn new(
        request: &Request<'_>,
        options: &Options,
        types: &KernelTypes,
    ) -> Result<Self, LinuxError> {
        let algorithm = request.algorithm;
        if request.programs.len() > MAX_PROGRAMS {
            return Err(LinuxError::TooManyPrograms {
                algorithm: algorithm.to_owned(),
                count: request.programs.len(),
            });
        }
        if !options.unique_names {
            return Self::under(kernel_name(algorithm)?, request, options, types);
        }
        let mut attempt = 0;
        loop {
            let name = unique_name(algorithm, process::id().wrapping_add(attempt))?;
            match Self::under(name, request, options, types) {
                Err(LinuxError::NameTaken { .. }) if attempt < NAME_ATTEMPTS => attempt += 1,
                result => return result,
            }
        }
    }

    fn under(
        name: String,
        request: &Request<'_>,
        options: &Options,
        types: &KernelTypes,
    ) -> Result<Self, LinuxError> {
        let widest = request
            .programs
            .iter()
            .map(|(_, p)| p.variables.len())
            .max()
            .unwrap_or(0);
        let layout = FrameLayout::new(widest);

        let what = "load the kernel side";
        let mut cell = MaybeUninit::uninit();
        let mut open = FairwaterSkelBuilder::default()
            .open(&mut cell)
            .map_err(LinuxError::bpf(what))?;
        prepare(&mut open, request, &name, layout, options)
            .map_err(LinuxError::bpf("size the kernel side's maps"))?;
        let mut skel = open.load().map_err(LinuxError::bpf(what))?;
        let maps = &skel.maps;
        let own = |map| MapHandle::try_from(map).map_err(LinuxError::bpf("keep a map"));
        let (frames_map, plane_map) = (own(&maps.fw_frames)?, own(&maps.data_plane)?);
        let events = own(&maps.fw_events)?;
        let arrays = [own(&maps.fw_on_ack)?, own(&maps.fw_on_timeout)?];

        let max_flows = usize::try_from(options.max_flows).unwrap_or(usize::MAX);
        let map = |handle: &MapHandle, len| {
            Shared::writable(handle.as_fd(), len).map_err(LinuxError::io("map the flows' memory"))
        };
        let frames = Frames::new(map(&frames_map, layout.size() * max_flows)?, layout.size());
        let page = PlanePage(map(&plane_map, layout::plane::SIZE)?);
        let info = frames_map
            .info()
            .map_err(LinuxError::bpf("find the frames' map"))?;
        page.frames_id().store(info.info.id, Relaxed);
        let context = Context {
            types,
            layout,
            frames: frames_map.as_fd(),
            events: events.as_fd(),
            plane: plane_map.as_fd(),
        };
        install(request, &context, &arrays)?;
        page.heartbeat_us().store(now_us(), Release);
        let link = skel
            .maps
            .fw_ops
            .attach_struct_ops()
            .map_err(|error| match error.kind() {
                libbpf_rs::ErrorKind::AlreadyExists => LinuxError::NameTaken {
                    holder: observe::holder(&name),
                    name: name.clone(),
                },
                _ => LinuxError::bpf("register the congestion control")(error),
            })?;
        Ok(Self {
            name,
            layout,
            frames,
            page,
            events,
            _programs: arrays,
            _link: link,
        })
    }

    /// The kernel's name for it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn page(&self) -> &PlanePage {
        &self.page
    }

    pub(crate) fn frame(&self, slot: u32) -> Option<Frame<'_>> {
        self.frames.get(slot)
    }

    /// The ring of created, report, closed and fault events.
    pub(crate) fn events(&self) -> &MapHandle {
        &self.events
    }

    pub(crate) fn command(&self, slot: u32, generation: u32, command: &Command) {
        if let Some(frame) = self.frame(slot) {
            staging::stage(frame, self.layout, generation, command);
        }
    }
}

/// Loads the algorithm's programs and puts them into the arrays of both callbacks.
fn install(
    request: &Request<'_>,
    context: &Context<'_>,
    arrays: &[MapHandle; 2],
) -> Result<(), LinuxError> {
    for (index, (name, program)) in (0u32..).zip(request.programs) {
        for (callback, array) in [Callback::Ack, Callback::Timeout].into_iter().zip(arrays) {
            let entry = Entry {
                context,
                callback,
                index,
            };
            let loaded = load(request.algorithm, name, program, &entry)?;
            array
                .update(
                    &index.to_ne_bytes(),
                    &loaded.as_raw_fd().to_ne_bytes(),
                    MapFlags::ANY,
                )
                .map_err(LinuxError::bpf("install a program"))?;
        }
    }
    Ok(())
}

/// Sets the constants, sizes and names of the kernel side before it is loaded.
fn prepare(
    open: &mut OpenFairwaterSkel<'_>,
    request: &Request<'_>,
    name: &str,
    layout: FrameLayout,
    options: &Options,
) -> libbpf_rs::Result<()> {
    let frame_size = u32::try_from(layout.size())
        .map_err(|_| libbpf_rs::Error::from(io::Error::from(io::ErrorKind::OutOfMemory)))?;
    open.maps.fw_frames.set_value_size(frame_size)?;
    open.maps.fw_frames.set_max_entries(options.max_flows)?;
    open.maps.fw_free.set_max_entries(options.max_flows)?;
    open.maps.fw_events.set_max_entries(options.ring_bytes)?;
    if let Some(constants) = open.maps.rodata_data.as_mut() {
        let read = request
            .programs
            .iter()
            .fold(SignalSet::EMPTY, |all, (_, p)| all.union(p.signals));
        constants.needed_signals = read.bits();
        constants.idle_restart = request.idle_restart;
        constants.needs_ecn = request.ecn == Ecn::Required;
    }
    let copy = |to: &mut [i8], from: &str| {
        let room = to.len() - 1;
        for (to, from) in to[..room].iter_mut().zip(from.bytes()) {
            *to = from.cast_signed();
        }
    };
    if let Some(data) = open.maps.data_plane_data.as_mut() {
        let plane = &mut data.plane;
        plane.silent_after_us =
            u64::try_from(options.silent_after.as_micros()).unwrap_or(u64::MAX >> 1);
        plane.pid = std::process::id();
        plane.frame_size = frame_size;
        plane.max_flows = options.max_flows;
        copy(&mut plane.name, name);
        for (to, (from, _)) in plane.programs.iter_mut().zip(request.programs) {
            copy(to, from);
        }
    }
    if request.ecn == Ecn::Required {
        open.struct_ops.fw_ops_mut().flags |= layout::NEEDS_ECN;
    }
    open.struct_ops.fw_ops_mut().name = [0; 16];
    copy(&mut open.struct_ops.fw_ops_mut().name, name);
    Ok(())
}
