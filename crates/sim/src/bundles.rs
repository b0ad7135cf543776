//! Bundles of flows: their names, and what is measured of them at an edge.

use fairwater_net::{PacketTimes, Time};

use crate::measure::Distribution;
use crate::{BundleOutcome, BundleSample, Experiment, Measure};

/// Most bundles of one experiment.
pub const MAX_BUNDLES: usize = 255;

/// The names of all bundles, in the order in which flows name them first.
pub(crate) fn names(config: &Experiment) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in config.flows.iter().filter_map(|flow| flow.bundle.as_ref()) {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    names
}

/// The number of a bundle, from 1; 0 of none. The configuration has been checked: there are at most
/// [`MAX_BUNDLES`].
pub(crate) fn number(names: &[String], name: Option<&String>) -> u8 {
    let place = name.and_then(|name| names.iter().position(|known| known == name));
    place.map_or(0, |place| u8::try_from(place + 1).unwrap_or(0))
}

/// What all bundles do at one edge.
#[derive(Debug)]
pub(crate) struct BundlesAtEdge {
    from: Time,
    end: Time,
    /// 0 is no samples.
    interval_ns: u64,
    /// By number less 1; as many as have sent a packet over the edge.
    bundles: Vec<AtEdge>,
}

/// One bundle at one edge. Bytes are of IP packets.
#[derive(Debug)]
struct AtEdge {
    /// Since the beginning.
    total: Total,
    /// Since summaries began.
    packets: u64,
    bytes: u64,
    dropped: u64,
    queueing: Distribution,
    /// When the last interval ended.
    last: Total,
    intervals: Vec<Interval>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Interval {
    arrived_bytes: u64,
    bytes: u64,
    packets: u64,
    queueing_ns: u64,
    queued_bytes: u64,
    dropped: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Total {
    arrived_bytes: u64,
    /// In the queue or behind it, not yet come out.
    held_bytes: u64,
    dropped: u64,
}

/// One bundle at an edge now; counts are from the beginning. Bytes are of IP packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BundleSnapshot {
    /// Bytes that arrived at the edge, those included that were dropped or lost.
    pub arrived_bytes: u64,
    /// Bytes that wait in the queue; a packet being sent has left the queue.
    pub queued_bytes: u64,
    /// Packets that the queue dropped, or that were lost at random.
    pub dropped: u64,
}

impl BundlesAtEdge {
    pub(crate) fn new(measure: &Measure, end: Time) -> Self {
        let interval = measure.interval.map_or(0, |interval| interval.as_nanos());
        Self {
            from: measure.from,
            end,
            interval_ns: u64::try_from(interval).unwrap_or(u64::MAX),
            bundles: Vec::new(),
        }
    }

    /// Whether no packet of a bundle has arrived.
    pub(crate) fn is_empty(&self) -> bool {
        self.bundles.is_empty()
    }

    fn of(&mut self, number: u8) -> Option<&mut AtEdge> {
        let index = usize::from(number).checked_sub(1)?;
        if self.bundles.len() <= index {
            self.bundles.resize_with(index + 1, AtEdge::new);
        }
        self.bundles.get_mut(index)
    }

    /// A packet arrives.
    #[inline]
    pub(crate) fn arrived(&mut self, number: u8, size_bytes: u32) {
        if number > 0
            && let Some(bundle) = self.of(number)
        {
            bundle.total.arrived_bytes += u64::from(size_bytes);
            bundle.total.held_bytes += u64::from(size_bytes);
        }
    }

    /// A packet is dropped or lost.
    #[inline]
    pub(crate) fn dropped(&mut self, number: u8, size_bytes: u32, at: Time) {
        let counts = at >= self.from;
        if let Some(bundle) = self.of(number) {
            bundle.total.held_bytes -= u64::from(size_bytes);
            bundle.total.dropped += 1;
            bundle.dropped += u64::from(counts);
        }
    }

    /// A packet comes out.
    #[inline]
    pub(crate) fn came_out(&mut self, number: u8, times: &PacketTimes) {
        if number > 0
            && let Some(bundle) = self.of(number)
        {
            bundle.total.held_bytes -= u64::from(times.size_bytes);
            self.passed(number, times);
        }
    }

    /// A packet has left the bottleneck, whenever it comes out.
    pub(crate) fn passed(&mut self, number: u8, times: &PacketTimes) {
        let at = times.departed;
        if at > self.end {
            return;
        }
        let (counts, interval_ns) = (at >= self.from, self.interval_ns);
        let Some(bundle) = self.of(number) else {
            return;
        };
        let queueing_ns = u64::try_from(times.queueing_delay().as_nanos()).unwrap_or(u64::MAX);
        let bytes = u64::from(times.size_bytes);
        if counts {
            bundle.packets += 1;
            bundle.bytes += bytes;
            bundle.queueing.record(queueing_ns);
        }
        // An interval has its end and not its beginning.
        let before = at.as_nanos().saturating_sub(1);
        if let Some(index) = before.checked_div(interval_ns) {
            let interval = bundle.interval(index);
            interval.bytes += bytes;
            interval.packets += 1;
            interval.queueing_ns += queueing_ns;
        }
    }

    /// The summary begins: packets that have come out by now are no part of it.
    pub(crate) fn begin(&mut self) {
        for bundle in &mut self.bundles {
            (bundle.packets, bundle.bytes, bundle.dropped) = (0, 0, 0);
            bundle.queueing = Distribution::new();
        }
    }

    /// By number less 1: bytes in the queue. `served` gives the bundle and size of each packet that
    /// has left the queue and not come out.
    fn queued_bytes(&self, served: impl Iterator<Item = (u8, u32)>) -> Vec<u64> {
        let mut queued: Vec<u64> = self.bundles.iter().map(|b| b.total.held_bytes).collect();
        for (number, size_bytes) in served {
            let slot = usize::from(number).checked_sub(1);
            if let Some(queued) = slot.and_then(|slot| queued.get_mut(slot)) {
                *queued -= u64::from(size_bytes);
            }
        }
        queued
    }

    /// The interval that ends now is over. `served` gives the bundle and size of each packet that
    /// has left the queue and not come out.
    pub(crate) fn sample(&mut self, now: Time, served: impl Iterator<Item = (u8, u32)>) {
        let queued = self.queued_bytes(served);
        let index = (now.as_nanos() / self.interval_ns.max(1)).saturating_sub(1);
        for (bundle, queued_bytes) in self.bundles.iter_mut().zip(queued) {
            let last = std::mem::replace(&mut bundle.last, bundle.total);
            let total = bundle.total;
            let interval = bundle.interval(index);
            interval.queued_bytes = queued_bytes;
            interval.arrived_bytes = total.arrived_bytes - last.arrived_bytes;
            interval.dropped = total.dropped - last.dropped;
        }
    }

    /// One bundle now; `None` if no packet of a bundle has arrived. `served` as for
    /// [`BundlesAtEdge::sample`].
    pub(crate) fn snapshot(
        &self,
        number: u8,
        served: impl Iterator<Item = (u8, u32)>,
    ) -> Option<BundleSnapshot> {
        let index = usize::from(number).checked_sub(1)?;
        let total = self.bundles.get(index)?.total;
        Some(BundleSnapshot {
            arrived_bytes: total.arrived_bytes,
            queued_bytes: *self.queued_bytes(served).get(index)?,
            dropped: total.dropped,
        })
    }

    /// The summaries of the bundles that have sent anything over the edge. All packets that left
    /// the bottleneck by the end have passed.
    pub(crate) fn finish(self, names: &[String]) -> Vec<BundleOutcome> {
        let samples = self.end.as_nanos().checked_div(self.interval_ns);
        let samples = samples.unwrap_or(0);
        let bundles = self.bundles.into_iter().zip(names);
        bundles
            .filter(|(bundle, _)| bundle.total.arrived_bytes > 0)
            .map(|(bundle, name)| BundleOutcome {
                bundle: name.clone(),
                packets: bundle.packets,
                bytes: bundle.bytes,
                dropped: bundle.dropped,
                queueing_us: bundle.queueing.quantiles_us(),
                samples: (1..=samples)
                    .zip(&bundle.intervals)
                    .map(|(n, interval)| interval.sample(Time::from_nanos(n * self.interval_ns)))
                    .collect(),
            })
            .collect()
    }
}

impl AtEdge {
    fn new() -> Self {
        Self {
            total: Total::default(),
            packets: 0,
            bytes: 0,
            dropped: 0,
            queueing: Distribution::new(),
            last: Total::default(),
            intervals: Vec::new(),
        }
    }

    fn interval(&mut self, index: u64) -> &mut Interval {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        if self.intervals.len() <= index {
            self.intervals.resize(index + 1, Interval::default());
        }
        &mut self.intervals[index]
    }
}

impl Interval {
    #[expect(clippy::cast_precision_loss, reason = "a statistic")]
    fn sample(&self, at: Time) -> BundleSample {
        BundleSample {
            at,
            arrived_bytes: self.arrived_bytes,
            bytes: self.bytes,
            queued_bytes: self.queued_bytes,
            queueing_us: (self.packets > 0)
                .then(|| self.queueing_ns as f64 / self.packets as f64 / 1e3),
            dropped: self.dropped,
        }
    }
}
