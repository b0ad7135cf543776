//! Typed access to a flow's frame, which the kernel side shares (`bpf/flow.h`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU32, AtomicU64, fence};

use fairwater_exec::frame;
use fairwater_plane::{FlowId, FlowInfo};

use crate::layout::{self, flow_state};
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
pub struct Frames {
    memory: Shared,
    frame_size: usize,
}

impl Frames {
    /// These frames, of so many bytes each.
    pub fn new(memory: Shared, frame_size: usize) -> Self {
        Self { memory, frame_size }
    }

    /// Frame of a slot; `None` past the end.
    pub fn get(&self, slot: u32) -> Option<Frame<'_>> {
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
pub struct Frame<'m> {
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
    pub fn state(self) -> Option<FlowState> {
        FlowState::from_raw(self.u32(layout::frame::STATE).load(Acquire))
    }

    /// The flow, as the datapath knows it.
    #[must_use]
    pub fn flow(self) -> FlowId {
        FlowId {
            slot: self.u32(layout::frame::SLOT).load(Relaxed),
            generation: self.generation(),
        }
    }

    /// Gives the flow a part of the windows of its group, found when its own window was `of`, both in bytes;
    /// `None` leaves it its own. Datapaths that divide no windows ignore it.
    pub fn set_part(self, part: Option<(u64, u64)>) {
        let (part, of) = part.unwrap_or_default();
        self.u64(layout::frame::PART_OF).store(of, Relaxed);
        self.u64(layout::frame::PART).store(part, Relaxed);
    }

    /// Generation of the slot: flows of a slot differ in it.
    pub fn generation(self) -> u32 {
        self.u32(layout::frame::GENERATION).load(Relaxed)
    }

    pub(crate) fn stage_generation(self) -> &'m AtomicU32 {
        self.u32(layout::frame::STAGE_GENERATION)
    }

    /// The program that runs, by index; all ones before the first.
    pub fn program(self) -> u32 {
        self.u32(layout::frame::PROGRAM).load(Relaxed)
    }

    /// Index of the flow's algorithm among those that are registered.
    pub fn algorithm(self) -> usize {
        let word = self.u32(layout::frame::FAMILY).load(Relaxed);
        (word >> 16) as usize
    }

    /// The flow has another algorithm from now on.
    pub fn set_algorithm(self, place: usize) {
        let word = self.u32(layout::frame::FAMILY);
        let family = word.load(Relaxed) & 0xffff;
        // There are at most `MAX_ALGORITHMS`.
        let place = u32::try_from(place).unwrap_or(0);
        word.store(place << 16 | family, Relaxed);
    }

    /// Slow-start threshold, bytes; `None` before the first loss.
    pub fn ssthresh(self) -> Option<u64> {
        let bytes = self.u64(layout::frame::SSTHRESH).load(Relaxed);
        Some(bytes).filter(|bytes| *bytes != u64::MAX)
    }

    /// Times that the flow went under the fallback because the plane was silent.
    pub fn fallbacks(self) -> u32 {
        self.u32(layout::frame::FALLBACKS).load(Relaxed)
    }

    pub(crate) fn fault(self) -> &'m AtomicU32 {
        self.u32(frame::FAULT as usize)
    }

    /// Bytes acknowledged since the flow began; at most a quarter of an RTT old.
    pub fn bytes_acked(self) -> u64 {
        self.u64(layout::frame::BYTES_ACKED).load(Relaxed)
    }

    /// Packets retransmitted since the connection began.
    pub fn retransmitted(self) -> u64 {
        u64::from(self.u32(layout::frame::RETRANSMITTED).load(Relaxed))
    }

    /// The latest RTT sample, µs.
    pub fn rtt_us(self) -> u64 {
        u64::from(self.u32(layout::frame::RTT_US).load(Relaxed))
    }

    /// Id of the cgroup of the flow's socket; 0 is none.
    pub fn cgroup(self) -> u64 {
        self.u64(layout::frame::CGROUP).load(Relaxed)
    }

    /// Maximum segment size, bytes of payload: the kernel's at the flow's last invocation.
    pub fn mss(self) -> u32 {
        self.u32(layout::frame::MSS).load(Relaxed)
    }

    /// `SO_MARK` of the flow's socket.
    pub fn mark(self) -> u32 {
        self.u32(layout::frame::MARK).load(Relaxed)
    }

    /// When the flow began, µs of the datapath's clock.
    pub fn born_us(self) -> u64 {
        self.u64(layout::frame::BORN_US).load(Relaxed)
    }

    /// Smoothed RTT, µs; 0 before the first sample.
    pub fn srtt_us(self) -> u64 {
        u64::from(self.u32(layout::frame::SRTT_US).load(Relaxed))
    }

    /// The congestion window, bytes.
    pub fn cwnd(self) -> u64 {
        self.u64(frame::CWND as usize).load(Relaxed)
    }

    /// The pacing rate, bytes/s; 0 for none.
    pub fn rate(self) -> u64 {
        self.u64(frame::RATE as usize).load(Relaxed)
    }

    /// Publishes the flow's aggregate: the plane's number and the key as text.
    pub fn set_aggregate(self, aggregate: Option<(u32, &str)>) {
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
    pub fn aggregate(self) -> Option<(u32, String)> {
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
    pub fn addresses(self) -> (SocketAddr, SocketAddr) {
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
    pub fn info(self, now_us: u64) -> FlowInfo {
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
