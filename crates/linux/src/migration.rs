//! Existing TCP sockets: moved onto a congestion control, taken over from a plane that is gone, and
//! moved back. A network namespace at a time, each socket under its lock.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Iter, Link};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::LinuxError;
use crate::congestion_controls::renew_default;
use crate::skeleton::migration::{MigrateSkelBuilder, types};

/// How many sockets changed their congestion control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MigrationCounts {
    /// Connections that changed congestion control.
    pub connections: u32,
    /// Listeners that did, so that connections that they accept do too.
    pub listeners: u32,
    /// Sockets whose congestion control the kernel refused to change.
    pub refused: u32,
    /// Network namespaces that could not be entered.
    pub namespaces_skipped: u32,
}

impl std::ops::AddAssign for MigrationCounts {
    fn add_assign(&mut self, other: Self) {
        self.connections += other.connections;
        self.listeners += other.listeners;
        self.refused += other.refused;
        self.namespaces_skipped += other.namespaces_skipped;
    }
}

/// What to do with the sockets of each namespace.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mode<'a> {
    /// Move every connection that has another congestion control, and note which.
    Onto,
    /// Take over sockets, and defaults, of planes of the same name that are gone.
    Adopt,
    /// Give every connection back to its origin, or, without one, to this congestion control.
    Back { otherwise: &'a str },
    /// Note anew the origins that an earlier plane of that name noted in that map.
    Inherit {
        former: &'a str,
        origins: BorrowedFd<'a>,
    },
}

/// Walks the sockets of every network namespace that a process lives in, for the plane that has
/// registered the name `ours` and notes origins in that map.
///
/// # Errors
/// The iterator cannot be loaded, or the walk of the present namespace failed.
pub(crate) fn migrate(
    mode: Mode<'_>,
    ours: &str,
    origins: BorrowedFd<'_>,
) -> Result<MigrationCounts, LinuxError> {
    let what = "load the iterator over TCP sockets";
    let mut cell = MaybeUninit::uninit();
    let mut skel = MigrateSkelBuilder::default()
        .open(&mut cell)
        .map_err(LinuxError::bpf(what))?;
    let former_origins = match mode {
        Mode::Inherit { origins, .. } => origins,
        _ => origins,
    };
    let reuse = |map: &mut libbpf_rs::OpenMapMut<'_>, fd| map.reuse_fd(fd);
    reuse(&mut skel.maps.fw_origin_names, origins).map_err(LinuxError::bpf(what))?;
    reuse(&mut skel.maps.fw_origin_names_former, former_origins).map_err(LinuxError::bpf(what))?;
    if let Some(data) = skel.maps.bss_data.as_mut() {
        set_name(&mut data.ours.bytes, ours);
        match mode {
            Mode::Back { otherwise } => set_name(&mut data.otherwise.bytes, otherwise),
            Mode::Inherit { former, .. } => set_name(&mut data.former.bytes, former),
            Mode::Onto | Mode::Adopt => {}
        }
    }
    if let Some(data) = skel.maps.data_data.as_mut() {
        data.mode = match mode {
            Mode::Onto => types::mode::MOVE_ONTO,
            Mode::Adopt => types::mode::ADOPT,
            Mode::Back { .. } => types::mode::MOVE_BACK,
            Mode::Inherit { .. } => types::mode::INHERIT,
        };
    }
    let skel = skel.load().map_err(LinuxError::bpf(what))?;
    let link = skel
        .progs
        .fw_migrate
        .attach()
        .map_err(LinuxError::bpf(what))?;
    let renewed = matches!(mode, Mode::Adopt).then_some(ours);
    let namespaces_skipped =
        walk(&link, renewed).map_err(LinuxError::io("walk over TCP sockets"))?;
    let counts = skel.maps.bss_data.as_ref();
    Ok(
        counts.map_or_else(MigrationCounts::default, |data| MigrationCounts {
            connections: data.connections,
            listeners: data.listeners,
            refused: data.refused,
            namespaces_skipped,
        }),
    )
}

fn set_name(to: &mut [i8; 16], name: &str) {
    *to = [0; 16];
    for (to, from) in to.iter_mut().take(15).zip(name.bytes()) {
        *to = from.cast_signed();
    }
}

/// Returns how many namespaces could not be entered.
fn walk(link: &Link, renewed: Option<&str>) -> io::Result<u32> {
    walk_here(link, renewed)?;
    let mut skipped = 0;
    for namespace in other_namespaces() {
        // A thread of its own: entering a namespace changes only the thread that does.
        let walked = std::thread::scope(|scope| {
            scope
                .spawn(|| {
                    let kind = LinkNameSpaceType::Network;
                    move_into_link_name_space(namespace.as_fd(), Some(kind))?;
                    walk_here(link, renewed)
                })
                .join()
        });
        if !matches!(walked, Ok(Ok(()))) {
            skipped += 1;
        }
    }
    Ok(skipped)
}

fn walk_here(link: &Link, renewed: Option<&str>) -> io::Result<()> {
    let mut iterator = Iter::new(link).map_err(io::Error::other)?;
    let mut discarded = Vec::new();
    iterator.read_to_end(&mut discarded)?;
    renewed.map_or(Ok(()), renew_default)
}

/// One open handle for each network namespace of the machine's processes but our own.
fn other_namespaces() -> Vec<File> {
    let own = fs::metadata("/proc/thread-self/ns/net")
        .map(|m| m.ino())
        .unwrap_or(0);
    let mut found = BTreeMap::new();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    for process in processes {
        let path = process.path().join("ns/net");
        let Ok(metadata) = fs::metadata(&path) else {
            continue;
        };
        if metadata.ino() != own {
            found.entry(metadata.ino()).or_insert(path);
        }
    }
    found
        .into_values()
        .filter_map(|path| File::open(path).ok())
        .collect()
}
