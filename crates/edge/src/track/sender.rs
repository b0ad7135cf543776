//! What a guest has in flight, from the packets that pass.

use std::time::Duration;

use fairwater_lang::{Signal, Signals};
use fairwater_net::Time;
use fairwater_wire::{AccEcn, Seq, TcpFlags};

use super::ranges::Ranges;
use super::rtt::Rtt;
use super::samples::Samples;
use super::{EcnMode, SenderConfig};
use crate::Segment;

/// Duplicate ACKs that tell of a loss (RFC 5681 §3.2), and segments SACKed above one (RFC 6675 §3).
const DUP_THRESH: u32 = 3;

/// What a packet from the guest turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sent {
    /// Nothing that takes sequence numbers, or only such as were acknowledged before.
    Nothing,
    /// Some data that was not sent before.
    New,
    /// Data that was sent before.
    Again,
    /// The data at una, sent again after a silence: the guest's timer has expired.
    AfterTimeout,
}

/// What an ACK turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acked {
    /// It acknowledges what was never sent (RFC 9293 §3.10.7.4).
    Beyond,
    /// It is older than another.
    Old,
    /// It acknowledges new data.
    New,
    /// It is a duplicate (RFC 5681 §2), or brings new selective acknowledgements alone.
    Duplicate,
    /// Nothing of the above: a window update, data of the peer.
    Same,
}

/// What happened since the last invocation: bytes, or packets.
#[derive(Debug, Clone, Copy, Default)]
struct SinceLast {
    acked: u64,
    acked_packets: u64,
    sacked: u64,
    lost: u64,
    marked_bytes: u64,
    marked_packets: u64,
}

/// The data that a guest has in flight, and the signals that follow from it.
#[derive(Debug, Clone)]
pub struct Sender {
    config: SenderConfig,
    una: Seq,
    nxt: Seq,
    /// Selectively acknowledged, above una.
    sacked: Ranges,
    /// Sent again, above una.
    resent: Ranges,
    /// All below that is not in `sacked` is lost.
    lost_edge: Seq,
    /// Duplicate ACKs since una moved, without SACK.
    duplicates: u32,
    /// nxt when the last loss was found; recovery lasts until una is there.
    recover: Option<Seq>,
    /// When the guest's retransmission timer was set last.
    timer_at: Time,
    /// Whether the last data came without PSH: the guest has more.
    has_more: bool,
    /// What the last new data left of the window that the guest was told, bytes.
    room: u32,
    rtt: Rtt,
    samples: Samples,
    /// The ACE field and the count of marked bytes that came last.
    ace: u8,
    ce_bytes: Option<u32>,
    since_last: SinceLast,
    /// Signals that last: RTT, rates, app-limited.
    signals: Signals,
}

impl Sender {
    /// Of a guest whose first byte of data is `first`; `nxt` is beyond it where data came with the SYN.
    #[must_use]
    pub fn new(config: SenderConfig, first: Seq, nxt: Seq, now: Time) -> Self {
        Self {
            config: SenderConfig {
                mss: config.mss.max(1),
                ..config
            },
            una: first,
            nxt: nxt.max(first),
            sacked: Ranges::default(),
            resent: Ranges::default(),
            lost_edge: first,
            duplicates: 0,
            recover: None,
            timer_at: now,
            has_more: false,
            room: 0,
            rtt: Rtt::default(),
            samples: Samples::new(now),
            // RFC 9768 §3.2.1: r.cep begins at 5.
            ace: 5,
            ce_bytes: None,
            since_last: SinceLast::default(),
            signals: Signals::default(),
        }
    }

    /// The first byte that is not acknowledged.
    #[must_use]
    pub const fn una(&self) -> Seq {
        self.una
    }

    /// The byte after the last that was sent.
    #[must_use]
    pub const fn nxt(&self) -> Seq {
        self.nxt
    }

    /// Maximum segment size, bytes of payload.
    #[must_use]
    pub const fn mss(&self) -> u32 {
        self.config.mss
    }

    /// ECN between the box and the peer.
    #[must_use]
    pub const fn ecn(&self) -> EcnMode {
        self.config.ecn
    }

    /// Whether the peer acknowledges selectively.
    #[must_use]
    pub const fn has_sack(&self) -> bool {
        self.config.sack
    }

    /// Smoothed RTT between the box and the peer, µs; 0 before the first sample.
    #[must_use]
    pub const fn srtt_us(&self) -> u64 {
        self.rtt.srtt() / 1_000
    }

    /// Least RTT between the box and the peer, µs; 0 before the first sample.
    #[must_use]
    pub const fn min_rtt_us(&self) -> u64 {
        self.rtt.min() / 1_000
    }

    /// Bytes sent and neither acknowledged nor lost (RFC 6675 §4, pipe).
    #[must_use]
    pub fn in_flight(&self) -> u32 {
        let out = self.nxt.bytes_since(self.una);
        let resent = self.resent.as_slice().iter().map(|range| {
            let length = range.end.bytes_since(range.start);
            length - self.sacked.overlap(range.start, range.end).min(length)
        });
        let arrived = if self.config.sack {
            self.sacked.total()
        } else {
            self.duplicate_bytes()
        };
        let gone = arrived.saturating_add(self.lost_bytes());
        out.saturating_sub(gone).saturating_add(resent.sum())
    }

    /// Whether an episode of loss goes on.
    #[must_use]
    pub const fn is_in_recovery(&self) -> bool {
        self.recover.is_some()
    }

    /// A packet from the guest passes. `edge` is the right edge of the window that the guest was told.
    pub fn on_sent(&mut self, now: Time, segment: &Segment, edge: Seq) -> Sent {
        let (start, end) = (segment.seq, segment.end());
        if segment.length() == 0 || !end.is_after(self.una) {
            return Sent::Nothing;
        }
        let tsval = segment.options.timestamps.map(|(value, _)| value);
        let was_empty = self.nxt == self.una;
        let before = self.nxt;
        let mut sent = Sent::New;
        if start.is_before(before) {
            let again = end.min(before);
            sent = self.on_resent(now, start.max(self.una), again, tsval);
        }
        if end.is_after(before) {
            self.has_more = !segment.has(TcpFlags::PSH) && !segment.has(TcpFlags::FIN);
            let out = before.bytes_since(self.una);
            self.room = edge.bytes_since(end);
            let is_window_limited = self.room < self.config.mss;
            let app_limited = !self.has_more && !is_window_limited;
            self.samples.on_sent(now, end, out, tsval, app_limited);
            self.nxt = end;
        }
        if was_empty {
            self.timer_at = now;
        }
        sent
    }

    /// `[start, end)`, between una and nxt, was sent again.
    fn on_resent(&mut self, now: Time, start: Seq, end: Seq, tsval: Option<u32>) -> Sent {
        let is_head = start == self.una;
        let is_due = is_head
            && self.resent.overlap(start, start.plus(1)) == 0
            && self.lost_edge.is_after(start);
        let elapsed = now.since(self.timer_at);
        let mut sent = Sent::Again;
        if is_head && !is_due && elapsed >= self.rto() {
            // RFC 5681 §3.1, RFC 6675 §5.1: all that is out counts as lost.
            self.declare_lost(self.nxt);
            self.resent.clear();
            self.samples.clear();
            self.duplicates = 0;
            self.recover = Some(self.nxt);
            sent = Sent::AfterTimeout;
        } else if self
            .sacked
            .as_slice()
            .iter()
            .any(|range| !range.start.is_before(end))
        {
            // The guest takes for lost what later data has overtaken, by whatever rule it has.
            self.declare_lost(end);
        }
        if is_head {
            self.timer_at = now;
        }
        self.samples.on_resent(start, end, tsval);
        self.resent.insert(start, end);
        sent
    }

    fn rto(&self) -> Duration {
        self.rtt.rto()
    }

    /// An ACK from the peer passes. `has_same_window` says that its window is that of the ACK before.
    pub fn on_ack(&mut self, now: Time, segment: &Segment, has_same_window: bool) -> Acked {
        let ack = segment.ack;
        if ack.is_after(self.nxt) {
            return Acked::Beyond;
        }
        if ack.is_before(self.una) {
            return Acked::Old;
        }
        let out = self.nxt.bytes_since(self.una);
        let advanced = ack.bytes_since(self.una);
        let in_order = advanced - self.sacked.overlap(self.una, ack).min(advanced);
        let sacked = self.take_blocks(segment, ack);
        let is_duplicate = advanced == 0 && out > 0 && segment.length() == 0 && has_same_window;
        if advanced > 0 {
            self.advance(now, ack, advanced);
        } else if is_duplicate && !self.config.sack {
            self.duplicates += 1;
        }
        let was_lost = self.since_last.lost;
        self.find_losses(ack, advanced);
        let mut newly = in_order + sacked;
        if is_duplicate && !self.config.sack {
            newly += self.config.mss;
            self.since_last.sacked += u64::from(self.config.mss);
        }
        self.count_marks(segment, newly);
        let tsecr = segment.options.timestamps.map(|(_, echo)| echo);
        let sample = self.samples.on_ack(now, newly, tsecr, |last| {
            last.is_before(self.una) || self.sacked.overlap(last, last.plus(1)) > 0
        });
        if newly > 0 && Samples::has_stopped(self.room, out, self.config.mss) {
            self.samples.limit(self.nxt.bytes_since(self.una));
        }
        self.take_sample(&sample);
        self.since_last.acked += u64::from(advanced);
        self.since_last.acked_packets += u64::from(in_order.div_ceil(self.config.mss));
        self.since_last.sacked += u64::from(sacked);
        match () {
            () if advanced > 0 => Acked::New,
            () if is_duplicate || sacked > 0 || self.since_last.lost > was_lost => Acked::Duplicate,
            () => Acked::Same,
        }
    }

    fn advance(&mut self, now: Time, ack: Seq, advanced: u32) {
        self.una = ack;
        self.timer_at = now;
        self.sacked.trim_before(ack);
        self.resent.trim_before(ack);
        self.lost_edge = self.lost_edge.max(ack);
        // Without SACK: of the segments acknowledged, all but the first had come as duplicates.
        let segments = advanced.div_ceil(self.config.mss);
        self.duplicates = self.duplicates.saturating_sub(segments.saturating_sub(1));
        if self.recover.is_some_and(|recover| !ack.is_before(recover)) {
            self.recover = None;
            self.duplicates = 0;
        }
    }

    /// Takes the blocks that make sense; how many bytes are counts.
    fn take_blocks(&mut self, segment: &Segment, ack: Seq) -> u32 {
        if !self.config.sack {
            return 0;
        }
        let out = self.nxt.bytes_since(ack);
        let is_out = |seq: Seq| seq != ack && seq.is_within(ack, out);
        let blocks = segment.options.sack().iter();
        blocks
            // RFC 2883: what is below ack tells of a duplicate.
            .filter(|block| is_out(block.start) && is_out(block.end.minus(1)))
            .filter(|block| block.start.is_before(block.end))
            .map(|block| self.sacked.insert(block.start, block.end))
            .sum()
    }

    fn find_losses(&mut self, ack: Seq, advanced: u32) {
        if self.config.sack {
            // RFC 6675 §4, IsLost: more than (DupThresh - 1) segments SACKed above.
            let mut above = 0;
            let found = self.sacked.as_slice().iter().rev().find(|range| {
                above += range.end.bytes_since(range.start);
                above > (DUP_THRESH - 1) * self.config.mss
            });
            if let Some(range) = found {
                self.declare_lost(range.start);
            }
        } else if self.recover.is_none() && self.duplicates >= DUP_THRESH
            // RFC 6582 §3.2, step 3: the next hole.
            || self.recover.is_some() && advanced > 0
        {
            self.declare_lost(ack.plus(self.config.mss).min(self.nxt));
        }
    }

    /// All up to `edge` that was not acknowledged is lost.
    fn declare_lost(&mut self, edge: Seq) {
        let from = self.lost_edge.max(self.una);
        if !edge.is_after(from) {
            return;
        }
        let length = edge.bytes_since(from);
        let lost = length - self.sacked.overlap(from, edge).min(length);
        self.lost_edge = edge;
        self.since_last.lost += u64::from(lost.div_ceil(self.config.mss));
        if lost > 0 && self.recover.is_none() {
            self.recover = Some(self.nxt);
        }
    }

    /// Bytes lost above una.
    fn lost_bytes(&self) -> u32 {
        let length = self.lost_edge.bytes_since(self.una);
        length - self.sacked.overlap(self.una, self.lost_edge).min(length)
    }

    /// Without SACK: bytes that arrived, by the count of duplicates; never all that is out.
    fn duplicate_bytes(&self) -> u32 {
        let out = self.nxt.bytes_since(self.una.max(self.lost_edge));
        self.duplicates.saturating_mul(self.config.mss).min(out)
    }

    /// Marks that the ACK echoes: of all that it delivers where the echo says no more (as Linux takes
    /// it), else as many as are counted.
    fn count_marks(&mut self, segment: &Segment, newly: u32) {
        match self.config.ecn {
            EcnMode::Off => {}
            EcnMode::Classic => {
                if segment.has(TcpFlags::ECE) {
                    self.since_last.marked_bytes += u64::from(newly);
                    self.since_last.marked_packets += u64::from(newly.div_ceil(self.config.mss));
                }
            }
            EcnMode::Accurate => {
                // RFC 9768 §3.2.2: modulo 8. An ACK that delivers nothing may be an old one.
                if newly == 0 {
                    return;
                }
                let ace = segment.flags.ace();
                let packets = u32::from(ace.wrapping_sub(self.ace) & 0b111);
                self.ace = ace;
                let packets = packets.min(newly.div_ceil(self.config.mss));
                self.since_last.marked_packets += u64::from(packets);
                let counted = self.marked_bytes(segment.options.acc_ecn);
                let bytes = counted.unwrap_or(packets.saturating_mul(self.config.mss));
                self.since_last.marked_bytes += u64::from(bytes.min(newly));
            }
        }
    }

    /// Bytes that the option counts since it came last, modulo 2²⁴ (RFC 9768 §3.2.3).
    fn marked_bytes(&mut self, option: Option<AccEcn>) -> Option<u32> {
        let now = option?.ce_bytes?;
        let before = self.ce_bytes.replace(now).unwrap_or(0);
        Some(now.wrapping_sub(before) & 0x00ff_ffff)
    }

    fn take_sample(&mut self, sample: &super::samples::Sample) {
        if let Some(rtt) = sample.rtt_ns {
            self.rtt.on_sample(rtt);
            self.signals[Signal::RttSampleUs] = rtt / 1_000;
        }
        if let Some(app_limited) = sample.app_limited {
            self.signals[Signal::AppLimited] = app_limited.into();
        }
        let Some(rate) = sample.rate else {
            return;
        };
        // §3.3, GenerateRateSample: what took less than the least RTT is an artefact.
        if rate.send_ns.max(rate.ack_ns) < self.rtt.min() {
            return;
        }
        let mut set = |signal: Signal, bytes: u64, ns: u64| {
            if let Some(rate) = bytes.saturating_mul(1_000_000_000).checked_div(ns) {
                self.signals[signal] = rate;
            }
        };
        set(Signal::RateIncoming, rate.delivered, rate.ack_ns);
        set(Signal::RateOutgoing, rate.sent, rate.send_ns);
    }

    /// The signals of an invocation; what happened since the last one is in them once.
    pub fn take_signals(&mut self, now: Time, edge: Seq, is_timeout: bool) -> Signals {
        let counts = std::mem::take(&mut self.since_last);
        let mss = self.config.mss;
        let in_flight = self.in_flight();
        let is_window_limited = edge.bytes_since(self.nxt) < mss;
        let out = self.nxt.bytes_since(self.una);
        let has_stopped = Samples::has_stopped(self.room, out, mss);
        let mut signals = self.signals;
        for (signal, value) in [
            (Signal::BytesAcked, counts.acked),
            (Signal::PacketsAcked, counts.acked_packets),
            (Signal::BytesMisordered, counts.sacked),
            (
                Signal::PacketsMisordered,
                counts.sacked.div_ceil(u64::from(mss)),
            ),
            (Signal::EcnBytes, counts.marked_bytes),
            (Signal::EcnPackets, counts.marked_packets),
            (Signal::LostPkts, counts.lost),
            (Signal::BytesInFlight, u64::from(in_flight)),
            (Signal::PacketsInFlight, u64::from(in_flight.div_ceil(mss))),
            // Nobody sees a guest's send buffer: one segment at least waits if the window holds it back, or
            // if the last segment was not the end of a write and nothing shows that the guest holds itself back.
            (
                Signal::BytesPending,
                if is_window_limited || self.has_more && !has_stopped {
                    u64::from(mss)
                } else {
                    0
                },
            ),
            (Signal::WasTimeout, u64::from(is_timeout)),
        ] {
            signals[signal] = value;
        }
        signals[Signal::Now] = now.as_nanos() / 1_000;
        signals
    }
}
