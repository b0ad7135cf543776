//! The boxes of bundles: a sendbox in front of an edge, a receivebox where the packets end, and the messages
//! between the two.

mod bytes;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use fairwater_bundle::{
    BundlePacket, BundleSecret, ChannelConfig, OutgoingMessage, ReceiveBundleConfig, Receivebox,
    SendBundleConfig, Sendbox,
};
use fairwater_net::{Capacity, Counters, Ecn, Packet, PacketTimes, Time};
use fairwater_tcp::Segment;
use rand::Rng;

use crate::bundles;
use crate::datagrams::HEADERS;
use crate::events::{Alarm, Event, Events};
use crate::flow::Flow;
use crate::measure::EdgeMeasure;
use crate::packet::PacketHandle;
use crate::plane_link::{Host, PlaneLink};
use crate::random::{Purpose, stream};
use crate::routes::{Hop, Routes};
use crate::{BundleConfig, EdgeId, Experiment, SendboxOutcome, SendboxSample};

use bytes::Bytes;
pub(crate) use bytes::RECEIVERS;

/// Where the boxes' messages come from.
const SENDBOX: SocketAddr = address(1);
const RECEIVEBOX: SocketAddr = address(2);

const fn address(last: u8) -> SocketAddr {
    let ip = Ipv4Addr::new(192, 0, 2, last);
    SocketAddr::new(std::net::IpAddr::V4(ip), 4000)
}

/// A packet in a sendbox's queue.
#[derive(Debug)]
pub(crate) struct Carried {
    pub(crate) packet: PacketHandle,
    arrived: Time,
    on_wire: fairwater_bundle::Segment,
}

impl Packet for Carried {
    fn size_bytes(&self) -> u32 {
        self.packet.size_bytes
    }

    fn flow(&self) -> u64 {
        self.packet.flow()
    }

    fn priority(&self) -> u8 {
        self.packet.priority
    }

    fn ecn(&self) -> Ecn {
        self.packet.ecn
    }

    fn mark_ce(&mut self) {
        self.packet.mark_ce();
    }
}

impl BundlePacket for Carried {
    fn for_each_segment(&self, each: &mut dyn FnMut(&fairwater_bundle::Segment)) {
        each(&self.on_wire);
    }
}

/// All boxes.
#[derive(Debug, Default)]
pub(crate) struct Sendboxes {
    pairs: Vec<Pair>,
    /// By number of a bundle: index of its pair.
    by_bundle: Vec<Option<u32>>,
    bytes: Bytes,
}

/// The boxes of one bundle.
#[derive(Debug)]
pub(crate) struct Pair {
    name: String,
    /// The sendbox, as the plane's link names it.
    pub(crate) host: Host,
    /// The edge behind the sendbox.
    pub(crate) at: u32,
    number: u32,
    receivebox: Receivebox,
    pub(crate) alarm: Alarm,
    to_receivebox: Messages,
    to_sendbox: Messages,
    measure: EdgeMeasure,
    counters: Counters,
    changes: Vec<(Time, String)>,
    samples: Vec<SendboxSample>,
}

/// Most messages under way in one direction: what is older was dropped on its way.
const MOST_UNDER_WAY: u64 = 4_096;

/// Messages under way in one direction, by number.
#[derive(Debug)]
struct Messages {
    path: Hop,
    sent: u64,
    under_way: BTreeMap<u64, OutgoingMessage>,
}

impl Messages {
    const fn new(path: Hop) -> Self {
        Self {
            path,
            sent: 0,
            under_way: BTreeMap::new(),
        }
    }

    fn send(&mut self, message: OutgoingMessage) -> Sent {
        let sent = Sent {
            number: self.sent,
            path: self.path,
            bytes: HEADERS + u32::try_from(message.bytes.len()).unwrap_or(0),
        };
        self.under_way.insert(self.sent, message);
        self.sent += 1;
        if let Some(lost) = self.sent.checked_sub(MOST_UNDER_WAY) {
            self.under_way.remove(&lost);
        }
        sent
    }
}

/// A message that begins its way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) number: u64,
    pub(crate) path: Hop,
    /// Of the IP packet.
    pub(crate) bytes: u32,
}

impl Sendboxes {
    /// The boxes of a checked configuration.
    pub(crate) fn new(
        config: &Experiment,
        end: Time,
        (flows, routes): (&[Flow], &mut Routes),
        plane: &mut PlaneLink,
    ) -> Self {
        let names = bundles::names(config);
        let mut all = Self {
            by_bundle: vec![None; names.len() + 1],
            ..Self::default()
        };
        for (index, bundle) in config.bundles.iter().enumerate() {
            let number = bundles::number(&names, Some(&bundle.name));
            let first = flows.iter().find(|flow| flow.bundle == number);
            let Some(first) = first.filter(|_| number > 0) else {
                continue;
            };
            let paths = paths(config, bundle, first, routes);
            let Some(pair) = Pair::new(config, (index, number), paths, end, plane) else {
                continue;
            };
            let place = u32::try_from(all.pairs.len()).ok();
            all.by_bundle[usize::from(number)] = place;
            all.pairs.push(pair);
        }
        all
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// Every sendbox has a turn at the beginning.
    pub(crate) fn begin_turns(&mut self, events: &mut Events) {
        for (pair, index) in self.pairs.iter_mut().zip(0..) {
            pair.alarm
                .set(Some(Time::ZERO), Event::Sendbox(index), events);
        }
    }

    pub(crate) fn get(&mut self, index: u32) -> &mut Pair {
        &mut self.pairs[index as usize]
    }

    /// The pair of the bundle with this number.
    #[inline]
    pub(crate) fn of(&self, bundle: u8) -> Option<u32> {
        *self.by_bundle.get(usize::from(bundle))?
    }

    /// The pair whose sendbox the packet meets in front of this edge.
    #[inline]
    pub(crate) fn before(&self, edge: u32, packet: &PacketHandle) -> Option<u32> {
        if packet.bundle == 0 || !packet.to_receiver {
            return None;
        }
        let pair = self.of(packet.bundle)?;
        (self.pairs[pair as usize].at == edge).then_some(pair)
    }

    /// The packet as a sendbox carries it, from now on.
    pub(crate) fn carried(
        &mut self,
        now: Time,
        packet: PacketHandle,
        segment: &Segment,
    ) -> Carried {
        Carried {
            on_wire: self.bytes.segment(&packet, segment),
            packet,
            arrived: now,
        }
    }

    /// A packet has reached the end of its path, and passes the receivebox.
    pub(crate) fn receive(
        &mut self,
        now: Time,
        index: u32,
        packet: &PacketHandle,
        segment: &Segment,
    ) {
        let pair = &mut self.pairs[index as usize];
        if let Some(written) = self.bytes.write(packet, segment) {
            pair.receivebox.on_packet(now, &written, None);
        }
    }

    /// Packets in sendboxes.
    pub(crate) fn held(&self) -> usize {
        let held = self.pairs.iter().map(Pair::held);
        usize::try_from(held.sum::<u64>()).unwrap_or(usize::MAX)
    }

    /// Index of the bundle's pair, and the number of the bundle.
    pub(crate) fn named(&self, name: &str) -> Option<(Host, u32)> {
        let pair = self.pairs.iter().find(|pair| pair.name == name)?;
        Some((pair.host, pair.number))
    }

    /// Summaries begin.
    pub(crate) fn begin(&mut self) {
        for pair in &mut self.pairs {
            pair.measure.begin(pair.counters, pair.held());
        }
    }

    /// An interval ends.
    pub(crate) fn sample(&mut self, now: Time, plane: &mut PlaneLink) {
        for pair in &mut self.pairs {
            let Some(sendbox) = plane.sendbox(pair.host) else {
                continue;
            };
            let Some(status) = sendbox.status(pair.number) else {
                continue;
            };
            pair.measure.sample(now, pair.counters, status.queued_bytes);
            pair.samples.push(SendboxSample {
                at: now,
                mode: status.mode,
                rate: status.rate,
                queued_bytes: status.queued_bytes,
                in_flight_bytes: status.in_flight_bytes,
                rtt: status.estimates.rtt,
                min_rtt: status.estimates.min_rtt,
                send_rate: status.estimates.send_rate,
                receive_rate: status.estimates.receive_rate,
            });
        }
    }

    pub(crate) fn finish(self) -> Vec<SendboxOutcome> {
        let pairs = self.pairs.into_iter();
        pairs
            .map(|pair| {
                let held = pair.held();
                SendboxOutcome {
                    bundle: pair.name,
                    queue: pair
                        .measure
                        .finish(&Capacity::Unlimited, pair.counters, held),
                    changes: pair.changes,
                    samples: pair.samples,
                }
            })
            .collect()
    }
}

impl Pair {
    fn new(
        config: &Experiment,
        (index, number): (usize, u8),
        (there, back): (Hop, Hop),
        end: Time,
        plane: &mut PlaneLink,
    ) -> Option<Self> {
        let bundle = &config.bundles[index];
        let mut rng = stream(config.seed, Purpose::Bundle, index);
        let mut secret = [0; 32];
        rng.fill_bytes(&mut secret);
        let channel = ChannelConfig {
            bundle: u32::from(number),
            secret: BundleSecret(secret),
            instance: rng.next_u64() | 1,
        };
        let (destinations, sources) = bytes::prefixes();
        let send = SendBundleConfig {
            algorithm: bundle.algorithm.clone(),
            queue: bundle.queue.clone(),
            // The queue has a limit of its own.
            queue_bytes: u64::MAX,
            queue_time: bundle.queue_time,
            observe: bundle.observe,
            detect: bundle.detect,
            seed: rng.next_u64(),
            ..SendBundleConfig::new(channel.clone(), RECEIVEBOX, destinations.clone())
        };
        let receive = ReceiveBundleConfig {
            channel: ChannelConfig {
                instance: rng.next_u64() | 1,
                ..channel
            },
            sources,
            destinations,
        };
        let name = format!("sendbox of `{}`", bundle.name);
        Some(Self {
            name: bundle.name.clone(),
            host: plane.add_sendbox(&name, config.plane.silence, send)?,
            at: bundle.at.0,
            number: u32::from(number),
            receivebox: Receivebox::new(&[receive]).ok()?,
            alarm: Alarm::default(),
            to_receivebox: Messages::new(there),
            to_sendbox: Messages::new(back),
            measure: EdgeMeasure::new(&config.measure, end),
            counters: Counters::default(),
            changes: Vec::new(),
            samples: Vec::new(),
        })
    }

    /// Packets in the sendbox.
    fn held(&self) -> u64 {
        let counters = &self.counters;
        counters.arrived - counters.delivered - counters.dropped_full - counters.dropped_aqm
    }

    /// A packet goes into the sendbox.
    pub(crate) fn arrived(&mut self) {
        self.counters.arrived += 1;
    }

    /// A packet leaves the sendbox.
    pub(crate) fn left(&mut self, now: Time, carried: &Carried) {
        self.counters.delivered += 1;
        self.measure.passed(&PacketTimes {
            size_bytes: carried.packet.size_bytes,
            enqueued: carried.arrived,
            served: now,
            departed: now,
            due: now,
            marked: false,
        });
    }

    /// The sendbox dropped a packet.
    pub(crate) fn dropped(&mut self, by_discipline: bool) {
        if by_discipline {
            self.counters.dropped_aqm += 1;
        } else {
            self.counters.dropped_full += 1;
        }
    }

    /// Takes up changes of the sendbox's mode; returns when it has something to do again.
    pub(crate) fn tell(&mut self, sendbox: &mut Sendbox<Carried>) -> Time {
        while let Some(change) = sendbox.poll_change() {
            let text = change.to_string();
            // A bundle is a number to its boxes.
            let text = text.split_once(": ").map_or(&*text, |(_, rest)| rest);
            let text = format!("bundle `{}`: {text}", self.name);
            self.changes.push((change.at, text));
        }
        sendbox.next_timeout()
    }

    /// The next message of the sendbox begins its way.
    pub(crate) fn ask(&mut self, sendbox: &mut Sendbox<Carried>) -> Option<Sent> {
        let message = sendbox.poll_message()?;
        Some(self.to_receivebox.send(message))
    }

    /// The next message of the receivebox begins its way.
    pub(crate) fn answer(&mut self) -> Option<Sent> {
        let message = self.receivebox.poll_message()?;
        Some(self.to_sendbox.send(message))
    }

    /// The message of this number arrives at the receivebox.
    pub(crate) fn asked(&mut self, now: Time, number: u64) {
        if let Some(message) = self.to_receivebox.under_way.remove(&number) {
            // What the boxes refuse they count.
            let _ = self.receivebox.on_message(now, SENDBOX, &message.bytes);
        }
    }

    /// The message of this number arrives at the sendbox.
    pub(crate) fn answered(&mut self, now: Time, number: u64, sendbox: &mut Sendbox<Carried>) {
        if let Some(message) = self.to_sendbox.under_way.remove(&number) {
            let _ = sendbox.on_message(now, RECEIVEBOX, &message.bytes);
        }
    }
}

/// The ways of messages to the receivebox and back: those of a flow's packets and acknowledgements, between the
/// node where the sendbox is and the receiver.
fn paths(
    config: &Experiment,
    bundle: &BundleConfig,
    flow: &Flow,
    routes: &mut Routes,
) -> (Hop, Hop) {
    let from = config.edges[bundle.at.0 as usize].from;
    let edges = |path: Option<&Hop>| -> Vec<EdgeId> {
        let edges = path.into_iter().flat_map(|path| routes.edges(*path));
        edges.map(EdgeId).collect()
    };
    let forward = edges(flow.forward.0.first());
    let reverse = edges(flow.reverse.0.first());
    let behind = forward.iter().position(|edge| *edge == bundle.at);
    let there = &forward[behind.unwrap_or(0)..];
    let is_home = |edge: &EdgeId| config.edges[edge.0 as usize].from == from;
    let home = reverse.iter().position(is_home).unwrap_or(reverse.len());
    (routes.add(there), routes.add(&reverse[..home]))
}
