//! Processing of acknowledgements.

use fairwater_lang::Signal;
use fairwater_net::Time;

use super::{Event, Sender};
use crate::Ecn;
use crate::rack::Rack;
use crate::rate::Newest;
use crate::scoreboard::Sent;
use crate::{Block, Cause, Segment};

/// An ACK, once the scoreboard has taken it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ack {
    pub(super) now: u64,
    /// The cumulative acknowledgement advanced.
    pub(super) advanced: bool,
    /// Something was acknowledged selectively for the first time.
    pub(super) sacked: bool,
    /// A duplicate ACK in the sense of RFC 5681 §2: it changes the advertised window neither.
    pub(super) duplicate: bool,
    /// The ACK echoes an ECN mark.
    pub(super) echo: bool,
    /// The echoed clock, ns.
    pub(super) timestamp: u64,
}

/// What one ACK delivers.
#[derive(Debug, Default)]
struct Delivery {
    acked: u64,
    sacked: u64,
    /// A retransmitted segment was acknowledged in order: by Karn's rule it gives no RTT sample.
    again: bool,
    newest: Newest,
    /// Times at which the first and the last segment acknowledged in order were sent, ns; only
    /// segments that were sent once.
    in_order: Option<(u64, u64)>,
    /// The same for segments acknowledged selectively.
    selectively: Option<(u64, u64)>,
    reordered: bool,
}

/// State before the ACK, which its deliveries are compared with.
struct Context<'a> {
    rack: &'a mut Rack,
    now: u64,
    /// The echoed clock, ns, if the connection has timestamps.
    echo: Option<u64>,
    min_rtt: u64,
    /// The highest offset that had arrived before.
    forward: u64,
}

impl Delivery {
    #[inline]
    fn take(&mut self, sent: &Sent, in_order: bool, context: &mut Context<'_>) {
        if in_order && sent.ever_resent {
            self.again = true;
        }
        if sent.sacked {
            return;
        }
        self.newest.consider(sent.order, sent.at, sent.stamp);
        let echo = context.echo.filter(|_| in_order);
        context
            .rack
            .on_delivered(context.now, echo, sent, context.min_rtt);
        if in_order {
            self.acked += 1;
        } else {
            self.sacked += 1;
        }
        if sent.ever_resent {
            return;
        }
        self.reordered |= sent.end() <= context.forward;
        let times = if in_order {
            &mut self.in_order
        } else {
            &mut self.selectively
        };
        *times = Some((times.map_or(sent.at, |(first, _)| first), sent.at));
    }
}

impl Sender {
    /// Processes a segment from the receiver.
    pub fn on_segment(&mut self, now: Time, segment: &Segment) {
        let now = now.as_nanos();
        if segment.syn {
            self.establish(now, segment);
            return;
        }
        // RFC 9293 §3.10.7.4: what acknowledges what was never sent says nothing.
        if !self.established || segment.ack > self.next {
            return;
        }
        let window_moved = self.take_window(segment);
        let (duplicate, blocks) = split(segment);
        let duplicates = duplicate.map_or(0, |block| self.take_duplicate(block, segment));
        let out = self.scoreboard.out() > 0;
        let advanced = segment.ack > self.acked;
        let delivery = self.deliver(now, segment, blocks);
        let mut delivered = delivery.acked + delivery.sacked + duplicates;
        let ack_is_duplicate = segment.ack == self.acked && !advanced && !window_moved && out;
        if !self.sack {
            let known = self.scoreboard.sacked();
            if advanced {
                delivered = delivered.saturating_sub(known).max(1);
            } else if ack_is_duplicate {
                delivered += 1;
            }
        }
        self.rate.count(delivered);
        let echo = self.count_marks(segment, delivered);
        let rtt = self.take_rtt(now, advanced, segment, &delivery);
        let ack = Ack {
            now,
            advanced,
            sacked: delivery.sacked > 0,
            duplicate: ack_is_duplicate,
            echo,
            timestamp: segment.timestamp.as_nanos(),
        };
        self.respond_to_probe(&ack, duplicates > 0);
        self.respond(&ack);
        if advanced {
            self.restart_timers(now);
        }
        self.sample_rates(now, &delivery.newest, delivered > 0);
        // Linux asks no congestion control about an ACK that is older than another, or that
        // came when nothing was out.
        if out && segment.ack >= self.acked {
            let undone = self.take_undone();
            self.event = Some(Event {
                cause: Cause::Ack,
                at: now,
                delivered,
                advanced,
                undone,
                rtt_ns: rtt,
            });
        }
    }

    /// Takes the advertised window, as Linux does: a later acknowledgement may take some of the window back
    /// (RFC 9293 §3.8.6), another one with the same number only adds to it. Whether the right edge moved
    /// forward.
    fn take_window(&mut self, segment: &Segment) -> bool {
        let edge = segment.ack.saturating_add(segment.window);
        let moved_forward = edge > self.edge;
        if moved_forward || segment.ack > self.acked {
            self.edge = edge;
        }
        moved_forward
    }

    /// Takes what a segment acknowledges off the scoreboard.
    fn deliver(&mut self, now: u64, segment: &Segment, blocks: &[Block]) -> Delivery {
        let mut context = Context {
            rack: &mut self.rack,
            now,
            echo: self.timestamps.then(|| segment.timestamp.as_nanos()),
            min_rtt: self.rtt.min(),
            forward: self.scoreboard.forward(),
        };
        let mut delivery = Delivery::default();
        if self.sack && !blocks.is_empty() {
            self.scoreboard.acknowledge_selectively(blocks, |sent| {
                delivery.take(sent, false, &mut context);
            });
        }
        if segment.ack > self.acked {
            self.scoreboard.acknowledge(segment.ack, |sent| {
                delivery.take(sent, true, &mut context);
            });
            self.acked = segment.ack;
            self.timers.backoff = 0;
        }
        if delivery.reordered && self.sack {
            self.rack.on_reordering();
        }
        delivery
    }

    /// Sets the rate signals and `Flow.app_limited` from the delivery-rate sample that an ACK completes.
    fn sample_rates(&mut self, now: u64, newest: &Newest, has_delivered: bool) {
        if let Some(app_limited) = newest.app_limited() {
            self.signals[Signal::AppLimited] = app_limited.into();
        }
        let min_rtt = self.rtt.min();
        let Some(sample) = self.rate.on_ack(now, newest, has_delivered, min_rtt) else {
            return;
        };
        let bytes = sample.delivered * self.mss;
        let mut set = |signal: Signal, ns: u64| {
            if let Some(rate) = bytes.saturating_mul(1_000_000_000).checked_div(ns) {
                self.signals[signal] = rate;
            }
        };
        set(Signal::RateIncoming, sample.ack_ns);
        set(Signal::RateOutgoing, sample.send_ns);
    }

    /// The receiver's SYN. RFC 5681 §3.1: if more than one SYN was needed, the path is such that
    /// one segment is enough to begin with.
    fn establish(&mut self, now: u64, segment: &Segment) {
        if self.established {
            return;
        }
        self.established = true;
        self.handshake.due = false;
        // RFC 3168 §6.1.1: without ECE in the answer, the receiver has not agreed.
        if !segment.ece {
            self.ecn = Ecn::Off;
        }
        self.restart_timers(now);
        self.timers.backoff = 0;
        self.edge = segment.ack.saturating_add(segment.window);
        let rtt = now.saturating_sub(segment.timestamp.as_nanos());
        self.rtt.observe(rtt);
        self.rtt.sample(rtt, 0, 0);
        self.signals[Signal::RttSampleUs] = rtt / 1_000;
        if self.handshake.sent > 2 {
            self.cwnd = self.mss;
        }
        self.last_sent = now;
    }

    /// A duplicate that the receiver reports (RFC 2883): how many segments it was.
    fn take_duplicate(&mut self, block: Block, segment: &Segment) -> u64 {
        let again = self.counters.retransmissions;
        if again == 0 || block.end > self.next {
            // The network duplicated it, or it is nothing that was sent.
            return 0;
        }
        let segments = block.end.saturating_sub(block.start).div_ceil(self.mss);
        let segments = segments.min(again);
        self.note_duplicate(block.end, segments);
        let acked = self.acked.max(segment.ack.min(self.next));
        self.rack.on_spurious_retransmission(acked, self.next);
        segments
    }

    /// Whether this ACK echoes marks. All that it delivers is taken for marked, as in Linux, but
    /// where the receiver counts.
    fn count_marks(&mut self, segment: &Segment, delivered: u64) -> bool {
        match self.ecn {
            Ecn::Off => false,
            Ecn::Classic | Ecn::Dctcp => {
                if segment.ece {
                    self.marked += delivered;
                }
                segment.ece
            }
            Ecn::Accurate => {
                // No more can have been marked than was sent.
                let seen = segment.ce_packets.min(self.counters.segments);
                let new = seen.saturating_sub(self.ce_seen);
                self.ce_seen += new;
                self.marked += new;
                new > 0
            }
        }
    }

    /// Takes the ACK's RTT samples and returns the controller's, ns: that of the last segment
    /// acknowledged. The smoothed RTT takes that of the first, which includes the delay of the ACK.
    fn take_rtt(
        &mut self,
        now: u64,
        advanced: bool,
        segment: &Segment,
        delivery: &Delivery,
    ) -> Option<u64> {
        let since = |at: u64| now.saturating_sub(at);
        let in_order = delivery.in_order.filter(|_| !delivery.again);
        let (first, last) = match (in_order, delivery.selectively) {
            (Some((first, _)), Some((_, last))) => (first, last),
            (Some(times), None) | (None, Some(times)) => times,
            // RFC 7323 §4.1: the echoed clock tells which transmission arrived.
            (None, None) if advanced && self.timestamps => {
                let at = segment.timestamp.as_nanos();
                (at, at)
            }
            (None, None) => return None,
        };
        self.rtt.observe(since(last));
        self.rtt.sample(since(first), self.acked, self.next);
        Some(since(last))
    }
}

/// A report of a duplicate, if the first block is one (RFC 2883 §4), and the other blocks.
fn split(segment: &Segment) -> (Option<Block>, &[Block]) {
    match segment.sack.as_slice() {
        [first, rest @ ..]
            if first.end <= segment.ack
                || rest
                    .first()
                    .is_some_and(|b| b.start <= first.start && first.end <= b.end) =>
        {
            (Some(*first), rest)
        }
        all => (None, all),
    }
}
