//! One sender over one bottleneck, packet by packet and deterministic: a FIFO of fixed rate with
//! drop-tail, a fixed propagation delay, an ACK for each packet, losses found by a reordering of
//! three.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;

pub(crate) const MSS: u64 = 1_000;
pub(crate) const INITIAL_WINDOW: u64 = 10 * MSS;

/// What an invocation of a sender's congestion control sees, in bytes and µs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ack {
    pub(crate) now_us: u64,
    pub(crate) acked: u64,
    pub(crate) acked_packets: u64,
    pub(crate) misordered: u64,
    /// First packet that is not acknowledged yet, and the first that was never sent.
    pub(crate) unacked: usize,
    pub(crate) next: usize,
    /// Newly delivered, in or out of order: what no signal of CCP's says exactly.
    pub(crate) delivered: u64,
    pub(crate) lost_packets: u64,
    /// Packets of `delivered` that came with a mark.
    pub(crate) marked_packets: u64,
    pub(crate) in_flight: u64,
    pub(crate) pending: u64,
    pub(crate) rtt_us: u64,
    /// Of the latest delivery-rate sample, bytes/s.
    pub(crate) rate_incoming: u64,
    pub(crate) rate_outgoing: u64,
    pub(crate) timeout: bool,
}

/// A sender's congestion control: given cwnd in packets as the sender has it, yields cwnd in
/// packets and rate in bytes/s, 0 for none.
pub(crate) trait Controller {
    fn invoke(&mut self, ack: &Ack, cwnd_packets: u64) -> (u64, u64);
}

/// How much the application has written by a time, in packets.
pub(crate) type Application = fn(now_us: u64) -> u64;

pub(crate) fn bulk(_: u64) -> u64 {
    1 << 40
}

pub(crate) struct Path {
    pub(crate) packets_per_s: u64,
    pub(crate) rtt_us: u64,
    /// Packets that wait at most.
    pub(crate) queue: usize,
    pub(crate) application: Application,
    /// Payload bytes of each packet, by its index; at most [`MSS`].
    pub(crate) size: fn(packet: usize) -> u64,
    /// Which transmissions are lost on the way, by number and time.
    pub(crate) lose: Box<dyn FnMut(u64, u64) -> bool>,
    /// Which are marked with ECN CE, by number and the packets that wait before it.
    pub(crate) mark: Box<dyn FnMut(u64, usize) -> bool>,
    pub(crate) idle_restart: bool,
    /// How long the receiver gathers packets for one ACK, µs.
    pub(crate) gather_us: u64,
}

impl Path {
    pub(crate) fn new(packets_per_s: u64, rtt_us: u64, queue: usize) -> Self {
        let lose = Box::new(|_, _| false);
        let mark = Box::new(|_, _| false);
        Self {
            packets_per_s,
            rtt_us,
            queue,
            application: bulk,
            size: |_| MSS,
            lose,
            mark,
            idle_restart: true,
            gather_us: 0,
        }
    }
}

/// The state after one invocation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) now_us: u64,
    pub(crate) cwnd: u64,
    pub(crate) in_flight: u64,
    pub(crate) rtt_us: u64,
    pub(crate) delivered: u64,
    pub(crate) lost_now: u64,
    pub(crate) marked_now: u64,
    pub(crate) timeout: bool,
    pub(crate) rate: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Packet {
    InFlight(u64),
    Sacked,
    Lost,
    Acked,
}

struct Transmission {
    number: u64,
    packet: usize,
    sent_us: u64,
    stamp: Stamp,
    marked: bool,
    /// `None` when the network drops it.
    ack_us: Option<u64>,
}

/// The flow when a packet is sent (draft-cheng-iccrg-delivery-rate-estimation §3.2).
#[derive(Debug, Clone, Copy, Default)]
struct Stamp {
    delivered: u64,
    delivered_us: u64,
    first_sent_us: u64,
}

struct Sender<'c> {
    path: Path,
    control: &'c mut dyn Controller,
    now_us: u64,
    packets: Vec<Packet>,
    unacked: usize,
    transmissions: VecDeque<Transmission>,
    lost: BTreeSet<usize>,
    departures: VecDeque<u64>,
    next_number: u64,
    in_flight: u64,
    sacked: u64,
    cwnd: u64,
    rate: u64,
    next_paced_us: u64,
    last_sent_us: u64,
    rto_at_us: u64,
    rto_us: u64,
    rtt_us: u64,
    samples: Vec<Sample>,
    delivered: u64,
    marked: u64,
    stamp: Stamp,
    rates: (u64, u64),
}

/// Runs for a while and yields every invocation.
pub(crate) fn run(path: Path, control: &mut dyn Controller, seconds: f64) -> Vec<Sample> {
    let mut s = Sender {
        path,
        control,
        now_us: 0,
        packets: Vec::new(),
        unacked: 0,
        transmissions: VecDeque::new(),
        lost: BTreeSet::new(),
        departures: VecDeque::new(),
        next_number: 0,
        in_flight: 0,
        sacked: 0,
        cwnd: INITIAL_WINDOW / MSS,
        rate: 0,
        next_paced_us: 0,
        last_sent_us: 0,
        rto_at_us: 1_000_000,
        rto_us: 1_000_000,
        rtt_us: u64::MAX,
        samples: Vec::new(),
        delivered: 0,
        marked: 0,
        stamp: Stamp::default(),
        rates: (0, 0),
    };
    let end_us = (seconds * 1e6) as u64;
    while s.now_us < end_us {
        s.send();
        let ack = s
            .transmissions
            .iter()
            .find_map(|t| t.ack_us)
            .map_or(u64::MAX, |first| first + s.path.gather_us);
        let rto = if s.transmissions.is_empty() {
            u64::MAX
        } else {
            s.rto_at_us
        };
        // The application and the pacer are looked at each millisecond and each µs slot.
        let wake = if s.next_paced_us > s.now_us {
            s.next_paced_us
        } else {
            s.now_us + 1_000
        };
        s.now_us = ack.min(rto).min(wake);
        if s.now_us == ack {
            s.acknowledge();
        } else if s.now_us == rto {
            s.time_out();
        }
    }
    s.samples
}

impl Sender<'_> {
    fn send(&mut self) {
        if self.path.idle_restart
            && self.transmissions.is_empty()
            && self.now_us > self.last_sent_us + self.rto_us
            && (self.path.application)(self.now_us) > self.packets.len() as u64
        {
            self.cwnd = self.cwnd.min(INITIAL_WINDOW / MSS);
            self.last_sent_us = self.now_us;
        }
        while self.in_flight < self.cwnd && self.next_paced_us <= self.now_us {
            let packet = match self.lost.pop_first() {
                Some(packet) if self.packets[packet] != Packet::Lost => continue,
                Some(packet) => packet,
                None if (self.path.application)(self.now_us) > self.packets.len() as u64 => {
                    self.packets.push(Packet::Lost);
                    self.packets.len() - 1
                }
                None => break,
            };
            self.transmit(packet);
            if let Some(gap_us) = (MSS * 1_000_000).checked_div(self.rate) {
                self.next_paced_us = self.now_us.max(1) + gap_us;
            }
        }
    }

    fn transmit(&mut self, packet: usize) {
        while self
            .departures
            .front()
            .is_some_and(|d| *d <= self.now_us * 1_000)
        {
            self.departures.pop_front();
        }
        let number = self.next_number;
        self.next_number += 1;
        let dropped =
            self.departures.len() > self.path.queue || (self.path.lose)(number, self.now_us);
        let marked = !dropped && (self.path.mark)(number, self.departures.len());
        let ack_us = (!dropped).then(|| {
            let start = self
                .departures
                .back()
                .copied()
                .unwrap_or(0)
                .max(self.now_us * 1_000);
            let departure = start + 1_000_000_000 / self.path.packets_per_s;
            self.departures.push_back(departure);
            departure / 1_000 + self.path.rtt_us
        });
        if self.transmissions.is_empty() {
            self.rto_at_us = self.now_us + self.rto_us;
            self.stamp.delivered_us = self.now_us;
            self.stamp.first_sent_us = self.now_us;
        }
        self.last_sent_us = self.now_us;
        self.packets[packet] = Packet::InFlight(number);
        self.in_flight += 1;
        self.transmissions.push_back(Transmission {
            number,
            packet,
            sent_us: self.now_us,
            stamp: Stamp {
                delivered: self.delivered,
                ..self.stamp
            },
            marked,
            ack_us,
        });
    }

    fn acknowledge(&mut self) {
        let sacked_before = self.sacked;
        let unacked_before = self.unacked;
        let delivered_before = self.delivered;
        self.marked = 0;
        let mut lost_packets = 0;
        let due = |t: &Transmission, now_us| t.ack_us.is_some_and(|at| at <= now_us);
        while let Some(at) = self.transmissions.iter().position(|t| due(t, self.now_us)) {
            let Some(t) = self.transmissions.remove(at) else {
                break;
            };
            self.receive(&t);
            while self
                .transmissions
                .front()
                .is_some_and(|o| o.ack_us.is_none() && o.number + 3 <= t.number)
            {
                lost_packets += self.lose_first();
            }
        }
        self.rto_us = self.rtt_us + 200_000;
        self.rto_at_us = self.now_us + self.rto_us;
        let acked = unacked_before..self.unacked;
        let misordered = self.sacked.saturating_sub(sacked_before);
        let delivered = self.delivered - delivered_before;
        self.invoke(acked, misordered, delivered, lost_packets, false);
    }

    fn receive(&mut self, t: &Transmission) {
        if matches!(self.packets[t.packet], Packet::InFlight(_) | Packet::Lost) {
            if self.packets[t.packet] != Packet::Lost {
                self.in_flight -= 1;
            }
            self.packets[t.packet] = Packet::Sacked;
            self.sacked += 1;
            self.delivered += 1;
            self.marked += u64::from(t.marked);
        }
        while self.packets.get(self.unacked) == Some(&Packet::Sacked) {
            self.packets[self.unacked] = Packet::Acked;
            self.sacked -= 1;
            self.unacked += 1;
        }
        self.rtt_us = self.now_us - t.sent_us;
        let packets = self.delivered - t.stamp.delivered;
        let rate = |us: u64| (packets * MSS * 1_000_000).checked_div(us);
        self.rates = (
            rate(self.now_us - t.stamp.delivered_us).unwrap_or(self.rates.0),
            rate(t.sent_us - t.stamp.first_sent_us).unwrap_or(self.rates.1),
        );
        self.stamp.delivered_us = self.now_us;
        self.stamp.first_sent_us = t.sent_us;
    }

    fn lose_first(&mut self) -> u64 {
        let Some(o) = self.transmissions.pop_front() else {
            return 0;
        };
        if self.packets[o.packet] != Packet::InFlight(o.number) {
            return 0;
        }
        self.packets[o.packet] = Packet::Lost;
        self.lost.insert(o.packet);
        self.in_flight -= 1;
        1
    }

    fn time_out(&mut self) {
        let mut lost_packets = 0;
        while !self.transmissions.is_empty() {
            lost_packets += self.lose_first();
        }
        self.cwnd = 1;
        self.rto_us *= 2;
        self.rto_at_us = self.now_us + self.rto_us;
        self.invoke(0..0, 0, 0, lost_packets, true);
    }

    fn invoke(
        &mut self,
        acked: Range<usize>,
        misordered: u64,
        delivered: u64,
        lost_packets: u64,
        timeout: bool,
    ) {
        let written =
            (self.path.application)(self.now_us).saturating_sub(self.packets.len() as u64);
        let ack = Ack {
            now_us: self.now_us,
            acked_packets: acked.len() as u64,
            acked: acked.map(self.path.size).sum(),
            unacked: self.unacked,
            next: self.packets.len(),
            misordered: misordered * MSS,
            delivered: delivered * MSS,
            lost_packets,
            marked_packets: if timeout { 0 } else { self.marked },
            in_flight: self.in_flight * MSS,
            pending: written * MSS,
            rtt_us: self.rtt_us,
            rate_incoming: self.rates.0,
            rate_outgoing: self.rates.1,
            timeout,
        };
        (self.cwnd, self.rate) = self.control.invoke(&ack, self.cwnd);
        self.samples.push(Sample {
            now_us: self.now_us,
            cwnd: self.cwnd,
            in_flight: self.in_flight,
            rtt_us: self.rtt_us,
            delivered: self.delivered,
            lost_now: lost_packets,
            marked_now: ack.marked_packets,
            timeout,
            rate: self.rate,
        });
    }
}
