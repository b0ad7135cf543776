//! What governors are told, and what they answer.

use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Deref;

use fairwater_datapath::Controls as Enforced;
use fairwater_proto::FlowInfo;

use super::Simulation;
use crate::connection::{Connection, Governing};
use crate::native;
use crate::plane_link::micros;
use crate::tcp::Controls;
use crate::{Config, Governor, Native, NodeId, Observer};

impl<C: Deref<Target = Config>, O: Observer> Simulation<C, O> {
    /// Asks the governor of a sender that has taken in an event.
    #[inline]
    pub(super) fn govern(&mut self, place: u32) {
        let now = self.now;
        let Some(connection) = self.connections.get(place) else {
            return;
        };
        if matches!(connection.governing, Governing::Opening) {
            if !connection.sender.is_established() {
                return;
            }
            self.install(place);
        }
        let Some(connection) = self.connections.get(place) else {
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
        match &mut connection.governing {
            Governing::Opening => {}
            Governing::Native(governor) => {
                let controls = governor.on_invocation(&invocation);
                connection.sender.set_controls(controls);
            }
            Governing::Plane { host, flow, known } => {
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
                }
                self.wake_plane();
            }
        }
    }

    /// The connection is established: its governor begins.
    fn install(&mut self, place: u32) {
        let now = self.now;
        let Some(connection) = self.connections.get(place) else {
            return;
        };
        let config = &self.config.flows[connection.flow as usize];
        let host = self.flows[connection.flow as usize].host;
        connection.governing = match (&config.governor, host) {
            (Governor::Plane(algorithm), Some(host)) => {
                let known = connection.sender.controls();
                let info = FlowInfo {
                    local: address(config.from, connection),
                    remote: SocketAddr::from((ip(config.to), 443)),
                    mss: config.tcp.mss,
                    cwnd: known.cwnd,
                    srtt_us: connection.sender.srtt_us(),
                    now_us: micros(now),
                    tag: config.tag,
                };
                match self.plane.start(host, algorithm, &info, now) {
                    Ok(flow) => Governing::Plane { host, flow, known },
                    Err(error) => {
                        self.plane.notice(
                            now,
                            format!("flow `{}` is under Reno: {error}", config.name),
                        );
                        native(Native::Reno, config)
                    }
                }
            }
            (Governor::Native(kind), _) => native(*kind, config),
            // A host that could not be joined to the plane.
            (Governor::Plane(_), None) => native(Native::Reno, config),
        };
        self.wake_plane();
    }
}

fn native(kind: Native, config: &crate::FlowConfig) -> Governing {
    Governing::Native(native::NativeGovernor::new(kind, &config.tcp))
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

fn address(node: NodeId, connection: &Connection) -> SocketAddr {
    // The ports that hosts take for connections of their own.
    let port = 1024 + (connection.number % (65_536 - 1024)) as u16;
    SocketAddr::from((ip(node), port))
}
