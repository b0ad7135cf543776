//! What controllers are told, and what they answer.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;
use std::time::Duration;

use fairwater_datapath::Controls as Enforced;
use fairwater_proto::FlowInfo;

use super::Simulation;
use crate::connection::ConnectionController;
use crate::native;
use crate::plane_link::micros;
use crate::{Controller, Experiment, Native, NodeId, Observer};
use fairwater_tcp::Controls;

impl<C: Deref<Target = Experiment>, O: Observer> Simulation<C, O> {
    /// Asks the controller of a sender that has taken in an event.
    #[inline]
    pub(super) fn run_controller(&mut self, slot: u32) {
        let now = self.now;
        let Some(connection) = self.connections.get(slot) else {
            return;
        };
        if matches!(connection.controller, ConnectionController::Opening) {
            if !connection.sender.is_established() {
                return;
            }
            self.install(slot);
        }
        let Some(connection) = self.connections.get(slot) else {
            return;
        };
        let Some(invocation) = connection.sender.poll_invocation() else {
            return;
        };
        if let Some(rtt_ns) = invocation.rtt_ns
            && now >= self.config.measure.from
        {
            let measured = &mut self.flows[connection.flow as usize].measured;
            measured.rtt.record(rtt_ns);
        }
        match &mut connection.controller {
            ConnectionController::Opening => {}
            ConnectionController::Native(controller) => {
                let controls = controller.on_invocation(&invocation);
                connection.sender.set_controls(controls);
            }
            ConnectionController::Plane { host, flow, known } => {
                if !invocation.runs_program() {
                    return;
                }
                let in_force = connection.sender.controls();
                if in_force != *known {
                    self.plane.set_controls(*host, *flow, enforced(in_force));
                    *known = in_force;
                }
                // A flow is in its datapath as long as its connection is.
                if let Ok(Some(changed)) = self.plane.invoke(*host, *flow, &invocation.signals, now)
                {
                    *known = Controls {
                        cwnd: changed.cwnd,
                        rate: changed.rate,
                    };
                    connection.sender.set_controls(*known);
                    let tcp = &self.config.flows[connection.flow as usize].tcp;
                    let restarts = self.plane.restarts_after_idle(*host, *flow);
                    connection
                        .sender
                        .set_idle_restart(tcp.idle_restart && restarts);
                }
                self.wake_plane();
            }
        }
    }

    /// Counts for the last `period` which flows run without their algorithm.
    pub(super) fn count_fallbacks(&mut self, period: Duration) {
        let now = self.now;
        if now < self.config.measure.from + period {
            return;
        }
        for connection in self.connections.iter() {
            let state = match (&connection.controller, &connection.guest) {
                (ConnectionController::Plane { host, flow, .. }, _) => {
                    Some(self.plane.state(*host, *flow))
                }
                (_, Some(guest)) => Some(self.plane.guest_state(guest.host, &guest.key())),
                _ => None,
            };
            if let Some(state) = state {
                self.flows[connection.flow as usize]
                    .measured
                    .controlled(now, period, state);
            }
        }
    }

    /// The connection is established: its controller begins.
    fn install(&mut self, slot: u32) {
        let now = self.now;
        let Some(connection) = self.connections.get(slot) else {
            return;
        };
        let config = &self.config.flows[connection.flow as usize];
        let host = self.flows[connection.flow as usize].host;
        connection.controller = match (&config.controller, host) {
            (Controller::Plane(algorithm), Some(host)) => {
                let known = connection.sender.controls();
                let info = FlowInfo {
                    local: address(config.from, connection.number),
                    remote: peer_address(config.to),
                    mss: config.tcp.mss,
                    cwnd: known.cwnd,
                    srtt_us: connection.sender.srtt_us(),
                    now_us: micros(now),
                    tag: config.tag,
                    ..FlowInfo::default()
                };
                match self.plane.start(host, algorithm, &info, now) {
                    Ok(flow) => ConnectionController::Plane { host, flow, known },
                    Err(error) => {
                        self.plane.notice(
                            now,
                            format!("flow `{}` is under Reno: {error}", config.name),
                        );
                        native(Native::Reno, config)
                    }
                }
            }
            (Controller::Native(kind), _) => native(*kind, config),
            // A host that could not be joined to the plane.
            (Controller::Plane(_), None) => native(Native::Reno, config),
        };
        self.wake_plane();
    }
}

fn native(kind: Native, config: &crate::FlowConfig) -> ConnectionController {
    ConnectionController::Native(native::NativeController::new(kind, &config.tcp))
}

fn enforced(controls: Controls) -> Enforced {
    Enforced {
        cwnd: controls.cwnd,
        rate: controls.rate,
    }
}

fn ip(node: NodeId) -> Ipv4Addr {
    let [_, b, c, d] = node.0.to_be_bytes();
    Ipv4Addr::new(10, b, c, d)
}

/// The sender's end of the connection of that number.
pub(super) fn address(node: NodeId, number: u64) -> SocketAddr {
    // The ports that hosts take for connections of their own.
    let port = 1024 + (number % (65_536 - 1024)) as u16;
    SocketAddr::from((ip(node), port))
}

/// The receiver's end of a connection.
pub(super) fn peer_address(node: NodeId) -> SocketAddr {
    SocketAddr::from((ip(node), 443))
}
