//! Two sites with a box each, and a path between them. Deterministic: all times are virtual.

use std::net::SocketAddr;
use std::time::Duration;

use fairwater_bundle::{
    BundleSecret, ChannelConfig, ModeChange, OutgoingMessage, Prefix, ReceiveBundleConfig,
    Receivebox, SendBundleConfig, SendBundleStatus, Sendbox,
};
use fairwater_datapath::Datapath;
use fairwater_net::{Link, LinkConfig, Packet, Time};

use crate::packets::{self, Bytes, RECEIVER, SENDER, address};
use crate::plane::Plane;

pub(crate) const BUNDLE: u32 = 7;

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn sendbox_address() -> SocketAddr {
    "192.0.2.254:4000".parse().unwrap()
}

pub(crate) fn receivebox_address() -> SocketAddr {
    "198.51.100.254:4000".parse().unwrap()
}

pub(crate) fn channel(instance: u64) -> ChannelConfig {
    ChannelConfig {
        bundle: BUNDLE,
        secret: BundleSecret([3; 32]),
        instance,
    }
}

pub(crate) fn prefix(text: &str, length: u8) -> Prefix {
    Prefix::new(address(text), length).unwrap()
}

pub(crate) fn send_config() -> SendBundleConfig {
    SendBundleConfig::new(
        channel(11),
        receivebox_address(),
        vec![prefix("198.51.100.0", 24)],
    )
}

pub(crate) fn receivebox(instance: u64) -> Receivebox {
    Receivebox::new(&[ReceiveBundleConfig {
        channel: channel(instance),
        sources: vec![prefix("192.0.2.0", 24)],
        destinations: vec![prefix("198.51.100.0", 24)],
    }])
    .unwrap()
}

/// A message of a receivebox under way.
#[derive(Debug, Clone)]
pub(crate) struct Datagram {
    pub(crate) from: SocketAddr,
    pub(crate) message: OutgoingMessage,
}

impl Packet for Datagram {
    fn size_bytes(&self) -> u32 {
        self.message.bytes.len() as u32 + 28
    }
}

/// Where packets come from.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    /// As [`Source::Window`], two bandwidth-delay products of the first path.
    Backlogged,
    /// Bytes/s, evenly.
    Paced(u64),
    /// End hosts that keep so many bytes between them and the receiving hosts, without any control.
    Window(u64),
}

/// A change to packets on the path.
pub(crate) type Rewrite = Box<dyn FnMut(&mut Bytes)>;

pub(crate) struct Network {
    pub(crate) now: Time,
    pub(crate) sendbox: Sendbox<Bytes>,
    pub(crate) receivebox: Receivebox,
    pub(crate) plane: Plane,
    /// Parallel paths; the first is the only one unless flows are spread.
    pub(crate) forward: Vec<Link<Bytes>>,
    pub(crate) reverse: Link<Datagram>,
    /// Messages of the sendbox under way.
    to_receivebox: Vec<(Time, OutgoingMessage)>,
    delay: Duration,
    pub(crate) source: Source,
    pub(crate) flows: u16,
    next: u32,
    next_arrival: Time,
    /// Bytes that hosts have sent and that have not come out.
    outstanding: u64,
    /// Of a backlogged source.
    window: u64,
    pub(crate) rewrite: Option<Rewrite>,
    /// Where the receivebox's messages seem to come from.
    pub(crate) receivebox_seen_as: SocketAddr,
    /// Whether feedback gets through.
    pub(crate) is_feedback_lost: bool,
    /// One of so many packets bypasses the receivebox.
    pub(crate) bypassing: Option<u32>,
    /// Copies of packets that come out.
    pub(crate) duplicates: Option<u32>,
    is_fragmented: bool,
    is_equal: bool,
    pub(crate) changes: Vec<ModeChange>,
    pub(crate) feedback_log: Vec<Datagram>,
    pub(crate) delivered: u64,
    pub(crate) delivered_bytes: u64,
    /// Size of the packets, bytes.
    pub(crate) size: usize,
    /// Queueing delay at the bottleneck: sum and count.
    pub(crate) queueing: (Duration, u32),
}

impl Network {
    /// `forward` is the bottleneck; its delay is that of each direction.
    pub(crate) fn new(program: &str, forward: &LinkConfig, source: Source) -> Self {
        Self::with(
            program,
            std::slice::from_ref(forward),
            source,
            send_config(),
        )
    }

    pub(crate) fn with(
        program: &str,
        forward: &[LinkConfig],
        source: Source,
        config: SendBundleConfig,
    ) -> Self {
        Self::under(Plane::new(program), forward, source, config)
    }

    pub(crate) fn under(
        (plane, datapath): (Plane, Datapath),
        forward: &[LinkConfig],
        source: Source,
        config: SendBundleConfig,
    ) -> Self {
        let delay = forward[0].delay;
        let rate = forward[0].capacity.nominal_rate().unwrap();
        let window = 2 * rate.bytes_in(delay * 2);
        let reverse = LinkConfig::new(
            fairwater_net::Capacity::Unlimited,
            fairwater_net::QueueConfig::DropTail(fairwater_net::Limit::Unlimited),
            delay,
        );
        Self {
            now: Time::ZERO,
            sendbox: Sendbox::new(&[config], 100_000_000, datapath, plane.peer).unwrap(),
            receivebox: receivebox(21),
            plane,
            forward: forward.iter().map(Link::new).collect(),
            reverse: Link::new(&reverse),
            to_receivebox: Vec::new(),
            delay,
            source,
            flows: 10,
            next: 0,
            next_arrival: Time::ZERO,
            outstanding: 0,
            window,
            rewrite: None,
            receivebox_seen_as: receivebox_address(),
            is_feedback_lost: false,
            bypassing: None,
            duplicates: None,
            is_fragmented: false,
            is_equal: false,
            changes: Vec::new(),
            feedback_log: Vec::new(),
            delivered: 0,
            delivered_bytes: 0,
            size: 1_500,
            queueing: (Duration::ZERO, 0),
        }
    }

    pub(crate) fn status(&self) -> SendBundleStatus {
        self.sendbox.status(BUNDLE).unwrap()
    }

    pub(crate) fn run(&mut self, time: Duration) {
        let end = self.now + time;
        self.run_each(end, &mut |_| {});
    }

    /// Runs, and calls `each` after every event.
    pub(crate) fn run_each(&mut self, end: Time, each: &mut dyn FnMut(&mut Self)) {
        loop {
            self.step();
            each(self);
            let next = self.next_event();
            if next > end {
                self.now = end;
                return;
            }
            self.now = self.now.max(next);
        }
    }

    fn next_event(&mut self) -> Time {
        let mut next = self.sendbox.next_timeout();
        let links = self.forward.iter().filter_map(Link::next_departure);
        let others = links
            .chain(self.reverse.next_departure())
            .chain(self.to_receivebox.iter().map(|(at, _)| *at));
        next = others.fold(next, Time::min);
        match self.source {
            Source::Paced(_) => next.min(self.next_arrival),
            Source::Backlogged | Source::Window(_) => next,
        }
    }

    fn step(&mut self) {
        self.sendbox.on_timer(self.now);
        self.plane
            .serve(self.sendbox.datapath_mut(), self.now.as_nanos() / 1_000);
        self.deliver_messages();
        self.deliver_packets();
        self.produce();
        while let Some(packet) = self.sendbox.poll(self.now) {
            let path = (packet.flow * 7) as usize % self.forward.len();
            self.forward[path].enqueue(self.now, packet);
            self.produce();
        }
        let outstanding = &mut self.outstanding;
        for link in &mut self.forward {
            for dropped in link.drain_dropped() {
                *outstanding -= u64::from(dropped.packet.size_bytes());
            }
        }
        for dropped in self.sendbox.drain_dropped() {
            *outstanding -= u64::from(dropped.packet.size_bytes());
        }
        while let Some(message) = self.sendbox.poll_message() {
            self.to_receivebox.push((self.now + self.delay, message));
        }
        self.changes
            .extend(std::iter::from_fn(|| self.sendbox.poll_change()));
    }

    fn deliver_messages(&mut self) {
        let now = self.now;
        let (due, later) = std::mem::take(&mut self.to_receivebox)
            .into_iter()
            .partition(|(at, _)| *at <= now);
        self.to_receivebox = later;
        let due: Vec<(Time, OutgoingMessage)> = due;
        for (_, message) in due {
            let _ = self
                .receivebox
                .on_message(now, sendbox_address(), &message.bytes);
        }
        self.send_feedback();
        while let Some(delivered) = self.reverse.poll(now) {
            let datagram = delivered.packet;
            let _ = self
                .sendbox
                .on_message(now, datagram.from, &datagram.message.bytes);
            self.feedback_log.push(datagram);
        }
    }

    fn send_feedback(&mut self) {
        while let Some(message) = self.receivebox.poll_message() {
            if !self.is_feedback_lost {
                let from = self.receivebox_seen_as;
                self.reverse.enqueue(self.now, Datagram { from, message });
            }
        }
    }

    fn deliver_packets(&mut self) {
        let mut arrived = Vec::new();
        for link in &mut self.forward {
            while let Some(delivered) = link.poll(self.now) {
                self.queueing.0 += delivered.times.queueing_delay();
                self.queueing.1 += 1;
                arrived.push(delivered.packet);
            }
        }
        for mut packet in arrived {
            self.outstanding -= u64::from(packet.size_bytes());
            self.delivered += 1;
            self.delivered_bytes += u64::from(packet.size_bytes());
            if let Some(rewrite) = &mut self.rewrite {
                rewrite(&mut packet);
            }
            let is_one_of = |each: Option<u32>| {
                each.is_some_and(|each| self.delivered.is_multiple_of(u64::from(each)))
            };
            if is_one_of(self.bypassing) {
                continue;
            }
            let copies = 1 + u32::from(is_one_of(self.duplicates));
            for _ in 0..copies {
                let parsed = fairwater_wire::Packet::parse_ip(&packet.bytes).unwrap();
                self.receivebox
                    .on_packet(self.now, &parsed, packet.segmentation);
            }
        }
        self.send_feedback();
    }

    fn produce(&mut self) {
        match self.source {
            Source::Backlogged | Source::Window(_) => {
                let bytes = match self.source {
                    Source::Window(bytes) => bytes,
                    _ => self.window,
                };
                while self.outstanding + 1_500 <= bytes {
                    self.arrive();
                }
            }
            Source::Paced(rate) => {
                while self.next_arrival <= self.now {
                    self.arrive();
                    let gap = self.size as u64 * 1_000_000_000 / rate;
                    self.next_arrival = self.next_arrival.max(self.now - ms(100)).plus_nanos(gap);
                }
            }
        }
    }

    fn arrive(&mut self) {
        let flow = (self.next % u32::from(self.flows)) as u16;
        let index = self.next / u32::from(self.flows);
        let mut packet = packets::tcp(flow, index, self.size);
        if self.is_fragmented {
            packet.bytes[6] |= 0x20;
        }
        if self.is_equal {
            packet = packets::tcp(1, 3, self.size);
        }
        self.next += 1;
        self.outstanding += u64::from(packet.size_bytes());
        let left = self.sendbox.enqueue(self.now, address(RECEIVER), packet);
        assert!(left.is_ok());
    }

    /// From now on, hosts send fragments only.
    pub(crate) const fn send_fragments(&mut self) {
        self.is_fragmented = true;
    }

    /// From now on, all packets are equal.
    pub(crate) const fn send_equal_packets(&mut self) {
        self.is_equal = true;
    }

    pub(crate) fn restart_receivebox(&mut self, instance: u64) {
        self.receivebox = receivebox(instance);
    }

    pub(crate) fn restart_sendbox(&mut self, instance: u64, program: &str) {
        let (plane, datapath) = Plane::new(program);
        let mut config = send_config();
        config.channel.instance = instance;
        self.sendbox = Sendbox::new(&[config], 100_000_000, datapath, plane.peer).unwrap();
        self.plane = plane;
        // What waited is gone.
        let in_transit: u64 = self
            .forward
            .iter()
            .map(|link| link.in_transit() as u64 * self.size as u64)
            .sum();
        self.outstanding = in_transit;
    }

    /// Mean time in the bottleneck's queue since this was called last.
    pub(crate) fn take_queueing(&mut self) -> Duration {
        let (sum, count) = std::mem::take(&mut self.queueing);
        sum / count.max(1)
    }
}

/// A link of this rate in Mbit/s and RTT in ms, with a buffer in BDP.
pub(crate) fn link(mbit: u64, rtt_ms: u64, bdp: u64) -> LinkConfig {
    let rate = fairwater_net::Rate::from_bps(mbit * 1_000_000).unwrap();
    let buffer = rate.bytes_in(ms(rtt_ms * bdp)).max(30_000);
    LinkConfig::new(
        fairwater_net::Capacity::Rate(rate),
        fairwater_net::QueueConfig::DropTail(fairwater_net::Limit::Bytes(buffer)),
        ms(rtt_ms) / 2,
    )
}

/// Bytes/s of so many Mbit/s.
pub(crate) const fn mbit(mbit: u64) -> u64 {
    mbit * 125_000
}

pub(crate) fn sender() -> std::net::IpAddr {
    address(SENDER)
}
