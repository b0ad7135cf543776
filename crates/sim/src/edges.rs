//! The links of the network, with what is measured of them.

use fairwater_net::{Link, LinkConfig, Time};
use rand::Rng;

use crate::events::{Alarm, Event, Events};
use crate::measure::EdgeMeasure;
use crate::packet::{Parcel, Segments};
use crate::random::{Purpose, stream};
use crate::{Config, EdgeOutcome, EdgeReading, Fate};

/// All edges, by index.
#[derive(Debug)]
pub(crate) struct Edges {
    edges: Vec<Active>,
    /// Packets that passed one.
    pub(crate) hops: u64,
    /// The edge of [`crate::Measure::watch`].
    watched: Option<u32>,
    /// What became of packets there and is not told yet.
    pub(crate) fates: Vec<(Parcel, Fate)>,
}

#[derive(Debug)]
struct Active {
    link: Link<Parcel>,
    alarm: Alarm,
    measure: EdgeMeasure,
}

impl Edges {
    pub(crate) fn new(config: &Config, end: Time) -> Self {
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
            }
        };
        Self {
            edges: config.edges.iter().enumerate().map(edge).collect(),
            hops: 0,
            watched: config.measure.watch.map(|edge| edge.0),
            fates: Vec::new(),
        }
    }

    /// A packet enters.
    #[inline]
    pub(crate) fn enter(
        &mut self,
        index: u32,
        now: Time,
        parcel: Parcel,
        segments: &mut Segments,
        events: &mut Events,
    ) {
        let fates = (self.watched == Some(index)).then_some(&mut self.fates);
        let edge = &mut self.edges[index as usize];
        edge.link.enqueue(now, parcel);
        edge.free_dropped(segments, fates);
        edge.wake(index, events);
    }

    /// Whether the event that came is still the edge's turn.
    #[inline]
    pub(crate) fn rings(&mut self, index: u32, now: Time) -> bool {
        self.edges[index as usize].alarm.rings(now)
    }

    /// The next packet that comes out by now; after the last, the edge's next turn is set.
    #[inline]
    pub(crate) fn leave(
        &mut self,
        index: u32,
        now: Time,
        segments: &mut Segments,
        events: &mut Events,
    ) -> Option<Parcel> {
        let fates = (self.watched == Some(index)).then_some(&mut self.fates);
        let edge = &mut self.edges[index as usize];
        match edge.link.poll(now) {
            Some(delivered) => {
                self.hops += 1;
                edge.measure.passed(&delivered.passage);
                if let Some(fates) = fates {
                    fates.push((delivered.packet, Fate::Passed(delivered.passage)));
                }
                Some(delivered.packet)
            }
            None => {
                edge.free_dropped(segments, fates);
                edge.wake(index, events);
                None
            }
        }
    }

    /// Summaries begin.
    pub(crate) fn begin(&mut self) {
        for edge in &mut self.edges {
            edge.measure.begin(edge.link.counters());
        }
    }

    /// An interval ends. All edges have let out what is due.
    pub(crate) fn sample(&mut self, now: Time) {
        for edge in &mut self.edges {
            let (counters, queued) = (edge.link.counters(), edge.link.queued_bytes());
            edge.measure.sample(now, counters, queued);
        }
    }

    /// An edge as it is now.
    pub(crate) fn reading(&mut self, index: u32, now: Time) -> Option<EdgeReading> {
        let edge = self.edges.get_mut(index as usize)?;
        edge.link.advance(now);
        let counters = edge.link.counters();
        Some(EdgeReading {
            queued_bytes: edge.link.queued_bytes(),
            arrived: counters.arrived,
            delivered: counters.delivered,
            dropped: counters.dropped_full + counters.dropped_aqm,
            lost: counters.dropped_lost,
            marked: counters.marked,
        })
    }

    /// Packets that are in one.
    pub(crate) fn in_transit(&self) -> usize {
        self.edges.iter().map(|edge| edge.link.in_transit()).sum()
    }

    pub(crate) fn len(&self) -> u32 {
        u32::try_from(self.edges.len()).unwrap_or(u32::MAX)
    }

    /// The end: what has left a bottleneck by now, and is still on its way, is let through to be
    /// counted.
    pub(crate) fn finish(self, config: &Config, now: Time) -> Vec<EdgeOutcome> {
        let edges = self.edges.into_iter().zip(&config.edges);
        edges
            .map(|(mut edge, config)| {
                // Settles what started service by now, before what is counted by the queue.
                let mut passed = Vec::new();
                while let Some(delivered) = edge.link.poll(now) {
                    passed.push(delivered.passage);
                }
                let counters = edge.link.counters();
                let last = now + config.link.delay;
                while let Some(at) = edge.link.next_departure().filter(|at| *at <= last) {
                    match edge.link.poll(at) {
                        Some(delivered) => passed.push(delivered.passage),
                        None if edge.link.next_departure() == Some(at) => break,
                        None => {}
                    }
                }
                for passage in &passed {
                    edge.measure.passed(passage);
                }
                edge.measure.finish(&config.link.capacity, counters)
            })
            .collect()
    }
}

impl Active {
    #[inline]
    fn free_dropped(
        &mut self,
        segments: &mut Segments,
        mut fates: Option<&mut Vec<(Parcel, Fate)>>,
    ) {
        for dropped in self.link.drain_dropped() {
            segments.free(dropped.packet.segment);
            if let Some(fates) = &mut fates {
                let fate = Fate::Dropped {
                    at: dropped.at,
                    size_bytes: dropped.packet.size_bytes,
                    reason: dropped.reason,
                };
                fates.push((dropped.packet, fate));
            }
        }
    }

    #[inline]
    fn wake(&mut self, index: u32, events: &mut Events) {
        self.alarm
            .set(self.link.next_departure(), Event::Edge(index), events);
    }
}
