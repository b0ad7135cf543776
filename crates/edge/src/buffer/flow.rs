//! One connection whose data a box holds.

use std::time::Duration;

use fairwater_net::Time;
use fairwater_tcp::{Block, Controls, Ecn, Sender, TcpConfig};
use fairwater_wire::{EcnCodepoint, Packet, SackBlock, Seq, TcpFlags};

use super::Held;
use super::clock::Clock;
use super::stream::{Insertion, Stream};
use super::template::{Fields, Template};
use crate::Segment;
use crate::controlled::initial_window;

/// Timeouts without progress after which the guest is left to itself: its packets may get through where those of the
/// box do not, such as after a change of the path's MTU.
const MAX_TIMEOUTS: u64 = 4;

/// What a connection is when its data begins to be held.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    pub(super) mss: u32,
    pub(super) sack: bool,
    pub(super) ecn: bool,
    /// The peer's window beyond the first byte that is held, bytes.
    pub(super) window: u32,
    pub(super) min_rto: Duration,
}

/// The guest's data from una on, and the sender that carries it to the peer.
#[derive(Debug)]
pub(crate) struct BufferedFlow {
    /// Number of this flow among all that were ever held.
    pub(super) serial: u64,
    /// The guest's port.
    pub(super) interface: u32,
    pub(super) sender: Sender,
    pub(super) stream: Stream,
    /// Packets of the guest, and of the peer.
    template: Template,
    peer: Option<Template>,
    clock: Clock,
    /// The peer's clock, as the guest has seen it last.
    peer_clock: Option<u32>,
    sack: bool,
    /// SND.UNA and SND.NXT towards the network, as offsets; the FIN takes one.
    acked: u64,
    next: u64,
    has_fin: bool,
    /// What the guest acknowledges has not been told to the peer, nor these blocks.
    is_ack_due: bool,
    sack_due: Vec<SackBlock>,
    /// The acknowledgement that left last.
    left: (Seq, u16),
    /// Where urgent data ends (RFC 9293 §3.8.5).
    urgent: Option<Seq>,
    /// The blocks of the last duplicate ACK that was hidden since una moved.
    hidden: Option<Vec<SackBlock>>,
    /// The guest may have missed an ACK: the next one passes, whatever it says.
    is_ack_missed: bool,
    /// Right edge of the peer's window that the sender knows of.
    peer_edge: Seq,
    /// The rate that the algorithm has set, bytes/s; 0 for none.
    rate: u64,
    /// Whether the guest has once sent more than the algorithm's window, or than its rate carries in a round trip:
    /// until then the guest is what limits the flow, and its packets leave at its own pace.
    is_limiting: bool,
    /// The field of the ACK that the guest got last.
    pub(super) shown_window: u16,
    /// The sender's timeouts when something arrived last.
    timeouts: u64,
    /// For the box: the timer that is set, whether it is asked for packets, and the memory that is counted.
    pub(super) timer: Option<Time>,
    pub(super) is_ready: bool,
    pub(super) counted: usize,
    /// Of the sender's counters: segments sent again, and timeouts.
    pub(super) counted_repairs: (u64, u64),
    /// ACKs that the guest did not get to see.
    hidden_acks: u64,
}

impl BufferedFlow {
    /// A connection whose guest sends `segment`, the first that is held, in `packet`.
    pub(super) fn new(
        now: Time,
        (serial, interface): (u64, u32),
        start: &Start,
        (packet, link, segment): (&Packet<'_>, &[u8], &Segment),
    ) -> Option<Self> {
        let config = TcpConfig {
            mss: start.mss,
            sack: start.sack,
            ecn: if start.ecn { Ecn::Classic } else { Ecn::Off },
            receive_window: u64::from(start.window),
            min_rto: start.min_rto,
            handshake: false,
            timestamps: false,
            nagle: false,
            ..TcpConfig::default()
        };
        Some(Self {
            serial,
            interface,
            sender: Sender::new(&config, now),
            stream: Stream::new(segment.seq),
            template: Template::new(packet, link, segment)?,
            peer: None,
            clock: Clock::default(),
            peer_clock: None,
            sack: start.sack,
            acked: 0,
            next: 0,
            has_fin: false,
            is_ack_due: false,
            sack_due: Vec::new(),
            left: (segment.ack, segment.window),
            urgent: None,
            hidden: None,
            is_ack_missed: false,
            peer_edge: segment.seq.plus(start.window),
            rate: 0,
            is_limiting: false,
            shown_window: 0,
            timeouts: 0,
            timer: None,
            is_ready: false,
            counted: 0,
            counted_repairs: (0, 0),
            hidden_acks: 0,
        })
    }

    /// Memory that the flow takes, bytes.
    pub(super) fn memory(&self) -> usize {
        self.stream.len() + size_of::<Self>()
    }

    /// What is held, and what was done for the connection.
    pub(super) fn describe(&self) -> Held {
        let counters = self.sender.counters();
        Held {
            bytes: self.stream.len(),
            acked: self.acked,
            srtt_us: self.sender.srtt_us(),
            retransmissions: counters.retransmissions,
            timeouts: counters.timeouts,
            hidden: self.hidden_acks,
        }
    }

    /// Whether the packets of this flow begin with Ethernet's header.
    pub(super) const fn is_ethernet(&self) -> bool {
        self.template.is_ethernet()
    }

    /// Smoothed and least RTT between the box and the peer, µs; 0 before the first sample.
    pub(crate) fn rtts_us(&self) -> (u64, u64) {
        (self.sender.srtt_us(), self.sender.min_rtt_us())
    }

    /// Bytes sent towards the network and not acknowledged in order.
    pub(super) fn outstanding(&self) -> u64 {
        self.next - self.acked
    }

    /// Sequence number of what is sent next towards the network.
    pub(super) const fn nxt(&self) -> Seq {
        self.stream.seq_of(self.next)
    }

    /// Whether nothing is held or in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.stream.len() == 0 && self.next == self.acked
    }

    /// Whether the box holds the guest's data from there on, or has.
    pub(super) fn has_held(&self, seq: Seq) -> bool {
        self.stream.offset_of(seq).is_some()
    }

    /// A packet from the guest that is no reset; `urgent` is its urgent pointer.
    pub(super) fn on_guest_packet(&mut self, packet: &Packet<'_>, segment: &Segment, urgent: u16) {
        self.template.update(packet, segment);
        if segment.has(TcpFlags::URG) {
            let end = segment.seq.plus(u32::from(urgent));
            self.urgent = Some(self.urgent.map_or(end, |known| known.max(end)));
        }
    }

    /// A packet from the peer.
    pub(super) fn on_peer_packet(&mut self, packet: &Packet<'_>, link: &[u8], segment: &Segment) {
        match &mut self.peer {
            Some(peer) => peer.update(packet, segment),
            None => self.peer = Template::new(packet, link, segment),
        }
        if let Some((value, _)) = segment.options.timestamps {
            let is_later = |known| Seq(value).is_after(Seq(known));
            if self.peer_clock.is_none_or(is_later) {
                self.peer_clock = Some(value);
            }
        }
    }

    /// Whether data from there on was the guest's to carry, and is, before the box held any; una is the guest's.
    pub(super) fn lacks(&self, seq: Seq, una: Seq) -> bool {
        let first = self.stream.seq_of(self.stream.start());
        seq.is_before(first) && una.is_before(first)
    }

    /// Takes the guest's data; at most `room` bytes of it.
    pub(super) fn take(&mut self, segment: &Segment, payload: &[u8], room: usize) -> Insertion {
        let inserted = if self.has_fin {
            // Beyond the FIN there is nothing (RFC 9293 §3.6).
            Insertion::Known
        } else {
            self.stream.insert(segment.seq, payload, room)
        };
        let value = segment.options.timestamps.map(|(value, _)| value);
        if let Insertion::New(bytes) = inserted {
            self.sender.write(bytes as u64);
            self.clock.on_sent(self.stream.end(), value);
        }
        let fin_at = segment.seq.plus(segment.payload);
        if segment.has(TcpFlags::FIN)
            && !self.has_fin
            && fin_at == self.stream.seq_of(self.stream.end())
        {
            self.has_fin = true;
            self.sender.close();
            self.clock.on_sent(self.stream.end() + 1, value);
        }
        let blocks = segment.options.sack();
        self.is_ack_due |= self.template.acknowledgement() != self.left;
        if !blocks.is_empty() {
            self.sack_due = blocks.to_vec();
        }
        inserted
    }

    /// A segment of the guest passes what is held: it has no data.
    pub(super) fn on_passed(&mut self, segment: &Segment) {
        self.clock
            .on_passed(segment.options.timestamps.map(|(value, _)| value));
        self.left = self.template.acknowledgement();
        self.is_ack_due = false;
        self.sack_due.clear();
    }

    /// The guest has sent what the peer has acknowledged.
    pub(super) fn on_old_data(&mut self) {
        self.is_ack_missed = true;
    }

    /// An ACK from the peer, of what the box has held; `window` is scaled. Whether una moved.
    pub(super) fn on_ack(&mut self, now: Time, segment: &Segment, window: u32) -> bool {
        let Some(ack) = self.stream.offset_of(segment.ack) else {
            return false;
        };
        if ack > self.next {
            return false;
        }
        let advanced = ack > self.acked;
        let edge = segment.ack.plus(window);
        let is_wider = edge.is_after(self.peer_edge);
        self.peer_edge = self.peer_edge.max(edge);
        let offset = |seq| self.stream.offset_of(seq);
        let blocks = segment.options.sack().iter().filter_map(|block| {
            Some(Block {
                start: offset(block.start)?,
                end: offset(block.end)?,
            })
        });
        let sack: Vec<_> = blocks.filter(|block| block.start < block.end).collect();
        // RFC 5681 §2: data of the peer is no duplicate ACK.
        if segment.length() > 0 && !advanced && !is_wider && sack.is_empty() {
            return false;
        }
        self.sender.on_segment(
            now,
            &fairwater_tcp::Segment {
                ack,
                sack: sack.as_slice().into(),
                window: u64::from(window),
                ece: segment.has(TcpFlags::ECE),
                ..fairwater_tcp::Segment::default()
            },
        );
        if advanced {
            self.acked = ack;
            self.stream.acknowledge(ack);
            self.clock.trim(ack);
            self.hidden = None;
            self.is_ack_missed = false;
        }
        let blocks = segment.options.sack();
        let is_news = !blocks.is_empty() && self.hidden.as_deref() != Some(blocks);
        if advanced || is_news {
            self.timeouts = self.sender.counters().timeouts;
        }
        advanced
    }

    /// Whether the guest need not see an ACK: a duplicate that tells of what the box repairs. `shown` is the window's
    /// field as the guest would see it.
    pub(super) fn hides(&self, segment: &Segment, advanced: bool, shown: u16) -> bool {
        let says_nothing = !advanced && segment.length() == 0 && shown <= self.shown_window;
        says_nothing && segment.window > 0 && !self.is_ack_missed && !self.is_idle()
    }

    /// The guest does not get to see a duplicate ACK.
    pub(super) fn hide(&mut self, segment: &Segment) {
        self.hidden = Some(segment.options.sack().to_vec());
        self.hidden_acks += 1;
    }

    /// The guest gets an ACK with that window.
    pub(super) fn on_shown(&mut self, shown: u16) {
        self.shown_window = shown;
        self.is_ack_missed = false;
    }

    /// Blocks for duplicate ACKs that tell the guest of a loss that was hidden from it.
    pub(super) fn take_hidden(&mut self) -> Option<Vec<SackBlock>> {
        self.hidden.take()
    }

    /// Blocks for duplicate ACKs that tell the guest of what the box lacks, if all before that is acknowledged.
    pub(super) fn gap(&self) -> Option<Vec<SackBlock>> {
        let (start, end) = self.stream.beyond_gap()?;
        let is_due = self.stream.start() == self.stream.end();
        is_due.then(|| vec![SackBlock { start, end }])
    }

    /// A duplicate ACK to the guest, as the peer would write it.
    pub(super) fn write_duplicate(&mut self, sack: &[SackBlock]) -> Option<Vec<u8>> {
        let una = self.stream.seq_of(self.acked);
        let (seq, _) = self.template.acknowledgement();
        let sack = if self.sack { sack } else { &[] };
        let peer = self.peer.as_mut()?;
        peer.set_acknowledgement(una, self.shown_window);
        let fields = Fields {
            seq,
            flags: TcpFlags::ACK,
            ecn: EcnCodepoint::NotEct,
            clock: self.peer_clock,
            sack,
            urgent: None,
        };
        peer.write(&fields, &[])
    }

    /// Window and rate that are in force, but for the rate while the guest limits the flow.
    pub(super) fn controls(&self) -> Controls {
        Controls {
            rate: self.rate,
            ..self.sender.controls()
        }
    }

    /// Sets window and rate. Packets are not paced while the guest limits the flow: paced, they would spread the guest's
    /// ACKs over the round trip, which ends its slow start long before the path is full (HyStart's trains of ACKs; Ha
    /// and Rhee, 2011, §3.2).
    pub(super) fn set_controls(&mut self, controls: Controls) {
        self.rate = controls.rate;
        let rate = if self.is_limiting { self.rate } else { 0 };
        self.sender.set_controls(Controls { rate, ..controls });
    }

    /// The algorithm limits the flow from now on, not the guest.
    fn limit(&mut self) {
        if !self.is_limiting {
            self.is_limiting = true;
            self.set_controls(self.controls());
        }
    }

    /// Whether more is out than the rate carries in a round trip, and than an initial window.
    fn is_beyond_rate(&self) -> bool {
        let carried = u128::from(self.rate) * u128::from(self.sender.srtt_us()) / 1_000_000;
        let initial = u128::from(initial_window(self.sender.mss()));
        self.rate > 0 && u128::from(self.outstanding()) >= carried.max(initial)
    }

    /// Whether what the box sends again does not arrive.
    pub(super) fn is_stalled(&self) -> bool {
        self.sender.counters().timeouts >= self.timeouts + MAX_TIMEOUTS
    }

    /// The next packet towards the network. `echoes` tells that the peer's marks are to be echoed.
    pub(super) fn poll_transmit(&mut self, now: Time, echoes: bool) -> Option<Vec<u8>> {
        if !self.sack_due.is_empty() {
            return self.write_ack(echoes);
        }
        if self.is_beyond_rate() {
            self.limit();
        }
        if let Some(segment) = self.sender.poll_transmit(now) {
            return self.write(&segment, echoes);
        }
        if self.next < self.stream.end() {
            self.limit();
        }
        if self.is_ack_due {
            return self.write_ack(echoes);
        }
        None
    }

    fn write_ack(&mut self, echoes: bool) -> Option<Vec<u8>> {
        let sack = std::mem::take(&mut self.sack_due);
        self.note_left();
        let fields = Fields {
            seq: self.nxt(),
            flags: with_echo(TcpFlags::ACK, echoes),
            ecn: EcnCodepoint::NotEct,
            clock: self.clock.greatest(),
            sack: &sack,
            urgent: None,
        };
        self.template.write(&fields, &[])
    }

    /// The guest's reset, behind all that has left.
    pub(super) fn write_reset(&mut self, segment: &Segment) -> Option<Vec<u8>> {
        let fields = Fields {
            seq: segment.seq,
            flags: segment.flags,
            ecn: EcnCodepoint::NotEct,
            clock: segment.options.timestamps.map(|(value, _)| value),
            sack: &[],
            urgent: None,
        };
        self.template.write(&fields, &[])
    }

    fn note_left(&mut self) {
        self.left = self.template.acknowledgement();
        self.is_ack_due = false;
    }

    fn write(&mut self, segment: &fairwater_tcp::Segment, echoes: bool) -> Option<Vec<u8>> {
        let (start, end) = (segment.seq, segment.end());
        let is_new = end > self.next;
        let data_end = start.saturating_add(u64::from(segment.len));
        // What was acknowledged within a segment is not held any more.
        let start = start.clamp(self.stream.start().min(data_end), data_end);
        let mut payload = Vec::new();
        self.stream.copy(start, data_end, &mut payload);
        let is_probe = segment.len == 0 && !segment.fin;
        let clock = if is_probe {
            self.clock.greatest()
        } else {
            self.clock.leave((start, end), is_new)
        };
        self.next = self.next.max(end);
        self.note_left();
        let mut flags = with_echo(TcpFlags::ACK, echoes);
        // RFC 9293 §3.9.1: a push at the end of what there is.
        let is_last = data_end == self.stream.end() || u64::from(segment.len) < self.sender.mss();
        for (flag, is_set) in [
            (TcpFlags::FIN, segment.fin),
            (TcpFlags::CWR, segment.cwr),
            (TcpFlags::PSH, is_last && segment.len > 0),
        ] {
            if is_set {
                flags = flags | flag;
            }
        }
        let fields = Fields {
            seq: self
                .stream
                .seq_of(if is_probe { segment.seq } else { start }),
            flags,
            ecn: if segment.ect {
                EcnCodepoint::Ect0
            } else {
                EcnCodepoint::NotEct
            },
            clock,
            sack: &[],
            urgent: self.urgent,
        };
        self.template.write(&fields, &payload)
    }

    /// What was not sent yet, in packets: the box lets go of the connection.
    pub(super) fn drain(&mut self, echoes: bool) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        while self.next < self.stream.end() + u64::from(self.has_fin) {
            let left = self.stream.end().saturating_sub(self.next);
            let len = u32::try_from(left.min(self.sender.mss())).unwrap_or(0);
            let is_last = u64::from(len) == left;
            let before = self.next;
            packets.extend(self.write(
                &fairwater_tcp::Segment {
                    seq: self.next,
                    len,
                    fin: self.has_fin && is_last,
                    ..fairwater_tcp::Segment::default()
                },
                echoes,
            ));
            if self.next == before {
                break;
            }
        }
        packets
    }
}

fn with_echo(flags: TcpFlags, echoes: bool) -> TcpFlags {
    if echoes { flags | TcpFlags::ECE } else { flags }
}
