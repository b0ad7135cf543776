//! The datapath's own parts of a flow's frame, and the plane's page: the Rust side of
//! `bpf/flow.h`. The rest of a frame is [`fairwater_exec::frame`]'s.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicU32, AtomicU64};

use fairwater_exec::frame;
use fairwater_plane::FlowInfo;

use crate::shared::Shared;

/// `program` of a flow that has none yet.
pub(crate) const NO_PROGRAM: u32 = u32::MAX;
/// `fw_on_ack` and `fw_on_timeout` hold this many programs.
pub(crate) const MAX_PROGRAMS: usize = 64;

pub(crate) const EVENT_CREATED: u32 = 1;
pub(crate) const EVENT_REPORT: u32 = 2;
pub(crate) const EVENT_CLOSED: u32 = 3;
pub(crate) const EVENT_FAULT: u32 = 4;

/// What a flow is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FlowState {
    /// In-kernel Reno, until the plane has chosen a program.
    Starting,
    /// Its algorithm's program runs.
    Running,
    /// In-kernel Reno: the plane is gone or silent.
    Fallback,
    /// In-kernel Reno for good: its program or its algorithm failed.
    Faulted,
}

impl FlowState {
    const fn from_raw(raw: u32) -> Option<Self> {
        match raw {
            1 => Some(Self::Starting),
            2 => Some(Self::Running),
            3 => Some(Self::Fallback),
            4 => Some(Self::Faulted),
            _ => None,
        }
    }

    /// One word for tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Fallback => "fallback",
            Self::Faulted => "faulted",
        }
    }
}

/// The frames of one algorithm's flows, by slot.
#[derive(Debug)]
pub(crate) struct Frames {
    memory: Shared,
    frame_size: usize,
}

impl Frames {
    pub(crate) fn new(memory: Shared, frame_size: usize) -> Self {
        Self { memory, frame_size }
    }

    /// The frame of that slot, or `None` past the end.
    pub(crate) fn get(&self, slot: u32) -> Option<Frame<'_>> {
        let base = usize::try_from(slot).ok()?.checked_mul(self.frame_size)?;
        let end = base.checked_add(self.frame_size)?;
        (end <= self.memory.len()).then_some(Frame {
            memory: &self.memory,
            base,
        })
    }
}

/// One flow's frame.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Frame<'m> {
    memory: &'m Shared,
    base: usize,
}

const LOCAL: usize = 256;
const REMOTE: usize = 272;
const PORTS: usize = 288;
const FAMILY: usize = 292;
const STATE: usize = 56;
const FALLBACKS: usize = 296;
const BYTES_ACKED: usize = 304;
const BORN_US: usize = 312;
const SRTT_US: usize = 300;
const MARK: usize = 320;
const PROGRAM: usize = 44;
const MSS: usize = 52;
const GENERATION: usize = frame::REPORT as usize + 8;
/// The tenant that the stage is for.
const STAGE_GENERATION: usize = frame::STAGE as usize + 32;
const AF_INET6: u32 = 10;

impl<'m> Frame<'m> {
    pub(crate) fn u32(self, offset: usize) -> &'m AtomicU32 {
        self.memory.u32(self.base + offset)
    }

    pub(crate) fn u64(self, offset: usize) -> &'m AtomicU64 {
        self.memory.u64(self.base + offset)
    }

    /// `None` when no flow has the slot.
    pub(crate) fn state(self) -> Option<FlowState> {
        FlowState::from_raw(self.u32(STATE).load(Acquire))
    }

    pub(crate) fn generation(self) -> u32 {
        self.u32(GENERATION).load(Relaxed)
    }

    pub(crate) fn stage_generation(self) -> &'m AtomicU32 {
        self.u32(STAGE_GENERATION)
    }

    /// The program that runs, by index; [`NO_PROGRAM`] before the first.
    pub(crate) fn program(self) -> u32 {
        self.u32(PROGRAM).load(Relaxed)
    }

    pub(crate) fn fallbacks(self) -> u32 {
        self.u32(FALLBACKS).load(Relaxed)
    }

    pub(crate) fn fault(self) -> &'m AtomicU32 {
        self.u32(frame::FAULT as usize)
    }

    pub(crate) fn bytes_acked(self) -> u64 {
        self.u64(BYTES_ACKED).load(Relaxed)
    }

    pub(crate) fn born_us(self) -> u64 {
        self.u64(BORN_US).load(Relaxed)
    }

    pub(crate) fn srtt_us(self) -> u64 {
        u64::from(self.u32(SRTT_US).load(Relaxed))
    }

    pub(crate) fn cwnd(self) -> u64 {
        self.u64(frame::CWND as usize).load(Relaxed)
    }

    pub(crate) fn rate(self) -> u64 {
        self.u64(frame::RATE as usize).load(Relaxed)
    }

    fn address(self, offset: usize, port: u16) -> SocketAddr {
        let words = self.memory.words::<4>(self.base + offset);
        let ip = if self.u32(FAMILY).load(Relaxed) & 0xffff == AF_INET6 {
            let mut bytes = [0; 16];
            for (four, word) in bytes.chunks_exact_mut(4).zip(words) {
                four.copy_from_slice(&word.to_ne_bytes());
            }
            // A dual-stack listener's IPv4 peers look like ::ffff:a.b.c.d; show what they are.
            IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
        } else {
            IpAddr::V4(Ipv4Addr::from(words[0].to_ne_bytes()))
        };
        SocketAddr::new(ip, port)
    }

    /// Local and remote address.
    pub(crate) fn addresses(self) -> (SocketAddr, SocketAddr) {
        let [a, b, c, d] = self.u32(PORTS).load(Relaxed).to_ne_bytes();
        let (local, remote) = (u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d]));
        (self.address(LOCAL, local), self.address(REMOTE, remote))
    }

    /// What a new or resumed algorithm is told of the flow.
    pub(crate) fn info(self, now_us: u64) -> FlowInfo {
        let (local, remote) = self.addresses();
        FlowInfo {
            local,
            remote,
            mss: self.u32(MSS).load(Relaxed),
            cwnd: self.cwnd(),
            srtt_us: self.srtt_us(),
            now_us,
            tag: self.u32(MARK).load(Relaxed),
        }
    }
}

/// The page that a plane shares: `struct plane` of `bpf/flow.h`.
#[derive(Debug)]
pub(crate) struct PlanePage(pub(crate) Shared);

/// Offset of `woken_us`.
pub(crate) const WOKEN_US: u32 = 16;

/// Bytes of `struct plane`, rounded up to a page.
pub(crate) const PLANE_PAGE: usize = 4096;

impl PlanePage {
    pub(crate) fn heartbeat_us(&self) -> &AtomicU64 {
        self.0.u64(0)
    }

    pub(crate) fn silent_after_us(&self) -> u64 {
        self.0.u64(8).load(Relaxed)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.u32(24).load(Relaxed)
    }

    pub(crate) fn frame_size(&self) -> u32 {
        self.0.u32(28).load(Relaxed)
    }

    pub(crate) fn max_flows(&self) -> u32 {
        self.0.u32(32).load(Relaxed)
    }

    /// Slots from here on were never given out.
    pub(crate) fn slots_used(&self) -> u32 {
        self.0.u32(36).load(Relaxed).min(self.max_flows())
    }

    pub(crate) fn without_slot(&self) -> u32 {
        self.0.u32(40).load(Relaxed)
    }

    pub(crate) fn lost_events(&self) -> u32 {
        self.0.u32(44).load(Relaxed)
    }

    pub(crate) fn fallbacks(&self) -> u32 {
        self.0.u32(48).load(Relaxed)
    }

    pub(crate) fn frames_id(&self) -> &AtomicU32 {
        self.0.u32(52)
    }

    /// The congestion control's name.
    pub(crate) fn name(&self) -> String {
        self.0.name::<4>(56)
    }

    /// The name of the program of that index; empty when there is none.
    pub(crate) fn program_name(&self, index: u32) -> String {
        match usize::try_from(index) {
            Ok(i) if i < MAX_PROGRAMS => self.0.name::<8>(72 + 32 * i),
            _ => String::new(),
        }
    }
}
