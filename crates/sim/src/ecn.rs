//! Which kind of ECN connections agree upon.

use fairwater_experiment::{Controller, Ecn, FlowConfig};
use fairwater_plane::{HostedAlgorithm, Plane};

/// The kind of ECN that a flow's connections agree upon: that of [`TcpConfig::ecn`](fairwater_experiment::TcpConfig::ecn), but for
/// algorithms of the plane that cannot do without, as in Linux (RFC 8257 §3).
#[must_use]
pub fn negotiated_ecn(flow: &FlowConfig, plane: &Plane) -> Ecn {
    let requires = |name: &str| {
        let named = |a: &&HostedAlgorithm| a.name() == name;
        let hosted = plane.algorithms().iter().find(named);
        hosted.is_some_and(|a| a.requirements().ecn == fairwater_plane::Ecn::Required)
    };
    match (&flow.controller, flow.tcp.ecn) {
        (Controller::Plane(name), Ecn::Off) if requires(name) => Ecn::Dctcp,
        (_, configured) => configured,
    }
}
