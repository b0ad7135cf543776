//! A connection of an endpoint, and its flow in the datapath.

use std::time::Duration;

use fairwater_datapath::{Controls as Enforced, Datapath, PeerId};
use fairwater_net::Time;
use fairwater_proto::{FlowId, FlowInfo};
use fairwater_tcp::Controls;

use crate::{Connection, State};

/// A connection and its flow.
#[derive(Debug)]
pub(super) struct Hosted {
    pub(super) connection: Connection,
    pub(super) generation: u64,
    pub(super) algorithm: String,
    pub(super) flow: Option<Flow>,
    pub(super) timer: Option<Time>,
    pub(super) is_ready: bool,
    /// The peer began it, and the application was not told yet.
    pub(super) is_half_open: bool,
    /// The application has let go of it.
    pub(super) is_released: bool,
    /// How far a released connection was: bytes that the peer had acknowledged, and whether all was.
    pub(super) progress: Option<(u64, bool)>,
    /// When a released connection is given up whose peer does not go on.
    pub(super) ends_at: Option<Time>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Flow {
    pub(super) id: FlowId,
    /// What the datapath takes to be in force.
    known: Controls,
}

impl Hosted {
    pub(super) fn start_flow(&mut self, now: Time, datapath: &mut Datapath, peer: PeerId) {
        let Some(known) = self.connection.controls().filter(|_| self.flow.is_none()) else {
            return;
        };
        let info = FlowInfo {
            local: self.connection.local(),
            remote: self.connection.remote(),
            mss: self.connection.mss(),
            cwnd: known.cwnd,
            srtt_us: self.connection.srtt_us(),
            now_us: now.as_nanos() / 1_000,
            ..FlowInfo::default()
        };
        // With too many flows, or without the plane, the connection keeps its initial window.
        let flow = datapath.start(peer, &self.algorithm, &info).ok();
        self.flow = flow.map(|id| Flow { id, known });
    }

    /// As the simulator's hosts do it: what the sender changed by itself is told, then the program runs.
    pub(super) fn invoke(&mut self, datapath: &mut Datapath) {
        let Some(invocation) = self.connection.poll_invocation() else {
            return;
        };
        let (Some(flow), Some(in_force)) = (&mut self.flow, self.connection.controls()) else {
            return;
        };
        if !invocation.runs_program() {
            return;
        }
        if in_force != flow.known {
            let enforced = Enforced {
                cwnd: in_force.cwnd,
                rate: in_force.rate,
            };
            // Of a flow of this endpoint, and in range: it came from the datapath, or from the sender.
            let _ = datapath.set_controls(flow.id, enforced);
            flow.known = in_force;
        }
        if let Ok(Some(changed)) = datapath.invoke(flow.id, &invocation.signals) {
            flow.known = Controls {
                cwnd: changed.cwnd,
                rate: changed.rate,
            };
            self.connection.set_controls(flow.known);
            let restarts = datapath.restarts_after_idle(flow.id);
            self.connection.set_idle_restart(restarts);
        }
    }

    /// A released connection has so long for each step: nobody is left who would give it up (Linux bounds its orphans
    /// by `tcp_orphan_retries`).
    pub(super) fn limit_orphan(&mut self, now: Time, longest: Duration) {
        let state = self.connection.state();
        if !self.is_released || matches!(state, State::TimeWait | State::Closed) {
            self.ends_at = None;
            return;
        }
        let progress = (self.connection.acknowledged(), state == State::FinWait2);
        if self.progress.replace(progress) != Some(progress) {
            self.ends_at = Some(now + longest);
        }
    }

    pub(super) fn end_flow(&mut self, datapath: &mut Datapath) {
        if let Some(flow) = self.flow.take() {
            // It was started, and is closed once.
            let _ = datapath.close(flow.id);
        }
    }
}
