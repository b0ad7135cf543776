//! RTT and delivery-rate samples of some of the packets in flight.

use fairwater_net::Time;
use fairwater_wire::Seq;

/// Packets in flight that are sampled at a time, spread over the window.
const SLOTS: u32 = 8;

/// A packet in flight of which the time is known.
#[derive(Debug, Clone, Copy)]
struct Slot {
    end: Seq,
    sent_at: Time,
    /// The guest's clock in the packet (RFC 7323), to tell it from a retransmission.
    tsval: Option<u32>,
    /// The packet was sent again, so that its ACK may be for either (Karn's algorithm).
    is_ambiguous: bool,
    /// P.delivered, P.delivered_time and P.first_sent_time
    /// (draft-cheng-iccrg-delivery-rate-estimation §3.2), in bytes.
    delivered: u64,
    delivered_at: Time,
    /// End of the packet that was sent at `first_sent_at`: not every packet has a slot.
    first_end: Seq,
    first_sent_at: Time,
    app_limited: bool,
}

/// What the packets that one ACK delivers say of the path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sample {
    /// The RTT of the packet sent last, ns.
    pub(super) rtt_ns: Option<u64>,
    pub(super) rate: Option<Rate>,
    pub(super) app_limited: Option<bool>,
}

/// How fast data left and arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rate {
    /// Bytes sent, and how long that took, ns.
    pub(super) sent: u64,
    pub(super) send_ns: u64,
    /// Bytes delivered, and how long that took, ns.
    pub(super) delivered: u64,
    pub(super) ack_ns: u64,
}

/// The sampled packets, and the connection's part of the estimator (§3.2).
#[derive(Debug, Clone, Default)]
pub(super) struct Samples {
    /// In the order of sending.
    slots: [Option<Slot>; SLOTS as usize],
    delivered: u64,
    delivered_at: Time,
    first_end: Seq,
    first_sent_at: Time,
    /// What is sent until so many bytes are delivered follows a time when the guest held itself back (§3.4,
    /// C.app_limited).
    limited_until: u64,
}

impl Samples {
    pub(super) fn new(now: Time) -> Self {
        Self {
            delivered_at: now,
            first_sent_at: now,
            ..Self::default()
        }
    }

    /// A packet of new data ends at `end`; `in_flight` bytes were out before it.
    pub(super) fn on_sent(
        &mut self,
        now: Time,
        end: Seq,
        in_flight: u32,
        tsval: Option<u32>,
        app_limited: bool,
    ) {
        if in_flight == 0 {
            self.delivered_at = now;
            self.first_end = end;
            self.first_sent_at = now;
        }
        // Spread: at least a slot's share of the window behind the last.
        let last = self.slots.iter().flatten().last();
        if last.is_some_and(|slot| end.bytes_since(slot.end) < in_flight / SLOTS) {
            return;
        }
        let Some(slot) = self.slots.iter_mut().find(|slot| slot.is_none()) else {
            return;
        };
        *slot = Some(Slot {
            end,
            sent_at: now,
            tsval,
            is_ambiguous: false,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_end: self.first_end,
            first_sent_at: self.first_sent_at,
            app_limited: app_limited || self.delivered < self.limited_until,
        });
    }

    /// An ACK came while the guest had stopped with room left in its window: what is sent until the `out` bytes that
    /// are out are delivered says nothing of the path. That the guest's own window has stopped it is as good as an
    /// application that has no more.
    pub(super) fn limit(&mut self, out: u32) {
        self.limited_until = self.delivered + u64::from(out);
    }

    /// Whether a guest that stopped with that room has held itself back, where `out` bytes are out: a packet of a
    /// burst may be behind an ACK by chance, so that less room than the samples are apart does not tell.
    pub(super) fn has_stopped(room: u32, out: u32, mss: u32) -> bool {
        room >= mss.max(out / SLOTS)
    }

    /// `[start, end)` was sent again.
    pub(super) fn on_resent(&mut self, start: Seq, end: Seq, tsval: Option<u32>) {
        for slot in self.slots.iter_mut().flatten() {
            let last = slot.end.minus(1);
            if last.is_within(start, end.bytes_since(start)) {
                // RFC 7323 §4.1: TSecr tells the two apart, if the clock has moved in between.
                let is_told_apart = slot.tsval.is_some() && tsval.is_some() && slot.tsval != tsval;
                slot.is_ambiguous |= !is_told_apart;
                slot.app_limited = true;
            }
        }
    }

    /// An ACK that delivers `newly` bytes; `has_arrived` tells of the last byte of a packet.
    pub(super) fn on_ack(
        &mut self,
        now: Time,
        newly: u32,
        tsecr: Option<u32>,
        has_arrived: impl Fn(Seq) -> bool,
    ) -> Sample {
        let mut sample = Sample::default();
        if newly == 0 {
            return sample;
        }
        self.delivered += u64::from(newly);
        self.delivered_at = now;
        let mut kept = [None; SLOTS as usize];
        let mut room = kept.iter_mut();
        let mut newest: Option<Slot> = None;
        for slot in self.slots.iter().flatten() {
            if has_arrived(slot.end.minus(1)) {
                newest = Some(*slot);
                let is_original =
                    tsecr.is_none() || slot.tsval.is_none() || !is_later(tsecr, slot.tsval);
                if !slot.is_ambiguous && is_original {
                    sample.rtt_ns = Some(nanos(now, slot.sent_at));
                }
            } else if let Some(into) = room.next() {
                *into = Some(*slot);
            }
        }
        self.slots = kept;
        if let Some(slot) = newest {
            // §3.3, UpdateRateSample.
            self.first_sent_at = slot.sent_at;
            self.first_end = slot.end;
            sample.app_limited = Some(slot.app_limited);
            sample.rate = Some(Rate {
                sent: u64::from(slot.end.bytes_since(slot.first_end)),
                send_ns: nanos(slot.sent_at, slot.first_sent_at),
                delivered: self.delivered - slot.delivered,
                ack_ns: nanos(now, slot.delivered_at),
            });
        }
        sample
    }

    /// Nothing that is in flight can be believed any more: a timeout.
    pub(super) fn clear(&mut self) {
        self.slots = Default::default();
    }
}

/// Whether the echoed clock is of a later packet than the slot's.
fn is_later(tsecr: Option<u32>, tsval: Option<u32>) -> bool {
    match (tsecr, tsval) {
        (Some(echo), Some(value)) => Seq(echo).is_after(Seq(value)),
        _ => false,
    }
}

fn nanos(later: Time, earlier: Time) -> u64 {
    later.as_nanos().saturating_sub(earlier.as_nanos())
}
