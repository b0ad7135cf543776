//! What claims may compare: a fixed list of measures of one run.

use fairwater_results::{
    EdgeResult, FlowResult, GroupResult, PointResult, RequestClass, Spread, jain,
};

use crate::Subject;
use crate::distribution::{falls_of, gaps_between_dips, mean, quantile};

/// What a measure needs of a scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Nothing but summaries.
    Summary,
    /// `[measure] interval`: samples in time.
    Samples,
    /// Requests.
    Requests,
    /// `[measure] requests = true`: each request.
    Completions,
    /// Rounds of this benchmark.
    Benchmark(&'static str),
}

/// How a measure is read off a run.
#[derive(Debug, Clone, Copy)]
pub enum Read {
    /// One number, if the run has it.
    Number(fn(&View<'_>) -> Option<f64>),
    /// Many numbers, for `ks_at_most`.
    Distribution(fn(&View<'_>) -> Vec<f64>),
    /// The values of a benchmark of that name, one a round.
    Series,
}

/// Something that is measured of a run.
#[derive(Debug, Clone, Copy)]
pub struct Measure {
    /// Its name in the catalogue.
    pub name: &'static str,
    /// Its unit; empty of a number without one.
    pub unit: &'static str,
    /// What it is.
    pub meaning: &'static str,
    /// What it needs of the scenario.
    pub needs: Needs,
    /// Whether it is of a link, and not of flows.
    pub is_of_link: bool,
    /// How it is read.
    pub read: Read,
}

impl PartialEq for Measure {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// A run with what a claim looks at in it.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The run.
    pub run: &'a PointResult,
    /// What is looked at.
    pub subject: &'a Subject,
}

impl<'a> View<'a> {
    fn groups(&self) -> impl Iterator<Item = &'a GroupResult> {
        let wanted = self.subject.flows.as_deref();
        let groups = self.run.groups.iter();
        groups.filter(move |group| wanted.is_none_or(|name| group.name == name))
    }

    fn flows(&self) -> impl Iterator<Item = &'a FlowResult> {
        let (groups, wanted) = (&self.run.groups, self.subject.flows.as_deref());
        self.run.flows.iter().filter(move |flow| {
            let group = groups.get(flow.group);
            wanted.is_none_or(|name| group.is_some_and(|group| group.name == name))
        })
    }

    fn link(&self) -> Option<&'a EdgeResult> {
        match self.subject.link.as_deref() {
            Some(name) => self.run.edges.iter().find(|edge| edge.name == name),
            None => self.run.bottleneck(),
        }
    }

    fn is_simulated(&self) -> bool {
        self.run.backend == "sim"
    }

    /// Whether samples at this time count.
    fn counts(&self, at_s: f64) -> bool {
        let us = |us: u64| us as f64 / 1e6;
        let begun = self.subject.from_us.is_none_or(|from| at_s > us(from));
        begun && self.subject.to_us.is_none_or(|to| at_s <= us(to))
    }

    fn queueing(&self) -> Option<Spread> {
        self.link()?.queueing_us
    }

    /// What samples of each flow say, one flow after another.
    fn of_samples(&self, of: fn(&fairwater_results::FlowSample) -> f64) -> Vec<f64> {
        let samples = self.flows().flat_map(|flow| &flow.samples);
        let counted = samples.filter(|sample| self.counts(sample.at_s));
        counted.map(of).collect()
    }

    fn windows(&self) -> Vec<f64> {
        self.of_samples(|sample| sample.cwnd_bytes as f64 / 1e3)
    }

    fn throughputs(&self) -> Vec<f64> {
        self.of_samples(|sample| sample.throughput_bps / 1e6)
    }

    /// The size class of the requests; of several tables of flows the mean, weighted by requests.
    fn of_requests(&self, of: fn(&RequestClass) -> f64) -> Option<f64> {
        let name = self.subject.class.as_deref().unwrap_or("all");
        let classes = self
            .groups()
            .filter_map(|group| group.requests.iter().find(|class| class.class == name));
        let (mut sum, mut count) = (0.0, 0.0);
        for class in classes {
            sum += of(class) * class.count as f64;
            count += class.count as f64;
        }
        (count > 0.0).then(|| sum / count)
    }

    /// Completion times, ms, of the requests of the class.
    fn completions(&self) -> Vec<f64> {
        let all = self.groups().flat_map(|group| &group.completions);
        all.map(|request| request.fct_us / 1e3).collect()
    }

    /// What each fall leaves of the window, flow by flow.
    fn falls(&self) -> Vec<f64> {
        let of_flow = |flow: &FlowResult| {
            let samples = flow.samples.iter();
            let counted = samples.filter(|sample| self.counts(sample.at_s));
            falls_of(&counted.map(|s| s.cwnd_bytes as f64).collect::<Vec<_>>())
        };
        self.flows().flat_map(of_flow).collect()
    }
}

/// A number of flows' samples.
const fn sampled(
    name: &'static str,
    unit: &'static str,
    meaning: &'static str,
    of: fn(&View<'_>) -> Option<f64>,
) -> Measure {
    Measure {
        name,
        unit,
        meaning,
        needs: Needs::Samples,
        is_of_link: false,
        read: Read::Number(of),
    }
}

/// A number of flows' summaries.
const fn summary(
    name: &'static str,
    unit: &'static str,
    meaning: &'static str,
    of: fn(&View<'_>) -> Option<f64>,
) -> Measure {
    Measure {
        needs: Needs::Summary,
        ..sampled(name, unit, meaning, of)
    }
}

/// A number of a link's summary.
const fn of_link(
    name: &'static str,
    unit: &'static str,
    meaning: &'static str,
    of: fn(&View<'_>) -> Option<f64>,
) -> Measure {
    Measure {
        is_of_link: true,
        ..summary(name, unit, meaning, of)
    }
}

/// A number of requests.
const fn of_requests(
    name: &'static str,
    unit: &'static str,
    meaning: &'static str,
    of: fn(&View<'_>) -> Option<f64>,
) -> Measure {
    Measure {
        needs: Needs::Requests,
        ..summary(name, unit, meaning, of)
    }
}

/// All measures.
pub static MEASURES: [Measure; 37] = [
    summary(
        "throughput",
        "Mbit/s",
        "payload of the flows together",
        |view| Some(view.groups().map(|group| group.throughput_bps).sum::<f64>() / 1e6),
    ),
    summary(
        "flow_throughput",
        "Mbit/s",
        "payload of a flow, mean of the flows",
        |view| mean(view.flows().map(|flow| flow.throughput_bps / 1e6)),
    ),
    summary("fairness", "", "Jain's index of all flows", |view| {
        let all: Vec<_> = view.flows().map(|flow| flow.throughput_bps).collect();
        Some(jain(&all))
    }),
    summary(
        "starvation",
        "",
        "greatest throughput of a flow over the least",
        |view| {
            let all = || view.flows().map(|flow| flow.throughput_bps);
            let (most, least) = (all().reduce(f64::max)?, all().reduce(f64::min)?);
            // A flow without any throughput counts as one of a bit/s, so that the ratio is a number.
            Some(most / least.max(1.0))
        },
    ),
    summary("resent", "%", "segments sent again, of all sent", |view| {
        let sent: u64 = view.flows().map(|flow| flow.segments).sum();
        let again: u64 = view.flows().map(|flow| flow.retransmissions).sum();
        (sent > 0).then(|| 100.0 * again as f64 / sent as f64)
    }),
    summary(
        "timeouts",
        "",
        "retransmission timeouts of the flows together",
        |view| {
            let count = view.flows().map(|flow| flow.timeouts).sum::<u64>() as f64;
            // Real TCP is not asked for its timeouts.
            view.is_simulated().then_some(count)
        },
    ),
    summary("rtt_p50", "ms", "median RTT, mean of the flows", |view| {
        let all = view.flows().filter_map(|flow| flow.rtt_us);
        mean(all.map(|spread| spread.p50 / 1e3))
    }),
    summary("rtt_mean", "ms", "mean RTT, mean of the flows", |view| {
        let all = view.flows().filter_map(|flow| flow.rtt_us?.mean);
        mean(all.map(|us| us / 1e3))
    }),
    summary(
        "rtt_p99",
        "ms",
        "99th percentile of the RTT, mean of the flows",
        |view| {
            let all = view.flows().filter_map(|flow| flow.rtt_us?.p99);
            mean(all.map(|us| us / 1e3))
        },
    ),
    of_link(
        "queueing_mean",
        "ms",
        "mean time in the link's queue",
        |view| Some(view.queueing()?.mean? / 1e3),
    ),
    of_link(
        "queueing_p50",
        "ms",
        "median time in the link's queue",
        |view| Some(view.queueing()?.p50 / 1e3),
    ),
    of_link(
        "queueing_p95",
        "ms",
        "95th percentile of the time in the link's queue",
        |view| Some(view.queueing()?.p95 / 1e3),
    ),
    of_link(
        "queueing_p99",
        "ms",
        "99th percentile of the time in the link's queue",
        |view| Some(view.queueing()?.p99? / 1e3),
    ),
    of_link(
        "utilisation",
        "%",
        "share of its capacity that the link carried",
        |view| Some(view.link()?.utilisation * 100.0),
    ),
    of_link(
        "loss",
        "%",
        "packets dropped or lost at the link, of those that came",
        |view| {
            let link = view.link()?;
            let gone = link.dropped + link.lost;
            let came = link.packets + gone;
            (came > 0).then(|| 100.0 * gone as f64 / came as f64)
        },
    ),
    Measure {
        is_of_link: true,
        ..sampled(
            "queue_mean",
            "kB",
            "mean of what waits at the link, by samples",
            |view| {
                let samples = view.link()?.samples.iter();
                let counted = samples.filter(|sample| view.counts(sample.at_s));
                let mean = mean(counted.map(|sample| sample.queued_bytes as f64 / 1e3));
                // The emulator of real links does not count bytes that wait.
                mean.filter(|_| view.is_simulated())
            },
        )
    },
    sampled(
        "sampled_throughput",
        "Mbit/s",
        "payload of a flow from `from` to `to`, mean of the flows",
        |view| mean(view.throughputs().into_iter()),
    ),
    sampled(
        "total_throughput",
        "Mbit/s",
        "payload of the flows together from `from` to `to`",
        |view| {
            let one = mean(view.throughputs().into_iter())?;
            Some(one * view.flows().count() as f64)
        },
    ),
    sampled(
        "sampled_fairness",
        "",
        "Jain's index of the flows from `from` to `to`",
        |view| {
            let of_flow = |flow: &FlowResult| {
                let samples = flow.samples.iter();
                let counted = samples.filter(|sample| view.counts(sample.at_s));
                counted.map(|sample| sample.throughput_bps).sum::<f64>()
            };
            let all: Vec<_> = view.flows().map(of_flow).collect();
            (!all.is_empty()).then(|| jain(&all))
        },
    ),
    sampled("window_mean", "kB", "mean window", |view| {
        mean(view.windows().into_iter())
    }),
    sampled(
        "window_p10",
        "kB",
        "10th percentile of the window",
        |view| quantile(view.windows(), 0.10),
    ),
    sampled("window_p50", "kB", "median window", |view| {
        quantile(view.windows(), 0.50)
    }),
    sampled(
        "window_p90",
        "kB",
        "90th percentile of the window",
        |view| quantile(view.windows(), 0.90),
    ),
    sampled("window_max", "kB", "greatest window", |view| {
        quantile(view.windows(), 1.0)
    }),
    sampled(
        "fall_leaves",
        "",
        "part of the window that a fall leaves, mean of the falls",
        |view| mean(view.falls().into_iter()),
    ),
    sampled(
        "double_falls",
        "%",
        "falls that leave less than 0.38 of the window: halved twice, of all falls",
        |view| {
            mean(
                view.falls()
                    .into_iter()
                    .map(|left| if left < 0.38 { 100.0 } else { 0.0 }),
            )
        },
    ),
    sampled(
        "dip_period",
        "s",
        "median time from one dip of the throughput below half its median to the next",
        |view| {
            let flow = view.flows().next()?;
            let counted = flow.samples.iter().filter(|s| view.counts(s.at_s));
            let samples: Vec<_> = counted.map(|s| (s.at_s, s.throughput_bps)).collect();
            quantile(gaps_between_dips(&samples), 0.5)
        },
    ),
    of_requests("completion_p50", "ms", "median completion time", |view| {
        view.of_requests(|class| class.fct_us.p50 / 1e3)
    }),
    of_requests("completion_mean", "ms", "mean completion time", |view| {
        view.of_requests(|class| class.fct_us.mean.unwrap_or(f64::NAN) / 1e3)
    }),
    of_requests(
        "completion_p95",
        "ms",
        "95th percentile of the completion time",
        |view| view.of_requests(|class| class.fct_us.p95 / 1e3),
    ),
    of_requests(
        "completion_max",
        "ms",
        "completion time of the slowest request",
        |view| view.of_requests(|class| class.fct_us.max.unwrap_or(f64::NAN) / 1e3),
    ),
    of_requests(
        "slowdown_p50",
        "",
        "median of the completion time over the least possible",
        |view| view.of_requests(|class| class.slowdown.p50),
    ),
    of_requests(
        "slowdown_p99",
        "",
        "99th percentile of the completion time over the least possible",
        |view| view.of_requests(|class| class.slowdown.p99.unwrap_or(f64::NAN)),
    ),
    Measure {
        needs: Needs::Completions,
        ..summary(
            "completion_p75",
            "ms",
            "75th percentile of the completion time",
            |view| quantile(view.completions(), 0.75),
        )
    },
    Measure {
        read: Read::Distribution(|view| view.throughputs()),
        ..sampled(
            "throughputs",
            "Mbit/s",
            "throughput, sample by sample",
            |_| None,
        )
    },
    Measure {
        read: Read::Distribution(|view| view.windows()),
        ..sampled("windows", "kB", "window, sample by sample", |_| None)
    },
    Measure {
        is_of_link: true,
        read: Read::Distribution(|view| {
            let samples = view.link().map_or(&[][..], |link| &link.samples);
            let counted = samples.iter().filter(|sample| view.counts(sample.at_s));
            let delays = counted.filter_map(|sample| sample.queueing_us);
            delays.map(|us| us / 1e3).collect()
        }),
        ..sampled(
            "delays",
            "ms",
            "mean time in the link's queue, sample by sample",
            |_| None,
        )
    },
];

/// A number of a benchmark's rounds.
const fn of_rounds(
    benchmark: &'static str,
    name: &'static str,
    unit: &'static str,
    meaning: &'static str,
) -> Measure {
    Measure {
        name,
        unit,
        meaning,
        needs: Needs::Benchmark(benchmark),
        is_of_link: false,
        read: Read::Series,
    }
}

/// The measures of benchmarks.
pub static BENCHMARK_MEASURES: [Measure; 16] = [
    of_rounds(
        "loopback",
        "loopback_kernel",
        "Gbit/s",
        "throughput over loopback with the kernel's own algorithm",
    ),
    of_rounds(
        "loopback",
        "loopback_kept",
        "%",
        "throughput over loopback under the plane, of that with the kernel's own algorithm",
    ),
    of_rounds(
        "reaction",
        "reaction_p50",
        "µs",
        "median time from a report of the kernel to the plane's answer",
    ),
    of_rounds(
        "reaction",
        "reaction_p95",
        "µs",
        "95th percentile of the time from a report of the kernel to the plane's answer",
    ),
    of_rounds(
        "reaction",
        "reaction_p99",
        "µs",
        "99th percentile of the time from a report of the kernel to the plane's answer",
    ),
    of_rounds(
        "agent-cpu",
        "cpu_busy",
        "%",
        "share of the machine's CPU time that was busy",
    ),
    of_rounds(
        "agent-cpu",
        "cpu_added",
        "% of the machine",
        "CPU time of the machine beyond that of the same load under the kernel's own algorithm",
    ),
    of_rounds(
        "agent-cpu",
        "cpu_user",
        "%",
        "share of the machine's CPU time in user space",
    ),
    of_rounds(
        "agent-cpu",
        "cpu_kernel",
        "%",
        "share of the machine's CPU time in the kernel, without interrupts",
    ),
    of_rounds(
        "agent-cpu",
        "cpu_softirq",
        "%",
        "share of the machine's CPU time in interrupts",
    ),
    of_rounds(
        "agent-cpu",
        "cpu_plane",
        "%",
        "CPU time of the plane's thread, of the machine's",
    ),
    of_rounds(
        "agent-cpu",
        "cpu_per_gbit",
        "ms/Gbit",
        "CPU time of the machine for what was carried",
    ),
    of_rounds(
        "agent-cpu",
        "carried",
        "Gbit/s",
        "throughput of the load of `agent-cpu`",
    ),
    of_rounds(
        "agent-cpu",
        "reports_per_second",
        "1/s",
        "reports that the plane handled",
    ),
    of_rounds(
        "edge-connections",
        "edge_cpu",
        "%",
        "share of the machine's CPU time that was busy",
    ),
    of_rounds(
        "edge-connections",
        "edge_memory",
        "MB",
        "memory of the machine that was not available",
    ),
];

/// The measure of that name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Measure> {
    let mut all = MEASURES.iter().chain(&BENCHMARK_MEASURES);
    all.find(|measure| measure.name == name)
}
