//! A point of a scenario as an experiment of the lab: real TCP over one bottleneck.

use std::time::Duration;

use fairwater_net::{
    Buffer, Capacity, CapacitySpec, Limit, LinkSpec, LossConfig, Probability, QueueConfig,
    StepConfig, Time,
};
use fairwater_sim::{EdgeId, FlowConfig, PlaneConfig, TcpConfig, Traffic as Sent};

use super::build::Spans;
use super::diagnostic::{Diagnostic, Sink};
use super::{Point, Sender};
use crate::{Contender, Experiment, Sending, Traffic};

/// What real TCP over an emulated link cannot do, all of it, each thing at its line.
pub(super) fn refuse(point: &Point, spans: &Spans, sink: &Sink) {
    let say = |span: &std::ops::Range<usize>, message: &str| {
        let message = format!("`--on linux` cannot do this: {message}");
        sink.push(Diagnostic::new(span.clone(), message));
    };
    if point.config.plane != PlaneConfig::default() {
        say(
            &spans.plane,
            "a `[plane]` of its own; the real plane is as it is",
        );
    }
    let default_measure = fairwater_sim::Measure {
        interval: point.config.measure.interval,
        ..fairwater_sim::Measure::default()
    };
    if point.config.measure != default_measure {
        say(&spans.measure, "measuring from a later time");
    }
    if point.hosts.len() != 2 || point.config.edges.len() != 2 {
        let span = spans.edges.get(2).or(spans.edges.first()).cloned();
        say(
            &span.unwrap_or(0..0),
            "more than two hosts and the link between them",
        );
        return;
    }
    let (bottleneck, back) = bottleneck(point);
    let (bottleneck, back) = (edge(point, bottleneck), edge(point, back));
    let place = &spans.edges[0];
    if bottleneck.link.delay.abs_diff(back.link.delay) > Duration::from_nanos(1) {
        say(place, "delays that differ between the directions");
    }
    if !matches!(back.link.capacity, Capacity::Unlimited) {
        say(
            place,
            "a rate or a trace in the direction of the acknowledgements",
        );
    }
    if back.link.loss != LossConfig::None {
        say(place, "loss in the direction of the acknowledgements");
    }
    let limits = [
        (
            !matches!(
                bottleneck.link.capacity,
                Capacity::Rate(_) | Capacity::Trace(_)
            ),
            "a capacity other than a rate or a trace",
        ),
        (
            !matches!(
                bottleneck.link.queue,
                QueueConfig::DropTail(_)
                    | QueueConfig::Step(StepConfig {
                        threshold: Limit::Packets(_),
                        ..
                    })
            ),
            "a queue other than `droptail`, or `step` with a threshold in packets",
        ),
        (
            matches!(bottleneck.link.loss, LossConfig::GilbertElliott(_)),
            "loss in bursts",
        ),
        (
            [bottleneck, back]
                .iter()
                .any(|edge| edge.link.jitter.is_some() || edge.link.reordering.is_some()),
            "jitter and reordering",
        ),
    ];
    for (_, message) in limits.iter().filter(|(is_so, _)| *is_so) {
        say(place, message);
    }
    for (group, span) in point.groups.iter().zip(&spans.groups) {
        let flows = &point.config.flows[group.flows.clone()];
        if let Sender::Native(name) = &group.sender {
            say(
                span,
                &format!("`{name}`, which is the simulator's; the kernel's are `kernel:NAME`"),
            );
        }
        for (is_so, message) in refused_of(flows, point) {
            if is_so {
                say(span, message);
            }
        }
    }
    if point.config.duration < Duration::from_secs(1) {
        say(&spans.duration, "a run of less than 1 s");
    }
}

/// What of these flows the lab cannot do.
fn refused_of<'a>(
    flows: &'a [FlowConfig],
    point: &'a Point,
) -> impl Iterator<Item = (bool, &'static str)> + 'a {
    let any = |is_so: fn(&FlowConfig) -> bool| flows.iter().any(is_so);
    let usual = TcpConfig::default();
    let sender = point.config.flows.first().map(|flow| flow.from);
    [
        (
            any(|flow| !matches!(flow.traffic, Sent::Bulk)),
            "traffic other than `bulk`",
        ),
        (
            any(|flow| !flow.start_jitter.is_zero()),
            "starts drawn at random",
        ),
        (any(|flow| flow.priority != 0), "priorities"),
        (
            flows.iter().any(|flow| flow.tcp != usual),
            "settings of TCP; they are the kernel's own",
        ),
        (
            flows.iter().any(|flow| Some(flow.from) != sender),
            "flows in both directions",
        ),
    ]
    .into_iter()
}

/// The edge in the flows' direction, and the other.
fn bottleneck(point: &Point) -> (EdgeId, EdgeId) {
    let from = point.config.flows.first().map(|flow| flow.from);
    match point.config.edges.first() {
        Some(edge) if Some(edge.from) == from => (EdgeId(0), EdgeId(1)),
        _ => (EdgeId(1), EdgeId(0)),
    }
}

fn edge(point: &Point, id: EdgeId) -> &fairwater_sim::Edge {
    &point.config.edges[id.0 as usize]
}

fn sending(flow: &FlowConfig) -> Sending {
    Sending {
        start: flow.start.since(Time::ZERO),
        stop: flow.stop.map(|stop| stop.since(Time::ZERO)),
        tag: flow.tag,
    }
}

impl Point {
    /// This point as an experiment: all flows together on the link, by the lab's own bulk sender.
    /// `congestion_control` says under which name the kernel has a group's sender. The scenario
    /// was read for [`super::World::Linux`].
    #[must_use]
    pub fn experiment(&self, congestion_control: impl Fn(&Sender) -> String) -> Experiment {
        let (there, back) = bottleneck(self);
        let (link, back) = (&edge(self, there).link, &edge(self, back).link);
        let trace = self.traces[there.0 as usize].clone();
        let (limit, mark) = match link.queue {
            QueueConfig::DropTail(limit) => (Some(limit), None),
            QueueConfig::Step(step) => match step.threshold {
                Limit::Packets(packets) => (Some(step.limit), Some(packets)),
                _ => (Some(step.limit), None),
            },
            _ => (None, None),
        };
        let spec = LinkSpec {
            capacity: match (&link.capacity, trace) {
                (Capacity::Rate(rate), _) => CapacitySpec::Rate(*rate),
                (_, name) => CapacitySpec::Trace(name.unwrap_or_default()),
            },
            rtt: link.delay + back.delay,
            buffer: match limit {
                Some(Limit::Packets(packets)) => Buffer::Packets(packets),
                Some(Limit::Bytes(bytes)) => Buffer::Bytes(bytes),
                _ => Buffer::MilliBdp(1000),
            },
            loss: match link.loss {
                LossConfig::Random(probability) => probability,
                LossConfig::None | LossConfig::GilbertElliott(_) => Probability::NEVER,
            },
            mark,
            seed: self.config.seed,
        };
        let contenders = self.groups.iter().flat_map(|group| {
            let name = congestion_control(&group.sender);
            self.config.flows[group.flows.clone()]
                .iter()
                .map(move |flow| Contender {
                    label: flow.name.clone(),
                    congestion_control: name.clone(),
                })
        });
        Experiment {
            duration: self.config.duration,
            sending: self.config.flows.iter().map(sending).collect(),
            together: true,
            traffic: Traffic::Bulk,
            ..Experiment::new(spec, contenders.collect())
        }
    }
}
