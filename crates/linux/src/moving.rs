//! Existing connections: moved onto a congestion control, adopted from a plane that died, and
//! moved back. A namespace at a time, each connection under its lock.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Iter, Link, OpenObject};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::LinuxError;
use crate::skeleton::movement::{MoveSkel, MoveSkelBuilder};

/// What a walk over the machine's connections did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Moved {
    /// Connections that changed congestion control.
    pub moved: u32,
    /// Connections whose `setsockopt` the kernel refused.
    pub refused: u32,
    /// Network namespaces that could not be entered.
    pub namespaces_skipped: u32,
}

/// What to do with the connections of each namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Mode {
    /// Take every connection that has another congestion control.
    Onto = 1,
    /// Take over connections whose plane of the same name is gone.
    Adopt = 2,
    /// Give every connection back to where it came from, or to a default.
    Back = 3,
}

/// The iterator, loaded; it remembers where each connection came from while it lives.
pub(crate) struct Mover {
    // Dropped before the object that it borrows, which is leaked into it and freed by it.
    skel: MoveSkel<'static>,
    link: Link,
}

impl std::fmt::Debug for Mover {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mover")
            .field("link", &self.link)
            .finish_non_exhaustive()
    }
}

impl Mover {
    pub(crate) fn load() -> Result<Self, LinuxError> {
        // One small object a process that moves connections: leaking its cell keeps the
        // generated skeleton's borrow simple.
        let cell: &'static mut MaybeUninit<OpenObject> = Box::leak(Box::new(MaybeUninit::uninit()));
        let what = "load the iterator over TCP connections";
        let skel = MoveSkelBuilder::default()
            .open(cell)
            .map_err(LinuxError::bpf(what))?;
        let skel = skel.load().map_err(LinuxError::bpf(what))?;
        let link = skel.progs.fw_move.attach().map_err(LinuxError::bpf(what))?;
        Ok(Self { skel, link })
    }

    /// Walks the connections of every network namespace that a process lives in.
    ///
    /// # Errors
    /// The walk of the present namespace failed.
    pub(crate) fn walk(
        &mut self,
        mode: Mode,
        ours: &str,
        otherwise: &str,
    ) -> Result<Moved, LinuxError> {
        if let Some(data) = self.skel.maps.bss_data.as_mut() {
            set_name(&mut data.ours.bytes, ours);
            set_name(&mut data.otherwise.bytes, otherwise);
            (data.moved, data.refused) = (0, 0);
        }
        if let Some(data) = self.skel.maps.data_data.as_mut() {
            data.mode = mode as u32;
        }
        let link = &self.link;
        walk_here(link).map_err(LinuxError::io("walk over TCP connections"))?;
        let mut namespaces_skipped = 0;
        for namespace in other_namespaces() {
            // A thread of its own: entering a namespace changes only the thread that does.
            let walked = std::thread::scope(|scope| {
                scope
                    .spawn(|| {
                        move_into_link_name_space(
                            namespace.as_fd(),
                            Some(LinkNameSpaceType::Network),
                        )?;
                        walk_here(link)
                    })
                    .join()
            });
            if !matches!(walked, Ok(Ok(()))) {
                namespaces_skipped += 1;
            }
        }
        let counts = self
            .skel
            .maps
            .bss_data
            .as_ref()
            .map_or((0, 0), |d| (d.moved, d.refused));
        Ok(Moved {
            moved: counts.0,
            refused: counts.1,
            namespaces_skipped,
        })
    }
}

fn set_name(to: &mut [i8; 16], name: &str) {
    *to = [0; 16];
    for (to, from) in to.iter_mut().take(15).zip(name.bytes()) {
        *to = from.cast_signed();
    }
}

fn walk_here(link: &Link) -> io::Result<()> {
    let mut iterator = Iter::new(link).map_err(io::Error::other)?;
    let mut discarded = Vec::new();
    iterator.read_to_end(&mut discarded)?;
    Ok(())
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
