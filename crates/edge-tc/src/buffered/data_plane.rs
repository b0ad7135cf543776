//! The box at work: frames in, frames out, and its messages with the plane.

use std::sync::Arc;

use fairwater_datapath::{Datapath, PlaneLink};
use fairwater_edge::policy::EdgePolicy;
use fairwater_edge::{Edge, Policy, PortPacket, Verdict};
use fairwater_net::Time;
use fairwater_proto::Dialect;
use fairwater_proto::link::in_process::InProcess;

use super::PortSets;
use super::frame::FrameInfo;

/// The box with its link to the plane.
#[derive(Debug)]
pub(crate) struct DataPlane {
    pub(crate) edge: Edge,
    pub(crate) link: PlaneLink,
}

/// What a box does by a policy.
pub(crate) fn policy_of(policy: &Arc<EdgePolicy>, sets: &PortSets) -> Policy {
    let (policy, sets) = (Arc::clone(policy), Arc::clone(sets));
    Box::new(move |key| {
        let sets = sets.read().ok()?.get(&key.interface).copied()?;
        let (_, treatment) = policy.treatment(key, sets)?;
        Some(treatment.clone())
    })
}

impl DataPlane {
    pub(crate) fn new(
        policy: &Arc<EdgePolicy>,
        sets: &PortSets,
        link: InProcess,
        now: Time,
    ) -> Self {
        let config = fairwater_datapath::Config {
            name: super::NAME.to_owned(),
            instance: now.as_nanos(),
            ..Edge::buffering_datapath_config()
        };
        let mut datapath = Datapath::new(config);
        let peer = datapath.add_peer(Dialect::Own, micros(now));
        let defaults = policy.defaults();
        let mut edge = Edge::new(defaults.table, datapath, peer, policy_of(policy, sets))
            .with_buffers(defaults.buffers);
        edge.set_grace(defaults.grace);
        Self {
            edge,
            link: PlaneLink::new(peer, Box::new(link)),
        }
    }

    /// Takes another policy.
    pub(crate) fn set_policy(&mut self, now: Time, policy: &Arc<EdgePolicy>, sets: &PortSets) {
        self.edge.set_grace(policy.defaults().grace);
        self.edge.set_buffers(policy.defaults().buffers);
        self.edge.set_policy(now, policy_of(policy, sets));
    }

    /// A frame has come; whether it goes on.
    pub(crate) fn on_frame(&mut self, now: Time, info: &FrameInfo, frame: &mut [u8]) -> bool {
        let verdict = self.edge.on_packet(
            now,
            PortPacket {
                interface: info.interface,
                direction: info.direction,
                bytes: frame,
                is_ethernet: true,
                checksum: info.checksum(),
            },
        );
        verdict == Verdict::Pass
    }

    /// Exchanges messages with the plane.
    pub(crate) fn exchange(&mut self, now: Time) {
        self.link.exchange(self.edge.datapath_mut(), micros(now));
    }

    /// Whether to wait: nothing has come from the plane meanwhile.
    pub(crate) fn prepare_to_wait(&mut self) -> bool {
        self.link.prepare_to_wait()
    }

    /// When the box or its datapath has something to do by itself.
    pub(crate) fn next_timer(&self) -> Option<Time> {
        let datapath = self.edge.datapath().next_timeout();
        let datapath = datapath.map(|us| Time::from_nanos(us.saturating_mul(1_000)));
        self.edge.next_timer().into_iter().chain(datapath).min()
    }
}

const fn micros(time: Time) -> u64 {
    time.as_nanos() / 1_000
}
