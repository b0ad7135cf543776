//! Distributions and intervals.

use fairwater_net::{Capacity, Counters, PacketTimes, Time};
use hdrhistogram::Histogram;

use crate::{EdgeOutcome, EdgeSample, Measure, Quantiles};

/// A distribution of times, ns. Quantiles are within 1 %; the least and the mean are exact.
#[derive(Debug)]
pub(crate) struct Distribution {
    /// Times above 0, once there is one: most edges of a large network have none.
    above: Option<Histogram<u32>>,
    zeros: u64,
    count: u64,
    sum: u128,
    min: u64,
}

impl Distribution {
    pub(crate) fn new() -> Self {
        Self {
            above: None,
            zeros: 0,
            count: 0,
            sum: 0,
            min: u64::MAX,
        }
    }

    #[inline]
    pub(crate) fn record(&mut self, ns: u64) {
        self.count += 1;
        self.min = self.min.min(ns);
        if ns == 0 {
            self.zeros += 1;
            return;
        }
        self.sum += u128::from(ns);
        if self.above.is_none() {
            // Two digits: a third would take ten times the memory.
            self.above = Histogram::new(2).ok();
        }
        if let Some(above) = &mut self.above {
            // It grows to hold the value; only a want of address space fails.
            let _ = above.record(ns);
        }
    }

    /// In µs; `None` of nothing.
    #[expect(clippy::cast_precision_loss, reason = "a statistic")]
    pub(crate) fn quantiles_us(&self) -> Option<Quantiles> {
        if self.count == 0 {
            return None;
        }
        let quantile = |share: f64| {
            let zeros = self.zeros as f64 / self.count as f64;
            match &self.above {
                Some(above) if share > zeros => {
                    let share = (share - zeros) / (1.0 - zeros);
                    above.value_at_quantile(share) as f64 / 1e3
                }
                _ => 0.0,
            }
        };
        Some(Quantiles {
            min: self.min as f64 / 1e3,
            mean: self.sum as f64 / self.count as f64 / 1e3,
            p50: quantile(0.5),
            p95: quantile(0.95),
            p99: quantile(0.99),
        })
    }
}

/// What is measured of an edge.
#[derive(Debug)]
pub(crate) struct EdgeMeasure {
    from: Time,
    end: Time,
    /// 0 is no samples.
    interval_ns: u64,
    packets: u64,
    bytes: u64,
    queueing: Distribution,
    /// Counters when the summary begins.
    before: Counters,
    /// Packets in the queue or being sent when the summary begins.
    queued_before: u64,
    /// At the end of the last interval.
    last: Counters,
    intervals: Vec<Interval>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Interval {
    bytes: u64,
    packets: u64,
    queueing_ns: u64,
    queued_bytes: u64,
    dropped: u64,
    marked: u64,
}

impl EdgeMeasure {
    pub(crate) fn new(measure: &Measure, end: Time) -> Self {
        Self {
            from: measure.from,
            end,
            interval_ns: measure.interval.map_or(0, |i| nanos(Time::ZERO + i)),
            packets: 0,
            bytes: 0,
            queueing: Distribution::new(),
            before: Counters::default(),
            queued_before: 0,
            last: Counters::default(),
            intervals: Vec::new(),
        }
    }

    /// A packet has passed. It counts where it left the bottleneck, whenever it comes out.
    #[inline]
    pub(crate) fn passed(&mut self, times: &PacketTimes) {
        let at = times.departed;
        if at > self.end {
            return;
        }
        let queueing_ns = nanos(Time::ZERO + times.queueing_delay());
        let bytes = u64::from(times.size_bytes);
        if at >= self.from {
            self.packets += 1;
            self.bytes += bytes;
            self.queueing.record(queueing_ns);
        }
        // An interval has its end and not its beginning.
        if let Some(index) = nanos(at).saturating_sub(1).checked_div(self.interval_ns) {
            let interval = self.interval(index);
            interval.bytes += bytes;
            interval.packets += 1;
            interval.queueing_ns += queueing_ns;
        }
    }

    fn interval(&mut self, index: u64) -> &mut Interval {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        if self.intervals.len() <= index {
            self.intervals.resize(index + 1, Interval::default());
        }
        &mut self.intervals[index]
    }

    /// The summary begins: packets that have come out by now are no part of it.
    pub(crate) fn begin(&mut self, counters: Counters, queued: u64) {
        self.before = counters;
        self.queued_before = queued;
        (self.packets, self.bytes) = (0, 0);
        self.queueing = Distribution::new();
    }

    /// The interval that ends now is over.
    pub(crate) fn sample(&mut self, now: Time, counters: Counters, queued_bytes: u64) {
        let last = std::mem::replace(&mut self.last, counters);
        let index = (nanos(now) / self.interval_ns.max(1)).saturating_sub(1);
        let interval = self.interval(index);
        interval.queued_bytes = queued_bytes;
        interval.dropped = dropped(&counters) - dropped(&last);
        interval.marked = counters.marked - last.marked;
    }

    /// The summary. All packets that left the bottleneck by the end have passed; `queued` are in
    /// the queue or being sent.
    #[expect(clippy::cast_precision_loss, reason = "statistics")]
    pub(crate) fn finish(
        self,
        capacity: &Capacity,
        counters: Counters,
        queued: u64,
    ) -> EdgeOutcome {
        let before = &self.before;
        let utilisation = match capacity.bytes_between(self.from, self.end) {
            Some(most) if most > 0 => self.bytes as f64 / most as f64,
            _ => 0.0,
        };
        let samples = nanos(self.end).checked_div(self.interval_ns).unwrap_or(0);
        let samples = (1..=samples).zip(&self.intervals).map(|(n, i)| EdgeSample {
            at: Time::from_nanos(n * self.interval_ns),
            bytes: i.bytes,
            queued_bytes: i.queued_bytes,
            queueing_us: (i.packets > 0).then(|| i.queueing_ns as f64 / i.packets as f64 / 1e3),
            dropped: i.dropped,
            marked: i.marked,
        });
        EdgeOutcome {
            offered: counters.arrived - before.arrived,
            queued_before: self.queued_before,
            queued_after: queued,
            packets: self.packets,
            bytes: self.bytes,
            dropped: by_queue(&counters) - by_queue(before),
            lost: counters.dropped_lost - before.dropped_lost,
            marked: counters.marked - before.marked,
            utilisation,
            queueing_us: self.queueing.quantiles_us(),
            samples: samples.collect(),
            bundles: Vec::new(),
        }
    }
}

fn by_queue(counters: &Counters) -> u64 {
    counters.dropped_full + counters.dropped_aqm
}

fn dropped(counters: &Counters) -> u64 {
    by_queue(counters) + counters.dropped_lost
}

fn nanos(time: Time) -> u64 {
    time.as_nanos()
}
