//! The flows of every plane on this machine, seen from any root process: what `fairwater top`
//! shows. Nothing is pinned; the kernel side is found by name among the kernel's programs.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;

use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{MapCore, MapHandle};

use crate::clock::now_us;
use crate::flow::{FlowState, Frames, PLANE_PAGE, PlanePage};
use crate::shared::Shared;

/// The map that holds a plane's page.
const PLANE_MAP: &str = ".data.plane";
/// A program of every plane's kernel side.
const INIT_PROGRAM: &[u8] = b"fw_init";

/// A plane, alive or dead, whose algorithm some flow still has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlaneView {
    /// The congestion control's name, `fw_cubic`.
    pub name: String,
    /// The plane's process.
    pub pid: u32,
    /// Whether that process lives and its heartbeat is fresh.
    pub alive: bool,
    /// Flows that found no slot and stayed under in-kernel Reno.
    pub without_slot: u32,
    /// Times that a flow went under in-kernel Reno because the plane was silent.
    pub fallbacks: u32,
    /// Its flows.
    pub flows: Vec<FlowView>,
}

/// One flow as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlowView {
    /// Slot and generation, unique within its plane.
    pub id: (u32, u32),
    /// The local address and port.
    pub local: SocketAddr,
    /// The remote address and port.
    pub remote: SocketAddr,
    /// The congestion window, bytes.
    pub cwnd: u64,
    /// The pacing rate, bytes/s; 0 when the window alone governs.
    pub rate: u64,
    /// Smoothed RTT, µs; 0 before the first sample.
    pub srtt_us: u64,
    /// Bytes acknowledged since the connection began: its change over time is the
    /// delivery rate. At most a quarter of an RTT old, as `srtt_us`.
    pub bytes_acked: u64,
    /// The program that runs; empty before the first.
    pub program: String,
    /// What it is doing.
    pub state: FlowState,
    /// µs since it came under this congestion control.
    pub age_us: u64,
    /// What it shares a controller with (CCP §6.3), if it does.
    pub aggregate: Option<AggregateView>,
}

/// An aggregate, as one of its flows tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AggregateView {
    /// Which one of its plane and algorithm. Given out again when the aggregate has ended.
    pub number: u32,
    /// What its flows have in common: `to 10.0.0.2`. Ends in `…` where it was too long.
    pub key: String,
}

/// Every plane on this machine with its flows, by name and process.
///
/// Planes that cannot be read (they may be ending) are left out; without the right to list BPF
/// programs the list is empty.
#[must_use]
pub fn planes() -> Vec<PlaneView> {
    // Through a program that uses the page, never by opening every map there is: opening and
    // closing a program array as its owner ends can leave it in the kernel for good (seen on
    // Linux 6.18), and `fw_init` uses none.
    let options = ProgInfoQueryOptions::default().include_map_ids(true);
    let mut views: Vec<PlaneView> = ProgInfoIter::with_query_opts(options)
        .filter(|program| program.name.as_encoded_bytes() == INIT_PROGRAM)
        .flat_map(|program| program.map_ids)
        .filter_map(view)
        .collect();
    views.sort_by(|a, b| (&a.name, a.pid).cmp(&(&b.name, b.pid)));
    views
}

fn view(map: u32) -> Option<PlaneView> {
    let map = MapHandle::from_map_id(map)
        .ok()
        .filter(|m| m.name() == PLANE_MAP)?;
    let page = PlanePage(Shared::read_only(map.as_fd(), PLANE_PAGE).ok()?);
    let now = now_us();
    let silent = now.saturating_sub(page.heartbeat_us().load(Relaxed)) > page.silent_after_us();
    Some(PlaneView {
        name: page.name(),
        pid: page.pid(),
        alive: !silent && process_lives(page.pid()),
        without_slot: page.without_slot(),
        fallbacks: page.fallbacks(),
        flows: flows(&page, now).unwrap_or_default(),
    })
}

fn flows(page: &PlanePage, now: u64) -> Option<Vec<FlowView>> {
    let map = MapHandle::from_map_id(page.frames_id().load(Relaxed)).ok()?;
    let size = usize::try_from(page.frame_size()).ok()?;
    let used = usize::try_from(page.slots_used()).ok()?;
    if used == 0 {
        return Some(Vec::new());
    }
    let frames = Frames::new(Shared::read_only(map.as_fd(), size * used).ok()?, size);
    let view = |slot| {
        let frame = frames.get(slot)?;
        let state = frame.state()?;
        let (local, remote) = frame.addresses();
        Some(FlowView {
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
                .map(|(number, key)| AggregateView { number, key }),
        })
    };
    Some((0..page.slots_used()).filter_map(view).collect())
}

fn process_lives(pid: u32) -> bool {
    std::path::Path::new("/proc").join(pid.to_string()).exists()
}

/// Who holds a congestion control's name, as a clause: "process 4242 (fairwater)".
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
        None => "another module or BPF object of the kernel's".to_owned(),
    }
}
