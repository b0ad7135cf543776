//! The links of the network, with what is measured of them.

use fairwater_net::{Link, LinkConfig, Time};
use rand::Rng;

use crate::bundles::{self, BundleSnapshot, BundlesAtEdge};
use crate::events::{Alarm, Event, Events};
use crate::measure::EdgeMeasure;
use crate::packet::{PacketHandle, Segments};
use crate::random::{Purpose, stream};
use crate::{EdgeOutcome, EdgeSnapshot, Experiment, PacketOutcome};

/// All edges, by index.
#[derive(Debug)]
pub(crate) struct Edges {
    edges: Vec<Active>,
    /// Packets that passed an edge.
    pub(crate) hops: u64,
    /// The edge of [`crate::Measure::watch`].
    watched: Option<u32>,
    /// Outcomes of packets on the watched edge, until the observer takes them.
    pub(crate) outcomes: Vec<(PacketHandle, PacketOutcome)>,
}

#[derive(Debug)]
struct Active {
    link: Link<PacketHandle>,
    alarm: Alarm,
    measure: EdgeMeasure,
    bundles: BundlesAtEdge,
}

impl Edges {
    pub(crate) fn new(config: &Experiment, end: Time) -> Self {
        let edge = |(index, edge): (usize, &crate::Edge)| {
            let mixed = stream(config.seed, Purpose::Edge, index).next_u64();
            let link = LinkConfig {
                seed: edge.link.seed ^ mixed,
                ..edge.link.clone()
            };
            Active {
                link: Link::new(&link),
                alarm: Alarm::default(),
                measure: EdgeMeasure::new(&config.measure, end),
                bundles: BundlesAtEdge::new(&config.measure, end),
            }
        };
        Self {
            edges: config.edges.iter().enumerate().map(edge).collect(),
            hops: 0,
            watched: config.measure.watch.map(|edge| edge.0),
            outcomes: Vec::new(),
        }
    }

    /// A packet enters.
    #[inline]
    pub(crate) fn enter(
        &mut self,
        index: u32,
        now: Time,
        packet: PacketHandle,
        segments: &mut Segments,
        events: &mut Events,
    ) {
        let outcomes = (self.watched == Some(index)).then_some(&mut self.outcomes);
        let edge = &mut self.edges[index as usize];
        edge.bundles.arrived(packet.bundle, packet.size_bytes);
        edge.link.enqueue(now, packet);
        edge.free_dropped(segments, outcomes);
        edge.wake(index, events);
    }

    /// Whether the edge's event is the one that its alarm waits for.
    #[inline]
    pub(crate) fn rings(&mut self, index: u32, now: Time) -> bool {
        self.edges[index as usize].alarm.rings(now)
    }

    /// The next packet that comes out by now; after the last, sets the edge's next event.
    #[inline]
    pub(crate) fn leave(
        &mut self,
        index: u32,
        now: Time,
        segments: &mut Segments,
        events: &mut Events,
    ) -> Option<PacketHandle> {
        let outcomes = (self.watched == Some(index)).then_some(&mut self.outcomes);
        let edge = &mut self.edges[index as usize];
        match edge.link.poll(now) {
            Some(delivered) => {
                self.hops += 1;
                edge.measure.passed(&delivered.times);
                edge.bundles
                    .came_out(delivered.packet.bundle, &delivered.times);
                if let Some(outcomes) = outcomes {
                    outcomes.push((delivered.packet, PacketOutcome::Delivered(delivered.times)));
                }
                Some(delivered.packet)
            }
            None => {
                edge.free_dropped(segments, outcomes);
                edge.wake(index, events);
                None
            }
        }
    }

    /// Summaries begin.
    pub(crate) fn begin(&mut self, now: Time) {
        for edge in &mut self.edges {
            let queued = edge.queued(now);
            edge.measure.begin(edge.link.counters(), queued);
            edge.bundles.begin();
        }
    }

    /// An interval ends. All edges have let out what is due.
    pub(crate) fn sample(&mut self, now: Time) {
        for edge in &mut self.edges {
            let (counters, queued) = (edge.link.counters(), edge.link.queued_bytes());
            edge.measure.sample(now, counters, queued);
            if !edge.bundles.is_empty() {
                let served: Vec<_> = edge.served().collect();
                edge.bundles.sample(now, served.into_iter());
            }
        }
    }

    /// State and counters of an edge now.
    pub(crate) fn snapshot(&mut self, index: u32, now: Time) -> Option<EdgeSnapshot> {
        let edge = self.edges.get_mut(index as usize)?;
        edge.link.advance(now);
        let counters = edge.link.counters();
        Some(EdgeSnapshot {
            queued_bytes: edge.link.queued_bytes(),
            queued_packets: edge.link.queued_packets() as u64,
            in_flight_packets: edge.link.in_flight().count() as u64,
            arrived: counters.arrived,
            delivered: counters.delivered,
            dropped: counters.dropped_full + counters.dropped_aqm,
            lost: counters.dropped_lost,
            marked: counters.marked,
        })
    }

    /// A bundle, by number, at an edge now; `None` if no packet of it has arrived there.
    pub(crate) fn bundle(&mut self, index: u32, number: u8, now: Time) -> Option<BundleSnapshot> {
        let edge = self.edges.get_mut(index as usize)?;
        edge.link.advance(now);
        edge.bundles.snapshot(number, edge.served())
    }

    /// Packets in all edges.
    pub(crate) fn in_transit(&self) -> usize {
        self.edges.iter().map(|edge| edge.link.in_transit()).sum()
    }

    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.edges.len()).unwrap_or(u32::MAX)
    }

    /// Summarises the edges at the end. Packets that have left a bottleneck count, including those
    /// in flight. All edges have let out what is due.
    pub(crate) fn finish(self, config: &Experiment, now: Time) -> Vec<EdgeOutcome> {
        let names = bundles::names(config);
        let edges = self.edges.into_iter().zip(&config.edges);
        edges
            .map(|(mut edge, config)| {
                let sent = edge.link.in_flight_packets();
                for sent in sent.filter(|sent| sent.times.departed <= now) {
                    edge.measure.passed(&sent.times);
                    edge.bundles.passed(sent.packet.bundle, &sent.times);
                }
                let queued = edge.queued(now.plus_nanos(1));
                let counters = edge.link.counters();
                EdgeOutcome {
                    bundles: edge.bundles.finish(&names),
                    ..edge.measure.finish(&config.link.capacity, counters, queued)
                }
            })
            .collect()
    }
}

impl Active {
    /// Bundle and size of each packet that has left the queue and not come out.
    fn served(&self) -> impl Iterator<Item = (u8, u32)> {
        let served = self.link.in_flight_packets();
        served.map(|sent| (sent.packet.bundle, sent.times.size_bytes))
    }

    /// Packets that have not left the bottleneck before `now`: in the queue or being sent.
    fn queued(&self, now: Time) -> u64 {
        let sending = self.link.in_flight().filter(|sent| sent.departed >= now);
        (self.link.queued_packets() + sending.count()) as u64
    }

    #[inline]
    fn free_dropped(
        &mut self,
        segments: &mut Segments,
        mut outcomes: Option<&mut Vec<(PacketHandle, PacketOutcome)>>,
    ) {
        for dropped in self.link.drain_dropped() {
            let packet = &dropped.packet;
            segments.free(packet.segment);
            self.bundles
                .dropped(packet.bundle, packet.size_bytes, dropped.at);
            if let Some(outcomes) = &mut outcomes {
                let outcome = PacketOutcome::Dropped {
                    at: dropped.at,
                    size_bytes: dropped.packet.size_bytes,
                    reason: dropped.reason,
                };
                outcomes.push((dropped.packet, outcome));
            }
        }
    }

    #[inline]
    fn wake(&mut self, index: u32, events: &mut Events) {
        self.alarm
            .set(self.link.next_departure(), Event::Edge(index), events);
    }
}
