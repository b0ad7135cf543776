//! The datapath's own parts of a flow's frame, and the plane's page: the Rust side of
//! `bpf/flow.h`. The rest of a frame is [`fairwater_exec::frame`]'s.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};

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
const AGGREGATE: usize = 324;
const AGGREGATE_KEY: usize = 328;
/// Bytes of a key's words.
const KEY_BYTES: usize = 56;
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

    /// Says of which aggregate the flow is, by the plane's number and in words.
    pub(crate) fn set_aggregate(self, aggregate: Option<(u32, &str)>) {
        // None while the words change.
        self.u32(AGGREGATE).store(0, Relaxed);
        fence(Release);
        let Some((number, key)) = aggregate else {
            return;
        };
        let mut bytes = key_words(key).into_bytes();
        bytes.resize(KEY_BYTES, 0);
        let (words, _) = bytes.as_chunks::<4>();
        for (at, word) in (AGGREGATE_KEY..).step_by(4).zip(words) {
            self.u32(at).store(u32::from_ne_bytes(*word), Relaxed);
        }
        self.u32(AGGREGATE).store(number.saturating_add(1), Release);
    }

    /// The plane's number of the flow's aggregate, and its key in words.
    pub(crate) fn aggregate(self) -> Option<(u32, String)> {
        let number = self.u32(AGGREGATE).load(Acquire).checked_sub(1)?;
        let key = self
            .memory
            .name::<{ KEY_BYTES / 4 }>(self.base + AGGREGATE_KEY);
        fence(Acquire);
        let still = self.u32(AGGREGATE).load(Relaxed).checked_sub(1);
        (still == Some(number)).then_some((number, key))
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

/// A key as there is room for it: one that is too long is cut, and nothing in it moves a cursor.
fn key_words(key: &str) -> String {
    const CUT: char = '…';
    let printed = |c: char| {
        if c.is_control() {
            char::REPLACEMENT_CHARACTER
        } else {
            c
        }
    };
    let mut words: String = key.chars().map(printed).collect();
    if words.len() > KEY_BYTES {
        words.truncate(words.floor_char_boundary(KEY_BYTES - CUT.len_utf8()));
        words.push(CUT);
    }
    words
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_that_fits_is_whole_and_a_longer_one_is_seen_to_be_cut() {
        let whole = "to 2001:db8:1111:2222:3333:4444:5555:6666/128";
        assert_eq!(key_words(whole), whole);
        let long = "é".repeat(40);
        assert_eq!(key_words(&long), "é".repeat(26) + "…");
    }

    proptest! {
        #[test]
        fn any_key_fits_and_moves_no_cursor(key in any::<String>()) {
            let words = key_words(&key);
            prop_assert!(words.len() <= KEY_BYTES);
            prop_assert!(!words.chars().any(char::is_control), "{words:?}");
        }
    }
}
