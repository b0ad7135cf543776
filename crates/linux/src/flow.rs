//! Typed access to a flow's frame and to the plane's page, which the kernel side shares
//! (`bpf/flow.h`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};

use fairwater_exec::frame;
use fairwater_plane::FlowInfo;

use crate::layout::{self, MAX_ALGORITHMS, MAX_PROGRAMS, flow_state, plane};
use crate::shared::Shared;

/// Who controls a flow now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FlowState {
    /// The fallback, until the plane has chosen a program.
    Starting,
    /// Its algorithm's program runs.
    Running,
    /// The fallback: the plane is gone or silent.
    Fallback,
    /// The fallback for good: its program or its algorithm failed.
    Faulted,
}

impl FlowState {
    const fn from_raw(raw: u32) -> Option<Self> {
        match raw {
            flow_state::STARTING => Some(Self::Starting),
            flow_state::RUNNING => Some(Self::Running),
            flow_state::FALLBACK => Some(Self::Fallback),
            flow_state::FAULTED => Some(Self::Faulted),
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

    /// Frame of a slot; `None` past the end.
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

impl<'m> Frame<'m> {
    pub(crate) fn u32(self, offset: usize) -> &'m AtomicU32 {
        self.memory.u32(self.base + offset)
    }

    pub(crate) fn u64(self, offset: usize) -> &'m AtomicU64 {
        self.memory.u64(self.base + offset)
    }

    /// `None` when no flow has the slot.
    pub(crate) fn state(self) -> Option<FlowState> {
        FlowState::from_raw(self.u32(layout::frame::STATE).load(Acquire))
    }

    pub(crate) fn generation(self) -> u32 {
        self.u32(layout::frame::GENERATION).load(Relaxed)
    }

    pub(crate) fn stage_generation(self) -> &'m AtomicU32 {
        self.u32(layout::frame::STAGE_GENERATION)
    }

    /// The program that runs, by index; [`NO_PROGRAM`] before the first.
    pub(crate) fn program(self) -> u32 {
        self.u32(layout::frame::PROGRAM).load(Relaxed)
    }

    /// Index of the flow's algorithm among those that are registered.
    pub(crate) fn algorithm(self) -> usize {
        let word = self.u32(layout::frame::FAMILY).load(Relaxed);
        (word >> 16) as usize
    }

    /// The flow has another algorithm from now on.
    pub(crate) fn set_algorithm(self, place: usize) {
        let word = self.u32(layout::frame::FAMILY);
        let family = word.load(Relaxed) & 0xffff;
        // There are at most `MAX_ALGORITHMS`.
        let place = u32::try_from(place).unwrap_or(0);
        word.store(place << 16 | family, Relaxed);
    }

    /// Slow-start threshold, bytes; `None` before the first loss.
    pub(crate) fn ssthresh(self) -> Option<u64> {
        let bytes = self.u64(layout::frame::SSTHRESH).load(Relaxed);
        Some(bytes).filter(|bytes| *bytes != u64::MAX)
    }

    pub(crate) fn fallbacks(self) -> u32 {
        self.u32(layout::frame::FALLBACKS).load(Relaxed)
    }

    pub(crate) fn fault(self) -> &'m AtomicU32 {
        self.u32(frame::FAULT as usize)
    }

    pub(crate) fn bytes_acked(self) -> u64 {
        self.u64(layout::frame::BYTES_ACKED).load(Relaxed)
    }

    /// Packets retransmitted since the connection began.
    pub(crate) fn retransmitted(self) -> u64 {
        u64::from(self.u32(layout::frame::RETRANSMITTED).load(Relaxed))
    }

    /// The latest RTT sample, µs.
    pub(crate) fn rtt_us(self) -> u64 {
        u64::from(self.u32(layout::frame::RTT_US).load(Relaxed))
    }

    /// Id of the cgroup of the flow's socket; 0 is none.
    pub(crate) fn cgroup(self) -> u64 {
        self.u64(layout::frame::CGROUP).load(Relaxed)
    }

    /// Maximum segment size, bytes of payload: the kernel's at the flow's last invocation.
    pub(crate) fn mss(self) -> u32 {
        self.u32(layout::frame::MSS).load(Relaxed)
    }

    /// `SO_MARK` of the flow's socket.
    pub(crate) fn mark(self) -> u32 {
        self.u32(layout::frame::MARK).load(Relaxed)
    }

    pub(crate) fn born_us(self) -> u64 {
        self.u64(layout::frame::BORN_US).load(Relaxed)
    }

    pub(crate) fn srtt_us(self) -> u64 {
        u64::from(self.u32(layout::frame::SRTT_US).load(Relaxed))
    }

    pub(crate) fn cwnd(self) -> u64 {
        self.u64(frame::CWND as usize).load(Relaxed)
    }

    pub(crate) fn rate(self) -> u64 {
        self.u64(frame::RATE as usize).load(Relaxed)
    }

    /// Publishes the flow's aggregate: the plane's number and the key as text.
    pub(crate) fn set_aggregate(self, aggregate: Option<(u32, &str)>) {
        // No aggregate while the key is being written.
        self.u32(layout::frame::AGGREGATE).store(0, Relaxed);
        fence(Release);
        let Some((number, key)) = aggregate else {
            return;
        };
        let mut bytes = key_text(key).into_bytes();
        bytes.resize(layout::frame::KEY_BYTES, 0);
        let (words, _) = bytes.as_chunks::<4>();
        for (at, word) in (layout::frame::AGGREGATE_KEY..).step_by(4).zip(words) {
            self.u32(at).store(u32::from_ne_bytes(*word), Relaxed);
        }
        self.u32(layout::frame::AGGREGATE)
            .store(number.saturating_add(1), Release);
    }

    /// The plane's number of the flow's aggregate, and the key as text.
    pub(crate) fn aggregate(self) -> Option<(u32, String)> {
        let number = self
            .u32(layout::frame::AGGREGATE)
            .load(Acquire)
            .checked_sub(1)?;
        let key = self
            .memory
            .name::<{ layout::frame::KEY_BYTES / 4 }>(self.base + layout::frame::AGGREGATE_KEY);
        fence(Acquire);
        let still = self
            .u32(layout::frame::AGGREGATE)
            .load(Relaxed)
            .checked_sub(1);
        (still == Some(number)).then_some((number, key))
    }

    fn address(self, offset: usize, port: u16) -> SocketAddr {
        let words = self.memory.words::<4>(self.base + offset);
        let ip = if self.u32(layout::frame::FAMILY).load(Relaxed) & 0xffff
            == libc::AF_INET6.cast_unsigned()
        {
            let mut bytes = [0; 16];
            for (four, word) in bytes.chunks_exact_mut(4).zip(words) {
                four.copy_from_slice(&word.to_ne_bytes());
            }
            // IPv4 peers of a dual-stack listener appear as ::ffff:a.b.c.d.
            IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical()
        } else {
            IpAddr::V4(Ipv4Addr::from(words[0].to_ne_bytes()))
        };
        SocketAddr::new(ip, port)
    }

    /// Local and remote address.
    pub(crate) fn addresses(self) -> (SocketAddr, SocketAddr) {
        let [a, b, c, d] = self
            .u32(layout::frame::LOCAL_PORT)
            .load(Relaxed)
            .to_ne_bytes();
        let (local, remote) = (u16::from_ne_bytes([a, b]), u16::from_ne_bytes([c, d]));
        (
            self.address(layout::frame::LOCAL, local),
            self.address(layout::frame::REMOTE, remote),
        )
    }

    /// Description of the flow for a new or resumed algorithm.
    pub(crate) fn info(self, now_us: u64) -> FlowInfo {
        let (local, remote) = self.addresses();
        FlowInfo {
            local,
            remote,
            mss: self.mss(),
            cwnd: self.cwnd(),
            rate: self.rate(),
            ssthresh: self.ssthresh(),
            srtt_us: self.srtt_us(),
            now_us,
            tag: self.mark(),
        }
    }
}

/// A key as text for a terminal: cut to fit, without control characters.
fn key_text(key: &str) -> String {
    const CUT: char = '…';
    let printed = |c: char| {
        if c.is_control() {
            char::REPLACEMENT_CHARACTER
        } else {
            c
        }
    };
    let mut text: String = key.chars().map(printed).collect();
    if text.len() > layout::frame::KEY_BYTES {
        text.truncate(text.floor_char_boundary(layout::frame::KEY_BYTES - CUT.len_utf8()));
        text.push(CUT);
    }
    text
}

/// The page that a plane shares with the kernel side: `struct plane` of `bpf/flow.h`.
#[derive(Debug)]
pub(crate) struct PlanePage(pub(crate) Shared);

impl PlanePage {
    pub(crate) fn heartbeat_us(&self) -> &AtomicU64 {
        self.0.u64(plane::HEARTBEAT_US)
    }

    pub(crate) fn wakeups_until_us(&self) -> u64 {
        self.0.u64(plane::WAKEUPS_UNTIL_US).load(Relaxed)
    }

    pub(crate) fn silent_after_us(&self) -> u64 {
        self.0.u64(plane::SILENT_AFTER_US).load(Relaxed)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.u32(plane::PID).load(Relaxed)
    }

    pub(crate) fn frame_size(&self) -> u32 {
        self.0.u32(plane::FRAME_SIZE).load(Relaxed)
    }

    pub(crate) fn max_flows(&self) -> u32 {
        self.0.u32(plane::MAX_FLOWS).load(Relaxed)
    }

    /// Slots from here on were never given out.
    pub(crate) fn slots_used(&self) -> u32 {
        self.0
            .u32(plane::NEXT_SLOT)
            .load(Relaxed)
            .min(self.max_flows())
    }

    pub(crate) fn without_slot(&self) -> u32 {
        self.0.u32(plane::NO_SLOT).load(Relaxed)
    }

    pub(crate) fn lost_events(&self) -> u32 {
        self.0.u32(plane::LOST_EVENTS).load(Relaxed)
    }

    pub(crate) fn fallbacks(&self) -> u32 {
        self.0.u32(plane::FALLBACKS).load(Relaxed)
    }

    pub(crate) fn frames_id(&self) -> &AtomicU32 {
        self.0.u32(plane::FRAMES_ID)
    }

    /// Names of the congestion controls, by algorithm.
    pub(crate) fn algorithms(&self) -> Vec<String> {
        (0..MAX_ALGORITHMS)
            .map(|place| plane::ALGORITHMS + plane::NAME_BYTES * place)
            .map(|at| self.0.name::<{ plane::NAME_BYTES / 4 }>(at))
            .take_while(|name| !name.is_empty())
            .collect()
    }

    /// Writes the name of the congestion control of the algorithm at that place.
    pub(crate) fn set_algorithm(&self, place: usize, name: &str) {
        let mut bytes = [0; plane::NAME_BYTES];
        let length = name.len().min(plane::NAME_BYTES - 1);
        bytes[..length].copy_from_slice(&name.as_bytes()[..length]);
        let at = plane::ALGORITHMS + plane::NAME_BYTES * place;
        for (at, word) in (at..).step_by(4).zip(bytes.as_chunks::<4>().0) {
            self.0.u32(at).store(u32::from_ne_bytes(*word), Relaxed);
        }
    }

    /// The name of the program of that index; empty when there is none.
    pub(crate) fn program_name(&self, index: u32) -> String {
        match usize::try_from(index) {
            Ok(index) if index < MAX_PROGRAMS => {
                let at = plane::PROGRAMS + plane::PROGRAM_NAME_BYTES * index;
                self.0.name::<{ plane::PROGRAM_NAME_BYTES / 4 }>(at)
            }
            _ => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_key_that_fits_is_whole_and_a_longer_key_ends_in_an_ellipsis() {
        let whole = "to 2001:db8:1111:2222:3333:4444:5555:6666/128";
        assert_eq!(key_text(whole), whole);
        let long = "é".repeat(40);
        assert_eq!(key_text(&long), "é".repeat(26) + "…");
    }

    proptest! {
        #[test]
        fn any_key_fits_and_moves_no_cursor(key in any::<String>()) {
            let text = key_text(&key);
            prop_assert!(text.len() <= layout::frame::KEY_BYTES);
            prop_assert!(!text.chars().any(char::is_control), "{text:?}");
        }
    }
}
