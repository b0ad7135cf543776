//! What real TCP over an emulated link cannot do of a scenario, each thing at its line.

use std::ops::Range;
use std::time::Duration;

use fairwater_experiment::{Ecn, FlowConfig, PlaneConfig, TcpConfig, Traffic};

use crate::build::Spans;
use crate::diagnostic::{Diagnostic, Sink};
use crate::{Point, Sender};

/// Names everything of a point that the test bed cannot do.
pub(crate) fn refuse(point: &Point, spans: &Spans, sink: &Sink) {
    let say = |span: &Range<usize>, message: &str| {
        let message = format!("`--on linux` cannot do this: {message}");
        sink.push(Diagnostic::new(span.clone(), message));
    };
    let experiment = &point.experiment;
    if experiment.plane != PlaneConfig::default() {
        say(
            &spans.plane,
            "a `[plane]` of its own; the real plane is as it is",
        );
    }
    if !experiment.bundles.is_empty() {
        say(&spans.bundle, "the boxes of a `[[bundle]]`");
    }
    if point.hosts.len() != 2 || experiment.edges.len() != 2 {
        let span = spans.edges.get(2).or(spans.edges.first()).cloned();
        say(
            &span.unwrap_or(0..0),
            "more than two hosts and the link between them",
        );
        return;
    }
    for (group, span) in point.groups.iter().zip(&spans.groups) {
        let flows = &experiment.flows[group.flows.clone()];
        if let Sender::Native(name) = &group.sender
            && !flows.iter().any(|flow| flow.traffic.is_datagrams())
        {
            say(
                span,
                &format!("`{name}`, which is the simulator's; the kernel's are `kernel:NAME`"),
            );
        }
        let first = experiment.flows.first().map(|flow| flow.from);
        for (is_so, message) in refused_of(flows) {
            if is_so {
                say(span, message);
            }
        }
        if flows.iter().any(|flow| Some(flow.from) != first) {
            say(span, "flows in both directions");
        }
    }
    if experiment.duration < Duration::from_secs(1) {
        say(&spans.duration, "a run of less than 1 s");
    }
}

/// What of these flows the test bed cannot do.
fn refused_of(flows: &[FlowConfig]) -> [(bool, &'static str); 5] {
    let any = |is_so: fn(&FlowConfig) -> bool| flows.iter().any(is_so);
    [
        (
            any(|flow| !matches!(flow.traffic, Traffic::Bulk)),
            "traffic other than `bulk`",
        ),
        (
            any(|flow| !flow.start_jitter.is_zero()),
            "starts drawn at random",
        ),
        (any(|flow| flow.priority != 0), "priorities"),
        (
            any(|flow| {
                flow.edge
                    .as_ref()
                    .is_some_and(|edge| edge.selector.is_some())
            }),
            "an `edge` with `select`",
        ),
        (
            any(|flow| !is_the_kernels(&flow.tcp)),
            "settings of TCP other than `ecn = \"classic\"`; they are the kernel's own",
        ),
    ]
}

/// Whether the kernel's TCP behaves so by itself, or with ECN negotiated.
fn is_the_kernels(tcp: &TcpConfig) -> bool {
    let usual = TcpConfig {
        ecn: tcp.ecn,
        ..TcpConfig::default()
    };
    *tcp == usual && matches!(tcp.ecn, Ecn::Off | Ecn::Classic)
}
