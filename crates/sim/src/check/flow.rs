//! Finds the errors of one flow, its paths aside.

use fairwater_net::Time;
use fairwater_wire::MAX_WINDOW_SCALE;

use super::FlowError;
use crate::datagrams::HEADERS;
use crate::{
    Controller, Ecn, EdgeMode, FlowConfig, MAX_RECEIVE_WINDOW, Native, TcpConfig, Traffic,
};

/// The most payload of an IPv4 packet beside headers.
const MAX_MSS: u32 = 65_535 - fairwater_tcp::HEADERS;

/// Most connections of a pool.
const MAX_POOL: u32 = 100_000;

/// Adds every error of a flow's traffic, TCP and edge.
pub(super) fn check_flow(flow: &FlowConfig, found: &mut Vec<FlowError>) {
    if let Some(stop) = flow.stop
        && stop <= flow.start
    {
        found.push(FlowError::StopsFirst {
            start: flow.start.since(Time::ZERO),
            stop: stop.since(Time::ZERO),
        });
    }
    let mut require = |is_right: bool, what, value: String, expected| {
        if !is_right {
            found.push(FlowError::Value {
                what,
                value,
                expected,
            });
        }
    };
    match &flow.traffic {
        Traffic::Bulk => {}
        Traffic::Bytes(bytes) | Traffic::PingPong { bytes, .. } => require(
            *bytes > 0,
            "the size of a request",
            bytes.to_string(),
            "expected at least 1 byte",
        ),
        Traffic::OnOff { on, .. } => require(
            !on.is_zero(),
            "the time it sends",
            format!("{on:?}"),
            "expected more than 0",
        ),
        Traffic::Limited { rate } => require(
            *rate > 0,
            "the application's rate",
            rate.to_string(),
            "expected at least 1 byte/s",
        ),
        Traffic::ConstantRate { rate, .. } if *rate == 0 => require(
            false,
            "the rate of UDP packets",
            rate.to_string(),
            "expected at least 1 byte/s",
        ),
        Traffic::ConstantRate { packet_bytes, .. } | Traffic::Echo { packet_bytes, .. } => require(
            (HEADERS..=65_535).contains(packet_bytes),
            "the size of a UDP packet",
            packet_bytes.to_string(),
            "expected 28 to 65535 bytes, the headers of IPv4 and UDP included",
        ),
        Traffic::Pool { connections, .. } if !(1..=MAX_POOL).contains(connections) => require(
            false,
            "the number of connections of a pool",
            connections.to_string(),
            "expected 1 to 100000",
        ),
        Traffic::Requests { load, .. } | Traffic::Pool { load, .. } => require(
            load.is_finite() && *load > 0.0,
            "the load",
            load.to_string(),
            "expected bytes/s above 0",
        ),
    }
    if let Controller::Native(Native::Constant(cwnd)) = flow.controller {
        require(
            cwnd > 0,
            "the constant window",
            cwnd.to_string(),
            "expected at least 1 byte",
        );
    }
    if let Controller::Plane(algorithm) = &flow.controller {
        require(
            !flow.traffic.is_datagrams(),
            "the algorithm of UDP packets",
            algorithm.clone(),
            "expected a native controller, which is not used",
        );
    }
    check_tcp(&flow.tcp, &mut require);
    found.extend(edge_errors(flow).map(FlowError::BehindEdge));
    if let Traffic::Requests { sizes, load } | Traffic::Pool { sizes, load, .. } = &flow.traffic {
        let errors = sizes.errors();
        let gap_s = sizes.mean() / load;
        // Virtual time would stand still, or have no next arrival.
        if errors.is_empty() && *load > 0.0 && !(1e-9..f64::INFINITY).contains(&gap_s) {
            found.push(FlowError::Value {
                what: "the mean time between requests, the sizes' mean by the load,",
                value: format!("{gap_s} s"),
                expected: "expected at least 1 ns, and finite",
            });
        }
        found.extend(errors.into_iter().map(FlowError::Sizes));
    }
}

/// What a flow cannot be whose sender is a guest behind a box.
fn edge_errors(flow: &FlowConfig) -> impl Iterator<Item = &'static str> {
    let is_behind = flow.edge.is_some();
    let scale = flow.edge.as_ref().and_then(|edge| edge.max_scale);
    [
        (
            matches!(flow.controller, Controller::Plane(_)),
            "the flow's own congestion control is a native one",
        ),
        (
            !matches!(flow.tcp.ecn, Ecn::Off | Ecn::Classic),
            "the flow's own ECN is `off` or `classic`",
        ),
        (
            flow.traffic.is_datagrams(),
            "a box controls TCP, not UDP packets",
        ),
        (
            !flow.tcp.handshake,
            "a flow needs the handshake: the box learns from it",
        ),
        (
            scale.is_some_and(|scale| scale > MAX_WINDOW_SCALE),
            "a window scale is 14 at most (RFC 7323 §2.3)",
        ),
        (
            flow.edge.as_ref().and_then(|edge| edge.weight) == Some(0),
            "a weight is 1 at least",
        ),
        (
            flow.edge
                .as_ref()
                .is_some_and(|edge| edge.mode == EdgeMode::Buffer && edge.weight.is_some()),
            "a box that holds a flow's data gives it no weight",
        ),
    ]
    .into_iter()
    .filter_map(move |(is_wrong, message)| (is_behind && is_wrong).then_some(message))
}

fn check_tcp(tcp: &TcpConfig, require: &mut impl FnMut(bool, &'static str, String, &'static str)) {
    require(
        (1..=MAX_MSS).contains(&tcp.mss),
        "the maximum segment size",
        tcp.mss.to_string(),
        "expected 1 to 65483 bytes, so that the packet is one of IPv4",
    );
    require(
        tcp.initial_window > 0,
        "the initial window",
        tcp.initial_window.to_string(),
        "expected at least 1 segment",
    );
    require(
        (u64::from(tcp.mss)..=MAX_RECEIVE_WINDOW).contains(&tcp.receive_window),
        "the receive window",
        tcp.receive_window.to_string(),
        "expected one segment's bytes at least, and at most 1073725440 (RFC 7323 §2.3)",
    );
    require(
        !tcp.min_rto.is_zero(),
        "the least retransmission timeout",
        format!("{:?}", tcp.min_rto),
        "expected more than 0",
    );
}
