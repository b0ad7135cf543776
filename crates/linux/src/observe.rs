//! The flows of every plane on this machine, as any root process can read them; `fairwater top`
//! shows them. Nothing is pinned: the kernel side is found by name among the kernel's programs.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::Ordering::Relaxed;

use fairwater_kernel::{FlowState, Frames, PAGE_BYTES, PlanePage, Shared, now_us};
use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{MapCore, MapHandle};

/// Map that holds a plane's page.
const PLANE_MAP: &[u8] = b".data.plane";
/// Map of the congestion controls that moved connections had before.
const ORIGINS_MAP: &[u8] = b"fw_origin_names";
/// A program of every plane's kernel side, which uses both.
const RELEASE_PROGRAM: &[u8] = b"fw_release";

/// An algorithm of a plane, alive, or dead while a socket still has its congestion control.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaneSnapshot {
    /// The congestion control's name, `fw_cubic`.
    pub name: String,
    /// The plane's process.
    pub pid: u32,
    /// Whether that process lives and its heartbeat is fresh.
    pub alive: bool,
    /// Flows of the plane that found no slot and stayed under the fallback; counted at the plane's
    /// first algorithm.
    pub without_slot: u32,
    /// Times that a flow of the plane went under the fallback because the plane was silent; counted
    /// at the plane's first algorithm.
    pub fallbacks: u32,
    /// The algorithm's flows.
    pub flows: Vec<FlowSnapshot>,
}

/// One flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowSnapshot {
    /// Slot and generation, unique within its plane.
    pub id: (u32, u32),
    /// The local address and port.
    pub local: SocketAddr,
    /// The remote address and port.
    pub remote: SocketAddr,
    /// The congestion window, bytes.
    pub cwnd: u64,
    /// The pacing rate, bytes/s; 0 when only the window limits the flow.
    pub rate: u64,
    /// Smoothed RTT, µs; 0 before the first sample.
    pub srtt_us: u64,
    /// Bytes acknowledged since the connection began; the change over time is the delivery
    /// rate. Like `srtt_us`, at most a quarter of an RTT old.
    pub bytes_acked: u64,
    /// The program that runs; empty before the first.
    pub program: String,
    /// Who controls it.
    pub state: FlowState,
    /// µs since it came under this congestion control.
    pub age_us: u64,
    /// The aggregate that it belongs to (CCP §6.3), if any.
    pub aggregate: Option<AggregateSnapshot>,
}

/// The aggregate of a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AggregateSnapshot {
    /// Number, unique within plane and algorithm; reused after the aggregate has ended.
    pub number: u32,
    /// What its flows have in common: `to 10.0.0.2`. A key that was too long ends in `…`.
    pub key: String,
}

/// Every plane on this machine with its flows, by name and process.
///
/// Planes that cannot be read (they may be ending) are left out; without the right to list BPF
/// programs the list is empty.
#[must_use]
pub fn planes() -> Vec<PlaneSnapshot> {
    let mut planes: Vec<_> = found().iter().flat_map(FoundPlane::snapshots).collect();
    planes.sort_by(|a, b| (&a.name, a.pid).cmp(&(&b.name, b.pid)));
    planes
}

/// A plane's kernel side, found among the kernel's programs.
#[derive(Debug)]
pub(crate) struct FoundPlane {
    page: PlanePage,
    /// Congestion controls that moved connections had before.
    origins: MapHandle,
}

/// The kernel sides of all planes, alive or dead.
pub(crate) fn found() -> Vec<FoundPlane> {
    let mut found: Vec<FoundPlane> = Vec::new();
    for plane in found_programs() {
        // Each algorithm of a plane has a program over the same maps.
        if !found.iter().any(|known| known.is(&plane)) {
            found.push(plane);
        }
    }
    found
}

fn found_programs() -> Vec<FoundPlane> {
    // Through a program that uses both maps, never by opening every map there is: opening and
    // closing a program array as its owner ends can leave it in the kernel for good (seen on
    // Linux 6.18), and `fw_release` uses none.
    let options = ProgInfoQueryOptions::default().include_map_ids(true);
    ProgInfoIter::with_query_opts(options)
        .filter(|program| program.name.as_encoded_bytes() == RELEASE_PROGRAM)
        .filter_map(|program| {
            let maps: Vec<_> = program
                .map_ids
                .into_iter()
                .map(MapHandle::from_map_id)
                .collect();
            let (mut page, mut origins) = (None, None);
            for map in maps.into_iter().flatten() {
                match map.name().as_encoded_bytes() {
                    PLANE_MAP => {
                        let memory = Shared::read_only(map.as_fd(), PAGE_BYTES).ok()?;
                        page = Some(PlanePage::new(memory));
                    }
                    ORIGINS_MAP => origins = Some(map),
                    _ => {}
                }
            }
            Some(FoundPlane {
                page: page?,
                origins: origins?,
            })
        })
        .collect()
}

/// The plane that registered the name last: ids of maps grow.
pub(crate) fn registered<'p>(planes: &'p [FoundPlane], name: &str) -> Option<&'p FoundPlane> {
    planes
        .iter()
        .filter(|plane| plane.has(name))
        .max_by_key(|plane| plane.frames_id())
}

impl FoundPlane {
    /// Names of its congestion controls.
    pub(crate) fn names(&self) -> Vec<String> {
        self.page.algorithms()
    }

    /// Whether it has a congestion control of that name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.names().iter().any(|own| own == name)
    }

    /// Whether both are the same plane.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.frames_id() == other.frames_id()
    }

    fn frames_id(&self) -> u32 {
        self.page.frames_id().load(Relaxed)
    }

    pub(crate) fn origins(&self) -> BorrowedFd<'_> {
        self.origins.as_fd()
    }

    /// Whether the plane's process lives and its heartbeat is fresh.
    pub(crate) fn is_alive(&self) -> bool {
        let silence = now_us().saturating_sub(self.page.heartbeat_us().load(Relaxed));
        silence <= self.page.silent_after_us() && process_lives(self.page.pid())
    }

    /// One for each algorithm.
    fn snapshots(&self) -> Vec<PlaneSnapshot> {
        let alive = self.is_alive();
        let page = &self.page;
        let mut snapshots: Vec<_> = self
            .names()
            .into_iter()
            .enumerate()
            .map(|(place, name)| PlaneSnapshot {
                name,
                pid: page.pid(),
                alive,
                without_slot: if place == 0 { page.without_slot() } else { 0 },
                fallbacks: if place == 0 { page.fallbacks() } else { 0 },
                flows: Vec::new(),
            })
            .collect();
        for (place, flow) in flows(page, alive).unwrap_or_default() {
            if let Some(snapshot) = snapshots.get_mut(place) {
                snapshot.flows.push(flow);
            }
        }
        snapshots
    }
}

/// The flows of a plane, each with the place of its algorithm.
fn flows(page: &PlanePage, alive: bool) -> Option<Vec<(usize, FlowSnapshot)>> {
    let now = now_us();
    let map = MapHandle::from_map_id(page.frames_id().load(Relaxed)).ok()?;
    let size = usize::try_from(page.frame_size()).ok()?;
    let used = usize::try_from(page.slots_used()).ok()?;
    if used == 0 {
        return Some(Vec::new());
    }
    let frames = Frames::new(Shared::read_only(map.as_fd(), size * used).ok()?, size);
    let snapshot = |slot| {
        let frame = frames.get(slot)?;
        // The kernel side notes the fallback at the next ACK, which an idle flow does not get.
        let state = match frame.state()? {
            FlowState::Starting | FlowState::Running if !alive => FlowState::Fallback,
            state => state,
        };
        let (local, remote) = frame.addresses();
        let snapshot = FlowSnapshot {
            id: (slot, frame.generation()),
            local,
            remote,
            cwnd: frame.cwnd(),
            rate: frame.rate(),
            srtt_us: frame.srtt_us(),
            bytes_acked: frame.bytes_acked(),
            program: page.program_name(frame.program()),
            state,
            age_us: now.saturating_sub(frame.born_us()),
            aggregate: frame
                .aggregate()
                .map(|(number, key)| AggregateSnapshot { number, key }),
        };
        Some((frame.algorithm(), snapshot))
    };
    Some((0..page.slots_used()).filter_map(snapshot).collect())
}

fn process_lives(pid: u32) -> bool {
    std::path::Path::new("/proc").join(pid.to_string()).exists()
}

/// Who has registered a congestion control, as a clause: "process 4242 (fairwater)".
pub(crate) fn holder(name: &str) -> String {
    match planes()
        .into_iter()
        .find(|p| p.name == name && process_lives(p.pid))
    {
        Some(plane) => {
            let path = format!("/proc/{}/comm", plane.pid);
            let command = std::fs::read_to_string(path).unwrap_or_default();
            format!("process {} ({}); stop it first", plane.pid, command.trim())
        }
        None => "a kernel module or another BPF program".to_owned(),
    }
}
