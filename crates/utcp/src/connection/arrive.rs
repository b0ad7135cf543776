//! Segments that arrive (RFC 9293 §3.10.7.4, with RFC 5961 and RFC 7323).

use std::time::Duration;

use fairwater_net::Time;
use fairwater_tcp::{Block, Ecn, Segment};
use fairwater_wire::{EcnCodepoint, OptionSummary, Packet, Tcp, TcpFlags};

use super::transfer::Transfer;
use super::{Connection, Phase};
use crate::buffers::SendBuffer;
use crate::{CloseReason, State};

/// Least interval of ACKs that answer what should not have come: two ends that disagree must not go on for ever
/// (RFC 5961 §7).
const CHALLENGE_INTERVAL: Duration = Duration::from_millis(100);

/// What is to be done with a segment.
#[derive(Debug, Clone, Copy)]
enum Verdict {
    Drop,
    Close(CloseReason),
    Take(Place),
}

/// A segment's place in the streams.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// Offset of its first byte; negative before the stream's.
    start: i64,
    /// Offset that it acknowledges.
    ack: u64,
    /// TSval without end.
    clock: Option<u64>,
}

/// What of a segment's data is new, or not known to be old.
#[derive(Debug, Clone, Copy)]
struct Data<'a> {
    offset: u64,
    payload: &'a [u8],
    fin: bool,
}

impl Connection {
    /// A segment arrived. The caller has found it to be of this connection by its addresses, and its checksums to be
    /// right ([`Packet::has_valid_checksums`]). Segments that make no sense change nothing.
    pub fn on_segment(&mut self, now: Time, packet: &Packet<'_>) {
        let Some(tcp) = packet.tcp() else {
            return;
        };
        let Ok(options) = tcp.option_summary() else {
            return;
        };
        match self.state() {
            State::SynSent => {
                self.arrive_in_syn_sent(now, packet, &tcp, &options);
                return;
            }
            State::SynReceived if !self.arrive_in_syn_received(now, &tcp, &options) => return,
            _ => {}
        }
        let Phase::Open(transfer) = &mut self.phase else {
            return;
        };
        match transfer.check(now, &tcp, &options) {
            Verdict::Drop => {}
            Verdict::Close(reason) => self.close(reason),
            Verdict::Take(place) => self.take(now, packet, &tcp, &options, place),
        }
    }

    /// Takes a segment that passed all checks.
    fn take(
        &mut self,
        now: Time,
        packet: &Packet<'_>,
        tcp: &Tcp<'_>,
        options: &OptionSummary,
        place: Place,
    ) {
        let Phase::Open(transfer) = &mut self.phase else {
            return;
        };
        let echo = options.timestamps;
        let echo = echo.and_then(|(_, echo)| self.clock.sent_at(echo, now));
        let was_waiting = transfer.state() == State::TimeWait;
        transfer.on_heard();
        transfer.take_acknowledgement(now, tcp, options, (place.ack, echo));
        self.send.acknowledge(transfer.sender.acked());
        if let Some(data) = transfer.admit(tcp, place, self.receive.end()) {
            let next = transfer.receiver.delivered();
            self.receive.insert(data.offset, data.payload, next);
            transfer.take_data(now, packet, data, place.clock);
        }
        transfer.take_clock(now, place);
        match transfer.state() {
            State::Closed => self.close(CloseReason::Finished),
            State::TimeWait if !was_waiting || tcp.flags().contains(TcpFlags::FIN) => {
                transfer.wait(now, &self.config);
                self.send = SendBuffer::default();
            }
            _ => {}
        }
    }
}

impl Transfer {
    /// The checks of RFC 9293 §3.10.7.4, first to fifth.
    fn check(&mut self, now: Time, tcp: &Tcp<'_>, options: &OptionSummary) -> Verdict {
        let flags = tcp.flags();
        let is_reset = flags.contains(TcpFlags::RST);
        let has_data = !tcp.payload().is_empty();
        let expected = self.expected();
        let start = self.peer.offset(tcp.seq(), expected);
        let end = start + i64::from(tcp.seq_length());
        // RFC 7323 §5.3; a segment without a clock is dropped where clocks are agreed upon (§3.2). Resets are exempt.
        let clock = match (self.peer_clock, options.timestamps) {
            (Some(peer), Some((value, _))) => peer.unwrap(value, now),
            _ => None,
        };
        if self.peer_clock.is_some() && clock.is_none() && !is_reset {
            if options.timestamps.is_some() {
                self.answer(now, has_data);
            }
            return Verdict::Drop;
        }
        // As Linux has it: from the last ACK that was sent, whose window the peer knows, on. What has data and is old
        // goes on, to be reported as a duplicate (RFC 2883).
        let is_old = end < self.acknowledged as i64 && !has_data;
        if is_old || start > self.edge as i64 {
            if !is_reset {
                self.answer(now, has_data);
            }
            return Verdict::Drop;
        }
        if is_reset {
            return self.check_reset(now, start == expected as i64);
        }
        // RFC 5961 §4.2: whatever its number.
        if flags.contains(TcpFlags::SYN) {
            self.challenge(now);
            return Verdict::Drop;
        }
        if !flags.contains(TcpFlags::ACK) {
            return Verdict::Drop;
        }
        // RFC 5961 §5.2.
        let ack = self.own.offset(tcp.ack(), self.acked);
        let least = self.acked as i64 - self.most_window as i64;
        if ack < least.max(-1) || ack > self.next as i64 {
            self.challenge(now);
            return Verdict::Drop;
        }
        Verdict::Take(Place {
            start,
            ack: u64::try_from(ack).unwrap_or(0),
            clock,
        })
    }

    /// RFC 5961 §3.2: a reset counts if its number is the one expected; another in the window is asked about. RFC 1337
    /// §2: none ends TIME-WAIT.
    fn check_reset(&mut self, now: Time, is_exact: bool) -> Verdict {
        if self.state() == State::TimeWait {
            return Verdict::Drop;
        }
        if is_exact {
            return Verdict::Close(CloseReason::Reset);
        }
        self.challenge(now);
        Verdict::Drop
    }

    /// Answers what is not acceptable with an ACK. Data is no part of a loop of ACKs, and is always answered.
    fn answer(&mut self, now: Time, has_data: bool) {
        if has_data {
            self.is_ack_due = true;
        } else {
            self.challenge(now);
        }
    }

    fn challenge(&mut self, now: Time) {
        if now >= self.challenge_at {
            self.challenge_at = now + CHALLENGE_INTERVAL;
            self.is_ack_due = true;
        }
    }

    /// Hands an acknowledgement to the sender.
    fn take_acknowledgement(
        &mut self,
        now: Time,
        tcp: &Tcp<'_>,
        options: &OptionSummary,
        (ack, echo): (u64, Option<Time>),
    ) {
        let window = u64::from(tcp.window()) << self.agreed.peer_scale;
        self.most_window = self.most_window.max(window);
        let ece = tcp.flags().contains(TcpFlags::ECE) && self.agreed.ecn != Ecn::Off;
        let mut segment = Segment {
            ack,
            window,
            ece,
            // Of an echo that cannot be, the time that it most likely was.
            timestamp: echo.unwrap_or_else(|| now - Duration::from_micros(self.sender.srtt_us())),
            ..Segment::default()
        };
        if self.agreed.sack {
            let blocks = options.sack().iter().filter_map(|block| {
                let start = self.own.offset(block.start, self.acked);
                let end = self.own.offset(block.end, self.acked);
                let block = Block {
                    start: u64::try_from(start).ok()?,
                    end: u64::try_from(end).ok()?,
                };
                (block.start < block.end && block.end <= self.next).then_some(block)
            });
            segment.sack.extend(blocks);
        }
        // RFC 5681 §2: a segment with data that acknowledges nothing new is no duplicate ACK.
        let known_edge = self.sender.acked() + self.sender.send_window();
        let has_news = ack > self.acked
            || tcp.payload().is_empty()
            || !segment.sack.is_empty()
            || ack.saturating_add(window) > known_edge
            || ece;
        if has_news {
            self.sender.on_segment(now, &segment);
        }
        self.acked = self.acked.max(ack);
    }

    /// Cuts a segment's data to the window; `None` if it has neither data nor FIN. `highest` is the offset after the
    /// last byte that has arrived.
    fn admit<'a>(&mut self, tcp: &Tcp<'a>, place: Place, highest: u64) -> Option<Data<'a>> {
        let mut payload = tcp.payload();
        let mut fin = tcp.flags().contains(TcpFlags::FIN);
        if payload.is_empty() && !fin {
            return None;
        }
        let before = usize::try_from(place.start.min(0).unsigned_abs()).unwrap_or(usize::MAX);
        payload = payload.get(before..).unwrap_or(&[]);
        let offset = u64::try_from(place.start).unwrap_or(0);
        let end = offset + payload.len() as u64;
        let limit = self.peer_end.unwrap_or(u64::MAX).min(self.edge);
        if end > limit {
            let room = usize::try_from(limit.saturating_sub(offset)).unwrap_or(usize::MAX);
            payload = payload.get(..room).unwrap_or(payload);
            fin = false;
        }
        // A stream ends once, and behind all that it had.
        fin &= match self.peer_end {
            Some(known) => end == known,
            None => end >= highest,
        };
        if fin {
            self.peer_end = Some(end);
        }
        if payload.is_empty() && !fin {
            // A probe of the closed window, or what should not have come.
            self.is_ack_due = true;
            return None;
        }
        Some(Data {
            offset,
            payload,
            fin,
        })
    }

    fn take_data(&mut self, now: Time, packet: &Packet<'_>, data: Data<'_>, clock: Option<u64>) {
        let tcp = packet.tcp();
        let flags = tcp.map_or(TcpFlags::NONE, |tcp| tcp.flags());
        let segment = Segment {
            seq: data.offset,
            len: u32::try_from(data.payload.len()).unwrap_or(u32::MAX),
            fin: data.fin,
            cwr: flags.contains(TcpFlags::CWR),
            timestamp: Time::from_nanos(clock.unwrap_or(0)),
            ..Segment::default()
        };
        let is_marked = packet.ecn() == EcnCodepoint::Ce && self.agreed.ecn != Ecn::Off;
        self.receiver.on_segment(now, &segment, is_marked);
    }

    /// RFC 7323 §4.3: what continues the acknowledged stream brings TS.Recent.
    fn take_clock(&mut self, now: Time, place: Place) {
        if let (Some(peer), Some(clock)) = (&mut self.peer_clock, place.clock)
            && place.start <= self.acknowledged as i64
        {
            peer.update(clock, now);
        }
    }
}
