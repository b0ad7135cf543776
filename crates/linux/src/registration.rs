//! One algorithm as a Linux congestion control: its kernel side loaded, its programs in place,
//! its name registered.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::{Relaxed, Release};

use fairwater_exec::frame::FrameLayout;
use fairwater_lang::{Program, SignalSet};
use fairwater_plane::{Command, Ecn};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};

use crate::clock::now_us;
use crate::compiled::{Callback, Context, load};
use crate::flow::{Frame, Frames, MAX_PROGRAMS, PLANE_PAGE, PlanePage};
use crate::kernel_types::KernelTypes;
use crate::shared::Shared;
use crate::skeleton::datapath::{FairwaterSkelBuilder, OpenFairwaterSkel};
use crate::staging;
use crate::{LinuxError, Options, observe};

/// What is to be registered.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// The algorithm's name; the kernel's is `fw_` and this.
    pub(crate) algorithm: &'a str,
    /// Its programs with their names, by index.
    pub(crate) programs: &'a [(&'a str, &'a Program)],
    /// Whether an idle flow restarts from the initial window (RFC 5681 §4.1).
    pub(crate) idle_restart: bool,
    /// What its flows need of ECN.
    pub(crate) ecn: Ecn,
}

/// The kernel's flag of congestion controls whose connections negotiate ECN.
const TCP_CONG_NEEDS_ECN: u32 = 2;

/// A registered congestion control; dropping it unregisters the name. Connections that still
/// have it go on under in-kernel Reno.
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
    pub(crate) fn new(
        request: &Request<'_>,
        options: &Options,
        types: &KernelTypes,
    ) -> Result<Self, LinuxError> {
        let algorithm = request.algorithm;
        let name = kernel_name(algorithm)?;
        if request.programs.len() > MAX_PROGRAMS {
            let count = request.programs.len();
            return Err(LinuxError::TooManyPrograms {
                algorithm: algorithm.to_owned(),
                count,
            });
        }
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
        let skel = open.load().map_err(LinuxError::bpf(what))?;
        let maps = &skel.maps;
        let own = |map| MapHandle::try_from(map).map_err(LinuxError::bpf("keep a map"));
        let (frames_map, plane_map) = (own(&maps.fw_frames)?, own(&maps.data_plane)?);
        let (events, arrays) = (
            own(&maps.fw_events)?,
            [own(&maps.fw_on_ack)?, own(&maps.fw_on_timeout)?],
        );

        let max_flows = usize::try_from(options.max_flows).unwrap_or(usize::MAX);
        let map = |handle: &MapHandle, len| {
            Shared::writable(handle.as_fd(), len).map_err(LinuxError::io("map the flows' memory"))
        };
        let frames = Frames::new(map(&frames_map, layout.size() * max_flows)?, layout.size());
        let page = PlanePage(map(&plane_map, PLANE_PAGE)?);
        let id = frames_map
            .info()
            .map_err(LinuxError::bpf("find the frames' map"))?
            .info
            .id;
        page.frames_id().store(id, Relaxed);

        for (index, (program_name, program)) in (0u32..).zip(request.programs) {
            for (callback, array) in [Callback::Ack, Callback::Timeout].into_iter().zip(&arrays) {
                let context = Context {
                    types,
                    layout,
                    callback,
                    frames: frames_map.as_fd(),
                    events: events.as_fd(),
                    plane: plane_map.as_fd(),
                    wakeup: options.wakeup,
                    index,
                };
                let loaded = load(algorithm, program_name, program, &context)?;
                array
                    .update(
                        &index.to_ne_bytes(),
                        &std::os::fd::AsRawFd::as_raw_fd(&loaded).to_ne_bytes(),
                        MapFlags::ANY,
                    )
                    .map_err(LinuxError::bpf("install a program"))?;
            }
        }
        page.heartbeat_us().store(now_us(), Release);
        let mut skel = skel;
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

/// What the kernel keeps of a name in 16 bytes, behind `fw_` and before a zero.
const MAX_NAME: usize = 12;

/// `fw_` and the algorithm's name. One that is too long goes without words from its end, but for
/// a number there: `congestion_manager_2` is `fw_congestion_2`.
pub(crate) fn kernel_name(algorithm: &str) -> Result<String, LinuxError> {
    let bad = || LinuxError::BadName {
        name: algorithm.to_owned(),
    };
    let known = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    if algorithm.is_empty() || !algorithm.bytes().all(known) {
        return Err(bad());
    }
    let is_number = |word: &&str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    let (mut words, number) = match algorithm.rsplit_once('_').filter(|(_, n)| is_number(n)) {
        Some((words, _)) => (words, &algorithm[words.len()..]),
        None => (algorithm, ""),
    };
    while words.len() + number.len() > MAX_NAME {
        (words, _) = words.rsplit_once('_').ok_or_else(bad)?;
    }
    if words.is_empty() {
        return Err(bad());
    }
    Ok(format!("fw_{words}{number}"))
}

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
        open.struct_ops.fw_ops_mut().flags |= TCP_CONG_NEEDS_ECN;
    }
    open.struct_ops.fw_ops_mut().name = [0; 16];
    copy(&mut open.struct_ops.fw_ops_mut().name, name);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::kernel_name;

    #[test]
    fn a_long_name_loses_words_and_keeps_its_number() {
        let name = |algorithm| kernel_name(algorithm).ok();
        assert_eq!(name("cubic").as_deref(), Some("fw_cubic"));
        assert_eq!(name("reno_2").as_deref(), Some("fw_reno_2"));
        assert_eq!(name("twelve_bytes").as_deref(), Some("fw_twelve_bytes"));
        assert_eq!(name("congestion_manager").as_deref(), Some("fw_congestion"));
        assert_eq!(name("congestion_manager_12"), None);
        assert_eq!(
            name("congestion_manager_2").as_deref(),
            Some("fw_congestion_2")
        );
        for bad in ["", "Cubic", "a-b", "thirteenbytes", "_thirteenbytes"] {
            assert_eq!(name(bad), None, "{bad}");
        }
    }
}
