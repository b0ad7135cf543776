//! The receiving side: what is acknowledged, and when.

use fairwater_net::Time;
use std::time::Duration;

use super::reassembly::{Arrival, Reassembly};
use super::{Block, Segment};
use crate::{Ecn, TcpConfig};

/// Segments that are acknowledged without delay when a connection begins or goes on after a pause,
/// because the sender is then in slow start (Linux's quick ACKs).
const QUICK_ACKS: u32 = 16;

/// Selective ACKs that are sent at once at one cumulative acknowledgement, so that a sender can take
/// a segment for lost by three duplicates (RFC 5681 §3.2), and the most that are held back: Linux's
/// `tcp_comp_sack_nr`.
const PROMPT_SACKS: u32 = 3;
const MAX_HELD_SACKS: u32 = 44;

/// One connection's receiver. It answers data with ACKs and sends nothing else.
#[derive(Debug, Clone)]
pub struct Receiver {
    arrived: Reassembly,
    /// Where the stream ends, once a FIN said so.
    end: Option<u64>,
    mss: u64,
    sack: bool,
    receive_window: u64,
    /// Whether the application has stopped reading.
    paused: bool,
    /// Offset up to which the application has read, as far as the window shows it.
    read: u64,
    /// Offset up to which a paused application has read ([`Receiver::read`]).
    taken: u64,
    /// The right edge of the window as last advertised: it is never taken back (RFC 9293 §3.8.6).
    edge: u64,
    ecn: Ecn,
    /// The latched echo of RFC 3168 §6.1.3, or RFC 8257 §3.2's DCTCP.CE.
    echo: bool,
    marked: u64,
    marked_bytes: u64,
    /// TS.Recent (RFC 7323 §4.3).
    timestamp: Time,
    /// What the last ACK acknowledged.
    acknowledged: u64,
    delayed_ack: Duration,
    sack_delay: Duration,
    /// The next offset expected when `sacks` was last counted from zero.
    sacks_at: u64,
    /// Selective ACKs at that offset, sent or held back.
    sacks: u32,
    held_until: Option<Time>,
    /// Selective ACKs held back until then.
    held: u32,
    quick: u32,
    /// Pause after which the sender slow-starts again.
    pause: Duration,
    last_arrival: Time,
    /// A SYN has arrived.
    is_asked: bool,
    handshake_due: bool,
    ack_due: bool,
    /// An ACK of RFC 8257 §3.2, for what came before the mark changed: its offset and echo.
    earlier: Option<(u64, bool)>,
    delayed_until: Option<Time>,
}

impl Receiver {
    /// A receiver that listens.
    #[must_use]
    pub fn new(config: &TcpConfig, now: Time) -> Self {
        Self {
            arrived: Reassembly::default(),
            end: None,
            mss: u64::from(config.mss),
            sack: config.sack,
            receive_window: config.receive_window,
            paused: false,
            read: 0,
            taken: 0,
            edge: config.receive_window,
            ecn: config.ecn,
            echo: false,
            marked: 0,
            marked_bytes: 0,
            timestamp: Time::ZERO,
            acknowledged: 0,
            delayed_ack: config.delayed_ack,
            sack_delay: config.sack_delay,
            sacks_at: 0,
            sacks: 0,
            held_until: None,
            held: 0,
            quick: QUICK_ACKS,
            pause: config.min_rto,
            last_arrival: now,
            is_asked: false,
            handshake_due: false,
            ack_due: false,
            earlier: None,
            delayed_until: None,
        }
    }

    /// A segment arrived, marked Congestion Experienced or not.
    pub fn on_segment(&mut self, now: Time, segment: &Segment, marked_ce: bool) {
        if segment.seq <= self.acknowledged {
            self.timestamp = self.timestamp.max(segment.timestamp);
        }
        if segment.syn {
            self.take_offer(segment);
            self.handshake_due = true;
            return;
        }
        let block = Block {
            start: segment.seq,
            end: segment.end(),
        };
        // A probe of the window, or data outside of it, is answered with the window as it is
        // (RFC 9293 §3.10.7.4).
        if block.start == block.end || block.end > self.edge.saturating_add(1) {
            self.ack_due = true;
            return;
        }
        if now.since(self.last_arrival) > self.pause {
            self.quick = QUICK_ACKS;
        }
        self.last_arrival = now;
        self.notice_congestion(segment, marked_ce);
        if segment.fin {
            self.end = Some(block.end);
        }
        match self.arrived.insert(block) {
            Arrival::InOrder => {
                if !self.paused {
                    self.read = self.arrived.next();
                }
                self.acknowledge_in_order(now, segment);
            }
            Arrival::FillsGap => {
                if !self.paused {
                    self.read = self.arrived.next();
                }
                // RFC 5681 §4.2: at once when a segment fills all or part of a gap.
                self.ack_due = true;
            }
            Arrival::OutOfOrder => self.acknowledge_out_of_order(now),
            Arrival::Duplicate => {
                self.quick = QUICK_ACKS;
                self.ack_due = true;
            }
        }
    }

    /// RFC 3168 §6.1.1: there is ECN if the sender offers it. What the first SYN said counts.
    fn take_offer(&mut self, syn: &Segment) {
        let is_first = !std::mem::replace(&mut self.is_asked, true);
        let is_offered = syn.ece && syn.cwr;
        if is_first && !is_offered {
            self.ecn = Ecn::Off;
        }
    }

    /// RFC 5681 §4.2: at least every second full-sized segment, and within the delay. Linux also
    /// acknowledges at once what the application has read and is less than a full segment.
    fn acknowledge_in_order(&mut self, now: Time, segment: &Segment) {
        let waiting = self.arrived.next() - self.acknowledged;
        if waiting > self.mss
            || segment.fin
            || u64::from(segment.len) < self.mss
            || self.quick > 0
            || self.delayed_ack.is_zero()
        {
            self.ack_due = true;
        } else if self.delayed_until.is_none() {
            self.delayed_until = Some(now + self.delayed_ack);
        }
    }

    /// RFC 5681 §4.2 asks for an ACK of each segment; Linux gathers selective ACKs for a moment.
    fn acknowledge_out_of_order(&mut self, now: Time) {
        if self.sacks_at != self.arrived.next() {
            self.sacks_at = self.arrived.next();
            self.sacks = 0;
        }
        self.sacks = self.sacks.saturating_add(1);
        if self.sacks <= PROMPT_SACKS
            || !self.sack
            || self.quick > 0
            || self.sack_delay.is_zero()
            || self.held >= MAX_HELD_SACKS
        {
            self.ack_due = true;
            return;
        }
        self.held += 1;
        if self.held_until.is_none() {
            self.held_until = Some(now + self.sack_delay);
        }
    }

    fn notice_congestion(&mut self, segment: &Segment, marked: bool) {
        if marked {
            self.marked += 1;
            self.marked_bytes += u64::from(segment.len);
        }
        match self.ecn {
            Ecn::Off | Ecn::Accurate => {}
            Ecn::Classic => {
                // RFC 3168 §6.1.3: the echo lasts until the sender says that it has reduced. Its
                // window may then be a single segment, so it is told at once.
                if segment.cwr {
                    self.echo = false;
                    self.ack_due = true;
                }
                if marked && !self.echo {
                    self.echo = true;
                    self.quick = self.quick.max(2);
                }
            }
            Ecn::Dctcp => {
                // RFC 8257 §3.2: what is unacknowledged came under the other state.
                if marked != self.echo {
                    if self.arrived.next() > self.acknowledged {
                        self.earlier = Some((self.arrived.next(), self.echo));
                    }
                    self.echo = marked;
                    self.ack_due = true;
                }
            }
        }
    }

    /// Does what is due by `now`.
    pub fn on_timer(&mut self, now: Time) {
        if self.next_timer().is_some_and(|at| at <= now) {
            self.delayed_until = None;
            self.held_until = None;
            self.ack_due = true;
        }
    }

    /// When [`Self::on_timer`] is to be called next.
    #[must_use]
    pub fn next_timer(&self) -> Option<Time> {
        let held = self.held_until.into_iter();
        held.chain(self.delayed_until).min()
    }

    /// The next segment to send; call it until there is none.
    pub fn poll_transmit(&mut self, _now: Time) -> Option<Segment> {
        if self.handshake_due {
            self.handshake_due = false;
            return Some(Segment {
                syn: true,
                ..self.ack(self.arrived.next(), self.ecn != Ecn::Off)
            });
        }
        if let Some((ack, echo)) = self.earlier.take() {
            return Some(self.ack(ack, echo));
        }
        if !self.ack_due {
            return None;
        }
        self.clear_due();
        self.quick = self.quick.saturating_sub(1);
        let mut segment = self.ack(self.arrived.next(), self.echo);
        if self.sack {
            segment.sack = self.arrived.take_report();
        }
        Some(segment)
    }

    fn ack(&mut self, ack: u64, ece: bool) -> Segment {
        self.acknowledged = ack;
        self.edge = self.edge.max(self.read.saturating_add(self.receive_window));
        Segment {
            ack,
            window: self.edge.saturating_sub(ack),
            timestamp: self.timestamp,
            // RFC 8257 §3.1 marks ACKs as capable too; RFC 3168 §6.1.4 does not.
            ect: matches!(self.ecn, Ecn::Dctcp | Ecn::Accurate),
            ece,
            ce_packets: self.marked,
            ce_bytes: self.marked_bytes,
            ..Segment::default()
        }
    }

    /// The application stops reading: the window closes as data arrives.
    pub fn pause(&mut self) {
        self.paused = true;
    }

    /// The application reads all there is, and all that comes; the sender is told at once.
    pub fn resume(&mut self) {
        self.paused = false;
        self.read = self.arrived.next();
        self.ack_due = true;
    }

    /// The application, which is paused, has read so many bytes more of what has arrived. The window opens by a
    /// segment, or by half of it, at least (RFC 9293 §3.8.6.2.2); the sender is told at once if it at least doubles.
    pub fn read(&mut self, bytes: u64) {
        self.taken = self.taken.saturating_add(bytes).min(self.delivered());
        let edge = self.taken.saturating_add(self.receive_window);
        if edge
            < self
                .edge
                .saturating_add(self.mss.min(self.receive_window / 2))
        {
            return;
        }
        self.read = self.taken;
        let left = |edge: u64| edge.saturating_sub(self.arrived.next());
        if left(edge) >= left(self.edge).saturating_mul(2) {
            self.ack_due = true;
        }
    }

    /// The acknowledgement that a segment with data of its own carries. It takes the place of an ACK that is due,
    /// unless that has blocks to report: they leave no room for data.
    pub fn piggyback(&mut self) -> Segment {
        if let Some((ack, echo)) = self.earlier.take() {
            return self.ack(ack, echo);
        }
        if !self.sack || !self.arrived.has_report() {
            self.quick = self.quick.saturating_sub(1);
            self.clear_due();
        }
        self.ack(self.arrived.next(), self.echo)
    }

    fn clear_due(&mut self) {
        self.ack_due = false;
        self.delayed_until = None;
        self.held_until = None;
        self.held = 0;
    }

    /// Payload bytes that have arrived in order.
    #[must_use]
    pub fn delivered(&self) -> u64 {
        self.arrived.next() - u64::from(self.is_finished())
    }

    /// Whether everything up to the sender's FIN has arrived.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.end == Some(self.arrived.next())
    }
}
